"""The NCCL INFO lines of a run with NCCL_DEBUG=INFO, in the forms of NCCL 2.29 on Grace-Blackwell nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ndctl.sim.tools.nccl_model import Plan, chosen_rails
from ndctl.sim.world.view import NodeView

NCCL_VERSION = "2.29.7+cuda13.0"
_PAIRWISE = ("alltoall", "sendrecv")


@dataclass(frozen=True, slots=True)
class Rank:
    number: int
    local: int
    view: NodeView
    pid: int

    def says(self, text: str) -> str:
        return f"{self.view.vm.hostname}:{self.pid}:{self.pid} [{self.local}] NCCL INFO {text}\n"

    def warns(self, where: str, text: str) -> str:
        return f"\n{self.view.vm.hostname}:{self.pid}:{self.pid} [{self.local}] {where} NCCL WARN {text}\n"

    @property
    def bus_id(self) -> str:
        """As NCCL prints it: domain, bus, device and function run together, without leading zeros."""
        domain, bus, rest = self.view.live_gpus[self.local].pci.split(":")
        return f"{int(domain, 16) << 20 | int(bus, 16) << 12 | int(rest[:2], 16) << 4:x}"


def lines(ranks: Sequence[Rank], plan: Plan, environment: Mapping[str, str], test: str) -> Iterator[str]:
    """All ranks' lines, in the order the phases come."""
    total = len(ranks)
    interface = environment.get("NCCL_SOCKET_IFNAME", "eth0").lstrip("^=")
    for rank in ranks:
        yield rank.says(f"NCCL_SOCKET_IFNAME set by environment to {interface}")
        yield rank.says(f"Bootstrap: Using {interface}:{rank.view.vm.address}<0>")
        if rank.number == 0:
            yield rank.says("cudaDriverVersion 13000")
            yield rank.says(f"NCCL version {NCCL_VERSION}")
    for rank in ranks:
        yield from _network(rank, interface, environment.get("NCCL_IB_HCA", ""))
    for rank in ranks:
        yield from _fabric(rank, ranks, plan, environment)
    nodes = 1 if plan.transport == "MNNVL" else len({rank.view.vm.address for rank in ranks})
    for rank in ranks:
        local = total if plan.transport == "MNNVL" else total // nodes
        yield rank.says(
            f"comm 0x{0xAAAB00000000 + rank.pid:x} rank {rank.number} nRanks {total} nNodes {nodes} "
            f"localRanks {local} localRank {rank.number % local} MNNVL {int(plan.transport == 'MNNVL')}"
        )
    if plan.failure:
        return
    for rank in ranks:
        yield from _channels(rank, ranks, plan, environment)
    for rank in ranks:
        comm = f"0x{0xAAAB00000000 + rank.pid:x}"
        yield rank.says(
            f"ncclCommInitRank comm {comm} rank {rank.number} nranks {total} cudaDev {rank.local} nvmlDev {rank.local} "
            f"busId {rank.bus_id} commId 0x5c1d9f20c4a8e7b3 - Init COMPLETE"
        )
    if test in _PAIRWISE:
        for rank in ranks:
            yield from _pairs(rank, ranks, plan, environment)


def _network(rank: Rank, interface: str, hca: str) -> Iterator[str]:
    if hca:
        yield rank.says(f"NCCL_IB_HCA set to {hca}")
    ports = chosen_rails(rank.view, hca)
    if not ports:
        yield rank.says("NET/IB : No device found.")
        yield rank.says(f"NET/Socket : Using [0]{interface}:{rank.view.vm.address}<0>")
        yield rank.says("Using network Socket")
        return
    devices = " ".join(f"[{index}]{port.device}:1/IB" for index, port in enumerate(ports))
    yield rank.says(f"NET/IB : Using {devices} [RO]; OOB {interface}:{rank.view.vm.address}<0>")
    yield rank.says("Using network IB")
    for index, port in enumerate(ports):
        yield rank.says(f"NET/IB : GPU Direct RDMA (DMABUF) enabled for HCA {index} '{port.device}'")


