"""`make bench`: every measurement in turn; the exit status is 1 when a bar is missed.

python -m tests.bench                     all parts; writes RESULTS.md beside this file
python -m tests.bench fanout [OPTIONS]    one part, with options of its own (--help shows them)
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys

from tests.bench.results import Part, write

# In the order they run; a part is a module with `main(arguments) -> exit status`.
PARTS = ("startup", "isolation", "quick_cost", "fanout", "whole")
STRICT = ("fanout", "whole")  # those with peers that may be absent
LIMIT_S = 3600


def everything(strict: bool) -> int:
    parts = []
    for name in PARTS:
        arguments = [sys.executable, "-m", f"tests.bench.{name}", *(["--strict"] if strict and name in STRICT else [])]
        process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        lines = []
        for line in process.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.append(line)
        parts.append(Part(name, "".join(lines), process.wait(LIMIT_S)))
    print(f"written: {write(parts)}", file=sys.stderr)
    missed = [part.name for part in parts if part.status]
    if missed:
        print(f"missed or failed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


def main(arguments: list[str]) -> int:
    if arguments and arguments[0] in PARTS:
        sys.argv[1:] = arguments[1:]  # a part reads its own options
        return int(importlib.import_module(f"tests.bench.{arguments[0]}").main())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strict", action="store_true", help="a bar that is skipped is missed (as under CI=true)")
    return everything(parser.parse_args(arguments).strict)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
