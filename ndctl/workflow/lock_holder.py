"""Who holds a cluster's lock on its resource group, as the text of a tag. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

_TEXT = re.compile(
    r"(?P<doing>[\w-]{1,20}) by (?P<name>\S{1,120}) process (?P<pid>\d{1,10}) since (?P<since>\S{20}) "
    r"until (?P<until>\S{20}) (?P<mark>\w{1,16}) (?P<nonce>\w{1,32})"
)
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class Holder:
    """since, until: seconds since 1970 by Azure's clock.

    name:  user@host, by which a lock is broken
    mark:  of the machine's boot and process space: the same mark means that `pid` can be looked for here
    nonce: tells two claims of one process apart
    """

    doing: str
    name: str
    pid: int
    since: float
    until: float
    mark: str
    nonce: str

    def text(self) -> str:
        """At most 256 characters, for people and for `read`."""
        return (
            f"{self.doing} by {self.name} process {self.pid} since {_shown(self.since)} "
            f"until {_shown(self.until)} {self.mark} {self.nonce}"
        )

    @property
    def who(self) -> str:
        return f"{self.doing} by {self.name}, process {self.pid}, since {_shown(self.since)}"

    @property
    def ends(self) -> str:
        return _shown(self.until)


def holder_name(user: str, host: str) -> str:
    """user@host without what would break the text; long ones are cut."""
    return re.sub(r"\s+", "_", f"{user}@{host}")[:_LONGEST_NAME]


def read(text: str) -> Holder | None:
    """None for a text that is not of ours: somebody wrote the tag by hand."""
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        return None
    try:
        since, until = (datetime.strptime(match[key], _TIME).replace(tzinfo=UTC).timestamp() for key in _ENDS)
    except ValueError:
        return None
    return Holder(match["doing"], match["name"], int(match["pid"]), since, until, match["mark"], match["nonce"])


_ENDS = ("since", "until")


def _shown(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime(_TIME)
