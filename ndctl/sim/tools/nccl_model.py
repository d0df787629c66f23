"""How fast a collective is: transport by what the nodes can do and the environment asks for, bandwidth by the slowest
part that takes part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ndctl.sim.world import seeds
from ndctl.sim.world.parts import Port
from ndctl.sim.world.view import NodeView

GIB = 1 << 30
# Bus bandwidth is measured in full at this size; the profile's figures are for it.
_MEASURED_AT = 16 * GIB
# Message size at which half of the full bandwidth is reached, for 72 ranks; fits the GB200 rack figures by size
# (512 MiB 69 %, 1 GiB 82 %, 2 GiB 90 % of the peak).
_HALF_SIZE = 230e6
_NO_NVLS = 0.5  # ring without NVLS, GB200: 394-486 of about 840
_LINK_DOWN = 0.44  # a rack with one GPU whose link is down
_WITHOUT_PROFILE = {"node": 612.0, "rack": 843.0, "infiniband": 378.0}
# Bus bandwidth of the other collectives as a share of all_reduce's, where the profile has no figure of its own.
_USES_NVLS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
_SHARE = {
    "all_gather": 0.86,
    "reduce_scatter": 0.86,
    "alltoall": 0.78,
    "sendrecv": 0.76,
    "broadcast": 0.8,
    "reduce": 0.8,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How one run goes.

    transport: "MNNVL", "P2P" (inside one node) or "IB"
    rails:     InfiniBand devices that carry it, those all nodes have among the ones NCCL_IB_HCA leaves
    failure:   "" or the reason why the run ends without a result:
               "mnnvl" (asked for, not working), "pkey" (InfiniBand peers cannot talk), "port", "device"
    culprit:   host on which the failure shows
    """

    transport: str
    nvls: bool
    clique_size: int
    busbw: float
    failure: str = ""
    culprit: str = ""
    rails: tuple[str, ...] = ()


def bus_factor(test: str, ranks: int) -> float:
    """busbw = algbw x factor, as nccl-tests computes it."""
    if ranks < 2:
        return 0.0
    if test == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return 1.0 if test in ("sendrecv", "broadcast", "reduce") else (ranks - 1) / ranks


def plan(views: Sequence[NodeView], per_node: int, test: str, environment: Mapping[str, str]) -> Plan:
    """What NCCL would do over these nodes with `per_node` GPUs each."""
    asked = environment.get("NCCL_MNNVL_ENABLE", "2")
    nvls = environment.get("NCCL_NVLS_ENABLE", "2") != "0" and all(view.nvls for view in views)
    short = next((view for view in views if len(view.live_gpus) < per_node), None)
    if short is not None:
        return Plan("P2P", False, 0, 0.0, "device", short.vm.hostname)
    cliques: dict[tuple[str, int], list[NodeView]] = {}
    for view in views:
        fabric = view.gpus[0].fabric
        cliques.setdefault((fabric.cluster_uuid, fabric.clique_id), []).append(view)
    clique = max(len(members) for members in cliques.values()) * per_node
    speed = min(_node_speed(view, nvls and test in _USES_NVLS) for view in views)
    without = 1.0 if nvls or test not in _USES_NVLS else _NO_NVLS
    if len(views) == 1:
        return Plan("P2P", nvls, clique, _expected(views, test, "node") * speed * without)
    if asked != "0" and all(view.shape.rack_fabric for view in views):
        broken = _broken_imex(views)
        if broken is not None and asked == "1":
            return Plan("MNNVL", nvls, clique, 0.0, "mnnvl", broken)
        if broken is None and len(cliques) == 1:
            return Plan("MNNVL", nvls, clique, _expected(views, test, "rack") * speed * without)
    return _over_infiniband(views, test, clique, environment.get("NCCL_IB_HCA", ""))


def chosen_rails(view: NodeView, hca: str) -> list[Port]:
    """The active InfiniBand ports that NCCL_IB_HCA leaves: names that begin so, with "=" exactly so, with "^" not."""
    ports = [port for port in view.ports if port.infiniband and port.active]
    exclude, exact = hca.startswith("^"), hca.lstrip("^").startswith("=")
    names = [name.partition(":")[0] for name in hca.lstrip("^=").split(",") if name]

    def named(port: Port) -> bool:
        return any(port.device == name if exact else port.device.startswith(name) for name in names)

    return [port for port in ports if not names or named(port) != exclude]


def _over_infiniband(views: Sequence[NodeView], test: str, clique: int, hca: str) -> Plan:
    keys: dict[int, list[NodeView]] = {}
    for view in views:
        keys.setdefault(view.ports[0].pkeys[0], []).append(view)
    if len(keys) > 1:
        odd = min(keys.values(), key=len)[0]
        return Plan("IB", False, clique, 0.0, "pkey", odd.vm.hostname)
    share = 1.0
    used = {view.vm.address: chosen_rails(view, hca) for view in views}
    for view in views:
        mine = used[view.vm.address]
        if not mine:
            return Plan("IB", False, clique, 0.0, "port", view.vm.hostname)
        slowest = min(port.rate_gbps * port.carries for port in mine) / view.shape.rate_gbps
        share = min(share, slowest * len(mine) / len(view.shape.ports))
    slow = min(view.speed for view in views)
    rails = {port.device for mine in used.values() for port in mine}
    return Plan("IB", False, clique, _expected(views, test, "infiniband") * share * slow, rails=tuple(sorted(rails)))


def _node_speed(view: NodeView, multicast: bool) -> float:
    linked = all(link.active for gpu in view.live_gpus for link in gpu.links)
    speeds = [view.speed, view.nvlink_speed, 1.0 if linked else _LINK_DOWN]
    return min([*speeds, view.nvls_speed] if multicast else speeds)


def _broken_imex(views: Sequence[NodeView]) -> str | None:
    """The first host that keeps the others from sharing memory, None when the domain works among them."""
    addresses = {view.vm.address for view in views}
    for view in views:
        if not view.imex_running or view.gpus[0].fabric.status != "Success":
            return view.vm.hostname
        own = {peer.index for peer in view.peers if peer.address in addresses}
        for peer in view.peers:
            if peer.index in own and any(letter != "C" for i, letter in enumerate(peer.to) if i in own):
                return peer.hostname or peer.address
    return None


def _expected(views: Sequence[NodeView], test: str, scope: str) -> float:
    """The profile's figure for this run, or a share of its all_reduce figure."""
    profile = views[0].shape.profile
    floor = profile.floor(test, scope, len(views))
    if floor is not None:
        return floor.expected.value
    reference = profile.floor("all_reduce", scope, len(views))
    base = reference.expected.value if reference is not None else _WITHOUT_PROFILE[scope]
    return base * _SHARE.get(test, 1.0)


def time_us(plan: Plan, test: str, size: int, ranks: int, *noise: object) -> float:
    """How long one operation of `size` bytes takes."""
    half = max(32e6, _HALF_SIZE * ranks / 72)
    at_16g = _MEASURED_AT / (_MEASURED_AT + half)
    busbw = plan.busbw / at_16g * size / (size + half) * seeds.noise(0.01, *noise)
    factor = bus_factor(test, ranks) or 1.0
    latency = 14.0 + 0.35 * ranks
    return max(size * factor / (busbw * 1e3), latency * seeds.noise(0.01, "latency", *noise))
