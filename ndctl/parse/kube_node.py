"""What kubectl says of one node and its pods, through the templates of `jobs/occupancy_commands.py`, a line for each:

    node NAME cordoned|open
    taint EFFECT KEY
    pod NAMESPACE/NAME PHASE [RESOURCE=COUNT …] [claim=NAME …]
    end

"end" comes only when the pods could be listed.
"""

from __future__ import annotations

from dataclasses import dataclass

_ENDED = ("succeeded", "failed")


@dataclass(frozen=True, slots=True)
class KubePod:
    """resources: extended ones with their count, such as {"nvidia.com/gpu": "4"}; claims: of devices, by name."""

    name: str
    phase: str
    resources: tuple[tuple[str, str], ...] = ()
    claims: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether it gave back what it held."""
        return self.phase.lower() in _ENDED


@dataclass(frozen=True, slots=True)
class KubeFacts:
    """node: "" when no node was found; complete: whether all pods of it are here."""

    node: str = ""
    cordoned: bool = False
    taints: tuple[tuple[str, str], ...] = ()
    pods: tuple[KubePod, ...] = ()
    complete: bool = False
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> KubeFacts:
    node, cordoned, complete = "", False, False
    taints: list[tuple[str, str]] = []
    pods: list[KubePod] = []
    problems = [line.strip()[:200] for line in stderr.splitlines() if line.strip()]
    for line in text.splitlines():
        match line.split():
            case ["node", name, "cordoned" | "open" as state]:
                node, cordoned = name, state == "cordoned"
            case ["taint", effect, key, *_]:
                taints.append((effect, key))
            case ["pod", name, phase, *rest]:
                pods.append(_pod(name, phase, rest))
            case ["end"]:
                complete = bool(node)
            case []:
                pass
            case _:
                problems.append(line.strip()[:200])
    return KubeFacts(node, cordoned, tuple(taints), tuple(pods), complete, tuple(problems))


def _pod(name: str, phase: str, rest: list[str]) -> KubePod:
    pairs = [(key, value) for key, mark, value in (word.partition("=") for word in rest) if mark]
    # cpu, memory and the like are the node's own; devices have a vendor's domain in front.
    devices = {(key, value) for key, value in pairs if "/" in key and value not in ("0", "")}
    return KubePod(
        name=name,
        phase=phase,
        resources=tuple(sorted(devices)),
        claims=tuple(sorted({value for key, value in pairs if key == "claim"})),
    )
