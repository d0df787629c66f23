"""Texts are read once, until they are forgotten."""

from __future__ import annotations

from ndctl.checks.read_once import forget, once


def test_a_text_is_read_once_until_it_is_forgotten() -> None:
    read: list[str] = []

    @once
    def length(text: str) -> int:
        read.append(text)
        return len(text)

    assert [length("ab"), length("ab"), length("c")] == [2, 2, 1]
    assert read == ["ab", "c"]
    forget()
    assert length("ab") == 2
    assert read == ["ab", "c", "ab"]
