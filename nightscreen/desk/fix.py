"""The page that fixes a quarantine: refused rows as a table one can edit, and screened again.

What is typed on a page and sent is an upload, screened as a part of the run's batch. How a row is
judged is `runs/intake`.
"""

from __future__ import annotations

import csv
import io
import threading
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nightscreen.config.parameters import SCREEN_FLOW
from nightscreen.desk.context import DeskError, plain_naira
from nightscreen.desk.new_file import begin, preview, quote_upload
from nightscreen.desk.run_rows import rows_of_run
from nightscreen.desk.runs import find_run
from nightscreen.desk.uploads import TYPED, chosen_mapping
from nightscreen.files.outputs import QUARANTINE
from nightscreen.files.person import same_person
from nightscreen.files.quarantine import escape_formula, unescape_formula
from nightscreen.files.sealed_file import in_memory, unsealed
from nightscreen.reading.columns import meanings
from nightscreen.reading.date_orders import DateOrders
from nightscreen.reading.mapping_file import Mapping, read_mapping
from nightscreen.reading.open_file import open_source
from nightscreen.results.settle_case import needs_second
from nightscreen.schemas.decisions import QUARANTINE_COLUMNS
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.policy import Decision
from nightscreen.schemas.uploads import HELD
from nightscreen.web.forms import onward

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Mapping as AnyMapping

    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.uploads import Upload

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
_ONE_AT_A_TIME: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of the quarantine.

    Attributes:
        place: its place in the file, from 0.
        hint: why it was refused; it is about the cell `wrong`, None where about the whole row.
        came: its cells as they came; `beyond` came after the last heading.
        cells: its cells as they are now.
    """

    place: int
    line: str
    hint: str
    wrong: int | None
    came: list[str]
    beyond: list[str]
    cells: list[str]


@dataclass(frozen=True, slots=True)
class _Sheet:
    """A run's quarantine.

    Attributes:
        mapping: what the run's headings meant, for the refused rows.
        date_order: of the run's file, as its dates showed it, or as was answered.
        done: what was sent again, by place.
        waiting: rows that a second person must confirm.
    """

    run: RunRecord
    path: Path
    headings: list[str]
    mapping: Mapping
    date_order: str
    done: dict[int, Upload]
    waiting: list[Upload]

    def rows(self, start: int, form: AnyMapping[str, list[str]]) -> Iterator[_Row]:
        """Yield rows from a place on, with what was typed of them."""
        width = len(self.headings)
        with self.path.open(encoding="utf-8", newline="") as file:
            for place, row in enumerate(islice(csv.reader(file), start + 1, None), start):
                cells = [unescape_formula(cell) for cell in row[:-_OWN]]
                line, column, _, hint = map(unescape_formula, row[-_OWN:])
                came = (cells + [""] * width)[:width]
                typed = [
                    _typed(form, f"c{place}.{at}", cell) if place not in self.done else cell
                    for at, cell in enumerate(came)
                ]
                yield _Row(place, line, hint, self._about(column), came, cells[width:], typed)

    def _about(self, column: str) -> int | None:
        """Return which cell a column of the quarantine's own means: by heading, or by meaning."""
        named = self.mapping.columns.get(column, ())
        return next(
            (
                at
                for at, heading in enumerate(self.headings)
                if heading in {column, *named} or column in meanings(heading)[:1]
            ),
            None,
        )

    def page(self, context: Context) -> tuple[list[_Row], dict[str, int]]:
        """Return the rows of the page that the address names, and where it is."""
        number = int(((self.run.report or {}).get("rows") or {}).get("quarantined") or 0)
        size = min(MOST_ROWS, max(1, MOST_CELLS // max(1, len(self.headings))))
        start, where = context.slice(number, size)
        return list(islice(self.rows(start, context.form), size)), where


def _typed(form: AnyMapping[str, list[str]], name: str, came: str) -> str:
    """Return a cell as it was typed; a browser's field holds it without breaks of a line."""
    typed = form.get(name, [came])[-1]
    return came if typed == came.replace("\r", "").replace("\n", "") else typed


def fix(context: Context) -> Response:
    """Show a page of a run's quarantine."""
    sheet = _sheet(context, find_run(context))
    context.record("quarantine seen", run_id=sheet.run.run_id)
    return _page(context, sheet)


def fix_rows(context: Context) -> Response:
    """Quote the changed rows of a page or screen them again; or decide about another's."""
    with _ONE_AT_A_TIME:  # a second press finds that its rows were sent already
        sheet, does = _sheet(context, find_run(context)), context.text("do")
        if does in {"confirm", "refuse"}:
            return _second(context, sheet, does)
        page, _ = sheet.page(context)
        rows = [row for row in page if row.cells != row.came]
        if not rows:
            raise InputError("Change a cell first: only rows that you changed are screened again.")
        customers = _sound_customers(sheet, rows)
        upload, keeps = _keep(context, sheet, rows), False
        try:
            if does == "quote":
                return _page(context, sheet, quote=quote_upload(context, upload))
            response = _send(context, sheet, upload, customers)
            keeps = True
        finally:
            if not keeps:
                context.uploads.remove(upload)
    return response


def _send(context: Context, sheet: _Sheet, upload: Upload, customers: Sequence[str]) -> Response:
    """Screen rows again, or have them wait for a second person."""
    run, number = sheet.run, len(customers)
    if any(_turns(context, run, customer_id) for customer_id in customers):
        context.uploads.choose(upload, {WAITS: True})
        context.record("quarantine proposed", run_id=run.run_id, rows=number)
        page = context.whole_number("page")
        return onward(f"/runs/{run.run_id}/fix?page={page}#second")
    begin(context, upload)
    context.record("quarantine screened again", run_id=run.run_id, rows=number)
    return onward(f"/new/{upload.upload_id}")


def _turns(context: Context, run: RunRecord, customer_id: str) -> bool:
    """Tell whether a row may turn the decline of a customer into approve above what one may."""
    above = context.settings.override_above
    about = {"batch": run.batch, "customer_id": customer_id, "decision": Decision.APPROVE.value}
    return bool(customer_id) and needs_second(context.journal, above, **about)


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


def _sheet(context: Context, run: RunRecord) -> _Sheet:
    """Return the quarantine of a run.

    Raises:
        DeskError: the run has none.
    """
    path = Path(run.folder) / QUARANTINE
    if run.flow != SCREEN_FLOW or not path.is_file():
        raise DeskError(404, "This run has no quarantine here: nothing was refused, or it is gone.")
    with path.open(encoding="utf-8", newline="") as file:
        named = next(csv.reader(file), [])
    headings = [unescape_formula(each) for each in named[:-_OWN]]
    done, waiting = _sent_again(context, run)
    shown = ((run.report or {}).get("provenance") or {}).get("date_orders", {}).values()
    orders = set(shown) or {run.parameters.get("date_order") or ""}
    order = orders.pop() if len(orders) == 1 else ""
    mapping = _mapping_of(context, run, headings)
    return _Sheet(run, path, headings, mapping, order, done, waiting)


def _sent_again(context: Context, run: RunRecord) -> tuple[dict[int, Upload], list[Upload]]:
    """Return what was sent again of a run's quarantine, by place, and what of it waits."""
    uploads = context.uploads
    sent = uploads.chosen(FIXES, value=run.run_id)
    screened = [each for each in sent if uploads.is_screened(each)]
    waiting = [each for each in sent if _waits(each)]
    done = {place: each for each in screened + waiting for place in each.choices[PLACES]}
    return done, waiting


def _waits(upload: Upload) -> bool:
    is_held = upload.state == HELD and upload.started_at is None
    return is_held and bool(upload.choices.get(WAITS))


def _mapping_of(context: Context, run: RunRecord, headings: Sequence[str]) -> Mapping:
    """Return what the run's headings meant, as a mapping for the refused rows."""
    upload = context.uploads.of_run(run)
    given = Path(run.parameters.get("mapping") or "")
    if upload is None and not given.is_file():
        return Mapping()
    mapping = read_mapping(given) if upload is None else chosen_mapping(upload)
    present = tuple(heading for heading in mapping.drop if heading in headings)
    return mapping.model_copy(update={"drop": present, "sheet": None})


def _sound_customers(sheet: _Sheet, rows: Sequence[_Row]) -> list[str]:
    """Return whose each changed row is, judged as a file of them would be.

    Raises:
        InputError: a row would be refused, or a cell that was changed is malformed.
    """
    wrong = [
        f"line {row.line}: The row is blank." for row in rows if not "".join(row.cells).strip()
    ]
    customers: list[str] = []
    if not wrong:
        with in_memory(_as_part(sheet.headings, rows)) as clear:
            source = open_source(clear, mapping=sheet.mapping)
            judged = preview(source, DateOrders(source, sheet.date_order), len(rows))
        columns = judged["columns"]
        ids = next((at for at, each in enumerate(columns) if each.known == "customer_id"), None)
        for row, found in zip(rows, judged["rows"], strict=True):
            there = dict(zip(sheet.headings, zip(row.came, row.cells, strict=True), strict=True))
            hints = [
                f"{column.heading}: {cell['hint']}"
                for column, cell in zip(columns, found["cells"], strict=True)
                if cell["hint"] and len(set(there.get(column.heading, ()))) > 1
            ]
            said = [found["refused"]] if found["refused"] else hints
            wrong += [f"line {row.line}: {each}" for each in said]
            customers.append("" if ids is None else found["cells"][ids]["written"].strip())
    if not wrong and not sheet.run.parameters.get("merge_rows"):
        screened = rows_of_run(sheet.run)
        there_already = set() if screened is None else screened.among(customers)
        wrong = [
            f"line {row.line}: A customer with this id was screened in this run; keep one of them."
            for row, customer_id in zip(rows, customers, strict=True)
            if customer_id in there_already
        ]
    if wrong:
        raise InputError("Not sound yet, and nothing was started; " + "; ".join(wrong))
    return customers


def _keep(context: Context, sheet: _Sheet, rows: Sequence[_Row]) -> Upload:
    """Seal the changed rows, to be screened as a part of the run's batch."""
    run = sheet.run
    chosen: dict[str, Any] = {
        **{name: run.parameters[name] for name in _AS_BEFORE if run.parameters.get(name)},
        "date_order": sheet.date_order,
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


def _as_part(headings: Sequence[str], rows: Sequence[_Row]) -> bytes:
    """Return rows as a file that counts as a part of its batch: a quarantine that was fixed."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow([*map(escape_formula, headings), *QUARANTINE_COLUMNS])
    for row in rows:
        writer.writerow([*map(escape_formula, row.cells), row.line, "", "", ""])
    return text.getvalue().encode()


def _page(
    context: Context, sheet: _Sheet, *, quote: AnyMapping[str, Any] | None = None
) -> Response:
    rows, where = sheet.page(context)
    others = [each for each in sheet.waiting if not same_person(each.user, context.name)]
    return context.page(
        "fix",
        run=sheet.run,
        headings=sheet.headings,
        rows=rows,
        done=sheet.done,
        mine=len(others) < len(sheet.waiting),
        second=[(each, _changes(context, sheet, each)) for each in others]
        if context.may("override")
        else [],
        where=where,
        max_spend=context.text("max_spend", 20),
        quote=quote,
        ceiling=context.settings.approval_above,
    )


def _changes(
    context: Context, sheet: _Sheet, upload: Upload
) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return the rows that wait for a second person: line, and each heading that was changed."""
    with unsealed(context.uploads.path(upload.upload_id), context.journal.sealer) as clear:
        lines = list(csv.reader(io.StringIO(clear.read_text("utf-8"), newline="")))[1:]
    places = upload.choices[PLACES]
    came = {row.place: row for row in islice(sheet.rows(places[0], {}), places[-1] - places[0] + 1)}
    changed = []
    for place, line in zip(places, lines, strict=True):
        now = [unescape_formula(each) for each in line[:-_OWN]]
        cells = zip(sheet.headings, came[place].came, now, strict=True)
        changed.append((came[place].line, [each for each in cells if each[1] != each[2]]))
    return changed


def left(context: Context, run: RunRecord) -> int:
    """Return how many rows of a run's quarantine nobody has sent again yet."""
    refused = int(((run.report or {}).get("rows") or {}).get("quarantined") or 0)
    if not refused or not (Path(run.folder) / QUARANTINE).is_file():
        return 0
    done, _ = _sent_again(context, run)
    return refused - len(done)


def waiting(context: Context) -> list[Upload]:
    """Return the typed rows that wait for this user as the second person."""
    if not context.may("override") or not context.may("screen") or context.branches:
        return []
    found = context.uploads.chosen(WAITS, value=True)
    return [e for e in found if _waits(e) and not same_person(e.user, context.name)]
