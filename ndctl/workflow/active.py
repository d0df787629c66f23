"""The active tests of one rack: NCCL over the rack, ib_write_bw between pairs, and one re-test before anybody is
blamed. Nothing is started on GPUs that are in use, nor while somebody else tests this rack."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ndctl.inventory.loader import Loaded
from ndctl.jobs.ib_pairs import PairText, end_round, run_round
from ndctl.jobs.judge_pairs import PairResult, accused, judge_pairs, read_pair
from ndctl.jobs.lease import Lease, give_back, renew, take
from ndctl.jobs.pairs import both_ways
from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.events import Event, EventSink
from ndctl.model.findings import Finding
from ndctl.model.places import Node, Rack
from ndctl.model.status import Action, Group, Status
from ndctl.workflow.nccl_rack import NcclOverRack
from ndctl.workflow.transport import Transport

NCCL_CHECK = "nccl.all-reduce"
PAIRS_CHECK = "infiniband.write-bw"
# Two rounds let every node send once and receive once. Where a pair is slow, two more give everybody a second partner
# each way: up to three bad nodes then make no good one look bad.
_SCREEN_ROUNDS = 2
_MOST_ROUNDS = 4
_LEASE_S = 1800
_COMPUTE_PROCESSES = Command(
    "compute-processes",
    "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name --format=csv,noheader",
    timeout_s=20,
    cap_bytes=100_000,
)


@dataclass(slots=True)
class ActiveResult:
    """findings; the check ids this level must have; (node, command id, text) to keep; measurements to record."""

    findings: list[Finding] = field(default_factory=list)
    required: tuple[str, ...] = ()
    texts: list[tuple[str, str, str]] = field(default_factory=list)
    measurements: list[dict[str, Any]] = field(default_factory=list)
    ran: bool = False


class ActiveTests:
    """Runs the active tests of a cluster's racks; safe to use from several threads, one rack each."""

    def __init__(
        self,
        transport: Transport,
        loaded: Loaded,
        *,
        groups: frozenset[Group],
        force: bool,
        holder: str,
        token: str,
        disabled: frozenset[str],
        on_event: EventSink,
    ) -> None:
        self._transport = transport
        self._loaded = loaded
        self._profile = loaded.profile
        self._wanted = tuple(
            check
            for check, group in ((NCCL_CHECK, Group.NCCL), (PAIRS_CHECK, Group.INFINIBAND))
            if group in groups and check not in disabled
        )
        self._force = force
        self._holder = holder
        # Two operators may begin in the same second, and what runs on a node is ended by this name.
        self._token = f"{token}-{secrets.token_hex(4)}"
        self._on_event = on_event
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._nccl_tests: list[NcclOverRack] = []
        self._pair_rounds: dict[str, list[Node]] = {}

    def stop(self) -> None:
        """End what runs and begin nothing more; from another thread, while `run` then cleans up and returns."""
        self._stopped.set()
        with self._lock:
            tests, pair_rounds = tuple(self._nccl_tests), dict(self._pair_rounds)
        for test in tests:
            test.stop()
        for token, nodes in pair_rounds.items():
            end_round(self._transport, nodes, token)

    def run(self, rack: Rack, answers: Mapping[Node, NodeAnswer], suspects: frozenset[str]) -> ActiveResult:
        """All active tests of the rack. `suspects`: nodes that already failed a passive check."""
        result = ActiveResult(required=self._wanted)
        if not self._wanted:
            return result
        nodes = [node for node in rack.nodes if node in answers and answers[node].outcome.ok]
        if len(nodes) < 2 or self._stopped.is_set():
            self._skip(result, rack, "interrupted" if self._stopped.is_set() else _too_few(nodes, "answered"))
            return result
        lease = take(self._transport, nodes, self._holder, self._token, _LEASE_S)
        if not lease.taken:
            why = f"another test holds the rack: {lease.held_by}" if lease.held_by else lease.problem
            self._skip(result, rack, why)
            return result
        try:
            fit = nodes if self._force else self._idle(rack, nodes, result)
            if len(fit) < 2:
                return result
            result.ran = True
            if NCCL_CHECK in self._wanted:
                self._nccl(rack, fit, suspects, lease, result)
            if PAIRS_CHECK in self._wanted:
                self._pairs(rack, fit, lease, result)
        finally:
            give_back(self._transport, lease)
        return result

    def _idle(self, rack: Rack, nodes: Sequence[Node], result: ActiveResult) -> list[Node]:
        """The nodes to test; none, and a skip, when GPUs of any are in use. Asked afresh: a job may have begun since
        the passive checks, and they may not have been asked at all. Who does not tell is left out and unknown."""
        told = self._transport.ask({node: [_COMPUTE_PROCESSES] for node in nodes})
        using = {node.name: _in_use(told[node]) for node in nodes}
        busy = {name: text for name, text in using.items() if text}
        if busy:
            name, text = next(iter(busy.items()))
            more = f" and {len(busy) - 1} more nodes" if len(busy) > 1 else ""
            self._skip(result, rack, f"GPUs are in use on {name} ({text}){more}; --force tests all the same")
            return []
        fit = [node for node in nodes if using[node.name] is not None]
        for node in nodes:
            if using[node.name] is None:
                result.findings += [_left_out(check, node) for check in self._wanted]
        if len(fit) < 2:
            self._skip(result, rack, _too_few(fit, "told whether its GPUs are in use"))
        return fit

    def _skip(self, result: ActiveResult, rack: Rack, reason: str) -> None:
        self._say(rack, "skipped", reason, "waiting")
        for check in self._wanted:
            self._skip_one(result, rack, check, reason)

    def _skip_one(self, result: ActiveResult, rack: Rack, check: str, reason: str) -> None:
        result.findings.append(Finding(check=check, status=Status.SKIP, subject=rack.name, message=reason))

    def _say(self, rack: Rack, step: str, message: str, status: str = "running") -> None:
        self._on_event(
            Event(
                "job",
                status,
                cluster=self._loaded.inventory.cluster,
                rack=rack.name,
                step=step,
                message=message,
            )
        )

    def _may_go_on(self, lease: Lease) -> str:
        """Why the tests of this rack may not go on; "" when they may. The lease lasts longer then."""
        if self._stopped.is_set():
            return "interrupted"
        again = renew(self._transport, lease, self._holder, _LEASE_S)
        if again.held_by:
            return f"another test took the rack over: {again.held_by}"
        return again.problem

    def _nccl(
        self, rack: Rack, nodes: Sequence[Node], suspects: frozenset[str], lease: Lease, result: ActiveResult
    ) -> None:
        recipe = self._profile.nccl.environment
        test = NcclOverRack(
            self._transport,
            self._profile,
            rack=rack.name,
            token=self._token,
            environment={
                **recipe.get("common", {}),
                **recipe.get("rack" if self._profile.nvlink.domain.value == "rack" else "infiniband", {}),
                **self._loaded.inventory.nccl_env,
            },
            host_keys=self._transport.host_key_lines,
            renew=lambda: self._may_go_on(lease),
            say=lambda message, status: self._say(rack, "NCCL all_reduce", message, status),
        )
        with self._lock:
            self._nccl_tests.append(test)
        outcome = test.test(nodes, suspects)
        result.findings += outcome.findings
        result.texts += outcome.texts
        result.measurements += outcome.measurements

    def _pairs(self, rack: Rack, nodes: Sequence[Node], lease: Lease, result: ActiveResult) -> None:
        devices = self._devices()
        seen: list[PairResult] = []
        for number, pairs in enumerate(islice(both_ways(nodes), _MOST_ROUNDS), 1):
            if number > _SCREEN_ROUNDS and not any(pair.slow for pair in seen):
                break
            reason = self._may_go_on(lease)
            if reason:
                self._skip_one(result, rack, PAIRS_CHECK, reason)
                return
            self._say(rack, "ib_write_bw", f"round {number}: {len(pairs)} pairs × {len(devices)} rails")
            for text in self._round(pairs, devices, f"{self._token}-{rack.name}-pairs{number}"):
                pair = read_pair(text, self._profile, number)
                seen.append(pair)
                command = f"ib-write-bw-{text.device}-round{number}"
                both = text.client_text if pair.gbps is not None else f"{text.client_text}\n{text.server_text}"
                result.texts.append((text.client.name, command, both))
                if pair.gbps is not None:
                    result.measurements.append(
                        {
                            "node": text.client.name,
                            "metric": "ib_write_bw",
                            "subject": f"{text.device} to {text.server.name}",
                            "value": pair.gbps,
                            "unit": "Gb/s",
                        }
                    )
        result.findings += judge_pairs(seen, self._profile, rack.name, PAIRS_CHECK)
        blamed = accused(seen)
        if blamed:
            names = ", ".join(f"{node} {device}" for node, device in sorted(blamed))
            self._say(rack, "ib_write_bw", f"slow: {names}", "failed")

    def _round(self, pairs: Sequence[tuple[Node, Node]], devices: Sequence[str], token: str) -> list[PairText]:
        nodes = [node for pair in pairs for node in pair]
        with self._lock:
            self._pair_rounds[token] = nodes
        try:
            return run_round(self._transport, pairs, devices, token=token)
        finally:
            with self._lock:
                del self._pair_rounds[token]

    def _devices(self) -> list[str]:
        """mlx5_ib0 … as the profile's pattern numbers them."""
        fabric = self._profile.infiniband
        stem = fabric.device_pattern.value.rstrip("*")
        return [f"{stem}{number}" for number in range(fabric.ports.value)]


def _in_use(answer: NodeAnswer) -> str | None:
    """Who uses the node's GPUs, "" when nobody does, None when the node does not tell."""
    result = answer.results.get(_COMPUTE_PROCESSES.id)
    if result is None or result.exit_code != 0:
        return None
    rows = [[cell.strip() for cell in line.split(",")] for line in result.stdout.splitlines() if line.strip()]
    using = {row[1]: row[2].rpartition("/")[2] for row in rows if len(row) >= 3 and row[1].isdigit()}
    if rows and not using:
        return None  # it says something, and nothing that is known: a field is not supported, or a complaint
    return ", ".join(f"{name or 'process'} {pid}" for pid, name in list(using.items())[:3])


def _too_few(nodes: Sequence[Node], did: str) -> str:
    return f"{len(nodes)} node{'s' if len(nodes) != 1 else ''} of the rack {did}; two are needed"


def _left_out(check: str, node: Node) -> Finding:
    return Finding(
        check=f"{check}.left-out",
        status=Status.UNKNOWN,
        subject="all GPUs",
        node=node.name,
        message="left out of the test: nvidia-smi does not tell whether its GPUs are in use",
        cause="nvidia-smi is missing, fails or hangs there",
        action=Action.INVESTIGATE,
    )
