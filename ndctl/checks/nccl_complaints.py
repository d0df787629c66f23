"""What the error lines of an NCCL run mean: a fault of the machine, or only that nothing was measured."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.ib_verbs import LIKELY, describe


@dataclass(frozen=True, slots=True)
class Complaint:
    pattern: re.Pattern[str]
    check: str
    status: Status
    meaning: str
    cause: str = ""
    action: Action = Action.INVESTIGATE


def _say(
    pattern: str, check: str, status: Status, meaning: str, cause: str = "", action: Action | None = None
) -> Complaint:
    chosen = action or (Action.INVESTIGATE if status in (Status.FAIL, Status.WARN) else Action.NONE)
    return Complaint(re.compile(pattern, re.IGNORECASE), f"nccl.{check}", status, meaning, cause, chosen)


# First match wins; the most telling first. `pass` marks what is known to be harmless.
COMPLAINTS = (
    _say(
        r"ras/client_support.*bind failed|^Call to bind failed: Address already in use",
        "ras",
        Status.PASS,
        "NCCL's RAS port was taken: harmless",
    ),
    _say(
        r"system not yet initialized|\b802\b.*system|cudaErrorSystemNotReady",
        "fabric-not-ready",
        Status.FAIL,
        "CUDA says the system is not yet initialized: the NVLink fabric is not up, nothing was measured",
        "the fabric manager is not running or its version differs from the driver's; on GB200/GB300 the GPUs are not "
        "registered with the NVLink fabric",
    ),
    _say(
        r"Failed to bind NVLink SHARP|NVLS.*CUDA error 401|nvls.*operation cannot be performed",
        "nvls-bind",
        Status.FAIL,
        "NVLink SHARP (NVLS) multicast memory could not be bound: the node's NVLink fabric is in a bad state",
        "NVLink fabric of this node; turning NVLS off only hides it",
        Action.RESET_GPU,
    ),
    _say(
        r"uncorrectable (?:ECC|NVLink)|ECC error|NVLink error",
        "gpu-memory",
        Status.FAIL,
        "a GPU reported an uncorrectable error",
        "GPU memory or NVLink; see the kernel log's XIDs",
    ),
    _say(r"\bXid\b", "xid", Status.FAIL, "an XID was reported during the run", "see the kernel log"),
    _say(
        r"async (?:error )?event.*port (?:error|down)|port error",
        "port-event",
        Status.FAIL,
        "an InfiniBand port reported an error during the run",
        "the port named in the line, or its cable",
    ),
    _say(
        r"busy or unavailable|exclusive",
        "gpu-busy",
        Status.UNKNOWN,
        "GPUs are busy or unavailable: nothing was measured",
        "compute mode Exclusive_Process, or another process holds the GPUs; no link fault",
    ),
    _say(
        r"out of memory",
        "gpu-memory-full",
        Status.UNKNOWN,
        "a GPU is out of memory: nothing was measured",
        "another process holds GPU memory",
    ),
    _say(
        r"Duplicate GPU detected",
        "duplicate-gpu",
        Status.UNKNOWN,
        "two ranks were given one GPU",
        "the launch: ranks per node, or CUDA_VISIBLE_DEVICES",
    ),
    _say(
        r"Invalid number of GPUs|only \d+ were found|no CUDA-capable device|invalid device ordinal",
        "gpu-count",
        Status.UNKNOWN,
        "the test asked for more GPUs than there are: nothing was measured",
        "the launch, or a GPU is missing: nvidia-smi -L",
    ),
    _say(
        r"no kernel image|driver version is insufficient|forward compatibility|invalid device function",
        "software",
        Status.UNKNOWN,
        "test, CUDA and driver do not fit together: nothing was measured",
        "versions on the image",
        Action.FIX_IMAGE,
    ),
    _say(
        r"not enough slots",
        "launch",
        Status.UNKNOWN,
        "mpirun had not enough slots: nothing was started",
        "hostfile or -np; no fault of network or GPU",
    ),
    _say(
        r"command not found|No such file or directory|cannot open shared object|error while loading shared|could not"
        r" access or execute|unable to find",
        "launch",
        Status.UNKNOWN,
        "a program or library is missing: nothing was measured",
        "paths on the nodes",
        Action.FIX_IMAGE,
    ),
    _say(
        r"Host key verification failed|Permission denied|Could not resolve hostname|ssh: connect|ORTE (?:was unable|has"
        r" lost)|daemon.*unexpectedly|unable to (?:reliably )?(?:start|launch)",
        "launch",
        Status.UNKNOWN,
        "the launcher could not reach or start on all nodes: nothing was measured",
        "SSH between the nodes, or a node is down",
    ),
    _say(
        r"DUE TO TIME LIMIT|srun: error|slurmstepd|TIMEOUT",
        "launch",
        Status.UNKNOWN,
        "the job was ended by the scheduler or a time limit",
        "a hang, or too short a limit",
    ),
    _say(
        r"Connection refused|No route to host|Connection timed out|connect to .* failed"
        r"|no socket interface found|bootstrap",
        "bootstrap",
        Status.FAIL,
        "ranks could not reach each other over TCP to begin: nothing was measured",
        "NCCL_SOCKET_IFNAME, a firewall, or a node that is down; says nothing about InfiniBand or NVLink",
    ),
    _say(
        r"illegal memory access|unspecified launch failure|misaligned address|device-side assert",
        "cuda-fault",
        Status.FAIL,
        "CUDA failed in a kernel",
        "driver, library or GPU fault; see the kernel log's XIDs",
    ),
    _say(
        r"unhandled cuda error",
        "cuda-error",
        Status.FAIL,
        "NCCL failed with a CUDA error it does not name; no result",
        "run again with NCCL_DEBUG=INFO; the rank mpirun names first is not always the culprit",
    ),
    _say(
        r"unhandled system error",
        "system-error",
        Status.FAIL,
        "NCCL failed with a system error: communication between nodes failed; no result",
        "network between the nodes; run again with NCCL_DEBUG=INFO",
    ),
    _say(
        r"remote process (?:exited|has terminated)",
        "peer-lost",
        Status.FAIL,
        "a peer process ended during the run",
        "the first error of another rank is the cause",
    ),
    _say(
        r"Test CUDA failure|Cuda failure|CUDA error",
        "cuda-error",
        Status.FAIL,
        "CUDA failed; no result",
        "driver or GPU",
    ),
    _say(r"Test NCCL failure|# error:", "failure", Status.FAIL, "NCCL failed; no result", "see the line"),
    _say(
        r"Segmentation fault|Bus error|signal 1?[0-9]|terminate called|Killed",
        "crash",
        Status.UNKNOWN,
        "a process of the run crashed or was killed",
        "see the kernel log of that node",
    ),
    _say(
        r"libibverbs",
        "no-verbs",
        Status.WARN,
        "libibverbs could not be loaded: InfiniBand cannot be used, the network can only be TCP sockets",
        "rdma-core is not installed where the test runs",
        Action.FIX_IMAGE,
    ),
    _say(r"hang|Watchdog|timeout", "timeout", Status.FAIL, "a collective did not finish in time", "a rank hangs"),
    _say(
        r"mpirun|MPI_ABORT|exited with non-zero|Exit code|BAD TERMINATION|Abort\(|Primary job",
        "aborted",
        Status.UNKNOWN,
        "the launcher aborted the run",
    ),
)
_COMPLETION = re.compile(r"Got completion .{0,120}?(?:error|status=?)\s*(\d{1,3})|completion with error (\d{1,3})")


def complaint_findings(lines: Iterable[str]) -> list[Finding]:
    """One finding a kind of complaint, with the first line that shows it and how many there were."""
    kinds: dict[tuple[str, str], tuple[Complaint, str, int]] = {}
    for line in lines:
        complaint = read_complaint(line)
        if complaint is None:
            continue
        key = (complaint.check, complaint.meaning)
        _, first, number = kinds.get(key, (complaint, line, 0))
        kinds[key] = (complaint, first, number + 1)
    telling = [one for one in kinds.values() if one[0].check not in ("nccl.aborted", "nccl.peer-lost")]
    chosen = telling or list(kinds.values())  # an abort is only the end of another story
    return [
        Finding(
            check=complaint.check,
            status=complaint.status,
            subject="run",
            message=f"{complaint.meaning}{f' ({number} such lines)' if number > 1 else ''}: {first.strip()[:200]}",
            value=number,
            cause=complaint.cause,
            action=complaint.action,
        )
        for complaint, first, number in chosen
    ]


def read_complaint(line: str) -> Complaint | None:
    """What a line complains of; None where it says nothing known."""
    match = _COMPLETION.search(line)
    if match:
        status = int(match[1] or match[2])
        return Complaint(
            _COMPLETION,
            "nccl.ib-completion",
            Status.FAIL,
            f"InfiniBand completion error: {describe(status)}",
            LIKELY.get(status, "InfiniBand path between the two nodes"),
        )
    return next((one for one in COMPLAINTS if one.pattern.search(line)), None)
