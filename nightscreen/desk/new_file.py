"""The pages of a new file (upload, columns, quote, screening) and of one applicant at the counter.

Reading, judging and quoting are in `runs/`; uploads are stored sealed (`uploads`).
"""

from __future__ import annotations

import io
import re
from collections import Counter
from contextlib import contextmanager
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, Final, get_args
from urllib.parse import quote as quoted

from nightscreen.checks.registry import CHECKS
from nightscreen.config.parameters import USUAL_CHECKS, PurposeName
from nightscreen.desk.context import DeskError, plain_naira
from nightscreen.desk.rows import Filter, rows_of_run
from nightscreen.desk.uploads import TYPED, chosen_batch, chosen_mapping
from nightscreen.files.quarantine import row_writer
from nightscreen.files.sealed_file import unsealed
from nightscreen.journal.runs import RUNNING
from nightscreen.reading.columns import is_output_name, meanings
from nightscreen.reading.date_orders import ORDERS, DateOrders
from nightscreen.reading.mapping_file import DATE_ORDERS
from nightscreen.reading.mapping_file import Mapping as Meaning
from nightscreen.reading.open_file import headings_of, open_source, sheets_of
from nightscreen.runs.diagnosis import diagnose
from nightscreen.runs.intake import Intake
from nightscreen.runs.run import require_service
from nightscreen.runs.screening import quote_batch
from nightscreen.schemas.clock import LAGOS, MICROS
from nightscreen.schemas.columns import KNOWN_COLUMNS
from nightscreen.schemas.decisions import QUARANTINE_COLUMNS
from nightscreen.schemas.enriched import CONSENT_UNREADABLE
from nightscreen.schemas.errors import InputError, UsageError
from nightscreen.schemas.rows import Action
from nightscreen.schemas.uploads import GONE
from nightscreen.values.identifiers import CustomerNumbers
from nightscreen.web.guard import see_other

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.journal.runs import RunRecord
    from nightscreen.reading.open_file import TableSource
    from nightscreen.runs.corrections import Corrections
    from nightscreen.schemas.uploads import Upload

SHOWN_ROWS: Final = 50
LEFT_OUT: Final = "-"  # what a heading means whose column is not read
_PIECE: Final = 1 << 20
PURPOSES: Final = get_args(PurposeName)
_USUAL: Final = {"purpose": "portfolio", "checks": USUAL_CHECKS, "max_spend": "", "policy": ""}
"""What a file is screened with if nothing else is chosen."""
_OPEN_DATES: Final = (
    "The dates of {0} can be read in two ways, such as {1}, and consent depends on them. Choose "
    "under Date order whether the day or the month is first."
)
_ABSENT: Final = "This is treated as blank."
_COUNTER_BATCH = "applicants"
_IN_CLEAR: Final = re.compile(r"/(?:proc/self|dev)/fd/\d+")  # where an upload is read
_IN_A_MAPPING: Final = re.compile(r'name the column in a mapping file: \[columns\] (\w+) = "[^"]*"')
"""What a command says of a missing column; here it is chosen on the page."""

# --- a file ---


def new(context: Context) -> Response:
    """Show the form that takes a file."""
    return context.page("new", **_choosing(context, _USUAL | _choices(context)))


def receive(context: Context) -> Response:
    """Seal a file that was uploaded."""
    file = context.file
    if file is None:
        raise DeskError(400, "Choose a file first: CSV, XLSX or Parquet.")
    if not file.size:
        raise DeskError(400, "The file is empty. Export it again.")
    pieces = iter(lambda: file.file.read(_PIECE), b"")
    kept = context.uploads.keep(file.filename or "", context.name, pieces, _choices(context))
    return see_other(f"/new/{kept.upload_id}")


