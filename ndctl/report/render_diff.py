"""What changed between two renderings of one cluster: a unified diff, equal racks once, and what it would come to.

Pure. Custom data, base64 in a template, is shown as the digest of its text; its text is compared beside it.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ndctl.render.compare import ABSENT, differences
from ndctl.render.effects import Effect, meaning_of
from ndctl.render.rendered import Deployment, Rendered, json_text
from ndctl.render.resources import body_of, resources_of, title_of

_CONTEXT = 3


@dataclass(frozen=True, slots=True)
class Consequence:
    """One changed property of one resource, and what it comes to where that resource exists."""

    resource: str
    path: str
    effect: Effect
    note: str


@dataclass(frozen=True, slots=True)
class Part:
    """The foundation, a rack, or racks that change alike. kind: "added" | "removed" | "changed"."""

    names: tuple[str, ...]
    kind: str
    lines: tuple[str, ...]
    consequences: tuple[Consequence, ...] = ()


@dataclass(frozen=True, slots=True)
class RenderDiff:
    parts: tuple[Part, ...]
    cloud_init: tuple[str, ...] = field(default=())

    @property
    def empty(self) -> bool:
        return not self.parts and not self.cloud_init


def render_diff(before: Rendered, after: Rendered, old_label: str) -> RenderDiff:
    """old_label: how the earlier rendering is called in the diff's headers, e.g. a commit."""
    olds = {one.file_stem: one for one in before.deployments}
    news = {one.file_stem: one for one in after.deployments}
    groups: dict[tuple[Any, ...], list[Part]] = {}
    for stem in dict.fromkeys((*news, *olds)):
        part = _part(stem, olds.get(stem), news.get(stem), old_label)
        if part is not None:
            groups.setdefault(_shape(part, stem), []).append(part)
    folded = (
        Part(tuple(one.names[0] for one in alike), alike[0].kind, alike[0].lines, alike[0].consequences)
        for alike in groups.values()
    )
    cloud_init = _unified(before.cloud_init, after.cloud_init, "cloud-init.yaml", old_label)
    return RenderDiff(tuple(folded), tuple(cloud_init))


def _part(stem: str, old: Deployment | None, new: Deployment | None, label: str) -> Part | None:
    if old is None or new is None:
        kind, only = ("added", new) if old is None else ("removed", old)
        resources = [f"{'+' if new else '-'} {title_of(one)}" for one in resources_of(only).values()] if only else []
        return Part((stem,), kind, tuple(resources))
    before, after = _readable(old), _readable(new)
    lines = _unified(json_text(before), json_text(after), f"{stem}.json", label)
    lines += _unified(json_text(old.parameters), json_text(new.parameters), f"{stem}.parameters.json", label)
    if not lines:
        return None
    return Part((stem,), "changed", tuple(lines), tuple(_consequences(old, new)))


def _consequences(old: Deployment, new: Deployment) -> Iterator[Consequence]:
    """Values of parameters are put in their places, so that a new SSH key is seen in what it changes."""
    before, after = resources_of(old), resources_of(new)
    for key in dict.fromkeys((*after, *before)):
        was, now = before.get(key), after.get(key)
        title = title_of(now or was or {})
        if was is None:
            yield Consequence(title, "", Effect.IN_PLACE, "a new resource")
        elif now is None:
            note = "ndctl deploy leaves it in Azure: what is no longer in a template is not deleted"
            yield Consequence(title, "", Effect.UNKNOWN, note)
        else:
            for one in differences(body_of(was), body_of(now)):
                absent = [None if value is ABSENT else value for value in (one.before, one.after)]
                told = meaning_of(str(now["type"]), one.path, *absent)
                yield Consequence(title, one.path, told.effect, told.note)


def _readable(deployment: Deployment) -> Any:
    def shown(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {
                key: f"sha256:{hashlib.sha256(item.encode()).hexdigest()[:12]} (of cloud-init)"
                if key == "customData" and isinstance(item, str)
                else shown(item)
                for key, item in value.items()
            }
        return [shown(item) for item in value] if isinstance(value, list) else value

    return shown(deployment.template)


def _unified(before: str, after: str, name: str, label: str) -> list[str]:
    made = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"{label}:{name}", f"working tree:{name}", lineterm="", n=_CONTEXT
    )
    return list(made)


def _shape(part: Part, stem: str) -> tuple[Any, ...]:
    """Equal for racks that change alike but for their own names and numbers."""
    if not stem.startswith("rack"):
        return (stem,)
    number = stem.removeprefix("rack")
    text = json.dumps([part.kind, part.lines, [[c.resource, c.path, c.effect, c.note] for c in part.consequences]])
    return (text.replace(stem, "rack#").replace(f"-r{number}-", "-r#-"),)
