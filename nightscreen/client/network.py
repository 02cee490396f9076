"""How the service is reached: its address, a proxy if there is one, and trusted authorities.

Nothing is taken from the environment unless the settings say so. Sockets are opened in
`client/transport.py`.
"""

from __future__ import annotations

import base64
import re
import ssl
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

import httpx

from nightscreen.config.settings import is_loopback
from nightscreen.schemas.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.config.settings import Settings

ENVIRONMENT = "environment"
"""The setting that uses the environment's proxies, including `no_proxy`."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy through which a tunnel is opened."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)  # value of `Proxy-Authorization`, or empty

    @property
    def url(self) -> str:
        """Return the proxy's address, without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Network:
    """How this machine connects to others."""

    # `http://user:password@host:port`, `environment`, or empty for none
    proxy: str = field(default="", repr=False)
    ca_file: Path | None = None  # a bundle of authorities trusted beside those of the system

    @classmethod
    def of(cls, settings: Settings) -> Network:
        """Return the network that the settings describe."""
        return cls(settings.proxy.get_secret_value(), settings.ca_file)

    def proxy_to(self, url: httpx.URL) -> Proxy | None:
        """Return the proxy for an address; None for direct connections.

        A proxy on another machine cannot reach this machine's loopback; one on this machine can.
        Plain http is only used for a simulator on this machine, which needs no proxy.

        Raises:
            SettingsError: the environment's proxy is no address.
        """
        given = self.proxy
        if not given or url.scheme != "https":
            return None
        if given == ENVIRONMENT:
            if is_loopback(url.host) or urllib.request.proxy_bypass(url.host):
                return None
            proxies = urllib.request.getproxies()
            given = proxies.get(url.scheme) or proxies.get("all") or ""
            if not given:
                return None
            if "://" not in given:
                given = f"http://{given}"
        proxy = _parsed(given)
        return proxy if is_loopback(proxy.host) or not is_loopback(url.host) else None

    def context(self) -> ssl.SSLContext:
        """Return a TLS context that trusts certifi's, the system's and the file's authorities.

        Raises:
            SettingsError: the file cannot be read, or holds no certificate.
        """
        context = httpx.create_ssl_context(trust_env=False)
        context.load_default_certs()
        if self.ca_file is not None:
            try:
                context.load_verify_locations(cafile=self.ca_file)
            except ssl.SSLError:
                raise SettingsError(
                    f"CA_FILE {self.ca_file} holds no certificate; give a bundle in PEM form"
                ) from None
            except OSError as error:
                raise SettingsError(
                    f"CA_FILE {self.ca_file} cannot be read: {error.strerror}"
                ) from None
        return context


def _parsed(given: str) -> Proxy:
    try:
        url = httpx.URL(given)
    except (httpx.InvalidURL, ValueError):
        url = httpx.URL("")
    if url.scheme != "http" or not url.host:
        raise SettingsError("PROXY is no address of a proxy; write http://host:port")
    authorization = ""
    if url.userinfo:
        plain = unquote(url.userinfo.decode("ascii")).encode()
        authorization = f"Basic {base64.b64encode(plain).decode()}"
    return Proxy(url.host, url.port or 80, authorization)


# --- the address ---

_VERSION = re.compile(r"(?:/+v2)?/*$", re.IGNORECASE)
"""Matches the version at the end of a base address, which people paste with or without it."""


@dataclass(frozen=True, slots=True)
class Address:
    """A base address."""

    url: httpx.URL  # scheme, host and port, path `/`
    # path before that of each operation, without a slash at the end and without the version, which
    # is part of every operation's path; usually empty
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


def checked_key(key: str) -> str:
    """Return the service's key.

    Raises:
        SettingsError: it is missing, or no header can hold it; it is not shown.
    """
    if not key:
        raise SettingsError("API_KEY is not set: write the key the service issued to you into .env")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise SettingsError(
            "API_KEY holds a blank, a line end or a letter that no key has; copy it again from the "
            "service's console, nothing before or after it"
        )
    return key
