"""A policy's refusal in words: Azure puts a list of JSON objects into the message, and people need the names in it."""

from __future__ import annotations

import re

_IDENTIFIERS = re.compile(r"Policy identifiers:\s*'?(?P<json>\[.*?(?:\]'?\.?|\Z))", re.DOTALL)
_NAME = r"[\\]?\"{kind}[\\]?\"\s*:\s*\{{[^{{}}]*?[\\]?\"name[\\]?\"\s*:\s*[\\]?\"([^\"\\]+)"
_ASSIGNMENT = re.compile(_NAME.format(kind="policyAssignment"))
_DEFINITION = re.compile(_NAME.format(kind="policyDefinition"))


def policies_in(message: str) -> tuple[str, ...]:
    """What the assignments are called, each once; of the definitions where no assignment is named."""
    found = _IDENTIFIERS.search(message)
    if found is None:
        return ()
    names = _ASSIGNMENT.findall(found["json"]) or _DEFINITION.findall(found["json"])
    return tuple(dict.fromkeys(names))


def in_words(message: str) -> str:
    """The message with the names in place of the JSON; any other message as it is."""
    names = policies_in(message)
    if not names:
        return message
    told = f"{'Policy' if len(names) == 1 else 'Policies'}: {', '.join(names)}."
    return _IDENTIFIERS.sub(lambda _: told, message, count=1).strip()


def next_step(names: tuple[str, ...]) -> str:
    """What to do about these policies."""
    which = ", ".join(f"'{name}'" for name in names)
    policy = "policy" if len(names) == 1 else "policies"
    return f"Change the inventory to meet {policy} {which}, or ask the owner for an exemption."
