"""The client: sends one request and returns its result; and free tests of address and key.

`send` makes exactly one attempt and never raises an error for what the network or the service
does. Its callers count attempts and money, and decide whether a call may be paid for. Sockets are
in `client/transport.py`; the meaning of a response is in `client/classify.py`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

import httpx

from nightscreen.client import wire
from nightscreen.client.classify import CallOutcome, Classifier
from nightscreen.client.network import Network, checked_key, parse_address
from nightscreen.client.response_rules import (
    Break,
    ChargeStatus,
    Exchange,
    FailureReason,
    load_response_rules,
)
from nightscreen.client.transport import Departure, PooledTransport
from nightscreen.config.settings import TIMEOUTS_S
from nightscreen.schemas.checks import Operation, family_of
from nightscreen.schemas.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.client.response_rules import ResponseRules
    from nightscreen.schemas.requests import Request

CONNECT_TIMEOUT_S = 10.0  # also for waiting for the pool; a whole call may take longer
BODY_BYTES = 1024 * 1024  # size limit of a response; the largest known record is below 10 kB

BODY_BYTES_OF: Mapping[str, int] = {
    Operation.AGGREGATOR_TRANSACTIONS: 128 * BODY_BYTES,
    Operation.AGGREGATOR_ACCOUNTS: 16 * BODY_BYTES,
    Operation.LOAN_PRODUCTS: 16 * BODY_BYTES,
}
"""Size limits of lists, which are not paged; a transaction takes about 1 kB."""

LONGEST_RETRY_AFTER_S = 3600.0
ANY_ZLIB, RAW_DEFLATE = 47, -15
"""`wbits` of zlib: detect gzip or zlib format; and raw deflate without a zlib header."""

NAMELESS = frozenset({ChargeStatus.ANSWERED, ChargeStatus.UNREADABLE, ChargeStatus.NOT_CHARGED})
"""Verdicts that need a check when the answer names nobody. If more data follow it on the
connection, it may belong to another call, and this call's own answer may be lost but charged. The
call then counts as lost and is asked again."""

NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
LOGGERS = ("httpx", "httpcore")


class Client:
    """A typed client of the service (specification, areas A, B and C).

    Args:
        base_url: the service's address, https unless loopback; it may have a path.
        api_key: the key, sent as a bearer token (specification, authentication 6).
        timeouts_s: seconds for a whole call, by check and by family of the other operations.
        connections: most calls at a time; callers of `send` also have limits of their own.
        key_with_token: send the key together with a customer's token. The specification shows
            only the token; some clients were seen to send both.
        rules: what a response means; the default is the table in `data/`.
        network: proxy and trusted authorities; the default is no proxy and the system's.
        transport: another httpx transport, such as a fake.

    Raises:
        SettingsError: the address, the key or a setting is wrong.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeouts_s: Mapping[str, float] = TIMEOUTS_S,
        connections: int = 8,
        key_with_token: bool = False,
        rules: ResponseRules | None = None,
        network: Network | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        for name in LOGGERS:  # they log URLs, which contain identifiers
            logging.getLogger(name).setLevel(logging.WARNING)
        self._address = parse_address(base_url)
        self._headers = [
            (b"Host", self._address.url.netloc),
            (b"Authorization", f"Bearer {checked_key(api_key)}".encode()),
            (b"Accept", b"application/json"),
            (b"Accept-Encoding", b"identity"),
            (b"User-Agent", b"nightscreen"),
        ]
        self._key_with_token = key_with_token
        self._timeouts_s = timeouts_s
        self._classifier = Classifier(rules)
        network = network or Network()
        self._transport = transport or PooledTransport(
            connections=connections,
            ssl_context=network.context() if self._address.url.scheme == "https" else None,
            proxy=network.proxy_to(self._address.url),
        )

    def __repr__(self) -> str:
        """Show only the host."""
        return f"Client({self._address.url.host}, api_key=***)"

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close every connection."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    async def send(self, request: Request, departure: Departure | None = None) -> CallOutcome:
        """Make exactly one attempt and return its confirmed result.

        Never raises an error for what the network or the service does. It can be cancelled; a
        given `departure` then says whether the call may have reached the service.
        """
        outcome = await self.begin(request, departure)
        return outcome if outcome.confirm is None else await outcome.confirm()

    async def begin(self, request: Request, departure: Departure | None = None) -> CallOutcome:
        """Make exactly one attempt, like `send`, and return as soon as the service has answered.

        If the response names nobody, await `confirm` for the final result: when more data follow a
        response on its connection, it may be about somebody else.
        """
        departure = departure or Departure()
        outcome = self._classifier.read(request, await self._exchange(request, departure))
        connection = departure.connection
        if connection is None:
            return outcome
        if outcome.trouble is FailureReason.WRONG_IDENTITY:
            connection.close()  # the next answer on it would be somebody else's too
            return outcome
        if outcome.verdict not in NAMELESS or outcome.names_asked:
            return outcome

        async def confirm() -> CallOutcome:
            if await connection.stays_quiet():
                return outcome
            return self._classifier.read(request, Exchange(broken=Break.CUT))

        return replace(outcome, confirm=confirm)

    async def _exchange(self, request: Request, departure: Departure) -> Exchange:
        """Send a request and return the response; failures are returned, not raised."""
        try:
            async with asyncio.timeout(self._timeouts_s[family_of(request.operation)]):
                return await self._round_trip(request, departure)
        except NEVER_SENT:
            return Exchange(broken=Break.NOT_SENT)
        except (TimeoutError, httpx.TimeoutException):
            return Exchange(broken=Break.TIMEOUT if departure.may_have_left else Break.NOT_SENT)
        except (httpx.HTTPError, httpx.StreamError, OSError):
            return Exchange(broken=Break.CUT if departure.may_have_left else Break.NOT_SENT)

    async def _round_trip(self, request: Request, departure: Departure) -> Exchange:
        response = await self._transport.handle_async_request(self._written(request, departure))
        limit = BODY_BYTES_OF.get(request.operation, BODY_BYTES)
        stream = cast("httpx.AsyncByteStream", response.stream)
        try:
            body = b"".join([part async for part in stream])  # our transport stops after `limit`
        finally:
            await response.aclose()
        headers = response.headers
        wait_s = _seconds(_last(headers, "retry-after"), _last(headers, "date"))
        encoding = _last(headers, "content-encoding").lower()
        plain = None if len(body) > limit else _decoded(body, encoding, limit)
        if plain is None:
            return Exchange(response.status_code, body[:limit], broken=Break.TOO_LARGE)
        return Exchange(response.status_code, plain, retry_after_s=wait_s)

    def _written(self, request: Request, departure: Departure) -> httpx.Request:
        """Return the httpx request.

        Our own transport takes the path as an extension. So no URL has to be parsed for each call,
        and no URL contains an identifier.
        """
        extensions = {
            "timeout": {"connect": CONNECT_TIMEOUT_S, "pool": CONNECT_TIMEOUT_S},
            "departure": departure,
            "most_bytes": BODY_BYTES_OF.get(request.operation, BODY_BYTES),
        }
        path = self._address.prefix + request.path
        url = self._address.url
        if isinstance(self._transport, PooledTransport):
            extensions["target"] = path.encode("ascii")
        else:
            url = url.join(path)
        body = request.body
        headers = [*self._headers]
        if request.access_token:
            if not self._key_with_token:
                headers = [each for each in headers if each[0] != b"Authorization"]
            headers.append((b"x-access-token", request.access_token.encode("latin-1")))
        if body is not None:
            length = (b"Content-Length", str(len(body)).encode())
            headers += [(b"Content-Type", b"application/json"), length]
        return httpx.Request(
            request.method,
            url,
            headers=headers,
            stream=httpx.ByteStream(body or b""),
            extensions=extensions,
        )


