"""Whether the service can be reached, and whether it knows address and key; nothing is paid for.

`reach` makes a connection and closes it; `knock` asks for the list of loan products, which is free
and about nobody. All other calls are in `client/api.py`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from nightscreen.client import loans
from nightscreen.client.address import parse_address
from nightscreen.client.api import Client
from nightscreen.client.response_rules import load_response_rules
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.errors import SettingsError

_HTTPS, _HTTP = 443, 80
TIMEOUT_S = 5.0


def reach(base_url: str, *, timeout_s: float = TIMEOUT_S) -> str | None:
    """Connect to the service's address, with TLS where it is https; return what is in the way.

    Returns:
        None where it can be reached, else one sentence without the key or any identifier.
    """
    try:
        url = parse_address(base_url).url
    except SettingsError as error:
        return f"NIGHTSCREEN_{error}"
    port = url.port or (_HTTPS if url.scheme == "https" else _HTTP)
    try:
        with socket.create_connection((url.host, port), timeout_s) as connection:
            if url.scheme == "https":
                context = ssl.create_default_context()
                with context.wrap_socket(connection, server_hostname=url.host):
                    pass
    except OSError as error:
        return _in_the_way(error, f"{url.host}:{port}", timeout_s)
    return None


Knock = Callable[[str, str, Path | None], str | None]


def knock(
    base_url: str, api_key: str, manners: Path | None = None, *, timeout_s: float = TIMEOUT_S
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
        )
        async with client:
            trouble = (await client.send(loans.products())).trouble
        return None if trouble is None else trouble.value

    return asyncio.run(ask())


def _in_the_way(error: OSError, place: str, timeout_s: float) -> str:
    """Return in words what a connection failed by."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"{place} shows a certificate that is not trusted ({error.verify_message})"
        case ssl.SSLError():
            return f"{place} does not speak TLS ({error.reason or 'handshake failed'})"
        case socket.gaierror():
            return f"the name of {place} cannot be resolved"
        case TimeoutError():
            return f"{place} does not answer within {timeout_s:g} s"
        case _:
            return f"{place} cannot be reached ({error.strerror or type(error).__name__})"
