"""Runs and judgements for tests: small ones made by hand, and any at all by hypothesis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from ndctl.model.findings import Finding, Judgement, NodeResult, RackResult, Run
from ndctl.model.places import node_name, rack_name
from ndctl.model.status import Action, Level, Status, Verdict

INVENTORY = {"path": "inventories/swc-a.yaml", "cluster": "swc-a", "digest": "4f1c", "profile": "gb300"}


def node(rack: int, position: int, **changes: Any) -> NodeResult:
    made = NodeResult(
        node_name(rack, position), Status.PASS, address=f"10.40.{rack}.{position}", instance_id=str(position + 100)
    )
    return replace(made, **changes)


def rack(number: int = 7, **changes: Any) -> RackResult:
    """An accepted rack of 18 nodes."""
    nodes = tuple(node(number, position) for position in range(1, 19))
    made = RackResult(
        name=rack_name(number),
        cluster="swc-a",
        verdict=Verdict.ACCEPTED,
        nodes=nodes,
        usable_nodes=tuple(one.name for one in nodes),
        expected_nodes=18,
        facts={"gpus": {"seen": 72, "expected": 72}, "summary": f"GPU 72/72 in {rack_name(number)}"},
        seconds=281.0,
    )
    return replace(made, **changes)


def finding(status: Status = Status.FAIL, **changes: Any) -> Finding:
    made = Finding(
        check="nvlink.links", status=status, subject="GPU 2 (0018:01:00.0)", message="link 8 down", node="rack07-n11"
    )
    return replace(made, **changes)


def run(*racks: RackResult, exit_code: int = 0, **changes: Any) -> Run:
    made = Run(
        id="2026-12-02T03-20-11",
        started="2026-12-02T03:20:11Z",
        finished="2026-12-02T03:25:02Z",
        level="standard",
        inventories=(INVENTORY,),
        racks=racks,
        exit_code=exit_code,
    )
    return replace(made, **changes)


# Any text, with what hurts: control characters, markup, wide characters.
valid_texts = st.one_of(
    st.text(max_size=30),
    st.text(st.characters(categories=("Cc", "Zl", "Zp", "So")), max_size=8),
    st.sampled_from(("", "[red]", "\x1b[31mred\x1b[0m", "]]>", "<&\"'>", "a\x00b", "\ufffe", "🔥")),
)
# And lone surrogates, as in the name of a file that is not UTF-8.
texts = valid_texts | st.text(st.characters(categories=("Cs", "Ll")), max_size=6)
names = st.from_regex(r"rack[0-9]{2}-n[0-9]{2}", fullmatch=True)
times = st.datetimes().map(lambda moment: moment.replace(microsecond=0).isoformat() + "Z")
outcomes = st.sampled_from(("ok", "refused", "unreachable", "auth-failed", "timed-out", "not-asked"))


def _tuples(of: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=most).map(tuple)


def values_of(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), text)


def json_of(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        values_of(text),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
        max_leaves=6,
    )


def findings_of(text: st.SearchStrategy[str]) -> st.SearchStrategy[Finding]:
    return st.builds(
        Finding,
        check=st.sampled_from(("nvlink.links", "gpu.count", "nccl.all-reduce", "infiniband.ports")),
        status=st.sampled_from(Status),
        subject=text,
        message=text,
        node=names | st.just(""),
        value=values_of(text),
        unit=text,
        expected=text,
        source=text,
        cause=text,
        action=st.sampled_from(Action),
        evidence=text,
        health_category=text,
        caused_by=text | st.just("nvlink.links@rack01-n01"),
        explains=_tuples(text, 3),
    )


def racks_of(text: st.SearchStrategy[str]) -> st.SearchStrategy[RackResult]:
    return st.builds(
        RackResult,
        name=st.from_regex(r"rack[0-9]{2}", fullmatch=True),
        cluster=text,
        verdict=st.sampled_from(Verdict),
        nodes=_tuples(
            st.builds(
                NodeResult,
                name=names,
                status=st.sampled_from(Status),
                address=text,
                outcome=outcomes,
                detail=text,
                instance_id=text,
                vm_id=text,
                physical_host=text,
            ),
            3,
        ),
        findings=_tuples(findings_of(text), 5),
        usable_nodes=_tuples(names, 3),
        expected_nodes=st.integers(0, 18),
        facts=st.dictionaries(text, json_of(text), max_size=2),
        seconds=st.floats(0, 1e6),
    )


def runs_of(text: st.SearchStrategy[str]) -> st.SearchStrategy[Run]:
    return st.builds(
        Run,
        id=st.from_regex(r"[0-9a-z][0-9a-z-]{0,20}", fullmatch=True).filter(lambda run_id: run_id != "last"),
        started=times,
        finished=times,
        level=st.sampled_from(Level).map(lambda level: level.value),
        inventories=_tuples(st.fixed_dictionaries(dict.fromkeys(("path", "cluster", "digest", "profile"), text)), 2),
        racks=_tuples(racks_of(text), 3),
        exit_code=st.sampled_from((0, 7, 8, 130)),
        interrupted=st.booleans(),
    )


runs = runs_of(texts)
valid_runs = runs_of(valid_texts)  # what JSON can hold as it is
judgements = st.builds(
    Judgement,
    tool=st.sampled_from(("nccl-tests", "auto")),
    profile=st.none() | st.just("gb300"),
    status=st.sampled_from((Status.PASS, Status.WARN, Status.FAIL, Status.UNKNOWN)),
    facts=st.dictionaries(texts, json_of(texts), max_size=3),
    findings=_tuples(findings_of(texts), 4),
    unknown_fields=_tuples(texts, 8),
)
