"""The page that fixes a quarantine: refused rows as a table one can edit, and screened again.

What is typed on a page and sent is an upload, screened as a part of the run's batch. How a row is
judged is `runs/intake`.
"""

from __future__ import annotations

import csv
import io
import threading
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nightscreen.config.parameters import SCREEN_FLOW
from nightscreen.desk.context import DeskError, plain_naira
from nightscreen.desk.new_file import begin, preview, quote_upload
from nightscreen.desk.runs import find_run
from nightscreen.desk.uploads import HELD, TYPED, chosen_mapping
from nightscreen.files.outputs import QUARANTINE
from nightscreen.files.person import same_person
from nightscreen.files.quarantine import escape_formula, unescape_formula
from nightscreen.files.sealed_file import in_memory, unsealed
from nightscreen.reading.date_orders import DateOrders
from nightscreen.reading.mapping_file import Mapping, read_mapping
from nightscreen.reading.open_file import open_source
from nightscreen.results.settle_case import needs_second
from nightscreen.schemas.decisions import QUARANTINE_COLUMNS
from nightscreen.schemas.errors import InputError, UsageError
from nightscreen.schemas.policy import Decision
from nightscreen.web.forms import onward

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Mapping as AnyMapping

    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.desk.uploads import Upload
    from nightscreen.journal.runs import RunRecord

MOST_CELLS: Final = 1_200
"""Cells of one page: each is a field of its form."""
MOST_ROWS: Final = 25
FIXES, PLACES, WAITS = "fixes", "places", "waits"
"""Choices of an upload: the run whose quarantine it fixes, the places of its rows there, and
whether somebody else must confirm them."""
_AS_BEFORE: Final = (
    *("checks", "karma_identities", "karma_stop_at_first", "freshness", "policy", "shadow"),
    "merge_rows",
)
"""What rows are screened again with, as the run was."""
_OWN: Final = len(QUARANTINE_COLUMNS)
_BLANK: Final = "The row is blank. Fill it in, or restore what was in it."
_SCREENED: Final = "A customer with this id was screened in this run; keep one of them."
_ONE_AT_A_TIME: Final = threading.Lock()


@dataclass(slots=True)
class _Row:
    """One row of the quarantine.

    Attributes:
        place: its place in the file, from 0.
        came: its cells as they came; `beyond` came after the last heading.
        cells: its cells as they are now.
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

    @property
    def is_sound(self) -> bool:
        """Tell whether the row would be screened, and no cell that was changed is malformed."""
        return not self.refused and all(self.cells[at] == self.came[at] for at in self.hints)


@dataclass(slots=True)
class _Sheet:
    """A run's quarantine.

    Attributes:
        mapping: what the run's headings meant, for the refused rows.
        done: what was sent again, by place.
        waiting: rows that a second person must confirm.
    """

    run: RunRecord
    path: Path
    headings: list[str]
    mapping: Mapping
    done: dict[int, Upload]
    waiting: list[Upload]

    @property
    def page_rows(self) -> int:
        return min(MOST_ROWS, max(1, MOST_CELLS // max(1, len(self.headings))))

    def rows(self, start: int) -> Iterator[_Row]:
        """Yield rows as they came, from a place on."""
        width = len(self.headings)
        with self.path.open(encoding="utf-8", newline="") as file:
            for place, row in enumerate(islice(csv.reader(file), start + 1, None), start):
                cells = [unescape_formula(cell) for cell in row[:-_OWN]]
                line, column, _, hint = map(unescape_formula, row[-_OWN:])
                came = (cells + [""] * width)[:width]
                yield _Row(place, line, column, came, cells[width:], list(came), hint)


def fix(context: Context) -> Response:
    """Show a page of a run's quarantine."""
    sheet = _sheet(context)
    context.record("quarantine seen", run_id=sheet.run.run_id)
    return _page(context, sheet, _page_of(context, sheet, context.whole_number("page")))


def fix_rows(context: Context) -> Response:
    """Quote the changed rows of a page or screen them again; or decide about another's."""
    with _ONE_AT_A_TIME:  # a second press finds that its rows were sent already
        sheet, does = _sheet(context), context.text("do")
        if does in {"confirm", "refuse"}:
            return _second(context, sheet, does)
        number = context.text("page", 6)
        rows = _page_of(context, sheet, int(number) if number.isdecimal() else 0)
        try:
            return _send(context, sheet, rows, is_quote=does == "quote")
        except UsageError as error:
            return _page(context, sheet, rows, status=400, error=str(error))
        except DeskError as error:  # what was typed stays on the page
            return _page(context, sheet, rows, status=error.status, error=error.sentence)


