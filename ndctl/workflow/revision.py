"""An inventory and the templates as they were in a git revision, read without touching the work tree or any network.

Templates count as part of the revision only where ndctl runs from a checkout that is the same repository. Files that
the inventory names (keys, a CA), the profiles and ndctl's own code are today's.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ndctl.inventory.loader import Loaded, load
from ndctl.model.errors import ExitCode, ManyErrors, NdctlError
from ndctl.render.engine import templates_folder

GIT_DEADLINE_S = 30


@dataclass(frozen=True, slots=True)
class AtRevision:
    """loaded: the inventory as it was, whose relative files are today's; templates: None where they are ndctl's own."""

    revision: str  # the commit
    loaded: Loaded
    templates: Path | None


@contextmanager
def at_revision(inventory: Path, revision: str) -> Iterator[AtRevision]:
    """The folder of the old files goes with the block. Raises NdctlError (exit 2) for whatever cannot be read."""
    file = inventory.resolve()
    if not file.is_file():
        load(inventory)  # says what is wrong with it
    top = Path(_git(file.parent, ["rev-parse", "--show-toplevel"], "look for the repository").decode().strip())
    commit = _commit(top, revision)
    name = file.relative_to(top.resolve()).as_posix()
    if name not in _names(top, commit, name):
        raise _refused(
            "absent", f"{inventory} is not in revision {revision}", f"git log --follow -- {name} lists those it is in"
        )
    with tempfile.TemporaryDirectory(prefix="ndctl-revision-") as folder:
        target = Path(folder)
        (target / "inventory").mkdir()
        old = target / "inventory" / file.name
        old.write_bytes(_git(top, ["cat-file", "blob", f"{commit}:{name}"], f"read {name}"))
        templates = _templates(top, commit, target)
        yield AtRevision(commit, _load(old, inventory, revision), templates)


def _load(old: Path, inventory: Path, revision: str) -> Loaded:
    try:
        loaded = load(old)
    except NdctlError as error:
        first = error.errors[0] if isinstance(error, ManyErrors) else error
        line = f", line {first.where.line}" if first.where and first.where.line else ""
        raise _refused(
            "old-inventory",
            f"{inventory} as of {revision} is no inventory of this version of ndctl: {first.message}{line}",
            "compare with a later revision",
        ) from error
    return replace(loaded, path=inventory)


def _templates(top: Path, commit: str, target: Path) -> Path | None:
    folder = templates_folder().resolve()
    if not folder.is_relative_to(top.resolve()):
        return None
    name = folder.relative_to(top.resolve()).as_posix()
    if not _names(top, commit, name):
        return None
    archive = _git(top, ["archive", "--format=tar", commit, "--", name], f"read {name}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(target, filter="data")
    return target / name


def _commit(top: Path, revision: str) -> str:
    words = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
    try:
        return _git(top, words, f"look up {revision}").decode().strip()
    except NdctlError as error:
        if error.code != "revision.git":
            raise
        raise _refused("unknown", f"there is no revision {revision!r} in {top}", "git log lists them") from error


def _names(top: Path, commit: str, path: str) -> set[str]:
    told = _git(top, ["ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, "--", path], f"list {path}")
    return set(told.decode("utf-8", "surrogateescape").split("\0")) - {""}


def _git(folder: Path, words: Sequence[str], doing: str) -> bytes:
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    environment |= {"GIT_NO_LAZY_FETCH": "1", "GIT_LITERAL_PATHSPECS": "1"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_DEADLINE_S,
            check=False,
            env=environment,
        )
    except FileNotFoundError as error:
        raise _refused("no-git", "there is no git on this machine", "install git") from error
    except subprocess.TimeoutExpired as error:
        raise _refused("slow", f"git did not {doing} in {GIT_DEADLINE_S} s") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        if any("not a git repository" in line for line in said):
            raise _refused(
                "no-repository", f"{folder} is in no git repository", "--diff compares with a revision of the inventory"
            )
        raise _refused("git", f"git could not {doing}: {said[0] if said else f'exit {done.returncode}'}")
    return done.stdout


def _refused(code: str, message: str, hint: str = "") -> NdctlError:
    return NdctlError(f"revision.{code}", message, hint=hint, exit_code=ExitCode.USAGE)
