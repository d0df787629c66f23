"""VM: what the region's control plane and its nodes both know of one machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ndctl.model.places import node_name
from ndctl.sim.world import seeds
from ndctl.sim.world.keys import host_key_pair


@dataclass(frozen=True, slots=True)
class VM:
    """One virtual machine.

    rack:       number of its NVLink domain, 0 for a machine without GPUs (a jump host)
    index:      its place in the rack, from 1
    generation: grows with every reimage or replacement: host keys and disks are new
    boots:      grows with every reboot: the boot id is new
    created:    wall-clock seconds of its last start
    born:       wall-clock seconds at which the VM was made; 0: at `created`. Its id hangs on this, and on no reboot
    host_salt:  names the physical machine; changes on redeploy and replace
    """

    seed: str
    cluster: str
    rack: int
    index: int
    vmss: str
    instance_id: str
    address: str
    admin_user: str
    admin_key: str
    vm_size: str
    created: float
    name: str = ""
    location: str = "swedencentral"
    zone: str = "1"
    generation: int = 1
    boots: int = 1
    host_salt: int = 0
    rekeyed: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)
    born: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        return (self.vmss, self.instance_id)

    @property
    def has_gpus(self) -> bool:
        return self.rack > 0

    @property
    def hostname(self) -> str:
        return self.name or node_name(self.rack, self.index)

    @property
    def hardware(self) -> tuple[object, ...]:
        """What the serial numbers of its parts depend on."""
        return (self.seed, self.cluster, self.rack, self.index, self.host_salt)

    @property
    def vm_id(self) -> str:
        return seeds.uuid("vm", self.seed, self.vmss, self.instance_id, self.born or self.created)

    @property
    def physical_host(self) -> str:
        return "GAZ" + seeds.digest("host", *self.hardware).hex()[:9].upper()

    @property
    def boot_id(self) -> str:
        return seeds.uuid("boot", self.vm_id, self.generation, self.boots)

    @property
    def host_private_key(self) -> bytes:
        return self._host_key()[0]

    @property
    def host_public_keys(self) -> tuple[str, ...]:
        """OpenSSH public key lines, as /etc/ssh/ssh_host_*_key.pub hold them."""
        return (f"{self._host_key()[1]} root@{self.hostname}",)

    def _host_key(self) -> tuple[bytes, str]:
        return host_key_pair(self.seed, self.vmss, self.instance_id, self.address, self.generation, self.rekeyed)
