"""What happened to one call on the wire, before it is classified.

What does not belong here: what it means (`client/classify.py`) and how it came about
(`client/transport.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Break(StrEnum):
    """How an exchange ended without a whole response."""

    NOT_SENT = "not_sent"
    """No byte of the request left this machine."""
    TIMEOUT = "timeout"
    """The request may have left; the time for the whole call was up."""
    CUT = "cut"
    """The request may have left; the connection was lost before the response was whole."""
    TOO_LARGE = "too_large"
    """The response went past the size that is read."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call as it went.

    Attributes:
        status: HTTP status, where the response got that far.
        body: the decoded body; the first part where it is too large, else empty where `broken` is
            set.
        broken: how the exchange ended, None where a whole response was read.
        retry_after_s: seconds the service asks us to wait, if it does.
    """

    status: int | None = None
    body: bytes = b""
    broken: Break | None = None
    retry_after_s: float | None = None

    def __repr__(self) -> str:
        """Describe the exchange without its content."""
        return f"Exchange(status={self.status}, broken={self.broken}, body={len(self.body)} bytes)"
