"""Where the service is: the base address, checked and split once.

What does not belong here: paths of operations (`client/wire.py`) and sockets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address

import httpx

from nightscreen.schemas.errors import SettingsError

_VERSION = re.compile(r"(?:/+v2)?/*$", re.IGNORECASE)
"""People paste the base address with the version or without; both mean the same service."""


@dataclass(frozen=True, slots=True)
class Address:
    """A base address.

    Attributes:
        url: scheme, host and port, path `/`.
        prefix: path before each operation's own, without a slash at its end and without the
            version, which every operation's path has itself; mostly empty.
    """

    url: httpx.URL
    prefix: str


def parse_address(base_url: str) -> Address:
    """Return a checked base address.

    Raises:
        SettingsError: it is no http address, is not https though not loopback, or holds more than
            host, port and path.
    """
    try:
        url = httpx.URL(base_url.strip())
    except (httpx.InvalidURL, ValueError):
        raise SettingsError(
            "BASE_URL is no address; write https://host or https://host/path"
        ) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise SettingsError("BASE_URL is no http address; write https://host or https://host/path")
    if url.userinfo or url.query or url.fragment:
        raise SettingsError("BASE_URL may hold host, port and path only; the key goes in API_KEY")
    if url.scheme == "http" and not is_loopback(url.host):
        raise SettingsError("BASE_URL must be https: only a loopback address may be http")
    path = url.raw_path.decode("ascii")
    return Address(url.copy_with(path="/"), _VERSION.sub("", path).rstrip("/"))


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