def _decoded(body: bytes, encoding: str, limit: int) -> bytes | None:
    """Decompress a body, although we asked for none; None if it grows beyond the limit.

    Some servers send deflate without the zlib header that RFC 9110, 8.4.1.2, requires.
    """
    if encoding in ("", "identity"):
        return body
    for form in (ANY_ZLIB, RAW_DEFLATE) if encoding == "deflate" else (ANY_ZLIB,):
        try:
            plain = zlib.decompressobj(form).decompress(body, limit + 1)
        except zlib.error:
            continue
        return None if len(plain) > limit else plain
    return body


def _last(headers: httpx.Headers, name: str) -> str:
    """Return a header's value, empty if absent; the last one if a proxy has repeated it."""
    return (headers.get_list(name) or [""])[-1].strip()


def _seconds(wait: str, sent_at: str) -> float | None:
    """Return the seconds a `Retry-After` asks for; it may be a number or a date.

    A date is compared with the response's own `Date`, because the server's clock may be wrong by
    days; our clock is used only if the response has none.
    """
    if not wait:
        return None
    if wait.isascii() and wait.isdigit():
        return min(float(wait[:9]), LONGEST_RETRY_AFTER_S)
    until = _instant(wait)
    if until is None:
        return None
    left_s = (until - (_instant(sent_at) or datetime.now(UTC))).total_seconds()
    return min(max(0.0, left_s), LONGEST_RETRY_AFTER_S)


