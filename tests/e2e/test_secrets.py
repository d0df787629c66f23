"""No token and no key in what ndctl says, keeps, hands on or shows in the list of processes: looked for."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
import zstandard

if TYPE_CHECKING:
    from conftest import Region

# One test plants a token in the list of processes, the other looks for any there.
pytestmark = pytest.mark.xdist_group("secrets")
ANY_TOKEN = rb"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"
ANY_KEY = rb"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----\s+[A-Za-z0-9+/=]{20,}"


class Secrets:
    """The region's token, every token of that kind, the login key's body, and any private key's."""

    def __init__(self, folder: Path) -> None:
        token = (folder / "federated.jwt").read_bytes().strip()
        body = [line for line in (folder / "id_ed25519").read_bytes().splitlines() if not line.startswith(b"-----")]
        # The first line of every unencrypted key is the same, and the public key is in the second.
        own = [line for line in body[2:] if len(line) >= 20]
        assert own and re.fullmatch(ANY_TOKEN, token)
        signature = token.rpartition(b".")[2]
        self._pattern = re.compile(b"|".join([ANY_TOKEN, ANY_KEY, *map(re.escape, (signature, *own))]))

    def in_bytes(self, data: bytes) -> list[str]:
        return [match[0][:40].decode("ascii", "replace") for match in self._pattern.finditer(data)]

    def in_folder(self, folder: Path) -> dict[str, list[str]]:
        """File -> what was found; a record's texts are unpacked."""
        found: dict[str, list[str]] = {}
        for file in sorted(one for one in folder.rglob("*") if one.is_file() and not one.is_symlink()):
            data = file.read_bytes()
            texts = [data, *(_texts_of_record(file) if data.startswith(b"SQLite format 3\0") else ())]
            if here := [one for text in texts for one in self.in_bytes(text)]:
                found[str(file.relative_to(folder))] = here
        return found


def _texts_of_record(file: Path) -> Iterator[bytes]:
    with closing(sqlite3.connect(file)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in database.execute(f'SELECT * FROM "{table}"'):
                for value in row:
                    if isinstance(value, bytes):
                        try:
                            yield zstandard.ZstdDecompressor().decompress(value)
                        except zstandard.ZstdError:
                            yield value
                    elif isinstance(value, str):
                        yield value.encode("utf-8", "surrogatepass")


class ProcessList:
    """What every process of this machine shows of itself while the block runs: all arguments seen, each once."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> ProcessList:
        self._thread.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._over.set()
        self._thread.join(30)

    def _look(self) -> None:
        while not self._over.wait(0.02):
            for name in os.listdir("/proc"):
                if name.isdigit():
                    try:
                        self.seen.add(Path(f"/proc/{name}/cmdline").read_bytes())
                    except OSError:
                        continue  # it has ended


def test_the_search_finds_what_is_there(region: Region, tmp_path: Path) -> None:
    secrets = Secrets(region.directory.path)
    token = region.directory.file("federated.jwt").read_bytes()
    key = region.directory.file("id_ed25519").read_bytes()
    folder = tmp_path / "planted"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "runs.sqlite")) as database:
        database.execute("CREATE TABLE texts (body BLOB, note TEXT)")
        database.execute(
            "INSERT INTO texts VALUES (?, ?)", (zstandard.ZstdCompressor().compress(b"x" * 5000 + token), "harmless")
        )
        database.commit()
    (folder / "log").write_bytes(b"Authorization: Bearer " + token)
    (folder / "key").write_bytes(key.replace(b"\n", b"\\n"))
    (folder / "innocent").write_text(region.directory.file("id_ed25519.pub").read_text())
    assert set(secrets.in_folder(folder)) == {"runs.sqlite", "log", "key"}
    with ProcessList() as processes:
        subprocess.run([sys.executable, "-c", "import time; time.sleep(0.5)", token.decode()], timeout=30, check=True)
    assert any(secrets.in_bytes(line) for line in processes.seen)


def test_a_whole_chain_leaves_no_secret_anywhere(region: Region, tmp_path: Path) -> None:
    secrets = Secrets(region.directory.path)
    inventory = region.inventory(vms_per_rack=2)
    state = Path(os.environ["NDCTL_STATE_DIR"])
    said = tmp_path / "said"
    said.mkdir()

    def ndctl(*arguments: object, codes: tuple[int, ...] = (0,)) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "ndctl", "-v", *map(str, arguments)],
            cwd=tmp_path, capture_output=True, timeout=180, check=False,
        )  # fmt: skip
        number = len(list(said.iterdir()))
        (said / f"{number:02d}-{arguments[0]}").write_bytes(done.stdout + done.stderr)
        assert done.returncode in codes, done.stderr.decode()[-2000:]

    with ProcessList() as processes:
        ndctl("bootstrap", inventory, "--yes", "--level", "quick", "--events", "jsonl")
        ndctl("plan", inventory, "-o", "json", "--out", "plan.json")
        ndctl("deploy", inventory, "--plan", "plan.json", "--yes", "-o", "json")
        ndctl("validate", inventory, "--level", "standard", "--only", "nccl,infiniband", "-o", "json", codes=(0, 7, 8))
        ndctl("exec", inventory, "-o", "json", "--", "cat /proc/self/cmdline | tr '\\0' ' '; env")
        ndctl("report", "last", "--bundle", "bundle")
        ndctl("preflight", inventory, "-o", "json")
        region.faults.add("permission-denied", action="Microsoft.Compute/virtualMachineScaleSets/read")
        ndctl("status", inventory, codes=(3, 4, 8))
        region.faults.clear()
        broken = yaml.safe_load(inventory.read_text())
        region.directory.file("stale.jwt").write_bytes(region.directory.file("federated.jwt").read_bytes()[:-3])
        region.directory.file("stale.json").write_text(
            region.directory.file("identity.json").read_text().replace("federated.jwt", "stale.jwt")
        )
        broken["cloud"]["identity"] = "stale.json"
        refused = region.directory.file("refused.yaml")
        refused.write_text(yaml.safe_dump(broken))
        ndctl("plan", refused, codes=(3,))

    signed_in = [one for one in region.requests() if one["path"].endswith("/oauth2/v2.0/token")]
    assert signed_in or len(region.requests()) > 50, "no token was in use"
    assert secrets.in_folder(said) == {}
    assert {path.name for path in state.rglob("*")} >= {"runs.sqlite", "known_hosts", "audit.jsonl"}
    assert secrets.in_folder(state) == {}
    assert len(list((tmp_path / "bundle").rglob("*"))) > 10 and secrets.in_folder(tmp_path / "bundle") == {}
    assert secrets.in_bytes((tmp_path / "plan.json").read_bytes()) == []
    own = [line for line in processes.seen if b"ndctl" in line]
    assert len(own) > 8, "the programs were not seen"
    assert [found for line in processes.seen if (found := secrets.in_bytes(line))] == []
