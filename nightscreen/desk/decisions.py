"""The pages of one run's decisions: its list with facets, and what is taken out of it.

What a row's reason is in words comes from the policy it was decided by.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import xlsxwriter  # type: ignore[import-untyped]  # ships no types

from nightscreen.desk.context import DeskError
from nightscreen.desk.exports import about_export, csv_response
from nightscreen.desk.run_rows import (
    FACETS,
    IN_FILE,
    PAGE_ROWS,
    SORTS,
    Filter,
    columns_of,
    file_columns,
)
from nightscreen.desk.runs import find_run
from nightscreen.files.sealing import pieces_of
from nightscreen.results.final_decision import FINAL_COLUMNS, final_columns, standing_reviews
from nightscreen.results.wording import (
    Words,
    main_reason,
    missing_checks,
    reason_text,
    team_sentences,
)
from nightscreen.schemas.policy import Policy
from nightscreen.web.forms import attachment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.desk.run_rows import RunRows
    from nightscreen.journal.runs import RunRecord

MOST_TAKEN_OUT: Final = 1_000_000
MOST_BY: Final = 5
"""Columns of the file that a list is narrowed by at once."""
_SHEET_ROWS: Final = 1_048_000
_WORKBOOK: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
NEEDS_SOMEBODY: Final = ("decline", "review", "undecided")
_TAKEN = (
    *("customer_id", "decision", "why", "branch", "officer", "exposure"),
    *FINAL_COLUMNS,
)


def run_decisions(context: Context) -> Response:
    """Show a run's list: facets, sort, search by the beginning of a customer id."""
    run, rows, asked, columns = _asked(context)
    number, facets = rows.counted(asked)
    first, where = context.slice(number, PAGE_ROWS)
    found = rows.page(asked, first)
    context.record("decisions seen", run_id=run.run_id, filter=kinds(asked), rows=len(found))
    return context.page(
        "run_decisions",
        run=run,
        asked=asked,
        facets=facets,
        columns=columns,
        rows=_settled(context, run, in_words(context, found, run.purpose)),
        where=where,
        total=rows.rows,
        needing=rows.at_stake()[0],
        needs_somebody=[("decision", word) for word in NEEDS_SOMEBODY],
    )


def take_out(context: Context) -> Response:
    """Give what a list shows as CSV or XLSX, with who took it, when and by which filter."""
    run, rows, asked, _ = _asked(context)
    kind = context.request.path_params["kind"]
    if kind not in {"csv", "xlsx"}:
        raise DeskError(404, "A list is exported as CSV or XLSX.")
    found = rows.page(asked, 0, MOST_TAKEN_OUT)
    found = _settled(context, run, in_words(context, found, run.purpose))
    about = about_export(context, asked.words(), len(found), run_id=run.run_id)
    context.record(
        "list exported",
        run_id=run.run_id,
        kind=kind,
        rows=len(found),
        filter=kinds(asked),
    )
    name = f"{run.run_id}-decisions.{kind}"
    if kind == "csv":
        lines = ([row[column] for column in _TAKEN] for row in found)
        return csv_response(name, _TAKEN, lines, about)
    return attachment(_workbook(found, about), name, _WORKBOOK)


def in_words(
    context: Context, rows: list[dict[str, Any]], purpose: str | None = None
) -> list[dict[str, Any]]:
    """Return rows with why they were decided so, in the policy's words.

    Args:
        context: of the page.
        rows: with decision, reasons, policy and statuses.
        purpose: of the run; where it is left out, each row has its own.
    """
    sentences: dict[tuple[str, str | None], Words] = {}
    for row in rows:
        said_as = row["policy"] or "", purpose or row.get("purpose")
        if said_as not in sentences:
            text = context.reviews.policy_text(said_as[0]) if said_as[0] else None
            policy = None if text is None else Policy.model_validate_json(text)
            sentences[said_as] = {} if policy is None else team_sentences(policy, said_as[1])
        said = sentences[said_as]
        code, _ = main_reason(row["decision"], row["reasons"] or (), said)
        row["why"] = reason_text(row["decision"], code, said, missing_checks(row))
    return rows


def _settled(context: Context, run: RunRecord, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with the final decision, where a person settled the case."""
    joined = context.journal.pseudonyms.customers(run.batch, [row["customer_id"] for row in rows])
    keys = pieces_of(joined)
    few = keys if len(keys) <= PAGE_ROWS else []
    found = standing_reviews(context.journal, run.batch, few) if rows else {}
    for key, row in zip(keys, rows, strict=True):
        row.update(final_columns(found.get(key)))
    return rows


def _asked(context: Context) -> tuple[RunRecord, RunRows, Filter, list[str]]:
    run = find_run(context)
    rows = context.rows_of(run)
    if rows is None:
        raise DeskError(
            404, "This run has no rows here: it has not written them yet, or they were removed."
        )
    columns = file_columns(run)
    asked = asked_filter(context, FACETS, columns)
    if asked.by:
        names = [name.removeprefix(IN_FILE) for name in asked.by]
        rows = rows.with_columns(columns_of(run, names).drop_columns("run_id"), "customer_id")
    return run, rows, asked, columns


def asked_filter(context: Context, facets: Sequence[str], columns: Sequence[str]) -> Filter:
    """Return the filter that the address names.

    Args:
        context: of the page.
        facets: those that the list always has.
        columns: those of the lender's file that may be facets as well.
    """
    shown, in_file = context.asked("by"), [f"{IN_FILE}{name}" for name in columns]
    by = tuple(name for name in in_file if name in shown or context.asked(name))[:MOST_BY]
    chosen = {name: tuple(dict.fromkeys(context.asked(name)))[:50] for name in (*facets, *by)}
    chosen = {name: values for name, values in chosen.items() if values}
    sort = context.asked_first("sort")
    return Filter(
        chosen,
        context.asked_first("search").strip()[:200],
        sort if sort in SORTS else "exposure",
        by,
    )


def kinds(asked: Filter) -> str:
    """Return a filter for the audit: a search or a column of the file is named, not its values."""
    own = {name: values for name, values in asked.chosen.items() if name not in asked.by}
    said = [Filter(own).words(), *(f"by {name.removeprefix(IN_FILE)}" for name in asked.by)]
    return "; ".join([*said, *(["a search"] if asked.search else [])])


def _workbook(rows: list[dict[str, Any]], about: list[tuple[str, str]]) -> bytes:
    sink = io.BytesIO()
    with xlsxwriter.Workbook(sink, {"in_memory": True, "constant_memory": False}) as book:
        sheet, notes = book.add_worksheet("Decisions"), book.add_worksheet("About")
        bold, money = book.add_format({"bold": True}), book.add_format({"num_format": "#,##0.00"})
        for column, name in enumerate(_TAKEN):
            sheet.write_string(0, column, name, bold)
        for line, row in enumerate(rows[:_SHEET_ROWS], start=1):
            for column, name in enumerate(_TAKEN):
                value = row[name]
                if name == "exposure" and value is not None:
                    sheet.write_number(line, column, float(value), money)
                else:
                    sheet.write_string(line, column, _cell(value))
        sheet.set_column(0, len(_TAKEN), 18)
        sheet.freeze_panes(1, 1)
        for line, (name, value) in enumerate(about):
            notes.write_string(line, 0, name, bold)
            notes.write_string(line, 1, value)
    return sink.getvalue()


def _cell(value: object) -> str:
    return "" if value is None else str(value)
