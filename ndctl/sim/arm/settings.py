"""Settings of one region: who may sign in, and how fast its operations move."""

from __future__ import annotations

from dataclasses import dataclass

SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
TENANT = "11111111-1111-4111-8111-111111111111"
CLIENT = "22222222-2222-4222-8222-222222222222"
OBJECT = "33333333-3333-4333-8333-333333333333"  # of the client's service principal


@dataclass(frozen=True, slots=True)
class Settings:
    """endpoint: https URL without a trailing slash; ssh_port: where every node listens.

    pulse_s: how often long operations move one step; retry_after: what their Retry-After says, in seconds;
    token_s: how long an access token is good; first_octet: second octet of the first cluster's addresses.
    """

    endpoint: str = "https://127.0.0.1:8443"
    ssh_port: int = 2222
    subscriptions: tuple[str, ...] = (SUBSCRIPTION,)
    tenant: str = TENANT
    client: str = CLIENT
    pulse_s: float = 0.05
    retry_after: int = 0
    token_s: int = 3600
    first_octet: int = 1
