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
    from jinja2 import Environment
    from starlette.responses import Response

    from nightscreen.portal.config import PortalConfig

TEMPLATES = DATA / "pages" / "portal"
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_PHONE = re.compile(r"\+?[\d ()-]{7,20}")
_STYLE = "style.css"


@cache
def _environment() -> Environment:
    return html_templates(TEMPLATES)


@cache
def style() -> str:
    """Return the style that every page carries."""
    return (TEMPLATES / _STYLE).read_text("utf-8")


@cache
def icon() -> str:
    """Return the small picture that browsers show beside the title."""
    return (TEMPLATES / "icon.svg").read_text("utf-8")


@cache
def _style_digest() -> str:
    return b64encode(sha256(style().encode()).digest()).decode()


class Pages:
    """Writes pages in the lender's name."""

    def __init__(self, place: PortalConfig) -> None:
        self._place = place

    def page(self, name: str, status: int = 200, **values: object) -> Response:
        """Return a page.

        Args:
            name: its template, without ending.
            status: of the answer.
            values: the values that the template needs.
        """
        text = (
            _environment()
            .get_template(f"{name}.html.j2")
            .render(
                place=self._place,
                style=Markup(style()),  # noqa: S704 - a file of the package
                contact_link=contact_link(self._place.contact),
                **values,
            )
        )
        return HTMLResponse(text, status)

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
    onward_to = f" {forms_lead_to} https:" if forms_lead_to else ""
    return (
        f"default-src 'none'; img-src 'self'; style-src 'sha256-{_style_digest()}'; "
        f"form-action 'self'{onward_to}; frame-ancestors 'none'; base-uri 'none'"
    )


def contact_link(contact: str) -> str:
    """Return the address behind a contact that is an email or a phone number, else nothing."""
    if _EMAIL.fullmatch(contact):
        return f"mailto:{contact}"
    if _PHONE.fullmatch(contact):
        return "tel:" + re.sub(r"[^\d+]", "", contact)
    return ""
