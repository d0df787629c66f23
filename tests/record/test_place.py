"""Where the record lies, and which places several hosts share."""

from __future__ import annotations

from pathlib import Path

import pytest

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.record.place import default_path, on_network

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:26 / /home rw,relatime shared:9 - nfs4 filer:/home rw,vers=4.2
31 30 8:17 / /home/local\\040disk rw,relatime - xfs /dev/sdb1 rw
32 22 0:44 / /mnt/blob rw - fuse.blobfuse2 blobfuse2 rw
33 22 0:45 / /scratch rw - tmpfs tmpfs rw
34 33 0:46 / /scratch rw - lustre mgs:/scratch rw
garbage
"""


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"NDCTL_STATE_DIR": "/s", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/s/runs.sqlite"),
        ({"NDCTL_STATE_DIR": "", "XDG_STATE_HOME": "/x"}, "/x/ndctl/runs.sqlite"),
        ({"XDG_STATE_HOME": ""}, "HOME/.local/state/ndctl/runs.sqlite"),
        ({"NDCTL_STATE_DIR": "~/s"}, "HOME/s/runs.sqlite"),
    ],
)
def test_default_path(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], expected: str) -> None:
    monkeypatch.setenv("HOME", "/h/me")
    assert default_path(environ) == Path(expected.replace("HOME", "/h/me"))


def test_no_home_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(NdctlError, match="no place to keep runs") as caught:
        default_path({})
    assert caught.value.exit_code is ExitCode.USAGE
    assert "NDCTL_STATE_DIR" in caught.value.hint


@pytest.mark.parametrize(
    ("place", "shared"),
    [
        ("/home/me/.local/state/ndctl/runs.sqlite", True),
        ("/home/local disk/runs.sqlite", False),
        ("/homely/runs.sqlite", False),
        ("/var/lib/runs.sqlite", False),
        ("/mnt/blob/runs.sqlite", True),
        ("/scratch/runs.sqlite", True),
    ],
)
def test_network_file_systems(tmp_path: Path, place: str, shared: bool) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert on_network(Path(place), mounts) is shared


def test_without_a_list_of_mounts_the_place_is_taken_for_local(tmp_path: Path) -> None:
    assert on_network(Path("/home/me"), tmp_path / "absent") is False
