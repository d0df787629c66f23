"""Taking a run's ephemeral keys off the nodes: through the heads that made them, and directly where that fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.places import Node
from ndctl.ssh.relay_keys import forget_key_text, forget_text
from ndctl.ssh.relay_rack import RunKey

_FORGET = "relay-forget"
_TIMEOUT_S = 20.0
_Told = Callable[[NodeAnswer, str], None]
_Wanted = dict[Node, tuple[Command, ...]]


def remove_keys(
    keys: Sequence[RunKey],
    through_head: Callable[[RunKey, _Wanted, _Told], bool],
    ask: Callable[[Mapping[Node, Sequence[Command]]], Mapping[Node, NodeAnswer]],
) -> dict[Node, str]:
    """Remove every key from its head, and its line from every peer that may have it; node -> why something is left.

    through_head(key, wanted, told): ask the key's head and peers what is wanted, by that key; the head then removes it.
    Whether that came to its end.
    """
    still: dict[Node, list[Command]] = {}
    lock = threading.Lock()

    def remove(key: RunKey) -> None:
        forget = Command(_FORGET, forget_text(key.token), timeout_s=_TIMEOUT_S, cap_bytes=4_000)
        forgot: set[Node] = set()
        whole = False

        def told(answer: NodeAnswer, why: str) -> None:
            if _succeeded(answer, _FORGET):
                forgot.add(answer.node)

        peers = sorted(key.touched, key=lambda node: node.name)
        try:
            whole = through_head(key, dict.fromkeys([key.head, *peers], (forget,)), told)
        finally:
            with lock:
                for node in peers:
                    if node not in forgot:
                        command = Command(f"{_FORGET}-{key.token}", forget.shell, timeout_s=_TIMEOUT_S)
                        still.setdefault(node, []).append(command)
                if not whole:
                    command = Command(f"{_FORGET}-key-{key.token}", forget_key_text(key.token), timeout_s=_TIMEOUT_S)
                    still.setdefault(key.head, []).append(command)

    threads = [threading.Thread(target=remove, args=(key,), name="ndctl-forget", daemon=True) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not still:
        return {}
    return {
        node: answer.outcome.kind.value if not answer.outcome.ok else "the node would not"
        for node, answer in ask(still).items()
        if not all(_succeeded(answer, command.id) for command in still[node])
    }


def _succeeded(answer: NodeAnswer, command: str) -> bool:
    result = answer.results.get(command)
    return result is not None and result.exit_code == 0