def _send(context: Context, sheet: _Sheet, page: Sequence[_Row], *, is_quote: bool) -> Response:
    rows = [row for row in page if row.edited]
    wrong = ", ".join(row.line for row in rows if not row.is_sound)
    if not rows:
        raise InputError("Change a cell first: only rows that you changed are screened again.")
    if wrong:
        raise InputError(f"Not sound yet: line {wrong}. Nothing was started; see the hints.")
    upload = _keep(context, sheet, rows)
    run_id, keeps = sheet.run.run_id, False
    try:
        if is_quote:
            quote = quote_upload(context, upload)
            expected = quote["quoted"]["expected"]
            context.record("file quoted", name=upload.name, expected=expected)
            return _page(context, sheet, page, quote=quote)
        if any(_turns(context, sheet, row) for row in rows):
            context.uploads.choose(upload, {WAITS: True})
            context.record("quarantine proposed", run_id=run_id, rows=len(rows))
            keeps = True
            return onward(f"/runs/{run_id}/fix?page={page[0].place // sheet.page_rows}#second")
        begin(context, upload)
        keeps = True
    finally:
        if not keeps:
            context.uploads.remove(upload)
    context.record("quarantine screened again", run_id=run_id, rows=len(rows))
    return onward(f"/new/{upload.upload_id}")


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
    """Screen rows that another user typed, as the second person; or refuse them."""
    context.require("override")
    asked = context.text("upload", 60)
    waiting = next((each for each in sheet.waiting if each.upload_id == asked), None)
    if waiting is None or same_person(waiting.user, context.name):
        raise DeskError(409, "These rows no longer wait, or they are your own.")
    about = {"run_id": sheet.run.run_id, "by": waiting.user}
    if does == "refuse":
        context.uploads.remove(waiting)
        context.record("quarantine refused", **about)
        return onward(f"/runs/{sheet.run.run_id}/fix")
    begin(context, waiting)
    context.record("quarantine confirmed", **about)
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
    headings = [unescape_formula(each) for each in named[:-_OWN]]
    uploads = context.uploads
    sent = uploads.chosen(FIXES, value=run.run_id)
    screened = [each for each in sent if uploads.is_screened(each)]
    waiting = [each for each in sent if _waits(each)]
    done = {place: each for each in screened + waiting for place in each.choices[PLACES]}
    return _Sheet(run, path, headings, _mapping_of(context, run, headings), done, waiting)


def _waits(upload: Upload) -> bool:
    is_held = upload.state == HELD and upload.started_at is None
    return is_held and bool(upload.choices.get(WAITS))


def _mapping_of(context: Context, run: RunRecord, headings: Sequence[str]) -> Mapping:
    """Return what the run's headings meant, as a mapping for the refused rows."""
    upload = context.uploads.of_run(run)
    given = Path(run.parameters.get("mapping") or "")
    if upload is not None:
        mapping = chosen_mapping(upload)
    elif given.is_file():
        mapping = read_mapping(given)
    else:
        return Mapping()
    present = tuple(heading for heading in mapping.drop if heading in headings)
    return mapping.model_copy(update={"drop": present, "sheet": None})


