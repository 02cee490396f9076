"""The page that fixes a quarantine: refused rows as a table one can edit, and screened again.

What is typed lies sealed as an upload does, and is screened as one, as a part of the run's batch.
How a row is judged is `runs/intake`; what is brought is `uploads`.
"""

from __future__ import annotations

import csv
import io
import re
import threading
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nightscreen.config.parameters import SCREEN_FLOW
from nightscreen.desk.context import DeskError, plain_naira
from nightscreen.desk.new_file import begin, preview, quote_upload
from nightscreen.desk.runs import find_run
from nightscreen.desk.uploads import HELD, LEFT_OUT, TYPED, mapping_of
from nightscreen.files.outputs import QUARANTINE
from nightscreen.files.person import same_person
from nightscreen.files.quarantine import escape_formula, unescape_formula
from nightscreen.files.sealed_file import in_memory, unsealed
from nightscreen.reading.date_orders import DateOrders
from nightscreen.reading.mapping_file import Mapping, mapping_toml, read_mapping
from nightscreen.reading.open_file import open_source
from nightscreen.results.second_person import needs_second
from nightscreen.schemas.decisions import QUARANTINE_COLUMNS
from nightscreen.schemas.errors import InputError, UsageError
from nightscreen.schemas.policy import Decision
from nightscreen.web.forms import onward

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.desk.uploads import Upload
    from nightscreen.journal.runs import RunRecord

MOST_CELLS: Final = 1_200
"""Cells of one page: each is a field of its form."""
MOST_ROWS: Final = 25
_NUMBER: Final = re.compile(r"[0-9]{1,6}")
FIXES, PLACES, WAITS = "fixes", "places", "waits"
"""Choices of an upload: the run whose quarantine it fixes, the places of its rows there, and
whether somebody else must confirm them."""
_BLANK = "The row is blank. Fill it in, or bring back what stood there."
_SCREENED = "A customer of this id was screened in this run; keep one of them."


@dataclass(slots=True)
class _Row:
    """One row of the quarantine.

    Attributes:
        place: its place in the file, from 0.
        came: its cells as they came; `beyond` came after the last heading.
        cells: its cells as somebody left them.
        refused: why it would be refused now; empty where it would not.
        hints: what is wrong with single cells, by place.
        customer_id: whose row it is now, where that is known.
    """

    place: int
    line: str
    column: str
    came: list[str]
    beyond: list[str]
    cells: list[str]
    refused: str
    hints: dict[int, str] = field(default_factory=dict)
    customer_id: str = ""

    @property
    def edited(self) -> bool:
        return self.cells != self.came


_ONE_AT_A_TIME: Final = threading.Lock()


