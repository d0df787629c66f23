"""A head's frames, whole, in pieces, and damaged."""

from __future__ import annotations

import pytest

from ndctl.ssh.relay_frames import Frame, FrameKind, FrameReader
from ndctl.ssh.relay_script import BLOCK_BYTES

STREAM = (
    b"motd\nN wrong\nN begin\nN start 0\nN start 1\nN block 1 8\nN end 9\n"
    b"N tick\nN end 1 255 3 4\nlogwordN end 0 0 0 0\nN done\n"
)
FRAMES = [
    Frame(FrameKind.START, 0),
    Frame(FrameKind.START, 1),
    Frame(FrameKind.BLOCK, 1, data=b"N end 9\n"),
    Frame(FrameKind.TICK),
    Frame(FrameKind.END, 1, 255, log="log", stderr="word"),
    Frame(FrameKind.END, 0),
    Frame(FrameKind.DONE),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_frames_come_whole_however_they_are_cut(size: int) -> None:
    reader = FrameReader("N", 2)
    got = [frame for at in range(0, len(STREAM), size) for frame in reader.feed(STREAM[at : at + size])]
    assert got == FRAMES
    assert not reader.garbled
    assert reader.noise == "motd\nN wrong"


def test_what_a_head_says_instead() -> None:
    reader = FrameReader("N", 2)
    assert reader.feed(b"N begin\nN cannot no-agent\n") == [Frame(FrameKind.CANNOT, word="no-agent")]


@pytest.mark.parametrize(
    "line",
    [
        b"M start 0",
        b"N",
        b"N begun",
        b"N start 2",
        b"N start -1",
        b"N start x",
        b"N cannot",
        b"N block 0",
        b"N block 0 -4",
        b"N block 0 %d" % (BLOCK_BYTES + 1),
        b"N end 0 0 99999 0",
        b"N end 0 0 0",
        b"N start " + b"1" * 300,
        b"\xff\xfe",
    ],
)
def test_damage_ends_the_reading(line: bytes) -> None:
    reader = FrameReader("N", 2)
    assert reader.feed(b"N begin\n" + line + b"\nN done\n") == []
    assert reader.garbled


def test_noise_without_end_is_not_kept() -> None:
    reader = FrameReader("N", 2)
    for _ in range(100):
        reader.feed(b"x" * 100_000)
    assert len(reader.noise) <= 4_000
    assert len(reader._buffer) < 100
    assert reader.feed(b"\nN begin\nN tick\n") == [Frame(FrameKind.TICK)]
