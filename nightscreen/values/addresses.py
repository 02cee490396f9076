"""Validate email addresses, domain names and image addresses by their syntax.

Nothing here resolves a name or opens a socket. A domain is taken only from its own column, never
from an email address. An image address is refused if the service could not, or should not, fetch
it: by scheme, credentials, port and host.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import pyarrow.compute as pc

from nightscreen.values.issues import (
    ColumnRule,
    Validated,
    judged,
    matching,
    where,
    without_unseen,
)

if TYPE_CHECKING:
    from nightscreen.values.issues import Column

LONGEST_LOCAL = 64
LONGEST_DOMAIN = 253
LONGEST_CELL = 1000
PRIVATE_ENDING = "localhost|local|internal|intranet|lan|home|corp|private|localdomain|arpa"
"""Last labels of names that no public host has, as a pattern."""

LONGEST_URL = 2000  # a choice, see docs/checks.md: the service's specification names no length

# Names that do not exist in public DNS (RFC 2606, 6761, 6762, 7686, 8375, 9476). `.example` passes:
# fictional data use it.
_NEVER_PUBLIC = f"{PRIVATE_ENDING}|test|invalid|onion|alt"
_NOT_PUBLIC = re.compile(rf"(?:^|\.)(?:{_NEVER_PUBLIC})$")
_UNSAFE = re.compile(r"[\s\\\x00-\x1f\x7f<>\"{}|^`]")

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"(?:{_LABEL}\.)+(?:[A-Za-z]{{2,63}}|xn--[A-Za-z0-9-]{{1,59}})")
_PRIVATE = re.compile(rf"(?:^|\.)(?:{PRIVATE_ENDING})$")
_LOCAL_PART = re.compile(
    r"[^\s@\"(),:;<>\[\]\\\x00-\x1f\x7f.]+(?:\.[^\s@\"(),:;<>\[\]\\\x00-\x1f\x7f.]+)*"
)
_ORDINARY = (
    r"^[A-Za-z0-9_+-]{1,30}(?:\.[A-Za-z0-9_+-]{1,30})?@"
    r"(?:[A-Za-z0-9]{1,30}(?:-[A-Za-z0-9]{1,30})?\.){1,3}[A-Za-z]{2,24}$"
)
"""RE2 pattern of ordinary email addresses, far below all limits of length.

Without regard to case, RE2 would take some letters that are not ASCII.
"""
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SEVERAL = re.compile(r"\s*[,;/|]\s*|\s+")


def read_domain(text: str) -> str | None:
    """Return a public domain name in lower case and ASCII (IDNA); None if it is not one."""
    name = text.rstrip(".").lower()
    if len(name) > LONGEST_DOMAIN:
        return None
    try:
        ascii_name = name.encode("idna").decode("ascii").lower()
    except UnicodeError:
        return None
    is_valid = len(ascii_name) <= LONGEST_DOMAIN and _DOMAIN.fullmatch(ascii_name)
    return ascii_name if is_valid and not _PRIVATE.search(ascii_name) else None


def judge_email(text: str) -> Validated[str]:
    """Validate an email address; the value is in lower case, its domain in ASCII."""
    if len(text) > LONGEST_CELL:
        return judged(text, "email_malformed")
    bare = without_unseen(text)
    if bare.lower().startswith("mailto:"):
        bare = bare[len("mailto:") :]
    bare = bare.strip("<>").rstrip(".,;").strip()
    email = _read_email(bare)
    if email:
        return Validated(email) if bare == text else judged(email, "email_characters_removed")
    emails = [_read_email(part) for part in _SEVERAL.split(bare) if part]
    if not emails or None in emails:
        return judged(text, "email_malformed")
    return judged(emails[0], "email_first_of_several")


def sure_emails(text: Column) -> Column:
    """Return the values of ordinary email addresses, those of private hosts left out."""
    private = matching(text, rf"(?i)[@.](?:{PRIVATE_ENDING})$")
    return pc.utf8_lower(where(matching(text, _ORDINARY) & ~private, text))


EMAIL: Final = ColumnRule(judge_email, sure_emails)


def judge_domain(text: str) -> Validated[str]:
    """Validate a domain name; a web address is reduced to its domain."""
    bare = without_unseen(text).lower()
    if "@" in bare:
        return judged(text, "domain_malformed")
    host = re.split(r"[/?#:]", _SCHEME.sub("", bare), maxsplit=1)[0]
    shorter = host.removeprefix("www.")
    name = read_domain(shorter) or read_domain(host)
    if name is None:
        return judged(text, "domain_malformed")
    return Validated(name) if shorter == bare else judged(name, "domain_from_url")


DOMAIN: Final = ColumnRule(judge_domain)


def _read_email(text: str) -> str | None:
    local, at, domain = text.rpartition("@")
    if not at or len(local) > LONGEST_LOCAL or not _LOCAL_PART.fullmatch(local):
        return None
    name = read_domain(domain)
    return f"{local.lower()}@{name}" if name and not domain.endswith(".") else None


def judge_image_url(text: str) -> Validated[str]:
    """Validate an image address: https, no credentials, the name of a public host."""
    code = _image_issue(text)
    return judged(text, code) if code else Validated(text)


IMAGE_URL: Final = ColumnRule(judge_image_url)


def _image_issue(text: str) -> str:
    """Return the code of what is wrong with an image address; empty if nothing is."""
    try:
        parts = urlsplit(text)
        is_address = len(text) <= LONGEST_URL and not _UNSAFE.search(text) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        return "image_malformed"
    if parts.scheme != "https":
        return "image_not_https"
    if "@" in parts.netloc:
        return "image_credentials"
    name = read_domain(parts.hostname or "")
    return "image_host" if name is None or _NOT_PUBLIC.search(name) else ""
