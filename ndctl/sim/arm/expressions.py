"""ARM template expressions: "[concat('a', parameters('b'))]" parsed and evaluated.

Grammar and functions as learn.microsoft.com, "ARM template functions", describes them; what is not here is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+)|(?P<name>[A-Za-z_][\w]*)|(?P<mark>[().,\[\]]))")


class ExpressionError(Exception):
    """The expression is not valid; the message is ARM's kind of sentence."""


class NotYetKnown(Exception):
    """Its value exists only while the deployment runs (reference, list*)."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression can speak of. `functions` are called with evaluated arguments."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    variables: Callable[[str], Any] | None = None
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


def is_expression(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("[") and value.endswith("]") and not value.startswith("[[")


def evaluate_all(value: Any, scope: Scope) -> Any:
    """A copy of `value` with every expression in it, keys included, replaced by what it gives."""
    if isinstance(value, dict):
        return {str(evaluate_all(key, scope)): evaluate_all(inner, scope) for key, inner in value.items()}
    if isinstance(value, list):
        return [evaluate_all(inner, scope) for inner in value]
    if is_expression(value):
        return _Parser(value[1:-1], scope).whole()
    if isinstance(value, str) and value.startswith("[["):
        return value[1:]
    return value


class _Parser:
    def __init__(self, text: str, scope: Scope) -> None:
        self._text, self._scope, self._tokens = text, scope, _tokens(text)
        self._at = 0

    def whole(self) -> Any:
        value = self._value()
        if self._at < len(self._tokens):
            raise ExpressionError(f"The language expression '{self._text}' is not valid near '{self._peek()[1]}'.")
        return value

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _next(self, mark: str = "") -> tuple[str, str]:
        token = self._peek()
        if mark and token != ("mark", mark):
            raise ExpressionError(f"The language expression '{self._text}' is not valid: expected '{mark}'.")
        self._at += 1
        return token

    def _value(self) -> Any:
        kind, text = self._next()
        if kind == "text":
            return text[1:-1].replace("''", "'")
        if kind == "number":
            return int(text)
        if kind != "name":
            raise ExpressionError(f"The language expression '{self._text}' is not valid near '{text}'.")
        value = self._call(text)
        while self._peek() in (("mark", "."), ("mark", "[")):
            if self._next()[1] == ".":
                value = self._property(value, self._next()[1])
            else:
                value = self._property(value, self._value())
                self._next("]")
        return value

    def _call(self, name: str) -> Any:
        self._next("(")
        branches = name.lower() == "if"
        arguments: list[Any] = []
        while self._peek() != ("mark", ")"):
            arguments.append(self._branch(arguments) if branches and arguments else self._value())
            if self._peek() != ("mark", ")"):
                self._next(",")
        self._next(")")
        if name.lower() == "parameters":
            return self._named(self._scope.parameters, "parameter", arguments)
        if name.lower() == "variables" and self._scope.variables is not None:
            return self._scope.variables(str(arguments[0]) if arguments else "")
        function = self._scope.functions.get(name.lower())
        if function is None:
            raise ExpressionError(
                f"The template function '{name}' is not valid. Please see https://aka.ms/arm-functions for usage "
                "details."
            )
        try:
            return function(*arguments)
        except (TypeError, ValueError, LookupError, ZeroDivisionError) as error:
            raise ExpressionError(f"The template function '{name}' was called with wrong arguments: {error}") from None

    def _branch(self, before: list[Any]) -> Any:
        """Of if()'s two branches only the chosen one may fail."""
        chosen = bool(before[0]) == (len(before) == 1)
        start = self._at
        try:
            return self._value()
        except (ExpressionError, NotYetKnown):
            if chosen:
                raise
            self._at = start
            self._skip_argument()
            return None

    def _skip_argument(self) -> None:
        depth = 0
        while self._at < len(self._tokens):
            mark = self._peek()
            if depth == 0 and mark in (("mark", ","), ("mark", ")")):
                return
            depth += (mark in (("mark", "("), ("mark", "["))) - (mark in (("mark", ")"), ("mark", "]")))
            self._at += 1

    def _named(self, values: Mapping[str, Any], what: str, arguments: list[Any]) -> Any:
        name = str(arguments[0]) if arguments else ""
        for key, value in values.items():
            if key.lower() == name.lower():
                return value
        raise ExpressionError(
            f"The template {what} '{name}' is not found. Please see https://aka.ms/arm-syntax-{what}s for usage "
            "details."
        )

    def _property(self, value: Any, key: Any) -> Any:
        if isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value):
            return value[key]
        if isinstance(value, Mapping):
            for name, inner in value.items():
                if str(name).lower() == str(key).lower():
                    return inner
        raise ExpressionError(f"The language expression property '{key}' doesn't exist in '{self._text}'.")


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise ExpressionError(f"Unable to parse language expression '{text}': unexpected token at position {at}.")
        tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
        at = match.end()
    return tokens