def _choosing(context: Context, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a form needs that says how a file is screened."""
    found = _policies(context)
    return {"chosen": chosen, "purposes": PURPOSES, "checks": CHECKS, "policies": found}


def _policies(context: Context) -> list[str]:
    """Return the policy files there are to choose from, beside the one in force."""
    folder = context.settings.home.absolute() / "policies"
    return [str(each) for each in sorted(folder.glob("*.toml"))] if folder.is_dir() else []


def _choices(context: Context) -> dict[str, Any]:
    """Return what was chosen on a form, as far as it was on it."""
    named = [name for name in ("purpose", "max_spend", "policy") if name in context.form]
    chosen: dict[str, Any] = {name: context.text(name, 500) for name in named}
    if "max_spend" in chosen:
        chosen["max_spend"] = plain_naira(chosen["max_spend"])
    if "checks_shown" in context.form:
        chosen["checks"] = [each for each in context.form.get("check", []) if each in CHECKS]
    if chosen.get("policy") and chosen["policy"] not in _policies(context):
        chosen["policy"] = ""
    if chosen.get("purpose") not in PURPOSES:
        chosen.pop("purpose", None)
    return chosen


def _own(context: Context) -> Upload:
    """Return the upload of the address, if this user brought it."""
    upload = context.uploads.find(context.request.path_params["upload_id"])
    if upload is None or upload.user.casefold() != context.name.casefold():
        raise DeskError(404, "You uploaded no such file. Upload it again under New file.")
    return upload


def file(context: Context) -> Response:
    """Show how a file is understood, what it would cost, and where its run is."""
    upload = _own(context)
    run = context.uploads.run_of(upload)
    if run is None and upload.started_at is None:
        if upload.state == GONE:
            raise DeskError(410, "This file was removed, as nobody screened it. Upload it again.")
        return _file(context, upload)
    goes_on = "" if run is None else _goes_on(context, upload, run)
    follows = context.request.headers.get("hx-request") == "true"
    if goes_on and not follows:
        return see_other(goes_on)
    waited_s = (context.clock() - (upload.started_at or context.clock())) // MICROS
    response = context.page("starting", upload=upload, waited_s=waited_s, run=run)
    if goes_on:
        response.headers["hx-redirect"] = goes_on
    return response


def _goes_on(context: Context, upload: Upload, run: RunRecord) -> str:
    """Return the page that an upload leads to, empty while an applicant is being screened.

    That is the run; for an applicant what was decided.
    """
    at_the_counter = TYPED in upload.choices and upload.batch == _COUNTER_BATCH
    if at_the_counter and run.state == RUNNING:
        return ""
    rows = rows_of_run(run) if at_the_counter and context.may("people") else None
    shown = [] if rows is None else rows.page(Filter(), 0, 2)
    if len(shown) != 1:
        return f"/runs/{run.run_id}"
    return f"/customers/{quoted(shown[0]['customer_id'], safe='')}?run={run.run_id}"


@contextmanager
def _in_clear(context: Context, upload: Upload) -> Iterator[Path]:
    """Give the file to read; what is wrong with it is said under the name it was brought by."""
    uploads = context.uploads
    try:
        with unsealed(uploads.path(upload.upload_id), context.journal.sealer) as path:
            yield path
    except InputError as error:
        said = _IN_CLEAR.sub(lambda _: upload.name, str(error))
        mapping = str(uploads.mapping(upload.upload_id))
        said = said.replace(mapping, "the meaning of headings below")
        said = _IN_A_MAPPING.sub(r"choose \1 for one of the headings below", said)
        raise InputError(said) from None


def _file(context: Context, upload: Upload) -> Response:
    chosen, mapping = _USUAL | upload.choices, chosen_mapping(upload)
    merge = bool(context.settings.merge_rows or chosen.get("merge_rows"))
    headings: list[str] = []
    sheets: list[str] = []
    meaning: dict[str, str] = {}
    diagnosis, shown, open_dates = None, None, None
    try:
        with _in_clear(context, upload) as path:
            sheets = sheets_of(path)
            headings = headings_of(path, mapping)
            meaning = _guessed(headings, mapping)
            source = open_source(path, mapping=mapping)
            known = {each.heading: each.known or "" for each in source.header.columns}
            meaning = dict.fromkeys(headings, LEFT_OUT) | known
            orders = DateOrders(source)
            diagnosis = diagnose(source, orders, merge=merge)
            shown = preview(source, orders, merge=merge)
            open_dates = orders.open_consent()
    except UsageError as trouble:
        context.status, context.error = 400, context.error or str(trouble)
    findings = [] if diagnosis is None or TYPED in chosen else diagnosis["findings"]
    return context.page(
        "new_file",
        upload=upload,
        headings=headings,
        sheets=sheets if len(sheets) > 1 else [],
        sheet=mapping.sheet or (diagnosis["sheet"] if diagnosis else ""),
        orders=ORDERS,
        order=mapping.date_order,
        open_dates="" if open_dates is None or context.error else _OPEN_DATES.format(*open_dates),
        merging=merge,
        meaning=meaning,
        known=KNOWN_COLUMNS,
        left_out=LEFT_OUT,
        diagnosis=diagnosis,
        findings=findings,
        shown=shown,
        quote=chosen.get("quote"),
        **_choosing(context, chosen),
    )


# --- how it is understood ---


def _guessed(headings: Iterable[str], mapping: Meaning) -> dict[str, str]:
    """Return what each heading was said to mean, or means alone, where they do not fit together."""
    if mapping.columns:
        said = {each: known for known, named in mapping.columns.items() for each in named}
        return said | dict.fromkeys(mapping.drop, LEFT_OUT)
    found: dict[str, str] = {}
    for heading in headings:
        free = (each for each in meanings(heading) if each not in found.values())
        found[heading] = next(free, "")
    return found


def _said(context: Context, before: Meaning) -> Meaning:
    """Return what the form of a file says of its sheet, headings and dates.

    Of another sheet than the one that was read no heading is known yet. A form in which nobody
    changed a heading says nothing of headings: what the page took them for is a guess.
    """
    said: dict[str, Any] = {}
    sheet = context.text("sheet", 80)
    if sheet not in {"", before.sheet or context.text("sheet_read", 80)}:
        said = {"sheet": sheet, "columns": {}, "drop": ()}
    elif shown := context.form.get("heading", []):
        means = {heading: context.text(f"h{at}", 60) for at, heading in enumerate(shown)}
        if list(means.values()) != context.form.get("was"):
            known = {k: tuple(h for h in means if means[h] == k) for k in KNOWN_COLUMNS}
            said = {"columns": known, "drop": tuple(h for h in means if means[h] == LEFT_OUT)}
    if "date_order" in context.form:
        order = context.text("date_order", 3)
        said["date_order"] = order if order in DATE_ORDERS else None
    return before.model_copy(update=said)


def preview(
    source: TableSource,
    orders: DateOrders,
    number: int = SHOWN_ROWS,
    *,
    merge: bool = False,
    corrections: Corrections | None = None,
) -> dict[str, Any]:
    """Return the first rows as they are understood: each cell sound, wrong or merely carried.

    A cell has its `value` as understood, and as `written`; `dropped` says why nothing is made of
    what is written.
    """
    batch = next(source.batches(number))
    customers = CustomerNumbers() if merge else None
    taken = Intake(source.header, customers, orders, corrections).take(batch)
    wrong: dict[tuple[int, str], str] = {}
    warned: dict[tuple[int, str], str] = {}
    for problem in taken.problems:
        of = wrong if problem.action in {Action.REFUSED, Action.INVALID} else warned
        of.setdefault((problem.line, problem.column), problem.hint)
    refused = {each.line: each.hint for each in taken.refused}
    accepted = {row["line"]: row for row in taken.rows.to_pylist()}
    meant = Counter(column.known for column in source.header.columns)
    rows = []
    for at_row, line in enumerate(batch.lines):
        cells = []
        for at, column in enumerate(source.header.columns):
            written = batch.columns.column(at)[at_row].as_py() or ""
            names = (column.known or "", column.heading, column.output)
            hint = next((wrong[line, name] for name in names if (line, name) in wrong), "")
            value, dropped = written, ""
            if column.known and meant[column.known] == 1 and line in accepted:
                value = _as_understood(accepted[line][column.known])
                if written.strip() and not value:
                    dropped = hint or warned.get((line, column.known)) or _ABSENT
            tone = "wrong" if hint else "ok" if column.known and value else ""
            cell = {"value": value, "written": written, "tone": tone}
            cells.append({**cell, "hint": hint, "dropped": dropped})
        rows.append({"line": line, "cells": cells, "refused": refused.get(line, "")})
    return {"columns": source.header.columns, "rows": rows}


def _as_understood(value: object) -> str:
    """Return a value of a row in words; times are those of Lagos."""
    if isinstance(value, datetime):
        local = value.astimezone(LAGOS)
        bare = local.time() in {time.min, time.max}
        return f"{local:%Y-%m-%d}" if bare else f"{local:%Y-%m-%d %H:%M}"
    return "" if value is None else str(value)


# --- quoted and screened ---


def quote(context: Context) -> Response:
    """Quote a file as its headings are understood now."""
    return _submit(context, screens=False)


def screen(context: Context) -> Response:
    """Start the run of a file."""
    return _submit(context, screens=True)


def _submit(context: Context, *, screens: bool) -> Response:
    """Keep what the form of a file says; quote it, or start its run.

    Another sheet is only shown first. Where the order of consent dates is open, it is to be chosen.
    """
    upload = _own(context)
    address, before = f"/new/{upload.upload_id}", chosen_mapping(upload)
    if upload.started_at is not None:
        return see_other(address)
    mapping = _said(context, before)
    chosen = {**_choices(context), "quote": None, "mapping": mapping.model_dump(mode="json")}
    if "merge_shown" in context.form:
        chosen["merge_rows"] = "merge_rows" in context.form
    upload = context.uploads.choose(upload, chosen)
    if mapping.sheet != before.sheet:
        return see_other(address)
    with _in_clear(context, upload) as path:
        open_ = DateOrders(open_source(path, mapping=mapping)).open_consent()
    if open_ is not None:
        raise InputError(_OPEN_DATES.format(*open_))
    if mapping.date_order:
        context.journal.runs.keep_date_order(chosen_batch(upload), mapping.date_order)
    if screens:
        begin(context, upload)
        return see_other(address)
    document = quote_upload(context, upload)
    context.uploads.choose(upload, {"quote": document})
    context.record("file quoted", name=upload.name, expected=document["quoted"]["expected"])
    return see_other(f"{address}#quote")


def quote_upload(context: Context, upload: Upload) -> dict[str, Any]:
    """Return the quote of an upload as it would be screened now.

    Raises:
        UsageError: choices or the file are wrong.
    """
    with _in_clear(context, upload):  # what is wrong is said under the file's own name
        return quote_batch(context.uploads.parameters(upload), context.settings)


def begin(context: Context, upload: Upload) -> None:
    """Start the run of an upload, once its file is known to be readable.

    Raises:
        UsageError: settings, choices or the file are wrong, or it cannot be started.
    """
    require_service(context.settings, quote_only=False)
    parameters = context.uploads.parameters(upload)
    with _in_clear(context, upload) as path:
        open_source(path, mapping=chosen_mapping(upload))
    with context.uploads.starting(upload) as is_first:
        if is_first:
            context.starter.start(parameters)
            about = {"name": upload.name, "digest": upload.digest}
            context.record("run started", **about, max_spend=parameters.max_spend)


# --- one applicant ---


def applicant(context: Context) -> Response:
    """Show the form for one applicant at the counter."""
    chosen = {"checks": context.form.get("check", USUAL_CHECKS)}
    return context.page("applicant", checks=CHECKS, chosen=chosen)


def take_applicant(context: Context) -> Response:
    """Quote one applicant at the counter, or screen at once."""
    named = [name for name in KNOWN_COLUMNS if name in context.form]
    typed = {name: context.text(name, 200) for name in ("customer_id", *named)}
    if not typed["customer_id"]:
        raise DeskError(400, "Customer id: every applicant needs one.")
    if context.branches:
        key = context.journal.pseudonyms.customer(_COUNTER_BATCH, typed["customer_id"])
        if context.customers.known([key]):  # else a customer of another branch would become ours
            context.require_seen(typed["customer_id"], _COUNTER_BATCH)
        typed["branch"] = context.branches[0]  # else they would not see them
    chosen = {**_choices(context), "purpose": "origination", "batch": _COUNTER_BATCH}
    upload = keep_row(context, "applicant.csv", typed, chosen)
    with _in_clear(context, upload) as path:
        source = open_source(path)
        (row,) = preview(source, DateOrders(source))["rows"]
    hints = [cell["hint"] for cell in row["cells"] if cell["hint"]]
    if row["refused"] or hints:
        raise InputError(row["refused"] or " ".join(hints))
    if context.text("do") == "screen":
        begin(context, upload)
    else:
        context.uploads.choose(upload, {"quote": quote_upload(context, upload)})
    return see_other(f"/new/{upload.upload_id}")


def keep_row(
    context: Context, name: str, row: Mapping[str, Any], chosen: Mapping[str, Any]
) -> Upload:
    """Seal the row of one customer as a part of its batch."""
    return context.uploads.keep(name, context.name, [row_as_part(row)], {**chosen, TYPED: True})


def row_as_part(row: Mapping[str, Any]) -> bytes:
    """Return the row of one customer as a part of its batch; columns of the output are left out.

    Consent that could not be read stays so.
    """
    if row.get(CONSENT_UNREADABLE):
        row = {**row, "consent_withdrawn_at": "unreadable"}
    given = {
        name: value.isoformat() if isinstance(value, date) else str(value)
        for name, value in row.items()
        if value is not None and value != "" and not is_output_name(name)
    }
    return as_part([*given], [(2, [*given.values()])])


def as_part(headings: Iterable[str], rows: Iterable[tuple[int, Sequence[str]]]) -> bytes:
    """Return rows, each with its line, as a file that counts as a part of its batch.

    A quarantine that was fixed has this form; whoever is not in it is not gone.
    """
    text = io.StringIO(newline="")
    write = row_writer(text)
    write([*headings, *QUARANTINE_COLUMNS])
    for line, cells in rows:
        write([*cells, line, "", "", ""])
    return text.getvalue().encode()
