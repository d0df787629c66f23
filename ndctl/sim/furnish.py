"""What a region's directory is furnished with before its first start: CA, secrets, identity, SSH keys, an inventory."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

from ndctl.sim.arm.settings import Settings
from ndctl.sim.arm.signin import encode
from ndctl.sim.state import SimDirectory, write_file

_INVENTORY = """\
# Two racks on the embedded region of this directory: ndctl plan, deploy and validate take this file as it is.
cluster: sim
cloud:
  endpoint: {endpoint}
  authority: {endpoint}/
  ca: ca.pem
  identity: identity.json
subscription: {subscription}
resource_group: rg-sim
region: simregion
zone: "1"
racks: 2
vm_size: Standard_ND128isr_GB300_v6        # profile gb300: 18 VMs, 72 GPUs a rack
image: microsoft-dsvm:ubuntu-hpc:2404-gb:24.04.2025110401
network:
  create: 10.40.0.0/16
  admin_from: [127.0.0.0/8]
ssh:
  user: azureuser
  port: {ssh_port}
  public_key: id_ed25519.pub
  private_key: id_ed25519
"""


def furnish(directory: SimDirectory, settings: Settings) -> None:
    """Write what is missing; what is there stays, so that a restart keeps its CA and keys. The ports may be new."""
    if not directory.file("server.pem").exists():
        _certificates(directory)
    secret_file = directory.file("signing.key")
    if not secret_file.exists():
        write_file(secret_file, secrets.token_hex(32) + "\n", 0o600)
    secret = bytes.fromhex(secret_file.read_text().strip())
    if not directory.file("federated.jwt").exists():
        claims = {
            "iss": "https://sim.invalid",
            "sub": "ndctl",
            "aud": "api://AzureADTokenExchange",
            "iat": int(time.time()),
            "jti": secrets.token_hex(8),
        }
        write_file(directory.file("federated.jwt"), encode(claims, secret), 0o600)
    identity = (
        f'{{"tenant_id": "{settings.tenant}", "client_id": "{settings.client}", "token_file": "federated.jwt"}}\n'
    )
    write_file(directory.file("identity.json"), identity)
    if not directory.file("id_ed25519").exists():
        _key_pair(directory)
    text = _INVENTORY.format(
        endpoint=settings.endpoint, subscription=settings.subscriptions[0], ssh_port=settings.ssh_port
    )
    write_file(directory.file("inventory.yaml"), text)


def _certificates(directory: SimDirectory) -> None:
    import trustme

    authority = trustme.CA(organization_name="ndctl sim")
    certificate = authority.issue_cert("127.0.0.1", "localhost", "::1", common_name="localhost")
    chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
    write_file(directory.file("ca.pem"), authority.cert_pem.bytes().decode())
    write_file(directory.file("server.pem"), (certificate.private_key_pem.bytes() + chain).decode(), 0o600)


def _key_pair(directory: SimDirectory) -> None:
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.OpenSSH, s.NoEncryption()).decode()
    public = key.public_key().public_bytes(s.Encoding.OpenSSH, s.PublicFormat.OpenSSH).decode()
    write_file(directory.file("id_ed25519"), private, 0o600)
    write_file(directory.file("id_ed25519.pub"), f"{public} ndctl-sim\n")


def secret_of(path: Path) -> bytes:
    return bytes.fromhex(path.read_text().strip())
