"""The texts beside a file of the inbox: the quote, the result, what is wrong. Numbers and ids only.

They are for the person who dropped the file: plain words, and what to do next in the last lines.
The words are templates in `data/pages/inbox/`.
"""

from __future__ import annotations

import re
import textwrap
from functools import cache
from typing import TYPE_CHECKING, Any

from nightscreen.files.templates import text_templates
from nightscreen.report.format import DECISIONS, count, lasting, moment, naira, some
from nightscreen.report.page import TEMPLATES
from nightscreen.report.verdict import attention, lists_of, next_steps, verdict
from nightscreen.schemas.clock import instant_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jinja2 import Environment

    from nightscreen.files.inbox import Ticket

_WIDTH = 96
_RENAMED = (
    "The file's name looked like somebody's number or address, so it goes by another name now. "
    "Name files after what they are, such as portfolio-20260301.xlsx: names are seen by many."
)


def text_of(template: str, ticket: Ticket, **values: object) -> str:
    """Return a text about a dropped file; a paragraph that is indented keeps its lines."""
    rendered = _templates().get_template(f"inbox/{template}.j2").render(values).strip()
    title, *paragraphs = re.split(r"\n{2,}", rendered)
    shown = [
        text if text.startswith("  ") else textwrap.fill(text, _WIDTH, break_long_words=False)
        for text in [*paragraphs, *([_RENAMED] if ticket.renamed else [])]
    ]
    return "\n\n".join([f"{title}\n{'=' * len(title)}", *shown]) + "\n"


def result_text(report: Mapping[str, Any], ticket: Ticket, folder: Path) -> str:
    """Return what came of a file."""
    return text_of(
        "result",
        ticket,
        report=report,
        folder=folder,
        verdict=verdict(report),
        decisions=DECISIONS,
        attention=attention(report),
        lists=lists_of(report),
        steps=next_steps(report),
    )


@cache
def _templates() -> Environment:
    found = text_templates(TEMPLATES)
    found.filters |= {
        each.__name__: each for each in (count, instant_text, lasting, moment, naira, some)
    }
    return found
