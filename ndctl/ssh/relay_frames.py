"""Reading back what a head sends, as it comes. A pure reader; who is told of frames decides what they mean.

Wire form, after any noise: `<nonce> begin`, then lines

    <nonce> cannot WHY                        nothing will be relayed
    <nonce> start PEER                        the peer is being asked from now on
    <nonce> block PEER BYTES                  and that many bytes of the peer's own stream
    <nonce> end PEER CODE LOG STDERR          its ssh has ended: exit code, then ssh's own words, then its stderr
    <nonce> tick                              the head is alive
    <nonce> done                              everything is over and removed
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ndctl.ssh.relay_script import BLOCK_BYTES, LOG_BYTES

_LINE_LIMIT = 200
_NOISE_KEPT = 4_000


class FrameKind(StrEnum):
    CANNOT = "cannot"
    START = "start"
    BLOCK = "block"
    END = "end"
    TICK = "tick"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Frame:
    """data: of a block; log, stderr: of an end; word: of cannot."""

    kind: FrameKind
    peer: int = -1
    code: int = 0
    data: bytes = b""
    log: str = ""
    stderr: str = ""
    word: str = ""


class FrameReader:
    """Feed it bytes, get frames. `garbled` says why the stream cannot be read on. Memory is bounded by one block."""

    def __init__(self, nonce: str, peers: int) -> None:
        self.nonce = nonce
        self._mark = nonce.encode()
        self._peers = peers
        self._buffer = bytearray()
        self._noise = bytearray()
        self._pending: tuple[FrameKind, int, int, int, int] | None = None
        self.begun = False
        self.garbled = ""

    @property
    def noise(self) -> str:
        return self._noise.decode("utf-8", "backslashreplace").strip()

    def feed(self, data: bytes) -> list[Frame]:
        self._buffer += data
        if not self.begun and not self._find_beginning():
            return []
        frames: list[Frame] = []
        while not self.garbled:
            frame = self._line() if self._pending is None else None
            if frame is None and self._pending is not None:
                frame = self._body()
            if frame is None:
                break
            frames.append(frame)
        return frames

    def _find_beginning(self) -> bool:
        line = self._mark + b" begin\n"
        at = self._buffer.find(line)
        spare = at if at >= 0 else max(0, len(self._buffer) - len(line))
        self._noise += self._buffer[: min(spare, _NOISE_KEPT - len(self._noise))]
        del self._buffer[: spare + (len(line) if at >= 0 else 0)]
        self.begun = at >= 0
        return self.begun

    def _line(self) -> Frame | None:
        end = self._buffer.find(b"\n")
        if end < 0 or end > _LINE_LIMIT:
            if len(self._buffer) > _LINE_LIMIT:
                self.garbled = "the head's answer lost its shape"
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        words = line.decode("ascii", "replace").split()
        try:
            if words[0] != self._mark.decode():
                raise ValueError
            return self._frame(FrameKind(words[1]), words[2:])
        except (ValueError, IndexError):
            self.garbled = f"the head's answer lost its shape at {line[:80].decode('ascii', 'backslashreplace')!r}"
            return None

    def _frame(self, kind: FrameKind, words: list[str]) -> Frame | None:
        if kind is FrameKind.CANNOT:
            return Frame(kind, word=words[0])
        if kind in (FrameKind.TICK, FrameKind.DONE):
            return Frame(kind)
        peer = int(words[0])
        if not 0 <= peer < self._peers:
            raise ValueError
        if kind is FrameKind.START:
            return Frame(kind, peer)
        code, first, second, most = 0, int(words[1]), 0, BLOCK_BYTES
        if kind is FrameKind.END:
            code, first, second, most = int(words[1]), int(words[2]), int(words[3]), LOG_BYTES
        if not (0 <= first <= most and 0 <= second <= most):
            raise ValueError
        self._pending = (kind, peer, code, first, second)
        return None

    def _body(self) -> Frame | None:
        assert self._pending is not None
        kind, peer, code, first, second = self._pending
        if len(self._buffer) < first + second:
            return None
        data, rest = bytes(self._buffer[:first]), bytes(self._buffer[first : first + second])
        del self._buffer[: first + second]
        self._pending = None
        if kind is FrameKind.BLOCK:
            return Frame(kind, peer, data=data)
        return Frame(kind, peer, code, log=_text(data), stderr=_text(rest))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
