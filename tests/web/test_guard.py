"""What reaches an application behind the guard, and what never does."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message

from nightscreen.web.guard import Guard, headers_of, log, read_form

OWN = "https://desk.lender.example"
HOST = (b"host", b"desk.lender.example")
FORM = (b"content-type", b"application/x-www-form-urlencoded")
FILE = (b"content-type", b"multipart/form-data; boundary=b")
LONGEST = 4096


def refusal(kind: str, status: int) -> Response:
    """Say why in one word."""
    return PlainTextResponse(kind, status)


def guarded(reached: list[str]) -> ASGIApp:
    """Return an application with one form, which notes what reaches it."""

    async def change(request: Request) -> Response:
        form, _ = await read_form(request, 20)
        reached.append(str(sorted(form)))
        return PlainTextResponse("changed")

    async def upload(request: Request) -> Response:
        form, file = await read_form(request, 20, takes_file=True)
        reached.append(f"{sorted(form)} {file and file.filename}")
        return PlainTextResponse("taken")

    async def look(_request: Request) -> Response:
        reached.append("look")
        return PlainTextResponse("page")

    def no_page(_request: Request, error: HTTPException) -> Response:
        return PlainTextResponse(error.detail, error.status_code)

    inner = Router(
        [
            Route("/", look),
            Route("/change", change, methods=["POST"], max_body_size=LONGEST),
            Route("/upload", upload, methods=["POST"], max_body_size=LONGEST),
        ]
    )
    headers = headers_of("default-src 'none'", is_secure=True)
    return Guard(inner, frozenset({OWN}), headers, refusal, no_page, partial(log, "test"))


def send(
    method: str,
    path: str,
    headers: list[tuple[bytes, bytes]],
    body: bytes = b"",
    query: bytes = b"",
    *,
    gone: bool = False,
) -> tuple[int, dict[bytes, bytes], list[str]]:
    """Send one request as bytes; return status, headers and what the application saw.

    A client that is `gone` hung up before the end of the body.
    """
    reached: list[str] = []
    sent: list[Message] = []
    pieces = [body[:1000], body[1000:]]

    async def receive() -> Message:
        if gone and not pieces:
            return {"type": "http.disconnect"}
        piece = pieces.pop(0) if pieces else b""
        return {"type": "http.request", "body": piece, "more_body": gone or bool(pieces)}

    async def answer(message: Message) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "root_path": "",
        "headers": headers,
        "client": ("192.0.2.1", 1),
        "server": ("127.0.0.1", 80),
    }

    async def serve() -> None:
        await guarded(reached)(scope, receive, answer)

    asyncio.run(serve())
    return sent[0]["status"], dict(sent[0]["headers"]), reached


SITE, ORIGIN = b"sec-fetch-site", b"origin"
FOREIGN: dict[str, list[tuple[bytes, bytes]]] = {
    "another site's form": [(SITE, b"cross-site")],
    "a neighbouring host's form": [(SITE, b"same-site")],
    "an unknown word of a browser": [(SITE, b"x")],
    "two words, one of them ours": [(SITE, b"same-origin"), (SITE, b"cross-site")],
    "an older browser on another site": [(ORIGIN, b"https://x.example")],
    "a page without an origin": [(ORIGIN, b"null")],
    "our host by http": [(ORIGIN, b"http://desk.lender.example")],
    "our host on another port": [(ORIGIN, b"https://desk.lender.example:8443")],
    "a host that begins as ours": [(ORIGIN, b"https://desk.lender.example.evil.example")],
    "two origins, one of them ours": [(ORIGIN, OWN.encode()), (ORIGIN, b"https://x.example")],
    "bytes that are no text": [(ORIGIN, b"\xff\xfe")],
}
ATTACKS = {
    **{name: ("/change", [HOST, FORM, *headers], 403) for name, headers in FOREIGN.items()},
    "another site's file": ("/upload", [HOST, FILE, (SITE, b"cross-site")], 403),
    "a name that was pointed here": ("/change", [(b"host", b"evil.example"), FORM], 421),
    "no host": ("/change", [FORM], 421),
    "two hosts": ("/change", [HOST, HOST, FORM], 421),
    "a host with a user": ("/change", [(b"host", b"x@desk.lender.example"), FORM], 421),
    "a host with a line end": ("/change", [(b"host", b"desk.lender.example\r\nx: y"), FORM], 421),
    "a NUL in the path": ("/change\0", [HOST, FORM], 400),
    "a path without end": ("/" + "a" * 5000, [HOST, FORM], 414),
    "a path that climbs": ("/../change", [HOST, FORM], 404),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_does_not_come_from_our_pages_reaches_nothing(name: str) -> None:
    """Forms of other sites, other hosts and odd addresses are refused with all headers."""
    path, headers, status = ATTACKS[name]
    answered, given, reached = send("POST", path, headers, b"a=1")
    assert (answered, reached) == (status, [])
    assert given[b"x-frame-options"] == b"DENY"
    assert given[b"cache-control"] == b"no-store"


def test_own_forms_pass_and_only_reading_is_let_through_from_elsewhere() -> None:
    """What a browser says of our own page, and what is no browser; a link opens a page."""
    foreign = (SITE, b"cross-site")
    assert send("GET", "/", [HOST], query=b"search=a%00b")[0] == 400
    for method in ("POST", "PUT", "DELETE", "PATCH", "BREW"):
        assert send(method, "/", [HOST, foreign])[0] == 403, method
    assert send("GET", "/", [HOST, foreign])[2] == ["look"]
    passing: tuple[tuple[tuple[bytes, bytes], ...], ...] = (
        ((SITE, b"same-origin"),),
        ((SITE, b"none"),),
        ((SITE, b"same-origin"), (ORIGIN, b"null")),
        ((ORIGIN, OWN.encode()),),
        (),
    )
    for headers in passing:
        reached = send("POST", "/change", [HOST, FORM, *headers], b"a=1&b=2")[2]
        assert reached == ["['a', 'b']"], headers


PART = b"--b\r\nContent-Disposition: form-data"
NO_FORMS = (
    (FORM, b"a=" + b"x" * LONGEST, 413),
    (FORM, b"\xff=1", 400),
    (FORM, b"a=%00", 400),
    (FORM, b"&".join([b"a=1"] * 30), 400),
    (FILE, PART + b"\r\n\r\nx\r\n--b--\r\n", 400),
    (FILE, b"nonsense", 400),
    (FILE, PART + b'; name=f; filename="a\0"\r\n\r\nx\r\n--b--', 400),
    ((b"content-type", b"multipart/form-data"), b"--b--", 400),
    (FILE, (PART + b"; name=f; filename=a\r\n\r\nx\r\n") * 2 + b"--b--\r\n", 400),
)


def test_forms_that_are_none_are_refused() -> None:
    for kind, body, status in NO_FORMS:
        path = "/change" if kind is FORM else "/upload"
        answered, _, reached = send("POST", path, [HOST, kind], body)
        assert (answered, reached) == (status, []), body[:60]
    large = send("POST", "/change", [HOST, FORM, (b"content-length", b"9999")], b"a=1")
    assert (large[0], large[1][b"content-length"]) == (413, str(len("too_large")).encode())


def test_the_log_names_the_page_and_nothing_that_was_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    send("POST", "/change", [HOST, FORM], b"a=secret", b"b=secret")
    send("POST", "/secret", [HOST, FORM])
    send("POST", "/change", [HOST, FORM, (b"origin", b"https://secret.example")])
    said = capsys.readouterr().err
    assert "secret" not in said
    lines = said.splitlines()
    assert "page=change" in lines[0]
    assert "status=404" in lines[1]
    assert "refused=other_site" in lines[2]


@pytest.mark.parametrize(("path", "kind"), [("/change", FORM), ("/upload", FILE)])
def test_client_that_hangs_up_within_a_form_is_no_fault_of_ours(
    path: str, kind: tuple[bytes, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    answered, _, reached = send("POST", path, [HOST, kind], PART, gone=True)
    assert (answered, reached) == (400, [])
    assert "fault" not in capsys.readouterr().err
