"""SSH host keys of the nodes: one ed25519 pair per VM and generation, out of the seed."""

from __future__ import annotations

from functools import lru_cache

from ndctl.sim.world import seeds


@lru_cache(maxsize=4096)
def host_key_pair(*identity: object) -> tuple[bytes, str]:
    """(private key in OpenSSH form, public key line without comment)."""
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(seeds.digest("host-key", *identity))
    private = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.OpenSSH, s.NoEncryption())
    public = key.public_key().public_bytes(s.Encoding.OpenSSH, s.PublicFormat.OpenSSH).decode()
    return private, public
