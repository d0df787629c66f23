"""Which findings a source file can emit, read from its syntax tree: every id "<check>.<suffix>" it may build.

An id is written `f"{_ID}.suffix"`, `f"{check}.{kind}"` with `kind` a parameter or a local name, or handed to a helper.
Names are followed to the constants they can hold, within one module: through parameters to their callers, through
assignments and conditions. What cannot be followed is returned as such, so that the test has to name it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_SUFFIX = re.compile(r"^[a-z0-9]+(-[a-z0-9]+)*$")
_MOST_STEPS = 6


@dataclass(frozen=True)
class Emitted:
    """suffixes: what follows the check's id · opaque: "line: expression" that could not be followed"""

    suffixes: frozenset[str] = frozenset()
    opaque: tuple[str, ...] = ()


@dataclass
class _Module:
    tree: ast.Module
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node

    def function_of(self, node: ast.AST) -> ast.FunctionDef | None:
        here: ast.AST | None = node
        while here is not None and not isinstance(here, ast.FunctionDef):
            here = self.parents.get(here)
        return here

    def values(self, node: ast.expr, steps: int = _MOST_STEPS) -> set[str] | None:
        """Every text an expression can be; None where that is not known."""
        if isinstance(node, ast.Constant):
            return {str(node.value)} if isinstance(node.value, str) else set()
        if isinstance(node, ast.IfExp):
            return _union(self.values(one, steps) for one in (node.body, node.orelse))
        if isinstance(node, ast.BoolOp):
            return _union(self.values(one, steps) for one in node.values)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            table = self._constant(node.func.value.id) if isinstance(node.func.value, ast.Name) else node.func.value
            several = [*table.values, *node.args[1:]] if isinstance(table, ast.Dict) else None
            return _union(self.values(one, steps) for one in several) if several is not None else None
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict):
            return _union(self.values(one, steps) for one in node.value.values)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            table = self._constant(node.value.id)
            return _union(self.values(one, steps) for one in table.values) if isinstance(table, ast.Dict) else None
        if isinstance(node, ast.Name) and steps:
            return self._named(node, steps - 1)
        return None

    def _constant(self, name: str) -> ast.expr | None:
        for one in self.tree.body:
            if isinstance(one, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in one.targets):
                return one.value
        return None

    def _named(self, node: ast.Name, steps: int) -> set[str] | None:
        function = self.function_of(node)
        if function is not None:
            given = [
                one.value
                for one in ast.walk(function)
                if isinstance(one, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in one.targets)
            ]
            paired = [
                value
                for one in ast.walk(function)
                if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Tuple)
                and isinstance(one.value, ast.Tuple)
                for target, value in zip(one.targets[0].elts, one.value.elts, strict=False)
                if isinstance(target, ast.Name) and target.id == node.id
            ]  # fmt: skip
            looped = [
                value for one in ast.walk(function) if isinstance(one, ast.For) for value in self._rows(one, node.id)
            ]
            if given or paired or looped:
                return _union(self.values(one, steps) for one in (*given, *paired, *looped))
            if node.id in [one.arg for one in (*function.args.args, *function.args.kwonlyargs)]:
                return self._arguments(function, node.id, steps)
        constant = self._constant(node.id)
        return self.values(constant, steps) if constant is not None else None

    def _rows(self, loop: ast.For, name: str) -> list[ast.expr]:
        """What a loop over a literal table gives this name in each row."""
        table = self._constant(loop.iter.id) if isinstance(loop.iter, ast.Name) else loop.iter
        if not isinstance(table, (ast.Tuple, ast.List)):
            return []
        if isinstance(loop.target, ast.Name):
            return list(table.elts) if loop.target.id == name else []
        if not isinstance(loop.target, ast.Tuple):
            return []
        places = [at for at, one in enumerate(loop.target.elts) if isinstance(one, ast.Name) and one.id == name]
        return [
            row.elts[at] for at in places for row in table.elts if isinstance(row, ast.Tuple) and at < len(row.elts)
        ]

    def _arguments(self, function: ast.FunctionDef, name: str, steps: int) -> set[str] | None:
        """What callers in this module hand over; None where nobody here calls it."""
        parameters = [one.arg for one in function.args.args]
        method = isinstance(self.parents.get(function), ast.ClassDef)
        found = []
        for call in ast.walk(self.tree):
            if not isinstance(call, ast.Call):
                continue
            called = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
            if called != function.name:
                continue
            handed = next((one.value for one in call.keywords if one.arg == name), None)
            if handed is None and name in parameters:
                position = parameters.index(name) - (1 if method else 0)
                handed = call.args[position] if position < len(call.args) else None
            if handed is not None:
                found.append(handed)
        return _union(self.values(one, steps) for one in found) if found else None


def _union(several: Iterator[set[str] | None]) -> set[str] | None:
    whole: set[str] = set()
    for one in several:
        if one is None:
            return None
        whole |= one
    return whole


def emitted(source: Path, also: frozenset[str] = frozenset()) -> Emitted:
    """The suffixes of a module's ids: of f-strings "{…}.suffix" that stand where a finding's id is given.

    also: names of callables other than Finding and replace whose `check=` or first argument is such an id
    """
    module = _Module(ast.parse(source.read_text(encoding="utf-8")))
    suffixes: set[str] = set()
    opaque: list[str] = []
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.JoinedStr) or not _is_id(node, module):
            continue
        built = {""}
        for part in node.values[1:]:
            if isinstance(part, ast.Constant):
                several: set[str] | None = {str(part.value)}
            else:
                several = module.values(part.value) if isinstance(part, ast.FormattedValue) else None
            if several is None:
                opaque.append(ast.unparse(node))
                break
            built = {before + one for before in built for one in several}
        else:
            suffixes |= {one.removeprefix(".") for one in built}
    return Emitted(frozenset(one for one in suffixes if _SUFFIX.match(one)), tuple(sorted(set(opaque))))


def _is_id(node: ast.JoinedStr, module: _Module) -> bool:
    """f"{name}.something" that ends as `check=`, as a positional argument or in a condition of those."""
    if len(node.values) < 2 or not isinstance(node.values[0], ast.FormattedValue):
        return False
    second = node.values[1]
    if not isinstance(second, ast.Constant) or not re.match(r"^\.[a-z0-9-]*$", str(second.value)):
        return False
    first = ast.unparse(node.values[0].value)
    if first.rpartition(".")[2].lower().strip("_") not in ("id", "check", "gemm", "thermals", "what"):
        return False
    here: ast.AST = node
    while isinstance(module.parents.get(here), ast.IfExp):
        here = module.parents[here]
    return isinstance(module.parents.get(here), (ast.keyword, ast.Call, ast.Return))
