"""Reading back what the combined script sends, as it comes; whatever has come whole is kept.

Wire form, after any noise: `<nonce> begin`, then for each command a header line

    <nonce> <index> <exit> <start> <end> <stdout sent> <stdout size> <stderr sent> <stderr size>

and exactly that many bytes; at last `<nonce> end`. Instead of results the script may say `<nonce> no-timeout` or
`<nonce> no-directory`. Times are the node's uptime in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from ndctl.model.answers import HUNG_TOOL_S, Command, CommandResult
from ndctl.ssh.script import NO_DIRECTORY, NO_TIMEOUT

_NOISE_KEPT = 4_000
_HEADER_LIMIT = 512
_REFUSALS = {
    NO_TIMEOUT: "the node has no usable 'timeout' (GNU coreutils): nothing was run, since nothing could be bounded",
    NO_DIRECTORY: "no temporary directory could be made on the node (/dev/shm, /tmp): nothing was run",
}


class StreamReader:
    """Feed it bytes; look at `results`, `finished`, `refusal`, `noise`.

    Memory is bounded by the commands' caps: a header that announces more than a cap ends the reading.
    """

    def __init__(self, commands: Sequence[Command], nonce: str) -> None:
        self.commands = tuple(commands)
        self.nonce = nonce
        self._mark = nonce.encode()
        self._buffer = bytearray()
        self._header: list[int] | None = None
        self._times = (0.0, 0.0)
        self._wanted = 0
        self.begun = False
        self.finished = False
        self.refusal = ""
        self.garbled = ""
        self.results: dict[str, CommandResult] = {}
        self._noise = bytearray()

    @property
    def noise(self) -> str:
        """The first of what was printed before the script began: start-up files, banners, a refusing shell."""
        return _text(bytes(self._noise)).strip()

    @property
    def done(self) -> bool:
        """Nothing more is to be read."""
        return self.finished or bool(self.refusal) or bool(self.garbled)

    @property
    def current(self) -> Command | None:
        """The command whose answer is awaited; None before the first and after the last."""
        answered = len(self.results)
        return self.commands[answered] if self.begun and answered < len(self.commands) else None

    def feed(self, data: bytes) -> None:
        self._buffer += data
        if not self.begun:
            self._find_beginning()
        while self.begun and not self.done:
            if self._header is None and not self._read_line():
                return
            if self._header is not None and not self._read_body():
                return

    def _find_beginning(self) -> None:
        line = self._mark + b" begin\n"
        at = self._buffer.find(line)
        if at < 0:
            spare = len(self._buffer) - len(line)
            if spare > 0:
                self._drop_noise(spare)
            return
        self._drop_noise(at)
        del self._buffer[: len(line)]
        self.begun = True

    def _drop_noise(self, count: int) -> None:
        if len(self._noise) < _NOISE_KEPT:
            self._noise += self._buffer[: min(count, _NOISE_KEPT - len(self._noise))]
        del self._buffer[:count]

    def end_of_stream(self) -> None:
        """No more bytes will come: what waits before the beginning was noise too."""
        if not self.begun:
            self._drop_noise(len(self._buffer))

    def _read_line(self) -> bool:
        end = self._buffer.find(b"\n")
        if end < 0:
            if len(self._buffer) > _HEADER_LIMIT:
                self.garbled = "the node's answer lost its shape"
            return False
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        words = line.split()
        if not words or words[0] != self._mark:
            self.garbled = f"the node's answer lost its shape at {_text(line[:80])!r}"
            return False
        word = words[1].decode("ascii", "replace") if len(words) > 1 else ""
        if word == "end" and len(self.results) == len(self.commands):
            self.finished = True
            return False
        if word in _REFUSALS:
            self.refusal = _REFUSALS[word]
            return False
        return self._take_header(words[1:])

    def _take_header(self, words: list[bytes]) -> bool:
        try:
            index, code, start, end, out, out_size, err, err_size = words
            self._times = (float(start), float(end))
            self._header = [int(word) for word in (index, code, out, out_size, err, err_size)]
            cap = self.commands[self._header[0]].cap_bytes
            fits = self._header[0] == len(self.results) and 0 <= self._header[2] <= cap and 0 <= self._header[4] <= cap
        except (ValueError, IndexError):
            fits = False
        if not fits or self._header is None:
            self._header = None
            self.garbled = f"the node's answer has an impossible header: {_text(b' '.join(words)[:120])!r}"
            return False
        self._wanted = self._header[2] + self._header[4]
        return True

    def _deadline_of(self, command: Command) -> float:
        """Its own, or the short one that the script gives after a command of the same tool has hung."""
        before = (self.results.get(one.id) for one in self.commands if command.tool and one.tool == command.tool)
        hung = any(result is not None and (result.timed_out or result.exit_code in (124, 137)) for result in before)
        return min(command.timeout_s, HUNG_TOOL_S) if hung else command.timeout_s

    def _read_body(self) -> bool:
        if self._header is None or len(self._buffer) < self._wanted:
            return False
        index, code, out, out_size, err, err_size = self._header
        command = self.commands[index]
        seconds = max(0.0, round(self._times[1] - self._times[0], 2))
        # These are the deadline's doing only when the time was really up; else the command said them itself: 124 is
        # GNU timeout's word, 137 is KILL after TERM was ignored, 143 is TERM as busybox passes it on.
        # (Without /proc/uptime both times are 0, and 124 is taken at its word.)
        clockless = self._times == (0.0, 0.0)
        time_up = seconds >= self._deadline_of(command) - 0.05 or (clockless and code == 124)
        timed_out = code in (124, 137, 143) and time_up
        self.results[command.id] = CommandResult(
            id=command.id,
            exit_code=None if timed_out else code,
            stdout=_text(bytes(self._buffer[:out])),
            stderr=_text(bytes(self._buffer[out : out + err])),
            seconds=seconds,
            timed_out=timed_out,
            truncated=out_size > out or err_size > err,
        )
        del self._buffer[: self._wanted]
        self._header = None
        return True


def _text(data: bytes) -> str:
    """What is not UTF-8 is shown as \\xNN: it can be read, kept and written anywhere."""
    return data.decode("utf-8", "backslashreplace")
