"""One check of one customer asked once more: the run's parameters, and rows as a part of a batch.

Who may ask again, and where the rows lie sealed, belongs to whoever asks.
"""

from __future__ import annotations

import csv
import io
from datetime import date
from typing import TYPE_CHECKING, Any

from nightscreen.config.settings import AGED
from nightscreen.files.quarantine import escape_formula
from nightscreen.reading.columns import is_output_name
from nightscreen.schemas.decisions import QUARANTINE_COLUMNS
from nightscreen.schemas.enriched import CONSENT_UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.journal.runs import RunRecord


def parameters_again(run: RunRecord, check: str, cap: str) -> dict[str, Any]:
    """Return what a run screens with that asks one check once more; it has no input yet.

    Answers of the other checks are reused where they are fresh. `cap` is in naira.
    """
    given = run.parameters
    return {
        "batch": run.batch,
        "purpose": run.purpose,
        "checks": given.get("checks") or [check],
        "karma_identities": given.get("karma_identities") or [],
        "policy": given.get("policy") or "",
        "freshness": [f"{check}.{outcome}=0" for outcome in AGED[check]],
        "max_spend": cap,
    }


def rows_as_part(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return rows as a file that counts as a part of its batch, as a fixed quarantine does.

    Whoever is not in it is not gone. Columns of the output are left out. Consent that could not be
    read stays so.
    """
    rows = [
        {**row, "consent_withdrawn_at": "unreadable"} if row.get(CONSENT_UNREADABLE) else row
        for row in rows
    ]
    names = [
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if not is_output_name(name) and any(row.get(name) not in (None, "") for row in rows)
    ]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*map(escape_formula, names), *QUARANTINE_COLUMNS])
    for line, row in enumerate(rows, start=2):
        writer.writerow(
            [*(escape_formula(_cell(row.get(name))) for name in names), line, "", "", ""]
        )
    return text.getvalue().encode()


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value.isoformat() if isinstance(value, date) else str(value)
