"""A rack of folders for the burn-in jobs: real scripts in a real sh, with stand-ins for the programs they start.

`home(n) / "gemm2"`, sourced by the stand-in of ubergemm on GPU 2, may print another figure, fail or hang; `hot1` makes
GPU 1 slow down for heat. `smi` is sourced by the stand-in of nvidia-smi before it answers.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ndctl.jobs.active.base import Outcome, RackUnderTest, Stopping
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Status
from ndctl.profiles import load
from tests.jobs.local_nodes import LocalNodes

_UBERGEMM = r"""
while [ $# -gt 0 ]; do case $1 in --adapters) g=$2 ;; esac; shift; done
echo x >> "$HOME/runs$g"; turn=$(wc -l < "$HOME/runs$g" | tr -d ' '); tflops=1850
[ -r "$HOME/gemm$g" ] && . "$HOME/gemm$g"
echo "tuning GFlops:9.0e+05"; echo "starting...."; echo "GFlops:${tflops}000"; echo "GFlops:${tflops}000 GFlops"
"""
_NVIDIA_SMI = r"""
[ -r "$HOME/smi" ] && . "$HOME/smi"
q=${1#--query-gpu=}; echo "$q"
count=0; [ -r "$HOME/slowed" ] && count=$(cat "$HOME/slowed"); echo $((count + 9000000)) > "$HOME/slowed"
for g in 0 1 2 3; do
  line=
  for f in $(echo "$q" | tr , ' '); do
    hot=; [ -e "$HOME/hot$g" ] && hot=1
    case $f in
    index) v=$g ;; pci.bus_id) v=0000000$g:01:00.0 ;; temperature.gpu) v=${hot:+87}; v=${v:-64} ;;
    temperature.memory) v=${hot:+97}; v=${v:-70} ;; temperature.gpu.tlimit) v=23 ;; clocks.sm) v="1815 MHz" ;;
    clocks.max.sm) v="2032 MHz" ;; power.draw) v="1380.00 W" ;; utilization.gpu) v="100 %" ;;
    *.active) v=0x0000000000000004 ;;
    *.hw_thermal_slowdown) v=0; [ -n "$hot" ] && v=$count; v="$v us" ;; *) v="0 us" ;;
    esac
    line="$line${line:+, }$v"
  done
  echo "$line"
done
"""


class BurnInLab:
    """`rack()` is what a check is given; `said(run)` its outcome with the findings by status."""

    def __init__(self, folder: Path, count: int = 8) -> None:
        self.nodes = LocalNodes(folder, count)
        self.nodes.tool("ubergemm", _UBERGEMM)
        self.nodes.tool("nvidia-smi", _NVIDIA_SMI)
        self.refused = ""
        self.stopping = Stopping()
        self.shared: dict[str, Any] = {}

    def home(self, number: int) -> Path:
        return self.nodes.home(self.nodes.nodes[number - 1])

    def plant(self, number: int, name: str, text: str = "") -> None:
        (self.home(number) / name).write_text(text + "\n")

    def rack(self) -> RackUnderTest:
        return RackUnderTest(
            rack="rack01",
            nodes=self.nodes.nodes,
            suspects=frozenset(),
            profile=load("gb300"),
            runner=self.nodes,
            environment=lambda scope: {},
            host_keys=_host_key,
            token=f"run-{secrets.token_hex(4)}",
            may_go_on=lambda: self.refused,
            say=lambda step, message, status: None,
            stopping=self.stopping,
            shared=self.shared,
        )

    def run(self, check: Callable[[RackUnderTest], Outcome]) -> Outcome:
        return check(self.rack())


def _host_key(node: Node) -> list[str]:
    return [f"{node.address} ssh-ed25519 AAAA{node.name}"]


def bad(outcome: Outcome) -> list[Finding]:
    return [finding for finding in outcome.findings if finding.status is not Status.PASS]
