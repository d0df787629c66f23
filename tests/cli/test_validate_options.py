"""`ndctl validate`: wrong bounds and budgets are usage errors, told before anything is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from ndctl.cli.main import run


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--budget", "soon"], "'soon' is no time for a budget"),
        (["--budget", "0"], "'0' is no time for a budget"),
        (["--budget", ""], "is no time for a budget"),
        (["--max-nodes-under-test", "0"], "--max-nodes-under-test"),
        (["--max-nodes-under-test", "few"], "--max-nodes-under-test"),
    ],
)
def test_a_wrong_bound_is_a_usage_error(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    with pytest.raises(SystemExit) as ended:
        run(["validate", str(tmp_path / "none.yaml"), *options])
    told = capsys.readouterr()
    assert ended.value.code == 2
    assert said in told.err and told.out == ""
    assert not (tmp_path / "state").exists()
