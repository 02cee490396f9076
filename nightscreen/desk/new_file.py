"""The pages of a new file: brought, understood, quoted, screened; and one applicant at the counter.

Reading, judging and quoting are `runs/`; what is brought lies sealed (`uploads`).
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from datetime import datetime, time
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import ValidationError

from nightscreen.checks.registry import CHECKS
from nightscreen.config.parameters import USUAL_CHECKS, PurposeName
from nightscreen.desk.context import (
    DeskError,
    plain_naira,
)
from nightscreen.desk.runs import start
from nightscreen.desk.uploads import CARRIED, GONE, LEFT_OUT, TYPED
from nightscreen.files.sealed_file import unsealed
from nightscreen.reading.columns import meanings
from nightscreen.reading.date_orders import ORDERS, DateOrders
from nightscreen.reading.mapping_file import DATE_ORDERS, read_mapping
from nightscreen.reading.mapping_file import Mapping as Meaning
from nightscreen.reading.open_file import headings_of, open_source, sheets_of
from nightscreen.results.ask_again import rows_as_part
from nightscreen.runs.diagnosis import diagnose
from nightscreen.runs.intake import Intake
from nightscreen.runs.quoting import quote_batch
from nightscreen.runs.run import require_service
from nightscreen.schemas.clock import LAGOS
from nightscreen.schemas.columns import KNOWN_COLUMNS
from nightscreen.schemas.errors import InputError, UsageError
from nightscreen.schemas.rows import Action
from nightscreen.values.identifiers import CustomerNumbers
from nightscreen.web.forms import onward

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.desk.uploads import Upload
    from nightscreen.reading.open_file import TableSource

SHOWN_ROWS: Final = 50
_PIECE: Final = 1 << 20
PURPOSES: Final = get_args(PurposeName)
_USUAL: Final = {
    "purpose": "portfolio",
    "checks": USUAL_CHECKS,
    "max_spend": "",
    "policy": "",
}
"""What a file is screened with where nothing else is chosen."""
AT_THE_COUNTER: Final = (
    ("customer_id", "Customer id", "text"),
    ("first_name", "First name", "text"),
    ("middle_name", "Middle name", "text"),
    ("last_name", "Last name", "text"),
    ("date_of_birth", "Date of birth", "date"),
    ("bvn", "BVN", "text"),
    ("account_number", "Account number", "text"),
    ("bank_name", "Bank", "text"),
    ("phone", "Phone", "tel"),
    ("email", "Email", "email"),
    ("exposure", "Amount asked for", "text"),
    ("consent_reference", "Consent reference", "text"),
    ("consented_at", "Consented on", "date"),
)
"""Column, label and kind of each field of the form for one applicant."""
_OPEN_DATES: Final = (
    "The dates of {0} can be read in two ways, such as {1}, and consent depends on them. Choose "
    "under Date order whether the day or the month is first."
)
_ABSENT: Final = "This is taken as absent."
_COUNTER_BATCH = "applicants"
_NAMELESS = "though its name ends in nothing"
_IN_A_MAPPING: Final = re.compile(r'name the column in a mapping file: \[columns\] (\w+) = "[^"]*"')
"""What a command says of a missing column; here it is chosen on the page."""


def new(context: Context) -> Response:
    """Show the form that takes a file."""
    return _form(context)


def _form(context: Context, status: int = 200, *, error: str = "", **typed: Any) -> Response:  # noqa: ANN401 - what was typed
    return context.page(
        "new",
        status,
        error=error,
        chosen=_USUAL | typed,
        purposes=PURPOSES,
        checks=CHECKS,
        policies=policies(context),
    )


def policies(context: Context) -> list[str]:
    """Return the policy files there are to choose from, beside the one in force."""
    folder = context.settings.home.absolute() / "policies"
    return [str(each) for each in sorted(folder.glob("*.toml"))] if folder.is_dir() else []


def receive(context: Context) -> Response:
    """Seal a file that was uploaded, or say on the form why there is nothing to keep."""
    brought = context.file
    if brought is None or not brought.size:
        error = (
            "Choose a file first: CSV, XLSX or Parquet."
            if brought is None
            else "The file is empty. Export it again."
        )
        return _form(context, 400, error=error, **_choices(context))
    uploads = context.uploads
    with uploads.receiving(brought.filename or "", context.name, {}) as (upload_id, writer):
        while piece := brought.file.read(_PIECE):
            writer.write(piece)
    upload = uploads.find(upload_id)
    assert upload is not None  # noqa: S101 - kept in the lines above
    uploads.choose(upload, _choices(context))
    return onward(f"/new/{upload_id}")


def _choices(context: Context) -> dict[str, Any]:
    """Return what was chosen on a form, as far as it was on it."""
    chosen: dict[str, Any] = {}
    for name in ("purpose", "max_spend", "policy"):
        if name in context.form:
            chosen[name] = context.text(name, 500)
    if "max_spend" in chosen:
        chosen["max_spend"] = plain_naira(chosen["max_spend"])
    if "checks_shown" in context.form:
        chosen["checks"] = [each for each in context.form.get("check", []) if each in CHECKS]
    if chosen.get("policy") and chosen["policy"] not in policies(context):
        chosen["policy"] = ""
    if chosen.get("purpose") not in PURPOSES:
        chosen.pop("purpose", None)
    return chosen


def _own(context: Context) -> Upload:
    """Return the upload of the address, if this user brought it.

    Raises:
        DeskError: there is none, or it is somebody else's.
    """
    upload = context.uploads.find(context.request.path_params["upload_id"])
    if upload is None or upload.user.casefold() != context.name.casefold():
        raise DeskError(404, "There is no such file of yours. Bring it again under New file.")
    return upload


def file(context: Context) -> Response:
    """Show how a file is understood, what it would cost, and where its run is."""
    upload = _own(context)
    run = context.uploads.run_of(upload)
    if run is not None or upload.started_at is not None:
        return _started(context, upload, None if run is None else run.run_id)
    if upload.state == GONE:
        raise DeskError(410, "This file was removed, as nobody screened it. Bring it again.")
    return _file(context, upload)


def _started(context: Context, upload: Upload, run_id: str | None) -> Response:
    if run_id is not None:
        response = onward(f"/runs/{run_id}")
        if context.request.headers.get("hx-request") == "true":
            response = context.page("starting", upload=upload, waited=0)
            response.headers["hx-redirect"] = f"/runs/{run_id}"
        return response
    waited = context.clock() - (upload.started_at or 0)
    return context.page("starting", upload=upload, waited=waited // 1_000_000)


@contextmanager
def _in_clear(context: Context, upload: Upload) -> Iterator[Path]:
    """Give the file to read; what is wrong with it is said under the name it was brought by."""
    uploads = context.uploads
    try:
        with unsealed(uploads.path(upload.upload_id), context.journal.sealer) as path:
            yield path
    except InputError as error:
        said = str(error)
        for made in ("/proc/self/fd/", "/dev/fd/"):
            head, found, rest = said.partition(made)
            said = head + upload.name + rest.lstrip("0123456789") if found else said
        mapping = str(uploads.mapping(upload.upload_id))
        said = said.replace(mapping, "the meaning of headings below")
        raise InputError(
            _IN_A_MAPPING.sub(r"choose \1 for one of the headings below", said)
        ) from None


def _file(context: Context, upload: Upload, status: int = 200, *, error: str = "") -> Response:
    headings: list[str] = []
    sheets: list[str] = []
    diagnosis, shown, open_dates = None, None, None
    try:
        with _in_clear(context, upload) as path:
            sheets = sheets_of(path)
            mapping = _mapping(context, upload)
            headings = headings_of(path, mapping)
            upload = _understood(context, upload, path, headings)
            merge = bool(context.settings.merge_rows or upload.choices.get("merge_rows"))
            source = open_source(path, mapping=mapping)
            orders = DateOrders(source)
            of_mapping = mapping is not None and mapping.merge_rows
            diagnosis = diagnose(source, orders, merge=merge or of_mapping)
            shown = preview(source, orders, merge=merge)
            open_dates = orders.open_consent()
    except UsageError as trouble:
        status, error = (400 if status == 200 else status), error or str(trouble)  # noqa: PLR2004 - well so far
    return context.page(
        "new_file",
        status,
        upload=upload,
        error=error,
        headings=headings,
        sheets=sheets if len(sheets) > 1 else [],
        sheet=upload.choices.get("sheet") or (diagnosis.sheet if diagnosis else ""),
        orders=ORDERS,
        open_dates="" if open_dates is None or error else _OPEN_DATES.format(*open_dates),
        merging=context.settings.merge_rows or upload.choices.get("merge_rows"),
        meaning=upload.choices.get("headings") or upload.choices.get("understood") or {},
        known=KNOWN_COLUMNS,
        carried=CARRIED,
        left_out=LEFT_OUT,
        diagnosis=diagnosis,
        findings=[]
        if diagnosis is None or TYPED in upload.choices
        else [finding for finding in diagnosis.findings if _NAMELESS not in finding],
        shown=shown,
        quote=upload.choices.get("quote"),
        chosen=_USUAL | upload.choices,
        purposes=PURPOSES,
        checks=CHECKS,
        policies=policies(context),
        ceiling=context.settings.approval_above,
    )


def _mapping(context: Context, upload: Upload) -> Meaning | None:
    """Return what was chosen for headings, sheet and dates; None where nothing was."""
    path = context.uploads.mapping(upload.upload_id)
    return read_mapping(path) if path.exists() else None


def _understood(context: Context, upload: Upload, path: Path, headings: list[str]) -> Upload:
    """Note once what each heading is taken for by itself."""
    if upload.choices.get("understood"):
        return upload
    sheet = upload.choices.get("sheet")
    try:
        source = open_source(path, mapping=Meaning(sheet=sheet or None))
        found = {each.heading: each.known or "" for each in source.header.columns}
    except InputError:  # a correction may mend it: what single headings mean is known all the same
        taken: set[str] = set()
        found = {}
        for heading in headings:
            known = next((each for each in meanings(heading) if each not in taken), "")
            taken.add(known)
            found[heading] = known
    return context.uploads.choose(upload, {"understood": found})


def preview(
    source: TableSource, orders: DateOrders, number: int = SHOWN_ROWS, *, merge: bool = False
) -> dict[str, Any]:
    """Return the first rows as they are understood: each cell sound, wrong or merely carried.

    A cell has its `value` as understood, and as `written`; `dropped` says why nothing is made of
    what is written.
    """
    batch = next(source.batches(number))
    taken = Intake(source.header, CustomerNumbers() if merge else None, orders).take(batch)
    wrong: dict[tuple[int, str], str] = {}
    warned: dict[tuple[int, str], str] = {}
    refused = {each.line: each.hint for each in taken.refused}
    for problem in taken.problems:
        of = wrong if problem.action in {Action.REFUSED, Action.INVALID} else warned
        of.setdefault((problem.line, problem.column), problem.hint)
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
            cells.append(
                {"value": value, "written": written, "tone": tone, "hint": hint, "dropped": dropped}
            )
        rows.append({"line": line, "cells": cells, "refused": refused.get(line, "")})
    return {"columns": source.header.columns, "rows": rows}


def _as_understood(value: object) -> str:
    """Return a value of a row in words; times are those of Lagos."""
    if isinstance(value, datetime):
        local = value.astimezone(LAGOS)
        bare = local.time() in {time.min, time.max}
        return f"{local:%Y-%m-%d}" if bare else f"{local:%Y-%m-%d %H:%M}"
    return "" if value is None else str(value)


def _with_headings(context: Context, upload: Upload) -> Upload:
    """Keep what the form says of headings, purpose, checks, policy and cap."""
    chosen = _choices(context)
    sheet = context.text("sheet", 80)
    if sheet and sheet != (upload.choices.get("sheet") or context.text("sheet_read", 80)):
        chosen |= {"sheet": sheet, "headings": {}, "understood": {}, "quote": None}
        return context.uploads.choose(upload, chosen)
    order = context.form.get("heading", [])
    if order:
        allowed = {*KNOWN_COLUMNS, CARRIED, LEFT_OUT}
        picked = {h: context.text(f"h{at}", 60) for at, h in enumerate(order)}
        chosen["headings"] = {
            h: known if known in allowed else CARRIED for h, known in picked.items()
        }
    if context.text("date_order", 3) in DATE_ORDERS:
        chosen["declared"] = context.text("date_order", 3)
    elif "date_order" in context.form:
        chosen["declared"] = None
    if "merge_shown" in context.form:
        chosen["merge_rows"] = "merge_rows" in context.form
    chosen["quote"] = None
    return context.uploads.choose(upload, chosen)


def _require_date_order(context: Context, upload: Upload) -> None:
    """Have the order of consent dates chosen where the file leaves it open, and keep it.

    Raises:
        UsageError: it is open, or the file cannot be read.
    """
    with _in_clear(context, upload) as path:
        open_ = DateOrders(open_source(path, mapping=_mapping(context, upload))).open_consent()
    if open_ is not None:
        raise InputError(_OPEN_DATES.format(*open_))
    if upload.choices.get("declared"):
        batch = context.uploads.parameters(upload).batch
        context.journal.runs.keep_date_order(batch, upload.choices["declared"])


def quote(context: Context) -> Response:
    """Quote a file as its headings are understood now."""
    before = _own(context)
    upload = _with_headings(context, before)
    if upload.choices.get("sheet") != before.choices.get("sheet"):  # to be seen first
        return onward(f"/new/{upload.upload_id}")
    try:
        _require_date_order(context, upload)
        document = quote_upload(context, upload)
    except UsageError as error:
        return _file(context, upload, 400, error=str(error))
    context.uploads.choose(upload, {"quote": document})
    context.record("file quoted", name=upload.name, expected=document["quoted"]["expected"])
    return onward(f"/new/{upload.upload_id}#quote")


def quote_upload(context: Context, upload: Upload) -> dict[str, Any]:
    """Return the quote of an upload as it would be screened now.

    Raises:
        UsageError: choices or the file are wrong.
    """
    try:
        parameters = context.uploads.parameters(upload)
    except ValidationError as error:
        raise InputError(_mistake(error)) from None
    with _in_clear(context, upload):  # what is wrong is said under the file's own name
        return quote_batch(parameters, context.settings)


def _mistake(error: ValidationError) -> str:
    field = error.errors()[0]["loc"][0]
    if field == "max_spend":
        return "Most to spend: write naira such as 250000 or 99.50."
    if field == "checks":
        return "Checks: choose at least one."
    return f"{field}: {error.errors()[0]['msg']}"


def screen(context: Context) -> Response:
    """Start the run of a file."""
    upload = _own(context)
    if upload.started_at is not None:
        return onward(f"/new/{upload.upload_id}")
    before, upload = upload, _with_headings(context, upload)
    if upload.choices.get("sheet") != before.choices.get("sheet"):  # to be seen first
        return onward(f"/new/{upload.upload_id}")
    try:
        _require_date_order(context, upload)
        begin(context, upload)
    except UsageError as error:
        return _file(context, upload, 400, error=str(error))
    return onward(f"/new/{upload.upload_id}")


def begin(context: Context, upload: Upload) -> None:
    """Start the run of an upload, once its file is known to be readable.

    Raises:
        UsageError: settings, choices or the file are wrong.
        DeskError: it cannot be started.
    """
    require_service(context.settings, quote_only=False)
    try:
        parameters = context.uploads.parameters(upload)
    except ValidationError as error:
        raise InputError(_mistake(error)) from None
    with _in_clear(context, upload) as path:
        open_source(path, mapping=_mapping(context, upload))
    if not context.uploads.claim(upload):
        return
    try:
        start(context, parameters)
    except BaseException:
        context.uploads.give_back(upload)
        raise
    context.record(
        "run started",
        name=upload.name,
        digest=upload.digest,
        max_spend=parameters.max_spend,
    )


def applicant(context: Context) -> Response:
    """Take one applicant at the counter; quote, or quote and screen at once."""
    typed = {name: context.text(name, 200) for name, _, _ in AT_THE_COUNTER}
    if context.request.method == "GET":
        return _counter(context, typed)
    if not typed["customer_id"]:
        return _counter(context, typed, 400, error="Customer id: every applicant needs one.")
    chosen = {**_choices(context), "purpose": "origination", "batch": _COUNTER_BATCH}
    own = {}
    if context.branches:
        key = context.journal.pseudonyms.customer(_COUNTER_BATCH, typed["customer_id"])
        if context.customers.known([key]):  # else a customer of another branch would become ours
            context.require_seen(typed["customer_id"], _COUNTER_BATCH)
        own = {"branch": context.branches[0]}  # else they would not see them
    upload_id = keep_rows(context, "applicant.csv", [{**typed, **own}], chosen)
    upload = context.uploads.find(upload_id)
    assert upload is not None  # noqa: S101 - kept in the line above
    try:
        with _in_clear(context, upload) as path:
            source = open_source(path)
            (row,) = preview(source, DateOrders(source))["rows"]
        hints = [cell["hint"] for cell in row["cells"] if cell["hint"]]
        if row["refused"] or hints:
            raise InputError(row["refused"] or " ".join(hints))
        document = quote_upload(context, upload)
        upload = context.uploads.choose(upload, {"quote": document})
        if context.text("do") == "screen":
            begin(context, upload)
    except UsageError as error:
        return _counter(context, typed, 400, error=str(error))
    return onward(f"/new/{upload_id}")


def keep_rows(
    context: Context, name: str, rows: Sequence[Mapping[str, Any]], chosen: Mapping[str, Any]
) -> str:
    """Seal rows as a part of their batch and return the id of the upload."""
    choices = {**chosen, TYPED: True}
    with context.uploads.receiving(name, context.name, choices) as (upload_id, sealed):
        sealed.write(rows_as_part(rows))
    return upload_id


def _counter(
    context: Context, typed: dict[str, str], status: int = 200, *, error: str = ""
) -> Response:
    return context.page(
        "applicant",
        status,
        fields=AT_THE_COUNTER,
        typed=typed,
        error=error,
        checks=CHECKS,
        chosen={
            "checks": context.form.get("check", USUAL_CHECKS),
            "max_spend": context.text("max_spend", 20),
        },
    )
