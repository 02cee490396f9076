"""The sandbox's web pages: Jinja templates, and the headers that go with them.

`consent_flow` and `loans` decide which page is shown and what is in it. No page has a script,
and whatever came with a request is escaped.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from nightscreen.sandbox.wire import Reply

HTML: Final = b"text/html; charset=utf-8"


_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("nightscreen.sandbox"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(template: str, **values: object) -> bytes:
    """Write a page; letters that have no place in UTF-8 become question marks."""
    return _ENVIRONMENT.get_template(template).render(values).encode("utf-8", "replace")


def secure_headers(style: str, onward: str = "") -> tuple[tuple[bytes, bytes], ...]:
    """Return headers that let a browser do nothing but show the page and send its form.

    Args:
        style: file with the page's only style sheet.
        onward: origin to which the form's answer may lead; browsers hold a form's redirect
            against the policy too.
    """
    source = _ENVIRONMENT.get_template(style).render()
    digest = b64encode(sha256(source.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; "
        f"form-action 'self'{f' {onward}' if onward else ''}; "
        "frame-ancestors 'none'; base-uri 'none'"
    )
    return (
        (b"content-security-policy", policy.encode()),
        (b"referrer-policy", b"no-referrer"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"cache-control", b"no-store"),
    )


def page_reply(status: int, body: bytes, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Reply:
    """Make an answer of a page."""
    return Reply(status, body, HTML, headers)
