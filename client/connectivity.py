"""Whether the service can be reached, and whether it knows address and key; nothing is paid for.

`reach` makes a connection and closes it; `knock` asks for the list of loan products, which is free
and about nobody. All other calls are in `client/api.py`.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from nightscreen.client import loans
from nightscreen.client.address import parse_address
from nightscreen.client.api import Client
from nightscreen.client.network import Network, Proxy
from nightscreen.client.response_rules import load_response_rules
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.errors import SettingsError

_HTTPS, _HTTP = 443, 80
TIMEOUT_S = 5.0
_LONGEST_HEAD = 8192


def reach(
    base_url: str, *, timeout_s: float = TIMEOUT_S, network: Network | None = None
) -> str | None:
    """Connect to the service's address, with TLS where it is https; return what is in the way.

    Returns:
        None if it can be reached, else one sentence without the key or any identifier.
    """
    way = network or Network()
    try:
        url = parse_address(base_url).url
        proxy, context = way.proxy_to(url), way.context()
    except SettingsError as error:
        return f"NIGHTSCREEN_{error}"
    port = url.port or (_HTTPS if url.scheme == "https" else _HTTP)
    place = f"{url.host}:{port}"
    try:
        with _connected(proxy, url.host, port, timeout_s) as connection:
            if url.scheme == "https":
                with context.wrap_socket(connection, server_hostname=url.host):
                    pass
    except _RefusedByProxyError as refused:
        return f"the proxy {proxy.url if proxy else ''} does not lead to {place} ({refused})"
    except OSError as error:
        through = proxy is not None and not isinstance(error, ssl.SSLError)
        at = f"the proxy {proxy.url}" if proxy is not None and through else place
        return _in_the_way(error, at, timeout_s)
    return None


class _RefusedByProxyError(Exception):
    """The proxy gives no tunnel; the text is its status line."""


def _connected(proxy: Proxy | None, host: str, port: int, timeout_s: float) -> socket.socket:
    """Return a connection to a host, through a tunnel of the proxy where there is one."""
    if proxy is None:
        return socket.create_connection((host, port), timeout_s)
    connection = socket.create_connection((proxy.host, proxy.port), timeout_s)
    try:
        lines = [f"CONNECT {host}:{port} HTTP/1.1", f"Host: {host}:{port}"]
        if proxy.authorization:
            lines.append(f"Proxy-Authorization: {proxy.authorization}")
        connection.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
        head = b""
        while b"\r\n\r\n" not in head and len(head) < _LONGEST_HEAD:
            part = connection.recv(1)  # not a byte of what follows may be taken
            if not part:
                break
            head += part
    except BaseException:
        connection.close()
        raise
    status = head.split(b"\r\n")[0].decode("ascii", "replace")
    if not re.match(r"HTTP/1\.[01] 2\d\d\b", status):
        connection.close()
        raise _RefusedByProxyError(status[:80] or "it hung up")
    return connection


Knock = Callable[[str, str, Path | None], str | None]


def knock(
    base_url: str,
    api_key: str,
    manners: Path | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
    network: Network | None = None,
) -> str | None:
    """Return the trouble that the one free question meets: `address`, `auth`, ...; None for none.

    Raises:
        SettingsError: the address or the key is malformed, or the table of manners is.
    """

    async def ask() -> str | None:
        timeouts_s = {Operation.LOAN_PRODUCTS: timeout_s}
        client = Client(
            base_url,
            api_key,
            timeouts_s=timeouts_s,
            max_in_flight=1,
            manners=load_response_rules(manners),
            network=network,
        )
        async with client:
            trouble = (await client.send(loans.products())).trouble
        return None if trouble is None else trouble.value

    return asyncio.run(ask())


def _in_the_way(error: OSError, place: str, timeout_s: float) -> str:
    """Return in words what a connection failed by."""
    match error:
        case ssl.SSLCertVerificationError(verify_code=62):  # X509_V_ERR_HOSTNAME_MISMATCH
            return f"{place} shows a certificate for another host ({error.verify_message})"
        case ssl.SSLCertVerificationError():
            return f"{place} shows a certificate that is not trusted ({error.verify_message})"
        case ssl.SSLError():
            return f"{place} does not use TLS ({error.reason or 'handshake failed'})"
        case socket.gaierror():
            return f"the name of {place} cannot be resolved"
        case TimeoutError():
            return f"{place} does not answer within {timeout_s:g} s"
        case _:
            return f"{place} cannot be reached ({error.strerror or type(error).__name__})"
