"""Start-up and rendering as whole processes: `ndctl --help` beside a bare Typer program, and 64 racks rendered."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_BARE = """
import typer
app = typer.Typer()
@app.command()
def one() -> None:
    "The first verb."
@app.command()
def two() -> None:
    "The second verb."
app()
"""
ROUNDS = 9
ROOT = Path(__file__).parents[2]


def cpu_and_wall(argv: list[str], folder: Path) -> tuple[float, float]:
    """CPU and wall seconds of one finished process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run(argv, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120, check=True)
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def bars() -> list[tuple[str, float, float]]:
    """(name, value, limit), each value a median over interleaved rounds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bare.py").write_text(_BARE)
        bare = [sys.executable, "bare.py", "--help"]
        ours = [sys.executable, "-m", "ndctl", "--help"]
        for argv in (bare, ours):
            cpu_and_wall(argv, folder)
        ratios = [cpu_and_wall(ours, folder)[0] / cpu_and_wall(bare, folder)[0] for _ in range(ROUNDS)]
        render = [
            sys.executable,
            "-m",
            "ndctl",
            "render",
            str(ROOT / "inventories/swc-a.yaml"),
            "-o",
            str(folder / "r"),
        ]
        walls = [cpu_and_wall(render, folder)[1] for _ in range(3)]
    return [
        ("cpu-of-help-vs-bare-typer", statistics.median(ratios), 1.7),
        ("render-64-racks-s", statistics.median(walls), 5.0),
    ]


def main() -> int:
    missed = 0
    for name, value, limit in bars():
        ok = value <= limit
        missed += not ok
        print(f"BAR {name} {value:.2f} {limit:g} {'ok' if ok else 'MISSED'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