def _fabric(rank: Rank, ranks: Sequence[Rank], plan: Plan, environment: Mapping[str, str]) -> Iterator[str]:
    for name in ("NCCL_MNNVL_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_CUMEM_ENABLE"):
        if name in environment:
            yield rank.says(f"{name} set by environment to {environment[name]}.")
    fabric = rank.view.live_gpus[rank.local].fabric
    if not rank.view.shape.rack_fabric or environment.get("NCCL_MNNVL_ENABLE") == "0":
        return
    uuid = fabric.cluster_uuid.replace("-", "")
    mask = "0xa9" if fabric.bandwidth == "Degraded" else "0x1aa"
    yield rank.says(
        f"MNNVL busId 0x{rank.bus_id} fabric UUID {uuid[:16]}.{uuid[16:]} cliqueId 0x{fabric.clique_id:x} "
        f"state 3 healthMask {mask}"
    )
    mine = [r for r in ranks if r.view.live_gpus[r.local].fabric.clique_id == fabric.clique_id]
    if plan.transport == "MNNVL" and not plan.failure:
        yield rank.says(
            f"MNNVL 1 cliqueId {fabric.clique_id:x} cliqueSize {len(mine)} cliqueRank {mine.index(rank)} "
            f"nvlDomainSize {len(mine)}"
        )


def _channels(rank: Rank, ranks: Sequence[Rank], plan: Plan, environment: Mapping[str, str]) -> Iterator[str]:
    """The rings, one over each rail at least. A ring leaves a node where its last GPU is."""
    total = len(ranks)
    following = ranks[(rank.number + 1) % total]
    before = ranks[(rank.number - 1) % total]
    on_nvlink = plan.transport in ("MNNVL", "P2P")
    if on_nvlink and environment.get("NCCL_NVLS_ENABLE") != "0":
        able = "is available" if rank.view.nvls else "is not available"
        yield rank.says(f"NVLS multicast support {able} on dev {rank.local} (NVLS_NCHANNELS {24 * rank.view.nvls})")
    rails = len(chosen_rails(rank.view, environment.get("NCCL_IB_HCA", "")))
    for channel in range(max(2, rails if plan.transport == "IB" else 0)):
        head = f"Channel {channel:02d}/0 : {rank.number}[{rank.local}] -> {following.number}[{following.local}]"
        if plan.transport == "MNNVL":
            yield rank.says(f"{head} via P2P/MNNVL")
        elif following.view is rank.view:
            yield rank.says(f"{head} via P2P/CUMEM")
        else:
            yield rank.says(f"{head} [send] via NET/IB/{channel % rails}/GDRDMA")
        if plan.transport == "IB" and before.view is not rank.view:
            head = f"Channel {channel:02d}/0 : {before.number}[{before.local}] -> {rank.number}[{rank.local}]"
            yield rank.says(f"{head} [receive] via NET/IB/{channel % rails}/GDRDMA")
    yield rank.says(f"Connected all rings, use ring PXN 0 GDR {int(plan.transport == 'IB')}")
    if plan.nvls and on_nvlink:
        yield rank.says("Connected NVLS tree")


def _pairs(rank: Rank, ranks: Sequence[Rank], plan: Plan, environment: Mapping[str, str]) -> Iterator[str]:
    """Connections from GPU to GPU, made when an alltoall or a sendrecv first needs them. Of many peers the first few
    lines: each rank prints two lines a peer, thousands over a rack."""
    total = len(ranks)
    rails = len(chosen_rails(rank.view, environment.get("NCCL_IB_HCA", "")))
    for step in range(1, min(3, total)):
        peer = ranks[(rank.number + step) % total]
        for channel in range(2):
            head = f"Channel {channel:02d}/1 : {rank.number}[{rank.local}] -> {peer.number}[{peer.local}]"
            if plan.transport == "MNNVL":
                yield rank.says(f"{head} via P2P/MNNVL")
            elif peer.view is rank.view:
                yield rank.says(f"{head} via P2P/CUMEM")
            else:
                yield rank.says(f"{head} [send] via NET/IB/{(channel + rank.local) % rails}/GDRDMA/Shared")
