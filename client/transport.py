"""The one module with sockets: small connection pools side by side, under the httpx interface.

A request is written once. Nothing here repeats a call, follows a redirect, reads the environment's
proxies or logs an address. httpcore2 repeats nothing either once a byte may have left; it picks
another connection only if the first was found closed before writing.

What does not belong here: what a response means (`client/classify.py`) and how long a call may take
(`client/api.py`).
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpcore2
import httpx

from nightscreen.client.network import Network

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Iterable, Mapping

    from nightscreen.client.network import Proxy

Transport = httpx.AsyncBaseTransport
"""Sends a request; tests pass another one."""

POOL_CONNECTIONS = 10
"""Connections of one pool; docs/client.md has the measurements behind the number."""

KEEPALIVE_S = 3.0
"""Idle connections are dropped before servers drop them: a call lost to that race is in doubt."""

ERRORS: Mapping[type[Exception], type[httpx.TransportError]] = {
    httpcore2.ConnectError: httpx.ConnectError,
    httpcore2.ConnectTimeout: httpx.ConnectTimeout,
    httpcore2.PoolTimeout: httpx.PoolTimeout,
    httpcore2.ReadError: httpx.ReadError,
    httpcore2.ReadTimeout: httpx.ReadTimeout,
    httpcore2.WriteError: httpx.WriteError,
    httpcore2.WriteTimeout: httpx.WriteTimeout,
    httpcore2.RemoteProtocolError: httpx.RemoteProtocolError,
    httpcore2.LocalProtocolError: httpx.LocalProtocolError,
    httpcore2.UnsupportedProtocol: httpx.UnsupportedProtocol,
    httpcore2.ProxyError: httpx.ProxyError,
}
ERROR_ROOTS = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.UnsupportedProtocol,
    httpcore2.ProxyError,
    OSError,
)


@dataclass(slots=True)
class Departure:
    """Whether any byte of a request may have left this machine.

    Give one to `Client.send` to know it even where the call was cancelled.

    Attributes:
        watched: a transport that reports departures has taken the call up.
        left: it has begun to write the request.
        tls_layers: layers of TLS under which the request is written; what a proxy is asked for
            before them is not the request.
    """

    watched: bool = False
    left: bool = False
    tls_layers: int = 0

    @property
    def may_have_left(self) -> bool:
        """Return whether the call may have reached the service; unwatched calls may always."""
        return self.left or not self.watched


_departing: ContextVar[Departure | None] = ContextVar("departing", default=None)


class StripedTransport(httpx.AsyncBaseTransport):
    """Hands each request to the least busy of several small httpcore2 pools.

    A request may carry two extensions besides httpx's `timeout`: `target`, the path to write in
    place of the URL's own, and `departure`, a `Departure` to be kept up to date.

    Args:
        connections: the most calls in flight; rounded up to whole pools.
        ssl_context: TLS settings, shared by all pools; those of `Network()` where left out.
        proxy: asked for a tunnel to an https address; None: a direct connection.
        pool_connections: connections of one pool.
        keepalive_s: seconds an idle connection is kept.
    """

    def __init__(
        self,
        *,
        connections: int,
        ssl_context: ssl.SSLContext | None = None,
        proxy: Proxy | None = None,
        pool_connections: int = POOL_CONNECTIONS,
        keepalive_s: float = KEEPALIVE_S,
    ) -> None:
        count = max(1, -(-connections // pool_connections))
        size = max(1, -(-connections // count))
        context = ssl_context or Network().context()
        self._tunnelled = proxy is not None
        self._pools = [
            httpcore2.AsyncConnectionPool(
                ssl_context=context,
                proxy=_core_proxy(proxy),
                max_connections=size,
                keepalive_expiry=keepalive_s,
                network_backend=_WatchedBackend(),
            )
            for _ in range(count)
        ]
        self._busy = [0] * count

    def __repr__(self) -> str:
        """Show the load."""
        return f"StripedTransport({len(self._pools)} pools, {sum(self._busy)} calls)"

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Write a request once and return its response as soon as the head is there.

        Raises:
            httpx.TransportError: `ConnectError`, `ConnectTimeout` and `PoolTimeout` mean that
                nothing was sent; anything else that the service may have acted.
        """
        number = self._busy.index(min(self._busy))
        self._busy[number] += 1
        departure = request.extensions.get("departure") or Departure()
        departure.watched = True
        departure.tls_layers = int(self._tunnelled)
        token = _departing.set(departure)
        try:
            response = await self._pools[number].handle_async_request(_core_request(request))
        except BaseException as error:
            self._busy[number] -= 1
            if isinstance(error, ERROR_ROOTS):
                raise _as_httpx(error, departure) from None
            raise
        finally:
            _departing.reset(token)
        return httpx.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_Body(self, number, response, departure),
            extensions=dict(response.extensions),
        )

    async def aclose(self) -> None:
        """Close every connection."""
        for pool in self._pools:
            await pool.aclose()

    def release(self, number: int) -> None:
        """Note that a pool has one call less."""
        self._busy[number] -= 1


class _Body(httpx.AsyncByteStream):
    """The body of a response; frees its place in the pool when closed."""

    def __init__(
        self,
        transport: StripedTransport,
        number: int,
        response: httpcore2.Response,
        departure: Departure,
    ) -> None:
        self._transport = transport
        self._number = number
        self._response = response
        self._departure = departure
        self._open = True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_stream():
                yield chunk
        except ERROR_ROOTS as error:
            raise _as_httpx(error, self._departure) from None

    async def aclose(self) -> None:
        if self._open:
            self._open = False
            self._transport.release(self._number)
            await self._response.aclose()


class _WatchedStream(httpcore2.AsyncNetworkStream):
    """A connection that notes when the call at hand begins to write."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream, tls_layers: int = 0) -> None:
        self._stream = stream
        self._tls_layers = tls_layers
        self.read = stream.read  # type: ignore[method-assign]
        self.aclose = stream.aclose  # type: ignore[method-assign]
        self.get_extra_info = stream.get_extra_info  # type: ignore[method-assign]

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        departure = _departing.get()
        if departure is not None and self._tls_layers >= departure.tls_layers:
            departure.left = True
        await self._stream.write(buffer, timeout)

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        try:
            secured = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            await self._stream.aclose()
            raise
        return _WatchedStream(secured, self._tls_layers + 1)


class _WatchedBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections that note when a call begins to write."""

    def __init__(self) -> None:
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        stream = await self._backend.connect_tcp(host, port, timeout, local_address, socket_options)
        return _WatchedStream(stream)

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


def _core_proxy(proxy: Proxy | None) -> httpcore2.Proxy | None:
    if proxy is None:
        return None
    shown = [("proxy-authorization", proxy.authorization)] if proxy.authorization else []
    return httpcore2.Proxy(proxy.url, headers=shown)


def _core_request(request: httpx.Request) -> httpcore2.Request:
    url = request.url
    return httpcore2.Request(
        method=request.method,
        url=httpcore2.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
        ),
        headers=request.headers.raw,
        content=request.stream,
        extensions=request.extensions,
    )


def _as_httpx(error: Exception, departure: Departure) -> httpx.TransportError:
    """Return httpx's own error; its text is only the kind, since others may quote a request."""
    kind = ERRORS.get(type(error))
    if kind is None:
        kind = httpx.ReadError if departure.left else httpx.ConnectError
    return kind(type(error).__name__)