def _page_of(context: Context, sheet: _Sheet, number: int) -> list[_Row]:
    """Return the rows of a page as the form has them, with what is wrong with them now."""
    last = max(0, (_total(sheet.run) - 1) // sheet.page_rows)
    start = min(number, last) * sheet.page_rows
    rows = list(islice(sheet.rows(start), sheet.page_rows))
    for row in rows:
        if row.place not in sheet.done:
            row.cells = [
                _typed(context, f"c{row.place}.{at}", came) for at, came in enumerate(row.came)
            ]
    edited = [row for row in rows if row.edited]
    _judge(context, sheet, edited)
    _judge(context, sheet, [row for row in rows if not row.edited])
    return rows


def _total(run: RunRecord) -> int:
    return int(((run.report or {}).get("rows") or {}).get("quarantined") or 0)


def _typed(context: Context, name: str, came: str) -> str:
    """Return a cell as it was typed; a browser's field holds it without breaks of a line."""
    typed = context.form.get(name, [came])[-1]
    return came if typed == came.replace("\r", "").replace("\n", "") else typed


def _judge(context: Context, sheet: _Sheet, rows: Sequence[_Row]) -> None:
    """Set what is wrong with rows, as a file of them would be judged."""
    filled = [row for row in rows if any(cell.strip() for cell in row.cells)]
    for row in rows:
        if row.edited:
            row.refused = "" if row in filled else _BLANK
    if not filled:
        return
    with in_memory(_as_part(sheet.headings, filled)) as clear:
        source = open_source(clear, mapping=sheet.mapping)
        judged = preview(source, DateOrders(source, _date_order(sheet.run)), len(filled))
    places = {column.heading: at for at, column in enumerate(judged["columns"])}
    order = [places.get(heading) for heading in sheet.headings]
    known = {column.known: places[column.heading] for column in judged["columns"]}
    ids = order.index(known["customer_id"]) if "customer_id" in known else None
    for row, found in zip(filled, judged["rows"], strict=True):
        hints = {
            at: found["cells"][place]["hint"] for at, place in enumerate(order) if place is not None
        }
        row.hints = {at: hint for at, hint in hints.items() if hint}
        if row.edited:
            row.refused = found["refused"]
            row.customer_id = "" if ids is None else row.cells[ids].strip()
        elif row.column in sheet.headings:
            row.hints.setdefault(sheet.headings.index(row.column), row.refused)
    _refuse_screened(context, sheet, filled, ids)


def _refuse_screened(
    context: Context, sheet: _Sheet, rows: Sequence[_Row], ids: int | None
) -> None:
    """Refuse changed rows that would take the place of a customer who was screened."""
    screened = context.rows.of(sheet.run)
    if screened is None or ids is None or sheet.run.parameters.get("merge_rows"):
        return
    there = screened.among([row.customer_id for row in rows if row.customer_id])
    for row in rows:
        if row.edited and not row.refused and row.customer_id in there:
            row.refused = _SCREENED
            row.hints.setdefault(ids, _SCREENED)


def _keep(context: Context, sheet: _Sheet, rows: Sequence[_Row]) -> Upload:
    """Seal the changed rows, to be screened as a part of the run's batch."""
    run = sheet.run
    chosen: dict[str, Any] = {
        **{name: run.parameters[name] for name in _AS_BEFORE if run.parameters.get(name)},
        "date_order": _date_order(run),
        "batch": run.batch,
        "purpose": run.purpose,
        "max_spend": plain_naira(context.text("max_spend", 20)),
        TYPED: True,
        FIXES: run.run_id,
        PLACES: [row.place for row in rows],
        "mapping": sheet.mapping.model_dump(mode="json"),
    }
    part = _as_part(sheet.headings, rows)
    return context.uploads.keep("fixed.csv", context.name, [part], chosen)


def _date_order(run: RunRecord) -> str:
    """Return the order of the dates of a run's file: as its dates showed it, or was answered."""
    shown = ((run.report or {}).get("provenance") or {}).get("date_orders", {}).values()
    orders = set(shown) or {run.parameters.get("date_order") or ""}
    return orders.pop() if len(orders) == 1 else ""


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
    rows: Sequence[_Row],
    *,
    status: int = 200,
    error: str = "",
    quote: AnyMapping[str, Any] | None = None,
) -> Response:
    total = _total(sheet.run)
    return context.page(
        "fix",
        status,
        run=sheet.run,
        headings=sheet.headings,
        rows=rows,
        done=sheet.done,
        mine=[each for each in sheet.waiting if same_person(each.user, context.name)],
        second=[
            (each, _changes(context, sheet, each))
            for each in sheet.waiting
            if context.may("override") and not same_person(each.user, context.name)
        ],
        page=rows[0].place // sheet.page_rows if rows else 0,
        last=max(0, (total - 1) // sheet.page_rows),
        total=total,
        max_spend=context.text("max_spend", 20),
        quote=quote,
        ceiling=context.settings.approval_above,
        error=error,
    )


def _changes(
    context: Context, sheet: _Sheet, upload: Upload
) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return the rows that wait for a second person: line, and each heading that was changed."""
    with unsealed(context.uploads.path(upload.upload_id), context.journal.sealer) as clear:
        lines = list(csv.reader(io.StringIO(clear.read_text("utf-8"), newline="")))[1:]
    places = upload.choices[PLACES]
    came = {row.place: row for row in islice(sheet.rows(places[0]), places[-1] - places[0] + 1)}
    changed = []
    for place, line in zip(places, lines, strict=True):
        now = [unescape_formula(each) for each in line[:-_OWN]]
        cells = zip(sheet.headings, came[place].came, now, strict=True)
        changed.append((came[place].line, [each for each in cells if each[1] != each[2]]))
    return changed


def waiting(context: Context) -> list[Upload]:
    """Return the typed rows that wait for this user as the second person."""
    if not context.may("override") or not context.may("screen") or context.branches:
        return []
    found = context.uploads.chosen(WAITS, value=True)
    return [e for e in found if _waits(e) and not same_person(e.user, context.name)]
