"""The record of processing and a draft of the impact assessment, made from the settings only.

The lender is the controller and responsible for both documents. They are filled in from the
settings; everything else is a blank that says who fills it in. They name no person. The texts are
templates in `data/pages/`.
"""

from __future__ import annotations

import json
import tomllib
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from nightscreen.config.declarations import DECLARABLE, NOTHING_DECLARED, Declarations, basis_words
from nightscreen.config.settings import GROUNDS, Settings
from nightscreen.files.outputs import OUTPUTS
from nightscreen.files.templates import text_templates
from nightscreen.report.page import TEMPLATES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Environment

BLANK = "[to be filled in]"


def processing_record(
    settings: Settings, declared: Declarations = NOTHING_DECLARED
) -> dict[str, Any]:
    """Return the record of processing as a JSON document; `blanks` lists what to fill in."""
    declared_checks = {each.check for each in declared.lawful_basis}
    text = _rendered(
        "processing_record.toml.j2",
        settings=settings,
        named=settings.portal_name != Settings.model_fields["portal_name"].default,
        declared=declared,
        undeclared=[each for each in DECLARABLE if each not in declared_checks],
        basis_words=basis_words,
        host=lambda address: urlsplit(address).hostname or "not set",
        journal=_journal(settings),
        files={
            ground: [each.pattern for each in OUTPUTS if each.ground == ground]
            for ground in GROUNDS
        },
    )
    record = tomllib.loads(text)
    return {**record, "blanks": sorted(_blanks(record))}


def _journal(settings: Settings) -> str:
    if not settings.journal_url:
        return "SQLite, beside the state"
    try:
        url = make_url(settings.journal_url)
    except ArgumentError:
        return "a database whose address cannot be read"
    return f"{url.get_backend_name()} at {url.host or 'this machine'}"


def _blanks(part: Any, name: str = "") -> set[str]:  # noqa: ANN401 - any JSON
    if isinstance(part, dict):
        return {blank for key, each in part.items() for blank in _blanks(each, key)}
    if isinstance(part, list):
        return {blank for each in part for blank in _blanks(each, name)}
    return {name} if BLANK in str(part) else set()


def record_page(record: Mapping[str, Any]) -> str:
    """Return the record as Markdown."""
    return _rendered("processing_record.md.j2", record=record)


def assessment_page(settings: Settings, declared: Declarations = NOTHING_DECLARED) -> str:
    """Return a draft of the impact assessment as Markdown."""
    return _rendered("impact_assessment.md.j2", settings=settings, declared=declared)


def _rendered(template: str, **values: object) -> str:
    return _templates().get_template(template).render(blank=BLANK, **values).rstrip("\n") + "\n"


@cache
def _templates() -> Environment:
    found = text_templates(TEMPLATES)
    found.filters["quoted"] = lambda text: json.dumps(str(text))
    return found
