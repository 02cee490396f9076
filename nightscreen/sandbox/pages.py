"""The sandbox's web pages: Jinja templates, and the headers that go with them.

`consent_flow` and `loans` decide which page is shown and what is in it. No page has a script,
and whatever came with a request is escaped.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import Final

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("nightscreen.sandbox"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def page(template: str, *, status: int = 200, onward: str = "", **values: object) -> HTMLResponse:
    """Write a page; letters that have no place in UTF-8 become question marks.

    Args:
        template: file of the page.
        status: HTTP status.
        onward: origin to which the form's answer may lead.
        values: what is shown.
    """
    body = _ENVIRONMENT.get_template(template).render(values).encode("utf-8", "replace")
    return HTMLResponse(body, status, headers=secure_headers(onward))


def secure_headers(onward: str = "") -> dict[str, str]:
    """Return headers that let a browser do nothing but show a page and send its form.

    Browsers hold a form's redirect against the policy too, so it names where the answer may lead.
    """
    style = _ENVIRONMENT.get_template("page.css").render().encode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{b64encode(sha256(style).digest()).decode()}'; "
        f"form-action 'self'{f' {onward}' if onward else ''}; "
        "frame-ancestors 'none'; base-uri 'none'"
    )
    return {
        "content-security-policy": policy,
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "cache-control": "no-store",
    }
