"""Responses as bytes: envelopes, error pages, and ways to fail to deliver them.

The pipeline decides which answer is given.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from decimal import Decimal
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

TRANSPORT: Final = "sandbox.transport"
"""Key of the socket's transport in the scope of a request, put there by `sandbox.server`."""

JSON: Final = b"application/json; charset=utf-8"
HTML: Final = b"text/html"
TEXT: Final = b"text/plain; charset=utf-8"
ABSENT: Final = object()  # the record of an answer that leaves it out
OK: Final = 200


@dataclass(slots=True)
class Answer:
    """The result of a call: its outcome, its body, and how it is delivered."""

    word: str  # outcome in one word, for the ledger
    message: str | None = None  # text of the envelope; None leaves it out
    data: object = ABSENT  # the record, or ABSENT
    status: str = "success"  # status word of the envelope
    http_status: int = OK  # every other than 200 is free
    bare: bool = False  # whether the data is the whole body, without an envelope around it
    metered: bool = True  # whether the envelope has cost and balance, of a priced operation
    meta: dict[str, Decimal] | None = None  # these two, in naira; none of what is never priced
    extra: dict[str, object] = field(default_factory=dict)  # further keys of the body
    page: bytes | None = None  # the whole body, if it is not JSON of the service
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()  # further headers
    way: str = "send"  # `send`, `cut` (nothing is sent), or `truncate` (half of the body)
    silence_s: float = 0.0  # wait before that, ended early when the caller leaves
    charged: int = 0  # micro-naira

    @classmethod
    def error(
        cls, word: str, message: str, http_status: int = 400, data: object = ABSENT
    ) -> Answer:
        """Make an error of an operation's own."""
        return cls(word, message, data, "error", http_status)

    def body(self) -> bytes:
        """Write the body (service.md, "Validation response envelope")."""
        if self.page is not None:
            return self.page
        if self.bare and isinstance(self.data, dict):
            return written({**self.data, **self.extra})
        told: dict[str, object] = {"status": self.status}
        if self.message is not None:
            told["message"] = self.message
        if self.data is not ABSENT:
            told["data"] = self.data
        if self.meta:
            told["meta"] = self.meta
        return written({**told, **self.extra})


def _plain_number(value: object) -> int | float:
    if isinstance(value, Decimal):
        whole = int(value)
        return whole if whole == value else float(value)
    raise TypeError(f"{type(value).__name__} has no place on the wire")


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain_number).encode


def written(document: object) -> bytes:
    """Write JSON; letters that have no place in UTF-8 become question marks."""
    return _encode(document).encode("utf-8", "replace")


def html_page(status: int, text: str = "") -> bytes:
    """Write an error page as a proxy in front of the service would."""
    title = f"{status} {HTTPStatus(status).phrase}"
    return (
        f"<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1>"
        f"</center>\r\n<hr><pre>{text}</pre>\r\n</body>\r\n</html>\r\n"
    ).encode()


async def deliver(answer: Answer, scope: Scope, receive: Receive, send: Send) -> None:
    """Send an answer, or fail in the way it says.

    To cut it, the socket is really closed, with nothing or half of the body written to it.
    """
    if answer.silence_s:
        await _wait_or_leave(receive, answer.silence_s)
    body, status = answer.body(), answer.http_status
    length = (b"content-length", str(len(body)).encode())
    headers = [(b"content-type", answer.content_type), length, *answer.headers]
    if answer.way == "send":
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return
    transport: asyncio.Transport = scope[TRANSPORT]
    if answer.way == "truncate":
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
        lines += [name + b": " + value for name, value in headers]
        head = b"\r\n".join(lines) + b"\r\n\r\n"
        transport.write(head + body[: max(1, len(body) // 2)])
        transport.close()
    else:
        transport.abort()
    await _wait_or_leave(receive, 5.0)


async def _wait_or_leave(receive: Receive, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            while (await receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return
