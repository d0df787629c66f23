"""The page of each check: what it means, how it is measured, known false alarms, what to do. Data beside the check.

`checks/pages/<check id>.yaml`; a `{path.in.profile}` in the threshold stands for the profile's own figure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ndctl.model.errors import ExitCode, ManyErrors, NdctlError
from ndctl.profiles.marked_yaml import read
from ndctl.profiles.placed_errors import in_file_order, placed_errors
from ndctl.profiles.schema import Bounds, Known, Profile

_FOLDER = Path(__file__).parent / "pages"
_KIND = "page"
_PLACE = re.compile(r"\{([A-Za-z0-9_.]+)\}")


class Page(BaseModel):
    """One check, for a person.

    threshold: what is held against what is measured, with `{path}` into the profile
    source:    who says so; figures of the profile carry their own
    cost_s:    seconds of a node's own time (passive check), or of the rack's (active check)
    details:   suffix of a finding's id -> what this finding means and what to do
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    check: str = Field(pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)*$")
    means: str = Field(min_length=20)
    measured: str = Field(min_length=10)
    threshold: str = Field(min_length=2)
    source: str = Field(min_length=3)
    cost_s: float = Field(ge=0)
    false_alarms: tuple[str, ...] = ()
    do: tuple[str, ...] = Field(min_length=1)
    details: Mapping[str, str] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold of one profile, in words, and who says its figures (each once)."""

    text: str
    sources: tuple[str, ...]


@cache
def pages() -> Mapping[str, Page]:
    """Check id -> its page. Raises NdctlError (file:line) for a page that is wrong: a bug of the catalogue."""
    found = {}
    errors: list[NdctlError] = []
    for file in sorted(_FOLDER.glob("*.yaml")):
        try:
            page = _read(file)
            found[page.check] = page
        except ManyErrors as many:
            errors += many.errors
        except NdctlError as error:
            errors.append(error)
    if errors:
        raise errors[0] if len(errors) == 1 else ManyErrors(errors)
    return found


def _read(file: Path) -> Page:
    document = read(file, _KIND)
    try:
        page = Page.model_validate(document.data)
    except ValidationError as error:
        raise ManyErrors(list(in_file_order(placed_errors(error, document, Page, _KIND)))) from None
    if page.check != file.stem:
        raise NdctlError(
            "page.name",
            f"the page of '{page.check}' is in {file.name}",
            hint=f"name it {page.check}.yaml",
            where=document.where_value(("check",)),
            exit_code=ExitCode.INTERNAL,
        )
    return page


def page_of(word: str) -> tuple[Page, str] | None:
    """The page of a check or of a finding's id, and the finding's suffix ("" for the check itself)."""
    known = pages()
    parts = word.split(".")
    for end in range(len(parts), 0, -1):
        page = known.get(".".join(parts[:end]))
        if page is not None:
            return page, ".".join(parts[end:])
    return None


def page_by_detail(word: str) -> tuple[Page, str] | None:
    """The page whose finding a judge of texts gives a shorter name: nvlink.link-down is nvlink.links.link-down.

    None where no check of that group has such a finding, or several have.
    """
    group, _, suffix = word.partition(".")
    fitting = [page for page in pages().values() if page.check.partition(".")[0] == group and suffix in page.details]
    return (fitting[0], suffix) if len(fitting) == 1 else None


def has_page(word: str) -> bool:
    """Whether `page_of` would find something; no page is read for it."""
    parts = word.split(".")
    return any((_FOLDER / f"{'.'.join(parts[:end])}.yaml").is_file() for end in range(len(parts), 0, -1))


def threshold(page: Page, profile: Profile) -> Threshold:
    """The page's threshold with the profile's figures in it; what the profile lacks is said."""
    sources: list[str] = []

    def figure(match: re.Match[str]) -> str:
        text, origin = _figure(profile, match[1])
        if origin:
            sources.append(origin)
        return text

    text = _PLACE.sub(figure, page.threshold)
    return Threshold(text, tuple(dict.fromkeys(sources)))


def filled(text: str, profile: Profile) -> str:
    """The text with the profile's figures in the place of each `{path}`."""
    return _PLACE.sub(lambda match: _figure(profile, match[1])[0], text)


def _figure(profile: Profile, path: str) -> tuple[str, str]:
    """A figure of the profile as text, and its origin. Raises ValueError for a path that no profile can have."""
    here: object = profile
    names = path.split(".")
    if names[:2] == ["nccl", "floors"] and len(names) == 4:
        # nccl.floors.<test>.<scope>: of a whole rack
        here, names = profile.floor(names[2], names[3], profile.vms_per_rack.value), []
    for name in names:
        if here is None:
            break
        if isinstance(here, Mapping):
            here = here.get(name)
        elif isinstance(here, BaseModel) and name in type(here).model_fields:
            here = getattr(here, name)
        else:
            raise ValueError(f"a profile has no '{path}'")
    if here is None:
        return f"a figure that profile {profile.name} lacks", ""
    if isinstance(here, Known) and here.unit == "fraction" and isinstance(here.value, (int, float)):
        return f"{100 * here.value:g} %", here.origin
    if isinstance(here, Known):
        return f"{_plain(here.value)}{_unit(here.unit)}", here.origin
    if isinstance(here, Bounds):
        warn, fail = here.warn_below, here.fail_below
        return (
            f"about {_plain(here.expected.value)}{_unit(here.expected.unit)}"
            f" (warn below {_plain(warn.value)}, fail below {_plain(fail.value)})",
            fail.origin,
        )
    return _plain(here), ""


def _unit(unit: str) -> str:
    return f" {unit}" if unit else ""


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        words = list(dict.fromkeys(map(_plain, value)))
        return " to ".join(words) if len(value) == 2 else ", ".join(words)
    return f"{value:g}" if isinstance(value, float) else str(value)
