"""Image addresses: what the service could not, or should not, be sent to fetch.

Syntax is judged at intake: scheme, credentials, port, host. A host's name is looked up only when a
lookup for a photograph is really needed. We never fetch one ourselves. Names are looked up by
`client/resolving.py`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nightscreen.client.resolving import Resolver, resolve_hosts
from nightscreen.schemas.rows import Action, Flaw
from nightscreen.steps.values.addresses import LONGEST_LOCAL, PRIVATE_ENDING, read_domain
from nightscreen.steps.values.columns import Column, matching, text_length
from nightscreen.steps.values.validators import Finding, Notes, Validated, judge_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
IMAGE_HOST_UNKNOWN = _image(
    "image_host_unknown",
    "There is no host of this name in public DNS, so the service cannot fetch the image; correct "
    "the address.",
)
IMAGE_HOST_PRIVATE = _image(
    "image_host_private",
    "The host's name leads to an address that is not public, so the service cannot fetch the "
    "image; put it where anyone can open it.",
)

# Names that are nobody's in public DNS (RFC 2606, 6761, 6762, 7686, 8375, 9476). `.example` passes:
# made-up data lives there; where names are looked up, it is found not to exist.
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


@dataclass(frozen=True, slots=True)
class ImageJudge:
    """Looks up the hosts of images that need a lookup, and returns which cannot be fetched.

    "No such name" counts only if another name was found: a name server without access to the
    internet says so of every name. A host that cannot be checked is assumed to exist, with one
    message.

    Attributes:
        resolve: looks up one host name.
        patience_s: seconds to wait for all of them.
        notify: gets a sentence when a host was assumed to exist.
        witness: the service's own host, which exists whenever the service can be reached.
    """

    resolve: Resolver
    patience_s: float
    notify: Callable[[str], object]
    witness: str = ""

    def __call__(self, urls: Sequence[str]) -> dict[str, Finding]:
        """Return a finding for each address, of those that passed intake, that has one."""
        hosts = {url: host for url in urls if (host := read_domain(urlsplit(url).hostname or ""))}
        asked = [self.witness] if hosts and is_public_name(self.witness) else []
        names = list(dict.fromkeys([*asked, *sorted(set(hosts.values()))]))
        found = resolve_hosts(names, self.resolve, patience_s=self.patience_s)
        outside = any(_all_public(addresses) for addresses in found.values() if addresses)
        unsure = {
            host for host, exists in found.items() if exists is None or not (exists or outside)
        }
        untold = sum(host in unsure for host in hosts.values())
        if untold:
            self.notify(
                f"{untold} image addresses could not be looked up from this machine and were taken "
                "on trust; see NIGHTSCREEN_RESOLVE_IMAGES_S"
            )
        sure = {url: found[host] or () for url, host in hosts.items() if host not in unsure}
        return {
            url: IMAGE_HOST_PRIVATE if addresses else IMAGE_HOST_UNKNOWN
            for url, addresses in sure.items()
            if not addresses or not _all_public(addresses)
        }


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


def _all_public(addresses: Sequence[str]) -> bool:
    return all(is_public_address(address) for address in addresses)


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
