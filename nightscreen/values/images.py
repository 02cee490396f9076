"""Image addresses: what the service could not, or should not, be sent to fetch.

Judged at intake by the address alone: scheme, credentials, port, host. No name is looked up and
nothing is fetched.
"""

from __future__ import annotations

import ipaddress
import re
from functools import partial
from urllib.parse import urlsplit

from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.rows import Action
from nightscreen.values.addresses import LONGEST_LOCAL, PRIVATE_ENDING, read_domain
from nightscreen.values.columns import Column, matching, text_length
from nightscreen.values.validators import Finding, Notes, Validated, judge_text

LONGEST_URL = 2000

_image = partial(Finding, action=Action.INVALID, flaw=Flaw.IMAGE)
IMAGE_NOT_HTTPS = _image(
    "image_not_https", "The image address must begin with https:// and be open to anyone."
)
IMAGE_CREDENTIALS = _image(
    "image_credentials", "The image address holds a user name or password; use an open link."
)
IMAGE_HOST = _image(
    "image_host", "The image address points to no public host, so the service cannot fetch it."
)
IMAGE_MALFORMED = _image("image_malformed", "This is no web address.")
IMAGE_PORT = _image("image_port", "The image address names port 0, which no server listens at.")

# Names that are nobody's in public DNS (RFC 2606, 6761, 6762, 7686, 8375, 9476). `.example` passes:
# made-up data lives there.
_NEVER_PUBLIC = f"{PRIVATE_ENDING}|test|invalid|onion|alt"
_NOBODYS = re.compile(rf"(?:^|\.)(?:{_NEVER_PUBLIC})$")
_PLAIN_URL = r"^https://(?:[a-z0-9]+(?:-[a-z0-9]+)*\.)+[a-z]{2,20}/[A-Za-z0-9._~/-]*$"
_UNSAFE = re.compile(r"[\s\\\x00-\x1f\x7f<>\"{}|^`]")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def judge_image_url(text: str) -> Validated[str]:
    """Judge an image address that is present: https, no credentials, a public host by its name."""
    finding = _finding(text)
    return Validated(text, (finding,) if finding else ())


def judge_image_urls(text: Column, notes: Notes) -> Column:
    """Return the image column after judging; a bad address keeps its text and its flaw."""
    short = text_length(text) <= LONGEST_LOCAL + LONGEST_LOCAL
    plain = matching(text, _PLAIN_URL, short) & ~matching(text, rf"\.(?:{_NEVER_PUBLIC})/")
    plain &= ~matching(text, rf"^https://[^/]{{{LONGEST_LOCAL},}}")
    return judge_text(text, plain, judge_image_url, "image_url", notes)


def is_public_name(host: str) -> bool:
    """Return whether a host is a name that may be in public DNS; an address is no name."""
    name = read_domain(host)
    return name is not None and not _NOBODYS.search(name)


def is_public_address(text: str) -> bool:
    """Return whether an address can be reached from anywhere.

    Private, loopback, link-local, shared (carrier) and unique local addresses cannot; multicast and
    reserved ones neither, nor those that only wrap an IPv4 address.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        wraps = address.ipv4_mapped or address.sixtofour or address.teredo or address in _NAT64
        if wraps or address.is_site_local or address.scope_id:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _finding(text: str) -> Finding | None:
    if len(text) > LONGEST_URL or _UNSAFE.search(text):
        return IMAGE_MALFORMED
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return IMAGE_MALFORMED
    if parts.scheme != "https":
        return IMAGE_NOT_HTTPS
    if "@" in parts.netloc:
        return IMAGE_CREDENTIALS
    if port == 0:
        return IMAGE_PORT
    host = parts.hostname or ""
    return None if is_public_name(host) or is_public_address(host) else IMAGE_HOST
