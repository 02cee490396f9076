"""The only module with sockets: persistent connections to the service, as an httpx transport.

A request is written once. Nothing here repeats a call, follows a redirect, reads the environment's
proxies or logs an address. A connection is an asyncio protocol; `httptools` (llhttp) parses the
responses. docs/adr/0004-a-transport-on-protocols.md says why no library's pool is used.

`client/classify.py` decides what a response means, `client/api.py` how long a call may take.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, cast

import httptools
import httpx

from nightscreen.client.network import Network

if TYPE_CHECKING:
    import ssl

    from nightscreen.client.network import Proxy

Transport = httpx.AsyncBaseTransport  # sends a request; tests pass another one

KEEPALIVE_S = 3.0
"""Idle connections are closed before the server closes them: a call sent at that moment would be in
doubt."""

HEAD_BYTES = 64 * 1024
"""Limit for a response's headers, and for anything that is neither header nor body."""

REST_S = 0.25
"""A connection is used again only after this long without a byte. An extra response usually follows
soon after another, and must not be taken for the answer to the next request."""

QUIET_S = 0.05
"""How long nothing may follow an answer that names nobody; otherwise it may be somebody else's."""

MOST_IDLE = 256
"""Most idle connections to one origin; a process may have only about a thousand open files."""

_SMALL_BYTES = 64 * 1024
"""A connection is closed after a longer request: TLS does not say whether all was written."""

_LENGTHS = frozenset({b"content-length", b"transfer-encoding"})
"""Headers that say where a body ends; if a response has both, the end is ambiguous."""

_CLOSING_S = 1.0  # longest wait for the event loop to close sockets; it takes milliseconds


@dataclass(slots=True)
class Departure:
    """Whether any byte of a request may have left this machine.

    Pass one to `Client.send` to know this even if the call was cancelled.
    """

    # the call may have reached the service; true until a transport that reports departures starts
    may_have_left: bool = True
    # the connection that carries the call, once it is known
    connection: Connection | None = field(default=None, repr=False)


