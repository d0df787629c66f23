"""`make demo`: the main job on the embedded region, by the same commands a person types.

Two racks (36 VMs, 144 GPUs) are deployed with one NVLink broken on one GPU; the demo succeeds only if validation
rejects that rack for exactly that part and has nothing against anything else.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NODE, GPU, LINK = "rack01-n11", 2, 8
COMMAND_DEADLINE_S = 240


class Failed(Exception):
    """The demo did not show what it promises."""


def ndctl(*arguments: str, expect: tuple[int, ...] = (0,), quiet: bool = False) -> str:
    """Run one command as a user would, echoing it; returns its stdout."""
    print(f"\n$ ndctl {shlex.join(arguments)}", flush=True)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "ndctl", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        timeout=COMMAND_DEADLINE_S,
        check=False,
    )
    if not quiet:
        print(done.stdout, end="", flush=True)
    print(f"[exit {done.returncode}, {time.monotonic() - began:.1f} s]", flush=True)
    if done.returncode not in expect:
        raise Failed(f"ndctl {arguments[0]} ended with {done.returncode}, expected {expect}")
    return done.stdout


def check(run: dict[str, object]) -> str:
    """What is wrong with the answer, "" when it is exactly the planted fault."""
    racks = {rack["name"]: rack for rack in run["racks"]}  # type: ignore[index, attr-defined]
    if sorted(racks) != ["rack01", "rack02"]:
        return f"racks {sorted(racks)} were judged, not rack01 and rack02"
    verdicts = {name: rack["verdict"] for name, rack in racks.items()}
    if verdicts != {"rack01": "rejected", "rack02": "accepted"}:
        return f"verdicts are {verdicts}"
    standing = [
        f
        for rack in racks.values()
        for f in rack["findings"]
        if f["status"] in ("fail", "warn", "unknown") and not f["caused_by"]
    ]
    if len(standing) != 1:
        return "blamed: " + "; ".join(f"{f['check']} {f['node']} {f['subject']}" for f in standing)
    found = standing[0]
    part = f"GPU {GPU} " in found["subject"] and found["subject"].endswith(f" link {LINK}")
    if found["node"] != NODE or not part or not found["check"].startswith("nvlink.links"):
        return f"the fault found is {found['check']} on {found['node']} {found['subject']}"
    usable = sorted({n["name"] for n in racks["rack01"]["nodes"]} - set(racks["rack01"]["usable_nodes"]))
    if usable != [NODE]:
        return f"not usable in rack01: {usable}"
    return ""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="ndctl-demo-") as folder:
        sim = Path(folder) / "sim"
        inventory = str(sim / "inventory.yaml")
        os.environ["NDCTL_STATE_DIR"] = str(Path(folder) / "state")
        began = time.monotonic()
        try:
            ndctl("sim", "up", "--dir", str(sim), "--port", "0", "--ssh-port", "0")
            try:
                problem = story(folder, sim, inventory)
            finally:
                ndctl("sim", "down", "--dir", str(sim))
        except (Failed, subprocess.TimeoutExpired) as error:
            print(f"\ndemo failed: {error}", file=sys.stderr)
            return 1
        seconds = time.monotonic() - began
    if problem:
        print(f"\ndemo failed: planted an NVLink fault on {NODE} GPU {GPU} link {LINK}, but {problem}", file=sys.stderr)
        return 1
    print(
        f"\ndemo passed in {seconds:.0f} s: 2 racks deployed; exactly the planted fault was found "
        f"({NODE} GPU {GPU} link {LINK}) and nothing else was blamed"
    )
    return 0


def story(folder: str, sim: Path, inventory: str) -> str:
    """From nothing to judged racks; returns what is wrong with the answer."""
    plan = str(Path(folder) / "plan.json")
    ndctl(
        "sim", "fault", "add", "nvlink-down", "--dir", str(sim),
        "--node", NODE, "--gpu", str(GPU), "--link", str(LINK),
    )  # fmt: skip
    ndctl("inventory", "lint", inventory)
    ndctl("render", inventory, "-o", str(Path(folder) / "rendered"))
    ndctl("plan", inventory, "--out", plan)
    ndctl("deploy", inventory, "--plan", plan, "--yes")
    answer = ndctl("validate", inventory, "--level", "standard", "-o", "json", expect=(7,), quiet=True)
    ndctl("report", "last")
    return check(json.loads(answer))


if __name__ == "__main__":
    sys.exit(main())
