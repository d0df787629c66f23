"""The active tests of one rack: NCCL over the rack, ib_write_bw between pairs, and one re-test before anybody is
blamed. Nothing is started on GPUs that are in use, nor while somebody else tests this rack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ndctl.checks.gpus import gpus_of
from ndctl.inventory.loader import Loaded
from ndctl.jobs.ib_pairs import run_round
from ndctl.jobs.judge_nccl import busbw_at_large, judge
from ndctl.jobs.judge_pairs import PairResult, accused, judge_pairs, read_pair
from ndctl.jobs.lease import give_back, take
from ndctl.jobs.nccl import NcclLaunch, NcclRun, run_nccl
from ndctl.jobs.pairs import rounds
from ndctl.model.answers import NodeAnswer
from ndctl.model.events import Event, EventSink
from ndctl.model.findings import Finding
from ndctl.model.places import Node, Rack
from ndctl.model.status import Group, Status
from ndctl.parse.nccl_tests import parse as parse_nccl
from ndctl.workflow.transport import Transport

NCCL_CHECK = "nccl.all-reduce"
PAIRS_CHECK = "infiniband.write-bw"
_SCREEN_ROUNDS = 2  # one to find, one with other partners so that a pair's blame can be told from a node's
_LEASE_S = 1800
_DEBUG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,P2P,NET,GRAPH,NVLS"}


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
        self._token = token
        self._on_event = on_event

    def run(self, rack: Rack, answers: Mapping[Node, NodeAnswer], suspects: frozenset[str]) -> ActiveResult:
        """All active tests of the rack. `suspects`: nodes that already failed a passive check."""
        result = ActiveResult(required=self._wanted)
        if not self._wanted:
            return result
        nodes = [node for node in rack.nodes if node in answers and answers[node].outcome.ok]
        reason = self._reason_not_to(nodes, answers)
        if reason:
            self._skip(result, rack, reason)
            return result
        lease = take(self._transport, nodes, self._holder, self._token, _LEASE_S)
        if not lease.taken:
            why = f"another test holds the rack: {lease.held_by}" if lease.held_by else lease.problem
            self._skip(result, rack, why)
            return result
        try:
            result.ran = True
            if NCCL_CHECK in self._wanted:
                self._nccl(rack, nodes, suspects, result)
            if PAIRS_CHECK in self._wanted:
                self._pairs(rack, nodes, result)
        finally:
            give_back(self._transport, lease)
        return result

    def _reason_not_to(self, nodes: Sequence[Node], answers: Mapping[Node, NodeAnswer]) -> str:
        if len(nodes) < 2:
            return f"{len(nodes)} node{'s' if len(nodes) != 1 else ''} of the rack answered; two are needed"
        if self._force:
            return ""
        busy = {node.name: text for node in nodes if (text := _in_use(answers[node]))}
        if not busy:
            return ""
        name, text = next(iter(busy.items()))
        more = f" and {len(busy) - 1} more nodes" if len(busy) > 1 else ""
        return f"GPUs are in use on {name} ({text}){more}; --force tests all the same"

    def _skip(self, result: ActiveResult, rack: Rack, reason: str) -> None:
        self._say(rack, "skipped", reason, "waiting")
        result.findings += [
            Finding(check=check, status=Status.SKIP, subject=rack.name, message=reason) for check in self._wanted
        ]

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

    def _nccl(self, rack: Rack, nodes: Sequence[Node], suspects: frozenset[str], result: ActiveResult) -> None:
        run, findings = self._one_nccl(rack, nodes, "all", rack.name, result)
        bad = [f for f in findings if f.status in (Status.FAIL, Status.WARN)]
        sound = [node for node in nodes if node.name not in suspects]
        if bad and suspects and len(sound) >= 2 and len(sound) < len(nodes):
            # Who already failed another check is left out, to say what the others are worth without them.
            names = ", ".join(sorted(suspects))
            again, others = self._one_nccl(rack, sound, "without", f"{rack.name} without {names}", result)
            if others and all(f.status is Status.PASS for f in others):
                findings = [
                    replace(f, cause=f"{names}: without, {others[0].message}") if f in bad else f for f in findings
                ]
            else:
                findings += others
            del again
        elif bad and run.log is not None:
            # Nobody stands out: one re-test, since a passing disturbance must not reject a rack.
            _, findings = self._one_nccl(rack, nodes, "again", rack.name, result)
        result.findings += findings

    def _one_nccl(
        self, rack: Rack, nodes: Sequence[Node], label: str, subject: str, result: ActiveResult
    ) -> tuple[NcclRun, list[Finding]]:
        launch = self._launch(nodes, f"{self._token}-{rack.name}-{label}")
        self._say(rack, "NCCL all_reduce", f"over {len(nodes)} nodes")
        run = run_nccl(self._transport, launch)
        command = f"nccl-all_reduce-{label}"
        head = nodes[0].name
        if run.log is not None:
            result.texts.append((head, command, run.log.stdout + run.log.stderr))
        scope = "rack" if self._profile.nvlink.domain.value == "rack" else "infiniband"
        findings = judge(run, self._profile, subject, f"{head}/{command}", scope)
        if run.leftovers:
            findings.append(
                Finding(
                    check=f"{NCCL_CHECK}.leftovers",
                    status=Status.WARN,
                    subject=subject,
                    message=f"clean-up could not be confirmed on {', '.join(run.leftovers)}; the key ends by itself",
                )
            )
        floor = self._profile.floor(launch.test, scope, len(nodes))
        measured = busbw_at_large(parse_nccl(run.log.stdout), floor) if run.log is not None and floor else None
        if measured:
            result.measurements.append(
                {
                    "node": "",
                    "metric": "nccl.all_reduce.busbw",
                    "subject": subject,
                    "value": measured[1],
                    "unit": "GB/s",
                }
            )
            self._say(rack, "NCCL all_reduce", f"{measured[1]:.0f} GB/s over {len(nodes)} nodes", "done")
        return run, findings

    def _launch(self, nodes: Sequence[Node], token: str) -> NcclLaunch:
        nccl = self._profile.nccl
        scope = "rack" if self._profile.nvlink.domain.value == "rack" else "infiniband"
        environment = {
            **nccl.environment.get("common", {}),
            **nccl.environment.get("rack" if scope == "rack" else "infiniband", {}),
            **_DEBUG,
            **self._loaded.inventory.nccl_env,
        }
        return NcclLaunch(
            test="all_reduce",
            nodes=tuple(nodes),
            gpus_per_node=self._profile.gpu.count.value,
            environment=environment,
            host_keys={node.name: self._transport.host_key_lines(node) for node in nodes},
            tests_dir=nccl.tests_dir.value,
            token=token,
        )

    def _pairs(self, rack: Rack, nodes: Sequence[Node], result: ActiveResult) -> None:
        devices = self._devices()
        plan = list(rounds(nodes))[:_SCREEN_ROUNDS]
        seen: list[PairResult] = []
        for number, pairs in enumerate(plan, 1):
            self._say(rack, "ib_write_bw", f"round {number} of {len(plan)}: {len(pairs)} pairs × {len(devices)} rails")
            for text in run_round(self._transport, pairs, devices):
                pair = read_pair(text, self._profile, number)
                seen.append(pair)
                command = f"ib-write-bw-{text.device}-round{number}"
                result.texts.append((text.client.name, command, text.client_text))
                if pair.gbps is not None:
                    result.measurements.append(
                        {
                            "node": text.client.name,
                            "metric": "ib_write_bw",
                            "subject": f"{text.device} with {text.server.name}",
                            "value": pair.gbps,
                            "unit": "Gb/s",
                        }
                    )
        result.findings += judge_pairs(seen, self._profile, rack.name, PAIRS_CHECK)
        blamed = accused(seen)
        if blamed:
            self._say(rack, "ib_write_bw", f"slow: {', '.join(sorted(blamed))}", "failed")

    def _devices(self) -> list[str]:
        """mlx5_ib0 … as the profile's pattern numbers them."""
        fabric = self._profile.infiniband
        stem = fabric.device_pattern.value.rstrip("*")
        return [f"{stem}{number}" for number in range(fabric.ports.value)]


def _in_use(answer: NodeAnswer) -> str:
    """Who uses the node's GPUs, "" when nobody does or nobody can tell (then the passive checks say so)."""
    facts = gpus_of(answer)
    using = {p.pid: p for gpu in (facts.gpus if facts else ()) for p in gpu.processes if "C" in p.kind}
    return ", ".join(f"{one.name or 'process'} {one.pid}" for one in list(using.values())[:3])
