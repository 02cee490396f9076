"""The page that fixes a file: its rows as a table one can edit, and screened again.

Refused rows are on one list; on the other are rows that were screened with values that were not
understood. What is typed on a page and sent is an upload, screened as a part of the run's batch;
it holds for later files too (`runs/corrections.py`). How a row is judged is `runs/intake`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import threading
from dataclasses import dataclass, replace
from functools import cache
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
from nightscreen.files.quarantine import escape_formula, records, unescape_formula
from nightscreen.files.sealed_file import in_memory, unsealed
from nightscreen.journal.records import Records
from nightscreen.reading.columns import meanings
from nightscreen.reading.date_orders import DateOrders
from nightscreen.reading.mapping_file import Mapping, read_mapping
from nightscreen.reading.open_file import open_source
from nightscreen.results.settle_case import needs_second
from nightscreen.runs.corrections import Corrections
from nightscreen.schemas.columns import IDENTIFIERS
from nightscreen.schemas.corrections import Correction, Dismissal, RowToCorrect
from nightscreen.schemas.decisions import QUARANTINE_COLUMNS
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.naming import contains_identifier
from nightscreen.schemas.policy import Decision
from nightscreen.schemas.uploads import FIXES, HELD, WAITS
from nightscreen.web.forms import onward

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Mapping as AnyMapping

    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.uploads import Upload

MOST_CELLS: Final = 1_200
"""Cells of one page: each is a field of its form."""
MOST_ROWS: Final = 25
MOST_BY_RULE: Final = 500
"""Rows that one rule changes; of each it is asked whether a second person must confirm it."""
LIST, LINES, REFERENCE = "list", "lines", "reference"
"""Choices of an upload: on which list its rows are, their lines in the lender's file, and where
the evidence is."""
LONGEST_REFERENCE: Final = 200
REFUSED, VALUES = "", "values"
"""The lists, as the address names them."""
_PROVED: Final = frozenset(
    {
        *(name for each in IDENTIFIERS.values() for name in each.columns),
        *("bank_name", "consent_reference", "consented_at"),
        *("consent_expires_at", "consent_withdrawn_at"),
    }
)
"""Columns whose correction needs a reference: whom the service is asked about, and whether."""
_AS_BEFORE: Final = (
    *("checks", "karma_identities", "karma_stop_at_first", "freshness", "policy", "shadow"),
    "merge_rows",
)
"""What rows are screened again with, as the run was."""
_OWN: Final = len(QUARANTINE_COLUMNS)
_ONE_AT_A_TIME: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of a list.

    Attributes:
        line: of the lender's file.
        hint: what is wrong; it is about the cell `wrong`, None where about the whole row.
        came: its cells as they came; `beyond` came after the last heading.
        cells: its cells as they are now.
    """

    line: int
    hint: str
    wrong: int | None
    came: list[str]
    beyond: list[str]
    cells: list[str]


