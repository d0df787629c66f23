"""Completion statuses of InfiniBand verbs by number, as `enum ibv_wc_status` of rdma-core defines them."""

from __future__ import annotations

WC_STATUS = {
    0: "success",
    1: "local length error",
    2: "local QP operation error",
    3: "local EE context operation error",
    4: "local protection error",
    5: "work request flushed",
    6: "memory window bind error",
    7: "bad response",
    8: "local access error",
    9: "remote invalid request",
    10: "remote access error",
    11: "remote operation error",
    12: "transport retry counter exceeded",
    13: "receiver-not-ready retry counter exceeded",
    14: "local RDD violation",
    15: "remote invalid RD request",
    16: "remote aborted",
    17: "invalid EE context number",
    18: "invalid EE context state",
    19: "fatal error",
    20: "response timeout",
    21: "general error",
}

# What a person should look at first, by status; 5 only follows from another error.
LIKELY = {
    4: "the buffer's memory registration: GPU memory through nvidia-peermem or DMA-BUF, IOMMU; not a cable",
    5: "a consequence: some earlier error flushed the queue",
    10: "memory registration or keys on the peer",
    12: "the peer stopped answering: a link or its peer went down, packets are lost, or partition or GID do not match",
    13: "the receiver posts no buffers: the peer process hangs or died",
}


def describe(status: int) -> str:
    """ "transport retry counter exceeded (status 12)"."""
    return f"{WC_STATUS.get(status, 'unknown completion status')} (status {status})"
