"""Which endpoint, authority and scope an inventory's cloud means."""

from pathlib import Path

import pytest

from ndctl.azure.clouds import resolve_cloud
from ndctl.inventory.schema import CustomCloud
from ndctl.model.errors import ExitCode, NdctlError, Where


@pytest.mark.parametrize(
    ("name", "endpoint", "authority"),
    [
        ("public", "https://management.azure.com", "login.microsoftonline.com"),
        ("usgov", "https://management.usgovcloudapi.net", "login.microsoftonline.us"),
        ("china", "https://management.chinacloudapi.cn", "login.chinacloudapi.cn"),
    ],
)
def test_named_clouds(name: str, endpoint: str, authority: str) -> None:
    cloud = resolve_cloud(name, Path)
    assert (cloud.endpoint, cloud.authority, cloud.verify) == (endpoint, authority, True)
    # Azure's sovereign clouds take tokens for their Resource Manager or for the older core endpoint.
    assert cloud.scope.endswith("/.default") and cloud.scope.startswith("https://management.")


def test_custom_endpoint_is_its_own_audience(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("x")
    custom = CustomCloud(endpoint="https://localhost:8443/", authority="https://localhost:8444", ca="ca.pem")
    cloud = resolve_cloud(custom, lambda text: tmp_path / text)
    assert cloud.endpoint == "https://localhost:8443"
    assert cloud.scope == "https://localhost:8443/.default"
    assert cloud.authority == "localhost:8444"
    assert cloud.verify == str(tmp_path / "ca.pem")


@pytest.mark.parametrize("key", ["ca", "identity"])
def test_named_file_must_exist(tmp_path: Path, key: str) -> None:
    custom = CustomCloud.model_validate({"endpoint": "https://localhost:1", key: "gone"})
    with pytest.raises(NdctlError, match=f"cloud.{key}: there is no file") as caught:
        resolve_cloud(
            custom, lambda text: tmp_path / text, lambda at: Where("a.yaml", 3 if at == f"cloud.{key}" else 0)
        )
    assert caught.value.exit_code is ExitCode.USAGE and str(caught.value.where) == "a.yaml:3"
    assert caught.value.hint.startswith("put the "), "what it is, for a cloud that is not the embedded region too"
    (tmp_path / "gone").mkdir()
    with pytest.raises(NdctlError, match="is a directory"):
        resolve_cloud(custom, lambda text: tmp_path / text)
