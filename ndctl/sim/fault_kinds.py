"""The catalogue of fault kinds: what each means, its parameters, and what an expert would find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault.

    parameters: name -> what it means; those in `required` must be given
    finds:      what an expert would find: part, evidence and consequence
    blames:     the part to blame as a format string over the parameters, e.g. "{node} GPU {gpu}"
    """

    name: str
    plane: Literal["node", "arm"]
    summary: str
    parameters: Mapping[str, str]
    finds: str
    blames: str
    required: tuple[str, ...] = ("node",)
    defaults: Mapping[str, Any] = field(default_factory=dict)


_NODE = "node name, e.g. rack01-n03"
_GPU = "GPU index on the node, from 0"
_PORT = "InfiniBand device, e.g. mlx5_ib1"
_RACK = "rack number"

_KINDS = (
    Kind(
        "gpu-missing",
        "node",
        "a GPU fell off the bus",
        {"node": _NODE, "gpu": _GPU},
        "nvidia-smi lists one GPU fewer while lspci still shows it; XID 79 on that GPU's PCI address; NCCL with "
        "four ranks on that node ends with 'invalid device ordinal'. Drain and replace.",
        "{node} GPU {gpu}",
        defaults={"gpu": 0},
    ),
    Kind(
        "nvlink-down",
        "node",
        "one NVLink of a GPU is down",
        {"node": _NODE, "gpu": _GPU, "link": "link index, 0-17"},
        "nvlink status shows the link inactive; the kernel log has XID 149 NETIR_LINK_EVT Fatal with that link on "
        "that GPU and XID 154; every other GPU of the rack has a sympathetic XID 145 in the same seconds; NCCL in "
        "the rack falls to less than half while the node takes part, and is whole without it.",
        "{node} GPU {gpu} link {link}",
        defaults={"gpu": 2, "link": 8},
    ),
    Kind(
        "port-half-rate",
        "node",
        "an InfiniBand port trained at half its rate",
        {"node": _NODE, "port": _PORT},
        "the port is ACTIVE/LinkUp at half the profile's rate; ib_write_bw over it reaches half; NCCL over "
        "InfiniBand with the node is slow; NVLink traffic is untouched.",
        "{node} {port}",
        defaults={"port": "mlx5_ib1"},
    ),
    Kind(
        "port-down",
        "node",
        "an InfiniBand port is down",
        {"node": _NODE, "port": _PORT},
        "state DOWN, physical state Polling; ib_write_bw refuses with 'Port number 1 state is Down'.",
        "{node} {port}",
        defaults={"port": "mlx5_ib0"},
    ),
    Kind(
        "wrong-pkey",
        "node",
        "a node's ports carry another partition key",
        {"node": _NODE, "pkey": "hexadecimal full-member key"},
        "all ports ACTIVE, but pkey index 0 differs from the rack's; ib_write_bw to any other node fails with "
        "retry exceeded; NCCL over InfiniBand fails; NVLink traffic is untouched.",
        "{node}",
        defaults={"pkey": "0x8abc"},
    ),
    Kind(
        "symbol-errors",
        "node",
        "symbol errors grow on a port",
        {"node": _NODE, "port": _PORT, "per_second": "growth"},
        "symbol_error of that port grows between two reads while the other ports' stay at 0; a dirty or loose cable.",
        "{node} {port}",
        defaults={"port": "mlx5_ib1", "per_second": 40},
    ),
    Kind(
        "imex-peer-missing",
        "node",
        "a node's IMEX daemon is not running",
        {"node": _NODE},
        "nvidia-imex inactive on the node; the other nodes see it UNAVAILABLE and the domain DEGRADED; NCCL in the "
        "rack with that node ends with 'MNNVL ... is available but not working' or falls back to NET/IB.",
        "{node}",
    ),
    Kind(
        "imex-one-way",
        "node",
        "an IMEX connection stands in one direction only",
        {"node": "the node that cannot reach its peer", "peer": "the peer it cannot reach"},
        "row of the node has N in the peer's column while the peer's row has C; domain DEGRADED.",
        "{node} -> {peer}",
        required=("node", "peer"),
    ),
    Kind(
        "clique-split",
        "node",
        "a node's GPUs are registered in another clique",
        {"node": _NODE, "clique": "the clique id it shows instead"},
        "fabric Completed/Success and healthy, but CliqueId differs from the rack's; NCCL forms two cliques.",
        "{node}",
        defaults={"clique": 4242},
    ),
    Kind(
        "fabric-unregistered",
        "node",
        "the fabric refused a node's GPUs",
        {"node": _NODE},
        "Fabric State Completed, Status Insufficient Resources, CliqueId 0, ClusterUUID all zero.",
        "{node}",
    ),
    Kind(
        "slow-node",
        "node",
        "a node is slow in NCCL and nothing else shows",
        {
            "node": _NODE,
            "factor": "its share of healthy bandwidth, 0-1",
            "layer": "host (every path), nvlink, nvls or infiniband",
        },
        "every passive check passes; all_reduce in the rack is slow with the node and whole without it; with one layer "
        "switched off it is told which layer it is.",
        "{node}",
        defaults={"factor": 0.6, "layer": "host"},
    ),
    Kind(
        "rail-gdr-slow",
        "node",
        "data reaches GPU memory slowly over one InfiniBand port",
        {"node": _NODE, "port": _PORT, "factor": "its share of healthy bandwidth, 0-1"},
        "every passive check passes, and so does ib_write_bw between host memories; NCCL over that rail alone is slow "
        "with the node and whole without it.",
        "{node} {port}",
        defaults={"port": "mlx5_ib2", "factor": 0.4},
    ),
    Kind(
        "corrupts-data",
        "node",
        "a node spoils data under load",
        {"node": _NODE, "count": "elements of a result that come out wrong"},
        "every passive check passes; collectives with the node end at full speed with wrong elements and exit code 1, "
        "without it they are right.",
        "{node}",
        defaults={"count": 3},
    ),
    Kind(
        "nvls-unavailable",
        "node",
        "the NVLink switches' multicast is not available to a node",
        {"node": _NODE},
        "every passive check passes; NCCL says that NVLS multicast is not available and all_reduce in the rack with "
        "the node runs at about half speed; with NVLS switched off it is as fast as any other.",
        "{node}",
    ),
    Kind(
        "hung-nvidia-smi",
        "node",
        "nvidia-smi never answers",
        {"node": _NODE},
        "nvidia-smi hangs past its deadline and ignores SIGTERM; all other commands answer.",
        "{node}",
    ),
    Kind(
        "ecc-uncorrectable",
        "node",
        "uncorrectable ECC errors since the driver was loaded",
        {"node": _NODE, "gpu": _GPU, "count": "how many"},
        "volatile DRAM uncorrectable count above 0, XID 95, recovery action Reset.",
        "{node} GPU {gpu}",
        defaults={"gpu": 1, "count": 3},
    ),
    Kind(
        "row-remap-pending",
        "node",
        "a row remap waits for a GPU reset",
        {"node": _NODE, "gpu": _GPU},
        "remapped rows pending Yes (uncorrectable 1), XID 63; reset the GPU before use.",
        "{node} GPU {gpu}",
        defaults={"gpu": 3},
    ),
    Kind(
        "row-remap-failure",
        "node",
        "a row remap failed",
        {"node": _NODE, "gpu": _GPU},
        "remapping failure occurred Yes, XID 64; replace.",
        "{node} GPU {gpu}",
        defaults={"gpu": 3},
    ),
    Kind(
        "inforom-corrupt",
        "node",
        "a GPU's InfoROM is corrupted",
        {"node": _NODE, "gpu": _GPU},
        "nvidia-smi warns on stderr that the infoROM is corrupted.",
        "{node} GPU {gpu}",
        defaults={"gpu": 0},
    ),
    Kind(
        "gpu-busy",
        "node",
        "a compute process runs on a GPU",
        {"node": _NODE, "gpu": _GPU, "name": "process name"},
        "a compute process is listed: active tests have to be skipped with that reason, nothing is broken.",
        "{node} GPU {gpu}",
        defaults={"gpu": 0, "name": "python3"},
    ),
    Kind(
        "nvme-missing",
        "node",
        "an NVMe data disk is missing",
        {"node": _NODE, "disk": "number of the NVMe controller, data disks from 1"},
        "one data disk fewer by model string under /sys/class/nvme; the accelerator disk is no data disk.",
        "{node}",
        defaults={"disk": 3},
    ),
    Kind(
        "nvme-media-errors",
        "node",
        "an NVMe data disk reports media errors",
        {"node": _NODE, "disk": "number of the NVMe controller, data disks from 1", "count": "how many"},
        "media_errors of nvme smart-log above 0 on that disk; everything else is as before.",
        "{node} nvme{disk}",
        defaults={"disk": 2, "count": 17},
    ),
    Kind(
        "ro-mount",
        "node",
        "a file system went read-only",
        {"node": _NODE, "mount": "mount point"},
        "the mount's options say so (ext4 since kernel 6.15: rw,…,emergency_ro); the kernel log has the aborted "
        "journal; files can be read and not written.",
        "{node} {mount}",
        defaults={"mount": "/"},
    ),
    Kind(
        "disk-full",
        "node",
        "a file system is full",
        {"node": _NODE, "mount": "mount point"},
        "df shows 0 available and 100% on that mount point.",
        "{node} {mount}",
        defaults={"mount": "/"},
    ),
    Kind(
        "clock-skew",
        "node",
        "a node's clock is off",
        {"node": _NODE, "seconds": "how far behind"},
        "chronyc tracking shows that offset in System time; logs of this node do not fit the others'.",
        "{node}",
        defaults={"seconds": 4.2},
    ),
    Kind(
        "failed-unit",
        "node",
        "a systemd unit has failed",
        {"node": _NODE, "unit": "unit name with its suffix"},
        "systemctl lists it as failed, and the system's state is degraded.",
        "{node} {unit}",
        defaults={"unit": "nvidia-dcgm.service"},
    ),
    Kind(
        "d-state",
        "node",
        "a process hangs in the kernel",
        {"node": _NODE, "name": "process name"},
        "the process stays in state D and is never scheduled; the kernel log tells of the hung task.",
        "{node}",
        defaults={"name": "python3"},
    ),
    Kind(
        "oom-killed",
        "node",
        "the kernel killed a process for lack of memory",
        {"node": _NODE, "name": "process name"},
        "the kernel log has oom-kill and 'Out of memory: Killed process'; nothing is broken.",
        "{node}",
        defaults={"name": "python3"},
    ),
    Kind(
        "component-drift",
        "node",
        "a node's software is of another version than the rack's",
        {"node": _NODE, "component": "name in component_versions.txt", "version": "the version it has instead"},
        "component_versions.txt differs from the other nodes' in that entry.",
        "{node}",
        defaults={"component": "NCCL", "version": "2.27.3-1"},
    ),
    Kind(
        "setting-drift",
        "node",
        "a kernel setting of a node differs from the rack's",
        {"node": _NODE, "setting": "path under the root, e.g. proc/sys/vm/swappiness", "value": "its text"},
        "that file of /proc/sys differs from the other nodes'.",
        "{node}",
        defaults={"setting": "proc/sys/kernel/numa_balancing", "value": "1"},
    ),
    Kind(
        "cpus-offline",
        "node",
        "some of a node's CPUs are offline",
        {"node": _NODE, "cpus": "how many"},
        "nproc counts fewer CPUs; /sys/devices/system/cpu/present names more than /sys/devices/system/cpu/online.",
        "{node}",
        defaults={"cpus": 2},
    ),
    Kind(
        "node-down",
        "node",
        "a node does not answer by SSH",
        {"node": _NODE, "how": "refused (no listener) or silent (accepts and says nothing)"},
        "SSH refused or no banner; its IMEX peers see it UNAVAILABLE; the rack is incomplete.",
        "{node}",
        defaults={"how": "refused"},
    ),
    Kind(
        "ssh-hostkey-changed",
        "node",
        "a node shows another SSH host key than before",
        {"node": _NODE},
        "SSH must refuse to go on and show both fingerprints; the control plane's Run Command reads the new key.",
        "{node}",
    ),
    Kind(
        "slurm-allocated",
        "node",
        "Slurm has given the node to a job",
        {"node": _NODE, "state": "as scontrol prints it, e.g. ALLOCATED, MIXED+DRAIN, IDLE+COMPLETING"},
        "scontrol shows the state; no test may touch the node, nothing is broken; the rest of the rack can be tested.",
        "{node}",
        defaults={"state": "ALLOCATED"},
    ),
    Kind(
        "slurm-drained",
        "node",
        "Slurm has drained the node",
        {"node": _NODE, "reason": "why"},
        "scontrol shows IDLE+DRAIN: no job runs and none will come, the node may be tested.",
        "{node}",
        defaults={"reason": "link errors"},
    ),
    Kind(
        "slurm-away",
        "node",
        "Slurm's controller cannot be reached from the node",
        {"node": _NODE},
        "scontrol is configured and gives no state: whether the node is in use is unknown, so it is not tested.",
        "{node}",
    ),
    Kind(
        "k8s-busy",
        "node",
        "a Kubernetes pod holds the node's GPUs, with no process on them yet",
        {"node": _NODE, "pod": "namespace/name"},
        "kubectl lists a pod that asked for nvidia.com/gpu; no test may touch the node, nothing is broken.",
        "{node}",
        defaults={"pod": "ml/train-0"},
    ),
    Kind(
        "k8s-cordoned",
        "node",
        "the node is cordoned in Kubernetes",
        {"node": _NODE},
        "kubectl shows spec.unschedulable and no pod with GPUs: the node may be tested.",
        "{node}",
    ),
    Kind(
        "cpu-busy",
        "node",
        "a job on CPUs loads the node",
        {"node": _NODE, "share": "load average as a share of the CPUs, 0-1"},
        "the 1-minute load average is far above idle while no GPU is in use: a collective would be disturbed.",
        "{node}",
        defaults={"share": 0.8},
    ),
    Kind(
        "allocation-failure",
        "arm",
        "the zone has no capacity for a rack's VMs",
        {"rack": _RACK},
        "deployment fails with AllocationFailed, no VM is created; class capacity, may be tried again.",
        "rack {rack}",
        required=("rack",),
    ),
    Kind(
        "half-allocated",
        "arm",
        "fewer VMs come than were asked for",
        {"rack": _RACK, "count": "how many come"},
        "some instances are AllocationFailed, the others run; rack is partial.",
        "rack {rack}",
        required=("rack",),
        defaults={"count": 16},
    ),
    Kind(
        "quota-exceeded",
        "arm",
        "the core quota is too small",
        {"limit": "cores allowed"},
        "validate fails with QuotaExceeded naming family, limit, usage and what was asked; not worth a retry.",
        "quota",
        required=(),
        defaults={"limit": 128},
    ),
    Kind(
        "policy-denied",
        "arm",
        "an Azure policy forbids the deployment",
        {"policy": "name of the assignment"},
        "RequestDisallowedByPolicy naming the policy; not worth a retry.",
        "policy {policy}",
        required=(),
        defaults={"policy": "deny-public-ip"},
    ),
    Kind(
        "throttle",
        "arm",
        "requests are answered 429",
        {"count": "how many requests", "retry_after": "seconds in the Retry-After header"},
        "429 with Retry-After for that many requests, then all is well.",
        "control plane",
        required=(),
        defaults={"count": 5, "retry_after": 1},
    ),
    Kind(
        "error-500",
        "arm",
        "requests are answered 500",
        {"count": "how many requests"},
        "500 InternalServerError for that many requests, then all is well.",
        "control plane",
        required=(),
        defaults={"count": 2},
    ),
    Kind(
        "lro-never-ends",
        "arm",
        "a long-running operation never ends",
        {"rack": _RACK},
        "the deployment of that rack stays Running until the client's deadline.",
        "rack {rack}",
        required=("rack",),
    ),
)

CATALOGUE: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