@dataclass(slots=True)
class _Sheet:
    """A quarantine as one user sees it: what came, and what this user typed so far.

    Attributes:
        waiting: what another user typed, where somebody else must confirm it.
        done: what was screened again, by place.
    """

    run: RunRecord
    path: Path
    headings: list[str]
    mapping: Mapping | None
    mapping_text: str
    draft: Upload | None
    waiting: Upload | None
    done: dict[int, Upload]

    @property
    def page_rows(self) -> int:
        return min(MOST_ROWS, max(1, MOST_CELLS // max(1, len(self.headings))))

    def rows(self, start: int, number: int | None) -> list[_Row]:
        """Return rows as they came, from a place on."""
        return list(self._read(start, None if number is None else start + number))

    def _read(self, start: int, end: int | None) -> Iterator[_Row]:
        width = len(self.headings)
        with self.path.open(encoding="utf-8", newline="") as file:
            found = islice(csv.reader(file), start + 1, None if end is None else end + 1)
            for place, row in enumerate(found, start):
                cells = [unescape_formula(cell) for cell in row[: -len(QUARANTINE_COLUMNS)]]
                line, column, _, hint = map(unescape_formula, row[-len(QUARANTINE_COLUMNS) :])
                came = (cells + [""] * width)[:width]
                yield _Row(place, line, column, came, cells[width:], list(came), hint)


def fix(context: Context) -> Response:
    """Show a page of a run's quarantine."""
    sheet = _sheet(context)
    edits = _edits(context, sheet.draft)
    context.record("quarantine seen", run_id=sheet.run.run_id)
    return _page(context, sheet, edits, _number(context.asked_first("page")))


def fix_rows(context: Context) -> Response:
    """Keep what was typed; then turn the page, quote the changed rows or screen them again."""
    with _ONE_AT_A_TIME:  # a second press finds that its rows were sent already
        return _fix_rows(context)


def _fix_rows(context: Context) -> Response:
    sheet = _sheet(context)
    does = context.text("do")
    if does in {"confirm", "refuse"}:
        return _second(context, sheet, does)
    page = _number(context.text("page", 9))
    edits = _edits(context, sheet.draft) | _typed(context, sheet)
    edits = {place: cells for place, cells in edits.items() if place not in sheet.done}
    rows = _judged_edits(context, sheet, edits)
    sheet.draft = draft = _keep(context, sheet, rows)
    at = f"/runs/{sheet.run.run_id}/fix"
    if does not in {"quote", "screen"}:
        return onward(f"{at}?page={_number(context.text('to', 9) or str(page))}")
    wrong = [row for row in rows if row.refused or _wrong_edits(row)]
    try:
        if draft is None:
            raise InputError("Change a cell first: only rows that you changed are screened again.")
        if wrong:
            lines = ", ".join(row.line for row in wrong[:10])
            raise InputError(
                f"Not sound yet: line {lines}. Each hint stands below its cell; nothing was "
                "started, and what you typed is kept."
            )
        if does == "quote":
            quote = quote_upload(context, draft)
            context.uploads.choose(draft, {"quote": quote})
            expected = quote["quoted"]["expected"]
            context.record("file quoted", name=draft.name, expected=expected)
            return onward(f"{at}?page={page}#quote")
        if any(_turns(context, sheet, row) for row in rows):
            context.uploads.choose(draft, {WAITS: True})
            context.record("quarantine proposed", run_id=sheet.run.run_id, rows=len(rows))
            return onward(f"{at}?page={page}#second")
        begin(context, draft)
    except UsageError as error:
        first = wrong[0].place // sheet.page_rows if wrong else page
        return _page(context, sheet, edits, first, status=400, error=str(error))
    context.record("quarantine screened again", run_id=sheet.run.run_id, rows=len(rows))
    return onward(f"/new/{draft.upload_id}")


def _turns(context: Context, sheet: _Sheet, row: _Row) -> bool:
    """Tell whether a row may turn the decline of a customer into approve above what one may."""
    return bool(row.customer_id) and needs_second(
        context.journal,
        context.settings.override_above,
        batch=sheet.run.batch,
        customer_id=row.customer_id,
        decision=Decision.APPROVE.value,
    )


def _second(context: Context, sheet: _Sheet, does: str) -> Response:
    """Screen rows that another user typed, as the second person; or send them back."""
    context.require("override")
    waiting, about = sheet.waiting, {"run_id": sheet.run.run_id}
    if waiting is None or waiting.upload_id != context.text("upload", 60):
        raise DeskError(409, "These rows do not wait any more, or were changed. Look again.")
    if does == "refuse":
        context.uploads.choose(waiting, {WAITS: False})
        context.record("quarantine refused", **about, by=waiting.user)
        return onward(f"/runs/{sheet.run.run_id}/fix")
    begin(context, waiting)
    context.record("quarantine confirmed", **about, by=waiting.user)
    return onward(f"/runs/{sheet.run.run_id}")


def _sheet(context: Context) -> _Sheet:
    """Return the quarantine that the address names.

    Raises:
        DeskError: the run has none.
    """
    run = find_run(context)
    path = Path(run.folder) / QUARANTINE
    if run.flow != SCREEN_FLOW or not path.is_file():
        raise DeskError(404, "This run has no quarantine here: nothing was refused, or it is gone.")
    with path.open(encoding="utf-8", newline="") as file:
        named = next(csv.reader(file), [])
    headings = [unescape_formula(each) for each in named[: -len(QUARANTINE_COLUMNS)]]
    text = _mapping_of(context, run, headings)
    mapping = None
    if text:
        with in_memory(text.encode()) as clear:
            mapping = read_mapping(clear)
    uploads = context.uploads
    done: dict[int, Upload] = {}
    draft = waiting = None
    for upload in uploads.chosen(FIXES, value=run.run_id):
        if uploads.is_screened(upload):
            done |= dict.fromkeys(upload.choices[PLACES], upload)
        elif upload.state == HELD and same_person(upload.user, context.name):
            draft = upload
        elif upload.state == HELD and upload.choices.get(WAITS):
            waiting = upload
    return _Sheet(run, path, headings, mapping, text, draft, waiting, done)


def _mapping_of(context: Context, run: RunRecord, headings: Sequence[str]) -> str:
    """Return what the run's headings meant, as a mapping for the refused rows; may be empty."""
    upload = context.uploads.of_run(run)
    if upload is not None:
        chosen = upload.choices
        meant = chosen.get("headings") or {}
        kept = {each: known for each, known in meant.items() if known != LEFT_OUT}
        if chosen.get("mapping"):
            return str(chosen["mapping"])
        columns = mapping_of(kept, chosen.get("understood") or {}) if meant else Mapping()
        found = columns.model_copy(update={"date_order": chosen.get("declared")})
        return "" if found == Mapping() else mapping_toml(found)
    given = Path(run.parameters.get("mapping") or "")
    if not given.is_file():
        return ""
    mapping = read_mapping(given)
    present = tuple(heading for heading in mapping.drop if heading in headings)
    return mapping_toml(mapping.model_copy(update={"drop": present, "sheet": None}))


def _edits(context: Context, draft: Upload | None) -> dict[int, list[str]]:
    """Return the rows somebody changed before, by place."""
    if draft is None:
        return {}
    path = context.uploads.path(draft.upload_id)
    with unsealed(path, context.journal.sealer) as clear:
        lines = csv.reader(io.StringIO(clear.read_text("utf-8"), newline=""))
        next(lines)
        cells = [
            [unescape_formula(each) for each in row[: -len(QUARANTINE_COLUMNS)]] for row in lines
        ]
    return dict(zip(draft.choices[PLACES], cells, strict=True))


def _typed(context: Context, sheet: _Sheet) -> dict[int, list[str]]:
    """Return the rows of the form as they were typed, by place."""
    places = sorted(
        {_number(each) for each in context.form.get("row", []) if _NUMBER.fullmatch(each)}
    )
    if not places:
        return {}
    shown = sheet.rows(places[0], min(places[-1] - places[0] + 1, MOST_ROWS))
    typed = {}
    for row in shown:
        if row.place not in places:
            continue
        given = [context.form.get(f"c{row.place}.{at}") for at in range(len(row.came))]
        typed[row.place] = [
            came if new is None or new[-1] == _in_one_line(came) else new[-1]
            for came, new in zip(row.came, given, strict=True)
        ]
    return typed


def _in_one_line(cell: str) -> str:
    """Return a cell as a browser's field holds it: without breaks of a line."""
    return cell.replace("\r", "").replace("\n", "")


def _judged_edits(context: Context, sheet: _Sheet, edits: dict[int, list[str]]) -> list[_Row]:
    """Return the changed rows with what is wrong with them now."""
    if not edits:
        return []
    first, last = min(edits), max(edits)
    rows = [row for row in sheet.rows(first, last - first + 1) if row.place in edits]
    for row in rows:
        row.cells = edits[row.place]
    rows = [row for row in rows if row.edited]
    ids = _judge(sheet, rows)
    if ids is not None:
        for row in rows:
            row.customer_id = row.cells[ids].strip()
    screened = context.rows.of(sheet.run)
    if screened is None or ids is None or sheet.run.parameters.get("merge_rows"):
        return rows
    there = screened.among([row.cells[ids].strip() for row in rows])
    for row in rows:  # one row must not take the place of another
        if not row.refused and row.cells[ids].strip() in there:
            row.refused = _SCREENED
            row.hints.setdefault(ids, _SCREENED)
    return rows


def _judge(sheet: _Sheet, rows: Sequence[_Row]) -> int | None:
    """Set what is wrong with rows, as a file of them would be judged.

    Returns the place of the heading that means the customer's id, where it is known.
    """
    filled = []
    for row in rows:
        row.refused = "" if row.edited else row.refused
        if any(cell.strip() for cell in row.cells):
            filled.append(row)
        elif row.edited:
            row.refused = _BLANK
    if not filled:
        return None
    with in_memory(_as_part(sheet.headings, filled)) as clear:
        source = open_source(clear, mapping=sheet.mapping)
        judged = preview(source, DateOrders(source, _date_order(sheet.run)), len(filled))
    places = {column.heading: at for at, column in enumerate(judged["columns"])}
    order = [places.get(heading) for heading in sheet.headings]
    for row, found in zip(filled, judged["rows"], strict=True):
        cells = found["cells"]
        row.hints = {
            at: cells[place]["hint"]
            for at, place in enumerate(order)
            if place is not None and cells[place]["hint"]
        }
        if row.edited:
            row.refused = found["refused"]
        elif row.column in sheet.headings:
            row.hints.setdefault(sheet.headings.index(row.column), row.refused)
    known = {column.known: places[column.heading] for column in judged["columns"]}
    place = known.get("customer_id")
    return None if place is None else order.index(place)


def _wrong_edits(row: _Row) -> bool:
    """Tell whether a cell that was changed is malformed as it is now."""
    return any(row.cells[at] != row.came[at] for at in row.hints)


def _keep(context: Context, sheet: _Sheet, rows: Sequence[_Row]) -> Upload | None:
    """Seal the changed rows in place of what was kept before; None where nothing is changed."""
    uploads, run = context.uploads, sheet.run
    given = run.parameters
    chosen = {
        **{name: given[name] for name in _AS_BEFORE if given.get(name)},
        "date_order": _date_order(run),
        "batch": run.batch,
        "purpose": run.purpose,
        "max_spend": plain_naira(context.text("max_spend", 20)),
        TYPED: True,
        FIXES: run.run_id,
        PLACES: [row.place for row in rows],
        "mapping": sheet.mapping_text,
    }
    kept = None
    if rows:
        with uploads.receiving("fixed.csv", context.name, chosen) as (upload_id, sealed):
            sealed.write(_as_part(sheet.headings, rows))
        kept = uploads.find(upload_id)
        assert kept is not None  # noqa: S101 - kept in the lines above
        kept = uploads.choose(kept, {})
    if sheet.draft is not None:
        uploads.remove(sheet.draft)
    return kept


def _date_order(run: RunRecord) -> str:
    """Return the order of the dates of a run's file: as its dates showed it, or was answered."""
    shown = ((run.report or {}).get("provenance") or {}).get("date_orders", {}).values()
    orders = set(shown) or {run.parameters.get("date_order") or ""}
    return orders.pop() if len(orders) == 1 else ""


_AS_BEFORE = (
    *("checks", "karma_identities", "karma_stop_at_first", "freshness", "policy", "shadow"),
    "merge_rows",
)
"""What rows are screened again with, as the run was."""


def _as_part(headings: Sequence[str], rows: Sequence[_Row]) -> bytes:
    """Return rows as a file that counts as a part of its batch: a quarantine that was fixed."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow([*map(escape_formula, headings), *QUARANTINE_COLUMNS])
    for row in rows:
        writer.writerow([*map(escape_formula, row.cells), row.line, "", "", ""])
    return text.getvalue().encode()


def _page(
    context: Context,
    sheet: _Sheet,
    edits: dict[int, list[str]],
    page: int,
    *,
    status: int = 200,
    error: str = "",
) -> Response:
    total = int(((sheet.run.report or {}).get("rows") or {}).get("quarantined") or 0)
    last = max(0, (total - 1) // sheet.page_rows)
    page = min(page, last)
    rows = sheet.rows(page * sheet.page_rows, sheet.page_rows)
    changed = {row.place: row for row in _judged_edits(context, sheet, edits)}
    rows = [changed.get(row.place, row) for row in rows]
    _judge(sheet, [row for row in rows if not row.edited])
    kept = {} if sheet.draft is None else sheet.draft.choices
    return context.page(
        "fix",
        status,
        run=sheet.run,
        headings=sheet.headings,
        rows=rows,
        done=sheet.done,
        changed=len(changed),
        waits=bool(kept.get(WAITS)),
        second=_changes(context, sheet) if sheet.waiting and context.may("override") else None,
        second_of=sheet.waiting,
        page=page,
        last=last,
        total=total,
        max_spend=context.text("max_spend", 20) or kept.get("max_spend", ""),
        quote=None if error else kept.get("quote"),
        ceiling=context.settings.approval_above,
        error=error,
    )


def _changes(context: Context, sheet: _Sheet) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return the rows that wait for a second person: line, and each heading that was changed."""
    edits = _edits(context, sheet.waiting)
    rows = _judged_edits(context, sheet, edits)
    return [
        (
            row.line,
            [
                (heading, came, now)
                for heading, came, now in zip(sheet.headings, row.came, row.cells, strict=True)
                if came != now
            ],
        )
        for row in rows
    ]


def waiting(context: Context) -> list[Upload]:
    """Return the typed rows that wait for this user as the second person."""
    if not context.may("override") or not context.may("screen") or context.branches:
        return []
    return [
        each
        for each in context.uploads.chosen(WAITS, value=True)
        if each.state == HELD
        and not same_person(each.user, context.name)
        and each.started_at is None
    ]


def _number(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0
