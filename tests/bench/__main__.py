"""`make bench`: every measurement in turn; the exit status is 1 when a bar is missed."""

from __future__ import annotations

import subprocess
import sys

PARTS = ("startup", "quick_cost", "isolation", "fanout")


def main() -> int:
    missed = [
        part for part in PARTS if subprocess.run([sys.executable, "-m", f"tests.bench.{part}"], check=False).returncode
    ]
    if missed:
        print(f"missed or failed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
