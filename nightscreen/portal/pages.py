"""The pages as HTML, and the policy that goes with them: no script, one style, nothing from afar.

Words and looks are in `data/pages/portal/`; which page is shown is decided by the endpoints.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from markupsafe import Markup
from starlette.responses import HTMLResponse

from nightscreen.files.templates import html_templates
from nightscreen.schemas.shipped import DATA

if TYPE_CHECKING:
    from starlette.responses import Response

TEMPLATES = DATA / "pages" / "portal"
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_PHONE = re.compile(r"\+?[\d ()-]{7,20}")
_templates = cache(html_templates)


@cache
def style() -> str:
    """Return the style that every page carries."""
    return (TEMPLATES / "style.css").read_text("utf-8")


class Pages:
    """Writes pages in the lender's name; `contact` is where customers get help, it may be empty."""

    def __init__(self, name: str, contact: str) -> None:
        self._lender = {"name": name, "contact": contact, "contact_link": contact_link(contact)}

    def page(self, template: str, status: int = 200, **values: object) -> Response:
        """Return a page: its template, without ending, with the values it needs."""
        page = _templates(TEMPLATES).get_template(f"{template}.html.j2")
        css = Markup(style())  # noqa: S704 - a file of the package
        return HTMLResponse(page.render(lender=self._lender, style=css, **values), status)

    def trouble(self, kind: str, status: int, again: str = "") -> Response:
        """Return a page that says what went wrong and what the customer can do.

        Args:
            kind: a key of the template's table.
            status: of the answer.
            again: path to begin again at, where there is one.
        """
        return self.page("trouble", status, kind=kind, again=again)


def policy(forms_lead_to: str = "") -> str:
    """Return the content security policy of an answer.

    Args:
        forms_lead_to: origin a form may be redirected to, besides our own. That origin may redirect
            the browser again, to sign in elsewhere; browsers check each redirect against the
            policy.
    """
    digest = b64encode(sha256(style().encode()).digest()).decode()
    onward_to = f" {forms_lead_to} https:" if forms_lead_to else ""
    return (
        f"default-src 'none'; img-src 'self'; style-src 'sha256-{digest}'; "
        f"form-action 'self'{onward_to}; frame-ancestors 'none'; base-uri 'none'"
    )


def contact_link(contact: str) -> str:
    """Return the address behind a contact that is an email or a phone number, else nothing."""
    if _EMAIL.fullmatch(contact):
        return f"mailto:{contact}"
    if _PHONE.fullmatch(contact):
        return "tel:" + re.sub(r"[^\d+]", "", contact)
    return ""
