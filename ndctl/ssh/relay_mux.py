"""Runs on a head, where there is a python3: many logins share one connection to the client's agent.

Each ssh binds its agent connection to a session, lists the keys and has one text signed. Here the first two are
answered on the spot, and the third goes on in one message with the first: what costs the client a channel and a dozen
packets a login comes to one packet each way. Nothing is decided here: whether to sign is the client's own matter, which
gets to see both messages as ssh wrote them (`relay_agent.JOINT`). Without it every login has a channel of its own.

Nothing but the standard library, and no syntax that an old Python 3 lacks: its text is sent to the head.
Arguments: the socket to listen on, the forwarded agent's socket.
"""

import os
import select
import socket
import sys

IDENTITIES, SIGN, EXTENSION = b"\x0b", b"\x0d", b"\x1b"
FAILURE, SUCCESS = b"\x05", b"\x06"
JOINT = b"login@ndctl"


def string(data):
    return len(data).to_bytes(4, "big") + data


class Peer:
    """One connection, and what came on it so far. bind: its first message that binds it to a session."""

    def __init__(self, sock):
        self.sock = sock
        self.buffer = b""
        self.bind = b""

    def fileno(self):
        return self.sock.fileno()

    def read(self):
        """The messages that have come whole; None at the end."""
        try:
            data = self.sock.recv(65536)
        except OSError:
            data = b""
        if not data:
            return None
        self.buffer += data
        messages = []
        while len(self.buffer) >= 4:
            end = 4 + int.from_bytes(self.buffer[:4], "big")
            if len(self.buffer) < end:
                break
            messages.append(self.buffer[4:end])
            self.buffer = self.buffer[end:]
        return messages

    def send(self, message):
        try:
            self.sock.sendall(string(message))
        except OSError:
            return  # it is gone; its end is read next


def serve(listener, agent):
    """Until the agent's connection ends."""
    agent.send(IDENTITIES)
    identities = []
    while not identities:
        identities = agent.read()
        if identities is None:
            return
    logins, waiting = [], []
    while True:
        for one in select.select([listener, agent, *logins], [], [])[0]:
            if one is listener:
                logins.append(Peer(listener.accept()[0]))
                continue
            messages = one.read()
            if one is agent:
                if messages is None:
                    return
                for message in messages:
                    waiting.pop(0).send(message)
                continue
            if messages is None:
                logins.remove(one)
                if one not in waiting:
                    one.sock.close()
            for message in messages or ():
                if message[:1] == SIGN:
                    agent.send(EXTENSION + string(JOINT) + string(one.bind) + string(message))
                    waiting.append(one)
                elif message[:1] == IDENTITIES:
                    one.send(identities[0])
                else:
                    one.bind = one.bind or message
                    one.send(SUCCESS if message[:1] == EXTENSION else FAILURE)


def main():
    path, agent = sys.argv[1:]
    upstream = socket.socket(socket.AF_UNIX)
    upstream.connect(agent)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    listener.listen(64)
    os.rename(path + ".new", path)  # who sees it can connect
    serve(listener, Peer(upstream))


if __name__ == "__main__":
    main()