@dataclass(frozen=True, slots=True)
class _Sheet:
    """One of a run's lists.

    Attributes:
        which: of the lists.
        quarantine: the file of refused rows.
        kept: the rows to correct, in the order of their lines.
        mapping: what the run's headings meant, for the refused rows.
        date_order: of the run's file, as its dates showed it, or as was answered.
        done: what was sent again, by line.
        waiting: rows that a second person must confirm.
        dismissed: which rows are nobody's, by line.
    """

    which: str
    run: RunRecord
    quarantine: Path
    kept: Sequence[RowToCorrect]
    headings: list[str]
    mapping: Mapping
    date_order: str
    done: dict[int, Upload]
    waiting: Sequence[Upload]
    dismissed: AnyMapping[int, Dismissal]

    @property
    def number(self) -> int:
        """Return how many rows it has."""
        return len(self.kept) if self.which == VALUES else _refused(self.run)

    def _came(self) -> Iterator[tuple[int, list[str], str, str]]:
        """Yield line, cells, column and hint of each row."""
        for row in self.kept:
            yield row.line, list(row.cells), row.column, row.hint
        if self.which == REFUSED:
            for cells, (line, column, _, hint) in _refused_rows(self.quarantine):
                yield int(line), cells, column, hint

    def rows(
        self, form: AnyMapping[str, list[str]], start: int = 0, number: int | None = None
    ) -> Iterator[_Row]:
        """Yield so many rows from one on, or all, with what was typed of them."""
        width, end = len(self.headings), None if number is None else start + number
        about = cache(self.about)  # the same few columns in every row
        for line, cells, column, hint in islice(self._came(), start, end):
            came = (cells + [""] * width)[:width]
            typed = [
                cell
                if line in self.done or line in self.dismissed
                else _typed(form, f"c{line}.{at}", cell)
                for at, cell in enumerate(came)
            ]
            yield _Row(line, hint, about(column), came, cells[width:], typed)

    def about(self, column: str) -> int | None:
        """Return which cell a column means that the list names: by heading, or by meaning."""
        named = self.mapping.columns.get(column)
        for at, heading in enumerate(self.headings):
            means = heading == column or column in meanings(heading)[:1]
            if means if named is None else heading in named:
                return at
        return None

    def page(self, context: Context) -> tuple[list[_Row], dict[str, int]]:
        """Return the rows of the page that the address names, and where it is."""
        size = min(MOST_ROWS, max(1, MOST_CELLS // max(1, len(self.headings))))
        start, where = context.slice(self.number, size)
        return list(self.rows(context.form, start, size)), where


def _typed(form: AnyMapping[str, list[str]], name: str, came: str) -> str:
    """Return a cell as it was typed; a browser's field holds it without breaks of a line."""
    typed = form.get(name, [came])[-1]
    return came if typed == came.replace("\r", "").replace("\n", "") else typed


def fix(context: Context) -> Response:
    """Show a page of one of a run's lists."""
    sheet = _sheet(context, find_run(context))
    context.record("quarantine seen", run_id=sheet.run.run_id, list=sheet.which)
    return _page(context, sheet)


def fix_rows(context: Context) -> Response:
    """Quote the changed rows of a page or screen them again; or decide about another's."""
    with _ONE_AT_A_TIME:  # a second press finds that its rows were sent already
        sheet, does = _sheet(context, find_run(context)), context.text("do")
        if does in {"confirm", "refuse"}:
            return _second(context, sheet, does)
        if "dismiss" in context.form:
            _dismiss(context, sheet)
            return onward(_address(sheet, f"page={context.whole_number('page')}"))
        page, _ = sheet.page(context)
        changed = {row.line: row for row in page if row.cells != row.came}
        changed |= {row.line: row for row in _by_rule(context, sheet)}
        rows = [changed[line] for line in sorted(changed)]
        if not rows:
            raise InputError("Change a cell first: only rows that you changed are screened again.")
        customers = _sound_customers(context.journal, sheet, rows, _reference(context))
        upload, keeps = _keep(context, sheet, rows), False
        try:
            if does == "quote":
                return _page(context, sheet, quote=quote_upload(context, upload))
            response = _send(context, sheet, upload, customers)
            keeps = True
        finally:
            kept = context.uploads.find(upload.key)
            if not keeps and kept is not None and kept.started_at is None:
                context.uploads.remove(upload)
    return response


def _by_rule(context: Context, sheet: _Sheet) -> list[_Row]:
    """Return every row whose cell in a column is what the form names, with the other text there.

    What was typed into its other cells stays.

    Raises:
        InputError: no row has it.
    """
    column, came, becomes = (context.text(f"rule_{each}") for each in ("column", "came", "becomes"))
    if not column and not came and not becomes:
        return []
    at = sheet.headings.index(column) if column in sheet.headings else None
    found = []
    for row in sheet.rows(context.form):
        is_open = row.line not in sheet.done and row.line not in sheet.dismissed
        if at is not None and is_open and row.came[at].strip() == came != becomes:
            cells = [becomes if place == at else cell for place, cell in enumerate(row.cells)]
            found.append(replace(row, cells=cells))
            if len(found) == MOST_BY_RULE:
                break
    if not found:
        raise InputError(f"No row on this list has {came or 'nothing'} under {column or '…'}.")
    return found


def _dismiss(context: Context, sheet: _Sheet) -> None:
    """Write down that a refused row is nobody's, here and in later files that have it again."""
    named, run = context.text("dismiss", 9), sheet.run
    refused = () if sheet.which == VALUES else _refused_rows(sheet.quarantine)
    cells, why = next(((cells, why) for cells, why in refused if why[0] == named), ([], ["0"]))
    line, ids = int(why[0]), sheet.about("customer_id")
    if not cells or line in sheet.done:
        raise DeskError(409, "This row is not one to dismiss: it was sent again, or is gone.")
    customer_id = "" if ids is None else cells[ids].strip()
    made = Dismissal(
        key=f"{run.run_id}.{line}",
        customer=context.journal.pseudonyms.customer(run.batch, customer_id)
        if customer_id
        else b"",
        batch=run.batch,
        run_id=run.run_id,
        at=context.clock(),
        row=_digest(cells, why),
        by=context.name,
    )
    if Records.of(context.journal, Dismissal).add([made]):
        context.record("quarantine dismissed", run_id=run.run_id, line=line)


def _digest(cells: Sequence[str], why: Sequence[str]) -> str:
    """Return what tells a refused row, as it came and with why it is refused, from any other."""
    _, column, code, _ = why
    return hashlib.sha256(json.dumps([*cells, column, code]).encode()).hexdigest()


def _send(context: Context, sheet: _Sheet, upload: Upload, customers: Sequence[str]) -> Response:
    """Screen rows again, or have them wait for a second person."""
    run, number = sheet.run, len(customers)
    pseudonyms = context.journal.pseudonyms
    keys = {each: pseudonyms.customer(run.batch, each) for each in customers if each}
    known = context.customers.known(list(keys.values()))
    if any(_turns(context, run, each) for each, key in keys.items() if key in known):
        context.uploads.choose(upload, {WAITS: True})
        context.record("quarantine proposed", run_id=run.run_id, rows=number)
        page = f"page={context.whole_number('page')}"
        return onward(f"{_address(sheet, page)}#second")
    begin(context, upload)
    _correct(context, sheet, upload)
    context.record("quarantine screened again", run_id=run.run_id, rows=number)
    return onward(f"/new/{upload.upload_id}")


def _turns(context: Context, run: RunRecord, customer_id: str) -> bool:
    """Tell whether a row may turn the decline of a customer into approve above what one may."""
    above = context.settings.override_above
    about = {"batch": run.batch, "customer_id": customer_id, "decision": Decision.APPROVE.value}
    return needs_second(context.journal, above, **about)


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
        return onward(_address(sheet))
    begin(context, waiting)
    _correct(context, sheet, waiting)
    context.record("quarantine confirmed", **about)
    return onward(f"/runs/{sheet.run.run_id}")


def _sheet(context: Context, run: RunRecord) -> _Sheet:
    """Return the list of a run that the address names.

    Raises:
        DeskError: the run has none.
    """
    which = VALUES if context.asked_first("list") == VALUES else REFUSED
    quarantine, kept = Path(run.folder) / QUARANTINE, list[RowToCorrect]()
    if which == VALUES:
        found = Records.of(context.journal, RowToCorrect).of_run(run.run_id)
        kept = sorted(found, key=lambda row: row.line)
    if run.flow != SCREEN_FLOW or not (kept if which == VALUES else quarantine.is_file()):
        raise DeskError(404, "Nothing is to be fixed here, or it is too old and gone.")
    if which == VALUES:
        headings = list(kept[0].headings)
    else:
        named, _ = next(records(quarantine), ([], ""))
        headings = named[:-_OWN]
    done, waiting = _sent_again(context, run, which)
    gone = _dismissed(context, run) if which == REFUSED else {}
    shown = ((run.report or {}).get("provenance") or {}).get("date_orders", {}).values()
    orders = set(shown) or {run.parameters.get("date_order") or ""}
    order = orders.pop() if len(orders) == 1 else ""
    mapping = _mapping_of(context, run, headings)
    return _Sheet(which, run, quarantine, kept, headings, mapping, order, done, waiting, gone)


def _address(sheet: _Sheet, *parameters: str) -> str:
    """Return the address of a list's page."""
    named = [f"list={sheet.which}"] if sheet.which else []
    asked = "&".join([*named, *parameters])
    return f"/runs/{sheet.run.run_id}/fix" + (f"?{asked}" if asked else "")


def _refused(run: RunRecord) -> int:
    return int(((run.report or {}).get("rows") or {}).get("quarantined") or 0)


def _number(context: Context, run: RunRecord, which: str) -> int:
    """Return how many rows a list of a run has."""
    if which == VALUES:
        return Records.of(context.journal, RowToCorrect).number_of_run(run.run_id)
    return _refused(run) if (Path(run.folder) / QUARANTINE).is_file() else 0


def _refused_rows(quarantine: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the cells of each refused row as they came, and its line, column, code and hint."""
    for cells, _ in islice(records(quarantine), 1, None):
        yield cells[:-_OWN], cells[-_OWN:]


def _dismissed(context: Context, run: RunRecord) -> dict[int, Dismissal]:
    """Return which refused rows somebody dismissed, here or in an earlier file, by line."""
    kept = Records.of(context.journal, Dismissal).all(batch=run.batch)
    gone, quarantine = {each.row: each for each in kept}, Path(run.folder) / QUARANTINE
    refused = _refused_rows(quarantine) if gone else ()
    found = ((int(why[0]), gone.get(_digest(cells, why))) for cells, why in refused)
    return {line: each for line, each in found if each is not None}


def _sent_again(
    context: Context, run: RunRecord, which: str
) -> tuple[dict[int, Upload], list[Upload]]:
    """Return what was sent again of a list of a run, by line, and what of it waits."""
    uploads = context.uploads
    fixing = uploads.chosen(FIXES, value=run.run_id, batch=run.batch)
    sent = [each for each in fixing if each.choices[LIST] == which]
    screened = [each for each in sent if uploads.is_screened(each)]
    waiting = [each for each in sent if each.waits_for_second]
    done = {line: each for each in screened + waiting for line in each.choices[LINES]}
    return done, waiting


def _mapping_of(context: Context, run: RunRecord, headings: Sequence[str]) -> Mapping:
    """Return what the run's headings meant, as a mapping for the rows of a list."""
    upload = context.uploads.of_run(run)
    given = Path(run.parameters.get("mapping") or "")
    if upload is None and not given.is_file():
        return Mapping()
    mapping = read_mapping(given) if upload is None else chosen_mapping(upload)
    present = tuple(heading for heading in mapping.drop if heading in headings)
    return mapping.model_copy(update={"drop": present, "sheet": None})


def _reference(context: Context) -> str:
    """Return where the evidence of a correction is, as it was typed.

    Raises:
        InputError: it holds a customer's number: it stays when the customer is erased.
    """
    typed = context.text("reference", LONGEST_REFERENCE)
    if contains_identifier(typed):
        raise InputError("Reference: name the document, without anybody's number.")
    return typed


def _sound_customers(
    journal: Journal, sheet: _Sheet, rows: Sequence[_Row], reference: str
) -> list[str]:
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
            orders = DateOrders(source, sheet.date_order)
            corrections = Corrections.of(journal, sheet.run.batch)
            judged = preview(source, orders, len(rows), corrections=corrections)
        columns = judged["columns"]
        known = {each.heading: each.known for each in columns}
        proved = {
            heading
            for row in rows
            for heading, was, now in zip(sheet.headings, row.came, row.cells, strict=True)
            if was != now and known.get(heading) in _PROVED
        }
        if proved and not reference:
            wrong.append(
                f"{', '.join(sorted(proved))}: write under Reference where the evidence is, such "
                "as the number of a form"
            )
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
    if not wrong and sheet.which == VALUES:
        came = [row.came[ids].strip() if ids is not None else "" for row in rows]
        wrong = [
            f"line {row.line}: The customer id cannot change here."
            for row, was, now in zip(rows, came, customers, strict=True)
            if was != now
        ]
    elif not wrong:
        screened = rows_of_run(sheet.run)
        there_already = set() if screened is None else screened.among(customers)
        merged = sheet.run.parameters.get("merge_rows")
        keep = "correct your file, where its rows are merged" if merged else "keep one of them"
        wrong = [
            f"line {row.line}: A customer with this id was screened in this run; {keep}."
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
        LIST: sheet.which,
        REFERENCE: _reference(context),
        LINES: [row.line for row in rows],
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
        dismissed=sheet.dismissed,
        values=sheet.which == VALUES,
        other=_number(context, sheet.run, REFUSED if sheet.which == VALUES else VALUES),
        address=_address(sheet),
        proves=context.text("reference", LONGEST_REFERENCE),
        rule={each: context.text(f"rule_{each}") for each in ("column", "came", "becomes")},
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
) -> list[tuple[_Row, list[tuple[str, str, str]]]]:
    """Return the rows of an upload, and each heading that was changed: as it came, as it is now."""
    with unsealed(context.uploads.path(upload.upload_id), context.journal.sealer) as clear:
        lines = list(csv.reader(io.StringIO(clear.read_text("utf-8"), newline="")))[1:]
    came = {row.line: row for row in sheet.rows({})}
    changed = []
    for line, typed in zip(upload.choices[LINES], lines, strict=True):
        if line in came:  # else the customer was erased since
            now = [unescape_formula(each) for each in typed[:-_OWN]]
            cells = zip(sheet.headings, came[line].came, now, strict=True)
            changed.append((came[line], [each for each in cells if each[1] != each[2]]))
    return changed


def _correct(context: Context, sheet: _Sheet, upload: Upload) -> None:
    """Have what was corrected in customers' rows hold for later files of the batch.

    A row whose customer id was wrong too is no known customer's: it is screened, and no more.
    """
    ids, run, found = sheet.about("customer_id"), sheet.run, list[Correction]()
    if ids is None:
        return
    for row, cells in _changes(context, sheet, upload):
        customer_id = row.came[ids].strip()
        if not customer_id or any(heading == sheet.headings[ids] for heading, _, _ in cells):
            continue
        customer = context.journal.pseudonyms.customer(run.batch, customer_id)
        found += [
            Correction(
                key=f"{customer.hex()}.{hashlib.sha256(heading.encode()).hexdigest()[:16]}",
                customer=customer,
                customer_id=customer_id,
                batch=run.batch,
                run_id=run.run_id,
                at=context.clock(),
                heading=heading,
                came=came,
                becomes=now,
                reference=upload.choices.get(REFERENCE, ""),
                by=upload.user,
            )
            for heading, came, now in cells
        ]
    kept = Records.of(context.journal, Correction)
    kept.merge(found, lambda _, corrected: corrected, context.clock())


def left(context: Context, run: RunRecord, which: str = REFUSED) -> int:
    """Return how many rows of a list of a run nobody has sent again yet, or dismissed."""
    number = _number(context, run, which)
    if not number:
        return 0
    done, _ = _sent_again(context, run, which)
    gone = _dismissed(context, run) if which == REFUSED else {}
    return number - len({*done, *gone})


def waiting(context: Context) -> list[Upload]:
    """Return the typed rows that wait for this user as the second person."""
    if not context.may("override") or not context.may("screen") or context.branches:
        return []
    found = context.uploads.chosen(WAITS, value=True, state=HELD)
    return [e for e in found if e.waits_for_second and not same_person(e.user, context.name)]