def _instant(text: str) -> datetime | None:
    """Return an HTTP date as a datetime; None if Python cannot represent it."""
    try:
        at = parsedate_to_datetime(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


# --- free tests: nothing is asked about anybody ---

PROBE_TIMEOUT_S = 5.0  # half of that of a call, because somebody waits for the result


def diagnose_connection(base_url: str, *, network: Network) -> str | None:
    """Connect to the service's address, with TLS if it is https, and return what went wrong.

    Returns:
        None if it can be reached, else one sentence without the key or any identifier.
    """
    try:
        url = parse_address(base_url).url
        proxy, context = network.proxy_to(url), network.context()
    except SettingsError as error:
        return f"NIGHTSCREEN_{error}"
    place = f"{url.host}:{url.port or (443 if url.scheme == 'https' else 80)}"

    async def connect() -> None:
        transport = PooledTransport(connections=1, ssl_context=context, proxy=proxy)
        (await transport.connect(url, PROBE_TIMEOUT_S)).close()

    try:
        asyncio.run(connect())
    except httpx.ProxyError as error:
        at = "" if proxy is None else proxy.url
        return f"the proxy {at} does not lead to {place} ({str(error)[:80]})"
    except (OSError, UnicodeError) as error:
        through = proxy is not None and not isinstance(error, ssl.SSLError)
        at = f"the proxy {proxy.url}" if proxy is not None and through else place
        return _explain_failure(error, at)
    return None


ServiceProbe = Callable[[str, str, Path | None], str | None]


def probe_service(
    base_url: str, api_key: str, manners: Path | None, *, network: Network
) -> str | None:
    """Make the one free call and return its trouble, such as `address` or `auth`; None for none.

    Raises:
        SettingsError: the address, the key or the table of response rules is malformed.
    """

    async def ask() -> str | None:
        client = Client(
            base_url,
            api_key,
            timeouts_s=TIMEOUTS_S | {"loans": PROBE_TIMEOUT_S},
            connections=1,
            rules=load_response_rules(manners),
            network=network,
        )
        async with client:
            trouble = (await client.send(wire.loan_products())).trouble
        return None if trouble is None else trouble.value

    return asyncio.run(ask())


def _explain_failure(error: Exception, place: str) -> str:
    """Return in words why a connection failed."""
    match error:
        case ssl.SSLCertVerificationError(verify_code=62):  # X509_V_ERR_HOSTNAME_MISMATCH
            return f"{place} shows a certificate for another host ({error.verify_message})"
        case ssl.SSLCertVerificationError():
            return f"{place} shows a certificate that is not trusted ({error.verify_message})"
        case ssl.SSLError():
            return f"{place} does not use TLS ({error.reason or 'handshake failed'})"
        case socket.gaierror() | UnicodeError():
            return f"the name of {place} cannot be resolved"
        case TimeoutError():
            return f"{place} does not answer within {PROBE_TIMEOUT_S:g} s"
        case _:
            reason = getattr(error, "strerror", None) or type(error).__name__
            return f"{place} cannot be reached ({reason})"
