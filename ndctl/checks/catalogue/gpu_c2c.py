"""The chip-to-chip links between each GPU and its Grace CPU: all there, all active, all at one speed."""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import evidence, unusable
from ndctl.checks.gpus import gpus_of, named
from ndctl.checks.majority import majority
from ndctl.checks.read_once import c2c_of
from ndctl.checks.texts.gpu_running import on_c2c
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding, Value
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.c2c import C2cGpu, C2cLink, C2cStatus
from ndctl.profiles.schema import Profile

_ID = "gpu.c2c"
_CAUSE = "the link between the CPU and this GPU did not train, or failed"
_SLOWER = 0.99  # of the promised speed: figures are printed to the MB/s


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    missing = unusable(_ID, answer, commands.C2C_STATUS)
    result = answer.results.get(commands.C2C_STATUS.id)
    if missing is not None and (result is None or result.timed_out or result.exit_code is None):
        return [missing]
    if missing is not None:
        return [_skip(answer, f"not seen: {missing.message}")]
    status = _read(answer)
    off = _switched_off(answer)
    if not any(gpu.links for gpu in status.gpus):
        return off or [_none(answer, status)]
    findings = [finding for gpu in status.gpus for finding in _of_gpu(answer, gpu, profile)]
    unclear = [
        f"GPU {gpu.index} link {one.link} says '{one.printed}'" for gpu, one in _links(status) if one.active is None
    ]
    if findings or off:
        return [*off, *findings]
    if unclear:
        return [_skip(answer, f"not understood: {'; '.join(unclear[:3])}")]
    facts = gpus_of(answer)
    listed = len(facts.gpus) if facts else 0
    if listed > len(status.gpus):
        return [_skip(answer, f"links of {len(status.gpus)} of {listed} GPUs are shown")]
    return [_pass(answer, status)]


def _read(answer: NodeAnswer) -> C2cStatus:
    result = answer.results[commands.C2C_STATUS.id]
    return c2c_of(result.stdout, result.stderr)


def _links(status: C2cStatus) -> list[tuple[C2cGpu, C2cLink]]:
    return [(gpu, one) for gpu in status.gpus for one in gpu.links]


def _of_gpu(answer: NodeAnswer, gpu: C2cGpu, profile: Profile) -> list[Finding]:
    speed = profile.gpu.c2c_link_gb_per_s
    down = [one.link for one in gpu.links if one.active is False]
    findings = []
    if down:
        links = f"link{'s' if len(down) > 1 else ''} {', '.join(map(str, down))}"
        findings.append(
            _finding(
                answer,
                gpu,
                "link-down",
                Status.FAIL,
                f"C2C {links} inactive: {len(gpu.links) - len(down)} of {len(gpu.links)} carry what goes to the CPU",
                value=len(gpu.links) - len(down),
                unit="links",
                expected=str(len(gpu.links)),
                action=Action.REPLACE_AND_REPORT,
            )
        )
    slow = [one for one in gpu.links if speed and one.gb_per_s and one.gb_per_s < _SLOWER * speed.value]
    if slow and speed:
        findings.append(
            _finding(
                answer,
                gpu,
                "link-slow",
                Status.WARN,
                f"C2C link {', '.join(str(one.link) for one in slow)} at {slow[0].gb_per_s:g} GB/s",
                value=slow[0].gb_per_s,
                unit="GB/s",
                expected=f"{speed.value:g} GB/s",
                source=speed.origin,
                action=Action.INVESTIGATE,
            )
        )
    return findings