class PooledTransport(httpx.AsyncBaseTransport):
    """Sends requests over persistent connections, one at a time on each, the longest idle first.

    A response is read completely before it is returned. Besides `connect` and `pool` of httpx's
    `timeout`, a request may have these extensions: `target`, the path to write instead of the
    URL's; `departure`, a `Departure` to update; `most_bytes`, after which reading a body stops (it
    is returned cut, a little longer than that).

    Args:
        connections: most calls in flight.
        ssl_context: TLS settings; by default those of `Network()`.
        proxy: tunnels connections to https addresses; None for direct connections.
    """

    def __init__(
        self,
        *,
        connections: int,
        ssl_context: ssl.SSLContext | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        self._room = asyncio.Semaphore(max(1, connections))
        self._given_context = ssl_context
        self._proxy = proxy
        self._idle: dict[_Origin, deque[Connection]] = {}
        self._open: set[Connection] = set()
        self._reached: dict[str, str] = {}
        self._closings = 0

    @cached_property
    def _context(self) -> ssl.SSLContext:
        """Return the TLS settings, made only for https: reading certificates takes 50 ms."""
        return self._given_context or Network().context()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Write a request once and return its response.

        Raises:
            httpx.TransportError: `ConnectError`, `ConnectTimeout`, `PoolTimeout` and `ProxyError`
                mean that nothing was sent; after any other the service may have acted.
        """
        extensions = request.extensions
        departure = extensions.get("departure") or Departure()
        departure.may_have_left = False
        timeout = extensions.get("timeout", {})
        written, closings = _written(request), self._closings
        await self._enter(timeout.get("pool"))
        try:
            origin = _Origin.of(request.url)
            connection = self._kept(origin) or await self._opened(
                request.url, timeout.get("connect")
            )
            if closings != self._closings:
                connection.close()
                raise httpx.ConnectError("Closed")
            departure.connection = connection
            response = await connection.exchange(written, departure, extensions.get("most_bytes"))
            idle = self._idle.setdefault(origin, deque())
            if not connection.closed and len(written) <= _SMALL_BYTES and len(idle) < MOST_IDLE:
                connection.idle_since = asyncio.get_running_loop().time()
                idle.append(connection)
            else:
                connection.close()
            return response
        finally:
            self._room.release()

    async def aclose(self) -> None:
        """Close every connection; calls waiting for one are not sent."""
        self._closings += 1
        self._idle.clear()
        for connection in self._open:
            connection.close()
        if self._open:
            await asyncio.wait([each.lost for each in self._open], timeout=_CLOSING_S)

    async def _enter(self, timeout_s: float | None) -> None:
        """Wait for a place among the calls in flight."""
        try:
            async with asyncio.timeout(timeout_s if self._room.locked() else None):
                await self._room.acquire()
        except TimeoutError:
            raise httpx.PoolTimeout("PoolTimeout") from None

    def _kept(self, origin: _Origin) -> Connection | None:
        """Return an idle connection that is open and has been silent for `REST_S`, or None."""
        idle, now = self._idle.get(origin), asyncio.get_running_loop().time()
        while idle and now - idle[0].idle_since >= REST_S:
            connection = idle.popleft()
            if now - connection.idle_since <= KEEPALIVE_S and connection.is_quiet():
                return connection
            connection.close()
        return None

    async def connect(self, url: httpx.URL, timeout_s: float | None) -> Connection:
        """Return a new connection to an address, through the proxy if there is one.

        Raises:
            OSError: the address cannot be reached in time, or is not trusted.
            httpx.ProxyError: the proxy refuses; the text is that of its answer.
        """
        origin = _Origin.of(url)
        async with asyncio.timeout(timeout_s) as limit:
            if origin.scheme != "https":
                return await self._reach(origin, limit)
            if self._proxy is None:
                return await self._reach(origin, limit, self._context)
            proxy = _Origin("http", self._proxy.host, self._proxy.port)
            reached = await self._reach(proxy, limit)
            return await reached.tunnel(origin, self._proxy.authorization, self._context)

    async def _opened(self, url: httpx.URL, timeout_s: float | None) -> Connection:
        try:
            connection = await self.connect(url, timeout_s)
        except TimeoutError:
            raise httpx.ConnectTimeout("ConnectTimeout") from None
        except (OSError, UnicodeError) as error:  # an invalid host name is a UnicodeError
            raise httpx.ConnectError(type(error).__name__) from None
        self._open.add(connection)
        connection.lost.add_done_callback(lambda _: self._open.discard(connection))
        return connection

    async def _reach(
        self,
        origin: _Origin,
        limit: asyncio.Timeout,
        context: ssl.SSLContext | None = None,
    ) -> Connection:
        """Connect to the first reachable address of a host, starting with the last good one.

        Each address gets its share of the time, so that one that never answers does not use it all
        up: uvloop does not try addresses in parallel.

        Raises:
            OSError: no address can be reached.
        """
        loop = asyncio.get_running_loop()
        host = origin.host
        infos = await loop.getaddrinfo(host, origin.port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in infos))
        addresses.sort(key=lambda address: address != self._reached.get(host))
        failure: OSError = ConnectionError("the host has no address")
        for number, address in enumerate(addresses):
            until, now = limit.when(), loop.time()
            share_s = None if until is None else (until - now) / (len(addresses) - number)
            try:
                async with asyncio.timeout(share_s):
                    _, made = await loop.create_connection(
                        Connection,
                        address,
                        origin.port,
                        ssl=context,
                        server_hostname=host if context else None,
                    )
            except OSError as error:
                failure = error
                continue
            self._reached[host] = address
            return made
        raise failure


class _Origin(NamedTuple):
    """Scheme, host and port that a connection leads to."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: httpx.URL) -> _Origin:
        """Return the origin of a URL."""
        host = url.raw_host.decode("ascii")  # the form that name servers and proxies know
        return cls(url.scheme, host, url.port or (443 if url.scheme == "https" else 80))


class Connection(asyncio.Protocol):
    """A connection: writes one request at a time and parses its response.

    Attributes:
        closed: no more requests may be written.
        surplus: data other than line ends arrived that answer no request.
        lost: done when the socket is closed.
        idle_since: loop time at which the last response was complete.
    """

    def __init__(self) -> None:
        self.closed = False
        self.surplus = False
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._poll = select.poll()
        self._parser = httptools.HttpResponseParser(self)
        # A malformed response may have been charged and is worth reading. Leniency can leave a rest
        # that looks like the next response; such a rest closes the connection (see below).
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_chunked_length=True,
            lenient_version=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._answer: asyncio.Future[httpx.Response] | None = None
        self._most_bytes: int | None = None
        self._asks_for_tunnel = False  # the answer has no body; the tunnel follows its headers
        self._clear()

    def _clear(self) -> None:
        self._reason = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()
        self._head_is_whole = False
        self._other_bytes = 0

    async def exchange(
        self, request: bytes, departure: Departure, most_bytes: int | None
    ) -> httpx.Response:
        """Write a request and return its response.

        Raises:
            httpx.ReadError: the connection was lost before the response was complete.
            httpx.RemoteProtocolError: the response is not HTTP.
        """
        if self._transport is None or self.closed:  # lost since it was chosen
            raise httpx.ConnectError("ConnectionLost")
        self._clear()
        self._most_bytes = most_bytes
        self._answer = answer = asyncio.get_running_loop().create_future()
        try:
            departure.may_have_left = True
            self._transport.write(request)
            response: httpx.Response = await answer
        except BaseException:
            self._answer = None
            self.close()
            raise
        finally:
            self._clear()
        if not self.closed and self._transport.get_write_buffer_size():
            self.close()  # answered before the whole request was written
        return response

    async def tunnel(
        self, origin: _Origin, authorization: str, context: ssl.SSLContext
    ) -> Connection:
        """Ask the proxy at the other end for a tunnel, and start TLS with the origin in it.

        Raises:
            httpx.ProxyError: the proxy refuses.
            OSError: the origin is not trusted.
        """
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        lines = [f"CONNECT {host}:{origin.port} HTTP/1.1", f"Host: {host}:{origin.port}"]
        lines += [f"Proxy-Authorization: {authorization}"] if authorization else []
        request = "\r\n".join((*lines, "", "")).encode("ascii")
        self._asks_for_tunnel = True
        try:
            answer = await self.exchange(request, Departure(), None)
        except httpx.TransportError:
            raise httpx.ProxyError("no HTTP answer") from None
        if not answer.is_success:
            self.close()
            reason = answer.extensions["reason_phrase"].decode("latin-1")
            raise httpx.ProxyError(f"{answer.status_code} {reason}".rstrip())
        inner, transport = Connection(), cast("asyncio.Transport", self._transport)
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport, inner, context, server_hostname=origin.host
            )
        except BaseException:
            self.close()
            raise
        if secured is None:  # the proxy has closed the connection
            self.close()
            raise ConnectionAbortedError
        inner.connection_made(secured)
        return inner

    def is_quiet(self) -> bool:
        """Return whether nothing, not even a close, has arrived since the last response.

        The socket itself is polled, because the event loop may not have seen the data yet.
        """
        transport = self._transport
        if self.closed or transport is None or transport.is_closing():
            return False
        return not self._poll.poll(0)

    async def stays_quiet(self) -> bool:
        """Wait briefly and return whether no data followed the last response; a close may."""
        for _ in range(2):  # again if data have arrived that the event loop has not seen yet
            if not self.closed:
                await asyncio.wait([self.lost], timeout=QUIET_S)
            if self.closed or self.is_quiet():
                break
        return not self.surplus

    def close(self) -> None:
        """Close at once; an orderly close would wait for a peer that may never answer."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    # asyncio calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, and register its socket for polling."""
        self._transport = cast("asyncio.Transport", transport)
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        """Parse data; data that belong to no request close the connection."""
        if self._answer is None:
            self.surplus = self.surplus or bool(data.strip(b"\r\n"))
            self.close()
            return
        known = len(self._headers), len(self._body)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.surplus = self._answer is None  # the response was complete; these data follow it
            self._fail(httpx.RemoteProtocolError("RemoteProtocolError"))
            return
        if self._answer is not None and known == (len(self._headers), len(self._body)):
            self._grow(len(data))

    def connection_lost(self, exc: Exception | None) -> None:
        """End a body that says no length of its own; any other response is cut.

        So is one whose connection we closed ourselves.
        """
        has_end = any(name.lower() in _LENGTHS for name, _ in self._headers)
        if exc is None and not self.closed and self._head_is_whole and not has_end:
            self._finish()
        self._fail(httpx.ReadError("ReadError"))
        if not self.lost.done():
            self.lost.set_result(None)

    # The parser calls these.

    def on_message_begin(self) -> None:
        """Close if a second response follows the first: the next request must not get it."""
        if self._answer is None:
            self.surplus = True
            self.close()

    def on_status(self, status: bytes) -> None:
        """Keep the reason phrase."""
        self._reason += status

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        self._headers.append((name, value))
        self._grow(len(name) + len(value))

    def on_headers_complete(self) -> None:
        """Record that the headers are complete."""
        self._head_is_whole = True
        if self._asks_for_tunnel and self._parser.get_status_code() >= httpx.codes.OK:
            self._finish()

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body; close the connection after `most_bytes`."""
        if self._answer is None:
            return
        self._body += body
        self._other_bytes = 0
        if self._most_bytes is not None and len(self._body) > self._most_bytes:
            self._finish()
            self.close()

    def on_message_complete(self) -> None:
        """Return the response to `exchange`, unless it is an interim one (1xx)."""
        if self._answer is None:
            return
        if self._parser.get_status_code() < httpx.codes.OK:
            other = self._other_bytes
            self._clear()
            self._other_bytes = other
            return
        names = {name.lower() for name, _ in self._headers}
        self._finish()
        if not self._parser.should_keep_alive() or names >= _LENGTHS:
            self.close()

    def _grow(self, number: int) -> None:
        self._other_bytes += number
        if self._other_bytes > HEAD_BYTES:
            self._fail(httpx.RemoteProtocolError("RemoteProtocolError"))

    def _finish(self) -> None:
        answer, self._answer = self._answer, None
        if answer is None or answer.done():
            return
        answer.set_result(
            httpx.Response(
                self._parser.get_status_code(),
                headers=self._headers,
                stream=httpx.ByteStream(bytes(self._body)),
                extensions={"reason_phrase": self._reason},
            )
        )

    def _fail(self, error: httpx.TransportError) -> None:
        answer, self._answer = self._answer, None
        self.close()
        if answer is not None and not answer.done():
            answer.set_exception(error)


def _written(request: httpx.Request) -> bytes:
    """Return the bytes of a request; its body is in memory.

    Raises:
        httpx.LocalProtocolError: a header or the path contains a line end or a null byte.
    """
    target = request.extensions.get("target") or request.url.raw_path
    head = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), target)]
    head += [b"%b: %b" % header for header in request.headers.raw]
    lines = b"\r\n".join(head)
    ends = 2 * (len(head) - 1)
    if lines.count(b"\r") + lines.count(b"\n") != ends or b"\0" in lines:
        raise httpx.LocalProtocolError("LocalProtocolError")  # it could forge another request
    return b"".join((lines, b"\r\n\r\n", *cast("httpx.ByteStream", request.stream)))
