"""Run on a node by the stand-in tools: ask the simulator, print its answer, exit as it says.

Started as `python -S -E -I`, with nothing imported that costs time: it is the dear part of a first answer.
Request: NUL-separated fields, ended by an empty one. Answer: frames `o LENGTH\\n…`, `e LENGTH\\n…`, `x CODE\\n`.
"""

import _socket
import os
import sys

_FORWARDED = ("NCCL_", "UCX_", "CUDA_", "OMPI_")


def request(socket_path, fields):
    """Send one request and yield (kind, bytes) frames."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(socket_path)
    connection.sendall(b"\0".join(field.encode("utf-8", "surrogateescape") for field in fields) + b"\0\0")
    buffer = b""
    while True:
        while b"\n" not in buffer:
            chunk = connection.recv(65536)
            if not chunk:
                return
            buffer += chunk
        head, buffer = buffer.split(b"\n", 1)
        kind, number = head[:1].decode(), int(head[2:])
        if kind == "x":
            yield kind, number
            return
        while len(buffer) < number:
            chunk = connection.recv(65536)
            if not chunk:
                return
            buffer += chunk
        yield kind, buffer[:number]
        buffer = buffer[number:]


def main():
    path = os.environ.get("NDCTL_SIM_SOCKET", "")
    # "=" in front: the request's separator is an empty field, and an argument may be empty.
    environment = [f"={key}={value}" for key, value in os.environ.items() if key.startswith(_FORWARDED)]
    head = [os.environ.get("NDCTL_SIM_ADDRESS", ""), os.environ.get("NDCTL_SIM_KEY", ""), str(len(environment))]
    fields = ["=" + field for field in head] + environment + ["=" + argument for argument in sys.argv[1:]]
    try:
        for kind, content in request(path, fields):
            if kind == "x":
                return content
            stream = sys.stdout if kind == "o" else sys.stderr
            stream.buffer.write(content)
            stream.flush()
    except OSError as error:
        print(f"{sys.argv[1]}: the simulator does not answer: {error}", file=sys.stderr)
    return 70


if __name__ == "__main__":
    sys.exit(main())