def _switched_off(answer: NodeAnswer) -> list[Finding]:
    """GPUs whose listing says that C2C is off, beside others of the node where it is on."""
    facts = gpus_of(answer)
    gpus = facts.gpus if facts else ()
    if not any(on_c2c(gpu) for gpu in gpus):
        return []
    return [
        _finding(
            answer,
            C2cGpu(gpu.index, gpu.name or "", gpu.uuid or "", ()),
            "mode-off",
            Status.FAIL,
            f"C2C mode is {gpu.c2c_mode.lower()}, and enabled on other GPUs of this node",
            value=gpu.c2c_mode,
            expected="Enabled",
            action=Action.REPLACE_AND_REPORT,
        )
        for gpu in gpus
        if gpu.c2c_mode is not None and not on_c2c(gpu)
    ]


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    """How many links a GPU has: by what most of the rack have, since public sources of the number are few."""
    counts: list[tuple[NodeAnswer, C2cGpu]] = []
    for answer in sorted(view.answers.values(), key=lambda one: one.node.name):
        if unusable(_ID, answer, commands.C2C_STATUS) is None:
            counts += [(answer, gpu) for gpu in _read(answer).gpus if gpu.links]
    usual = majority([len(gpu.links) for _, gpu in counts])
    findings = [
        _finding(
            answer,
            gpu,
            "link-missing",
            Status.FAIL,
            f"{len(gpu.links)} C2C links are listed, and {usual} on the rack's other GPUs",
            value=len(gpu.links),
            unit="links",
            expected=str(usual),
            source="the rack's other GPUs",
            action=Action.REPLACE_AND_REPORT,
        )
        for answer, gpu in counts
        if usual is not None and len(gpu.links) < usual and all(one.active for one in gpu.links)
    ]
    promised = profile.gpu.c2c_links
    if promised is not None and usual is not None and usual < promised.value:
        findings.append(
            Finding(
                check=f"{_ID}.fewer",
                status=Status.WARN,
                subject=f"{view.name} C2C links",
                value=usual,
                unit="links",
                expected=str(promised.value),
                source=promised.origin,
                message=f"most GPUs have {usual} C2C links, fewer than the profile's {promised.value}",
                cause="another board than the profile's, or a profile that is wrong",
                action=Action.INVESTIGATE,
            )
        )
    return findings


def _finding(
    answer: NodeAnswer,
    gpu: C2cGpu,
    word: str,
    status: Status,
    message: str,
    *,
    value: Value = None,
    unit: str = "",
    expected: str = "",
    source: str = "",
    action: Action,
) -> Finding:
    found = Finding(
        check=f"{_ID}.{word}",
        status=status,
        subject=f"GPU {gpu.index}",
        node=answer.node.name,
        value=value,
        unit=unit,
        expected=expected,
        source=source,
        message=message,
        cause=_CAUSE,
        action=action,
        evidence=evidence(answer, commands.C2C_STATUS),
    )
    return named(found, answer)


def _none(answer: NodeAnswer, status: C2cStatus) -> Finding:
    result = answer.results[commands.C2C_STATUS.id]
    said = next((line.strip() for line in f"{result.stdout}\n{result.stderr}".splitlines() if line.strip()), "no text")
    if status.supported is False:
        return _skip(answer, "nvidia-smi says that no GPU here has C2C links")
    return _skip(answer, f"no C2C link is shown: {said[:120]}")


def _skip(answer: NodeAnswer, message: str) -> Finding:
    return Finding(
        check=f"{_ID}.not-observable",
        status=Status.SKIP,
        subject="C2C links",
        node=answer.node.name,
        message=message,
        evidence=evidence(answer, commands.C2C_STATUS),
    )


def _pass(answer: NodeAnswer, status: C2cStatus) -> Finding:
    speeds = sorted({one.gb_per_s for _, one in _links(status) if one.gb_per_s})
    return Finding(
        check=_ID,
        status=Status.PASS,
        subject=f"{len(status.gpus)} GPUs",
        node=answer.node.name,
        value=len(_links(status)),
        unit="links",
        message=f"{len(_links(status))} C2C links active at {', '.join(f'{speed:g}' for speed in speeds)} GB/s",
        evidence=evidence(answer, commands.C2C_STATUS),
    )


CHECK = Check(
    id=_ID,
    group=Group.GPU,
    level=Level.QUICK,
    title="the chip-to-chip links between GPUs and CPU are all active",
    commands=(commands.C2C_STATUS, commands.NVIDIA_SMI_XML),
    judge_node=_judge_node,
    judge_rack=_judge_rack,
    required=False,
    applies=lambda profile: profile.gpu.c2c_links is not None,
)
