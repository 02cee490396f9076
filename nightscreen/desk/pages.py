"""Renders the desk's pages as HTML: templates, and formats of values.

Texts and styles are in `data/pages/desk/`. Times are those of Lagos; naira have separators of
thousands.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from starlette.responses import HTMLResponse

from nightscreen.files.templates import html_templates
from nightscreen.report.format import TITLES
from nightscreen.schemas.clock import LAGOS, MICROS, to_instant
from nightscreen.schemas.money import from_micro
from nightscreen.schemas.shipped import DATA

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jinja2 import Environment
    from starlette.responses import Response

TEMPLATES: Final = DATA / "pages" / "desk"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
REPORT_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "frame-ancestors 'self'; base-uri 'none'; sandbox allow-popups allow-downloads "
    "allow-popups-to-escape-sandbox"
)
"""For a report: one file with its own style and no script, shown inside one of our pages."""
NOTHING: Final = "\N{EN DASH}"
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


@cache
def environment() -> Environment:
    """Return the template environment."""
    found = html_templates(TEMPLATES)
    found.filters |= {
        "check": lambda name: TITLES.get(str(name)) or words(name),
        "naira": naira,
        "micro": micro,
        "count": count,
        "lagos": lagos,
        "age": age,
        "words": words,
        "plainly": lambda text: text.partition(" (NIGHTSCREEN_")[0],
        "rows": lambda number: f"{count(number)} {'row' if number == 1 else 'rows'}",
        "path": lambda text: quote(str(text), safe=""),
    }
    found.globals |= {"query": query}
    return found


def html(template: str, status: int = 200, **values: object) -> Response:
    """Return a page."""
    text = environment().get_template(f"{template}.html.j2").render(**values)
    return HTMLResponse(text, status)


def naira(amount: object) -> str:
    """Return naira with thousands, kobo only where there are some."""
    if amount is None or amount == "":
        return "unknown"
    value = Decimal(str(amount))
    whole = value == value.to_integral_value()
    return f"{'-' if value < 0 else ''}₦{abs(value):,.{0 if whole else 2}f}"


def micro(amount: int | None) -> str:
    """Return micro-naira as naira with thousands."""
    return naira(None if amount is None else from_micro(amount))


def count(number: int | None) -> str:
    """Return a number with thousands."""
    return NOTHING if number is None else f"{number:,}"


def lagos(instant: Any, form: str = "%d %b %Y, %H:%M") -> str:  # noqa: ANN401 - what a table or a report has
    """Return a time (microseconds, ISO text or a datetime) as text, in Lagos time."""
    if instant is None or instant == "":
        return NOTHING
    if isinstance(instant, int):
        instant = to_instant(instant)
    at = datetime.fromisoformat(instant) if isinstance(instant, str) else instant
    return at.astimezone(LAGOS).strftime(form).removeprefix("0" if form.startswith("%d") else "")


def age(instant: int, now: int) -> str:
    """Return how long ago, or in how long, in words."""
    seconds = abs(now - instant) // MICROS
    for unit, size in (("day", _DAY), ("hour", _HOUR), ("minute", _MINUTE)):
        if seconds >= size:
            number = seconds // size
            return f"{number} {unit}{'' if number == 1 else 's'}"
    return "less than a minute"


def words(name: object) -> str:
    """Return a code or a name of a column as people write it."""
    text = str(name or "").replace("_", " ").strip()
    text = text.casefold() if text.isupper() else text
    named = {"bvn": "BVN", "cbn": "CBN", "nuban": "account number", "dob": "date of birth"}
    text = " ".join(named.get(word, word) for word in text.split())
    return text[:1].upper() + text[1:]


def query(pairs: Iterable[tuple[str, object]]) -> str:
    """Return a query string, beginning with a question mark; empty for no pairs."""
    found = urlencode([(name, str(value)) for name, value in pairs if str(value) != ""])
    return f"?{found}" if found else ""
