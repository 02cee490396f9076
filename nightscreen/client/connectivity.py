"""Free tests: can the service be reached, and does it accept the address and the key?

`diagnose_connection` opens a connection and closes it. `probe_service` asks for the list of loan
products, which is free and about nobody. All other calls are in `client/api.py`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import httpx

from nightscreen.client import wire
from nightscreen.client.api import Client
from nightscreen.client.network import Network, parse_address
from nightscreen.client.response_rules import load_response_rules
from nightscreen.client.transport import PooledTransport
from nightscreen.config.settings import TIMEOUTS_S
from nightscreen.schemas.errors import SettingsError

TIMEOUT_S = 5.0  # half of `CONNECT_TIMEOUT_S` of a call, because somebody waits for the result


def diagnose_connection(
    base_url: str, *, timeout_s: float = TIMEOUT_S, network: Network | None = None
) -> str | None:
    """Connect to the service's address, with TLS if it is https, and return what went wrong.

    Returns:
        None if it can be reached, else one sentence without the key or any identifier.
    """
    network = network or Network()
    try:
        url = parse_address(base_url).url
        proxy, context = network.proxy_to(url), network.context()
    except SettingsError as error:
        return f"NIGHTSCREEN_{error}"
    place = f"{url.host}:{url.port or (443 if url.scheme == 'https' else 80)}"

    async def connect() -> None:
        transport = PooledTransport(connections=1, ssl_context=context, proxy=proxy)
        (await transport.connect(url, timeout_s)).close()

    try:
        asyncio.run(connect())
    except httpx.ProxyError as error:
        at = "" if proxy is None else proxy.url
        return f"the proxy {at} does not lead to {place} ({str(error)[:80]})"
    except (OSError, UnicodeError) as error:
        through = proxy is not None and not isinstance(error, ssl.SSLError)
        at = f"the proxy {proxy.url}" if proxy is not None and through else place
        return _explain_failure(error, at, timeout_s)
    return None


ServiceProbe = Callable[[str, str, Path | None], str | None]


def probe_service(
    base_url: str,
    api_key: str,
    manners: Path | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
    network: Network | None = None,
) -> str | None:
    """Make the one free call and return its trouble, such as `address` or `auth`; None for none.

    Raises:
        SettingsError: the address, the key or the table of response rules is malformed.
    """

    async def ask() -> str | None:
        client = Client(
            base_url,
            api_key,
            timeouts_s=TIMEOUTS_S | {"loans": timeout_s},
            connections=1,
            rules=load_response_rules(manners),
            network=network,
        )
        async with client:
            trouble = (await client.send(wire.loan_products())).trouble
        return None if trouble is None else trouble.value

    return asyncio.run(ask())


def _explain_failure(error: Exception, place: str, timeout_s: float) -> str:
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
            return f"{place} does not answer within {timeout_s:g} s"
        case _:
            reason = getattr(error, "strerror", None) or type(error).__name__
            return f"{place} cannot be reached ({reason})"
