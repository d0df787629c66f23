"""Bundles on the command line: written by `ndctl report RUN --bundle DIR`, judged by `ndctl judge --bundle DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ndctl.model.findings import Run
    from ndctl.record.store import Store


def write(store: Store, run: str, folder: Path) -> None:
    """Write the run, and say where it is and that it should be looked through before it is handed on."""
    from ndctl.cli.output import emit, say
    from ndctl.record.bundle import write_bundle

    nodes = write_bundle(store, run, folder)
    emit(f"{folder}: run {store.resolve(run)}, texts of {nodes} node{'s' if nodes != 1 else ''}")
    say("it holds host names, addresses and serial numbers; what looks like a secret was taken out")
    say(f"next: ndctl judge --bundle {folder}")


def judged(folder: Path, profile: str | None) -> tuple[Run, int]:
    """The run that the bundle is of, judged now, and the exit status. What there is to say goes to stderr."""
    from datetime import UTC, datetime

    from ndctl.checks.verdict import exit_code
    from ndctl.cli.output import say
    from ndctl.cli.validate import tell_differences
    from ndctl.report.plain import one_line
    from ndctl.workflow.bundles import is_bundle, kit_of_bundle, kit_of_hand_made
    from ndctl.workflow.replay import run_again

    if is_bundle(folder):
        kit = kit_of_bundle(folder, profile)
        run = run_again(kit)
        tell_differences(kit.recorded, run)
    else:
        kit, unread = kit_of_hand_made(folder, profile, datetime.now(UTC))
        for line in unread:
            say(one_line(f"not read: {line}"))
        run = run_again(kit)
    # Interrupted was the run, not this judging.
    return run, int(exit_code(run.racks))
