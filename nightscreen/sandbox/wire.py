"""What goes over the wire: envelopes, error pages, and ways not to deliver them.

Bytes only: the pipeline decides which answer is given.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
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


@dataclass(slots=True)
class Reply:
    """One answer, what it cost, and how it is delivered."""

    word: str  # the outcome in one word, for the ledger
    status: int  # HTTP status
    body: bytes = b""
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()  # further headers
    way: str = "send"  # `send`, `cut` (nothing is sent), or `truncate` (half of the body)
    silence_s: float = 0.0  # wait before that, ended early when the caller leaves
    charged: int = 0  # micro-naira


def _plain_number(value: object) -> int | float:
    if isinstance(value, Decimal):
        whole = int(value)
        return whole if whole == value else float(value)
    raise TypeError(f"{type(value).__name__} has no place on the wire")


dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain_number).encode


def envelope(
    status: str,
    message: str | None,
    data: object = ABSENT,
    meta: dict[str, Decimal] | None = None,
    extra: dict[str, object] | None = None,
) -> bytes:
    """Write the envelope of area B (service.md, "Validation response envelope"), money in naira.

    A message that is None, a record that is ABSENT and an empty `meta` are left out.
    """
    told: dict[str, object] = {"status": status}
    if message is not None:
        told["message"] = message
    if data is not ABSENT:
        told["data"] = data
    if meta:
        told["meta"] = meta
    return written({**told, **(extra or {})})


def written(document: dict[str, object]) -> bytes:
    """Write a JSON object; letters that have no place in UTF-8 become question marks."""
    return dumps(document).encode("utf-8", "replace")


def html_page(status: int, text: str = "") -> bytes:
    """Write an error page as a proxy in front of the service would."""
    title = f"{status} {HTTPStatus(status).phrase}"
    return (
        f"<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1>"
        f"</center>\r\n<hr><pre>{text}</pre>\r\n</body>\r\n</html>\r\n"
    ).encode()


def is_gone(scope: Scope) -> bool:
    """Return whether the caller has already closed the connection."""
    transport = scope.get(TRANSPORT)
    return bool(transport and transport.is_closing())


async def deliver(reply: Reply, scope: Scope, receive: Receive, send: Send) -> None:
    """Send an answer, or fail to in the way it says.

    A cut is a real one: the socket is closed with nothing, or half of the body, written to it.
    """
    if reply.silence_s:
        await _wait_or_leave(receive, reply.silence_s)
    length = str(len(reply.body)).encode()
    headers = [(b"content-type", reply.content_type), (b"content-length", length), *reply.headers]
    if reply.way == "send":
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})
        return
    transport: asyncio.Transport = scope[TRANSPORT]
    if reply.way == "truncate":
        lines = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}".encode()]
        lines += [name + b": " + value for name, value in headers]
        head = b"\r\n".join(lines) + b"\r\n\r\n"
        transport.write(head + reply.body[: max(1, len(reply.body) // 2)])
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


async def read_body(receive: Receive) -> bytes:
    """Read the whole body of a request, as it came."""
    chunks: list[bytes] = []
    while (message := await receive())["type"] == "http.request":
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            break
    return b"".join(chunks)
