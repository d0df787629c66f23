"""What a run says can be read up: `ndctl explain` knows every finding by its own id."""

from __future__ import annotations

from ndctl.checks.explain import explain
from ndctl.model.findings import Run
from ndctl.model.status import Status
from ndctl.profiles import load


def unexplained(run: Run) -> list[str]:
    """Ids of what is no pass that have no page, or are not told on the page they lead to."""
    ids = {f.check for rack in run.racks for f in rack.findings if f.status not in (Status.PASS, Status.SKIP)}
    profile = load("gb300")
    return sorted(one for one in ids if explain(one, profile).word not in (one, f"XID {one.rpartition('.')[2]}"))
