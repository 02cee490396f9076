"""The page that fixes a file: its rows in a table that can be edited and screened again.

One list has refused rows; the other has rows that were screened although some values were not
understood. Changed rows become an upload that is screened as a part of the run's batch. Corrections
also apply to later files (`runs/corrections.py`). `runs/intake` judges rows.
"""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nightscreen.config.parameters import SCREEN_FLOW
from nightscreen.desk.context import DeskError, plain_naira
from nightscreen.desk.new_file import as_part, begin, preview, quote_upload
from nightscreen.desk.rows import rows_of_run
from nightscreen.desk.uploads import as_before, chosen_mapping
from nightscreen.files.outputs import QUARANTINE
from nightscreen.files.quarantine import records
from nightscreen.files.sealed_file import in_memory
from nightscreen.journal.records import Records
from nightscreen.reading.columns import understand
from nightscreen.reading.date_orders import DateOrders
from nightscreen.reading.mapping_file import Mapping, read_mapping
from nightscreen.reading.open_file import open_source
from nightscreen.results.reviews import needs_second
from nightscreen.runs.corrections import MOST_TO_CORRECT, Corrections
from nightscreen.schemas.columns import IDENTIFIERS
from nightscreen.schemas.decisions import QUARANTINE_COLUMNS
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.naming import contains_identifier
from nightscreen.schemas.policy import Decision
from nightscreen.schemas.uploads import FIXES, Correction, Dismissal, RowToCorrect
from nightscreen.web.guard import see_other

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Mapping as AnyMapping

    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.uploads import Upload

    Changed = Sequence[tuple["_Row", list[str]]]  # rows with their cells as they are now

MOST_CELLS: Final = 1_200  # of one page: each is a field of its form
MOST_ROWS: Final = 25
MOST_BY_RULE: Final = 500
"""Rows that one rule may change; for each it is checked whether one person may decide it alone."""
LIST, LINES, REFERENCE = "list", "lines", "reference"
"""Choices of an upload: on which list its rows are, their lines in the lender's file, and where
the evidence is."""
LONGEST_REFERENCE: Final = 200
REFUSED, VALUES = "", "values"  # the lists, as the address names them
_PROVED: Final = frozenset(
    {
        *(name for each in IDENTIFIERS.values() for name in each.columns),
        *("bank_name", "consent_reference", "consented_at"),
        *("consent_expires_at", "consent_withdrawn_at"),
    }
)
"""Columns whose correction needs a reference: whom the service is asked about, and whether."""
_DECLINED: Final = (
    "This customer was declined, above what one person may turn into approve: have the lender's "
    "file corrected, or propose to approve on the customer's page."
)
_OWN: Final = len(QUARANTINE_COLUMNS)
_ONE_AT_A_TIME: Final = threading.Lock()


class _Row(NamedTuple):
    """One row of a list, as it came."""

    line: int  # of the lender's file
    column: str  # what `hint` is about; empty for the whole row
    code: str
    hint: str
    came: list[str]  # a cell for each heading
    beyond: list[str]  # cells after the last heading

    @property
    def digest(self) -> str:
        """Return what tells it, and why it is refused, from any other row."""
        said = json.dumps([*self.came, *self.beyond, self.column, self.code])
        return hashlib.sha256(said.encode()).hexdigest()


@dataclass(frozen=True)
class Sheet:
    """One of a run's lists; each part of it is read when it is first needed."""

    context: Context
    run: RunRecord
    which: str  # of the lists

    @property
    def number(self) -> int:
        """Return how many rows the list has."""
        if self.which == VALUES:
            return Records(self.context.journal, RowToCorrect).number_of_run(self.run.run_id)
        refused = int(((self.run.report or {}).get("rows") or {}).get("quarantined") or 0)
        there = (Path(self.run.folder) / QUARANTINE).is_file()
        return min(refused, MOST_TO_CORRECT) if there else 0

    @property
    def number_open(self) -> int:
        """Return how many rows nobody has sent again yet, or dismissed."""
        number = self.number
        return number - len({*self.done, *self.dismissed}) if number else 0

    @cached_property
    def _table(self) -> tuple[list[str], list[_Row]]:
        """Return headings and rows; no headings where the run has no such list.

        Of refused rows the first ones, so many as are kept of the others.
        """
        if self.which == VALUES:
            found = Records(self.context.journal, RowToCorrect).of_run(self.run.run_id)
            rows = [
                _Row(each.line, each.column, each.code, each.hint, list(each.cells), [])
                for each in sorted(found, key=lambda each: each.line)
            ]
            return (list(found[0].headings) if found else []), rows
        quarantine = Path(self.run.folder) / QUARANTINE
        if not quarantine.is_file():
            return [], []
        lines = (cells for cells, _ in records(quarantine))
        headings, rows = next(lines, [])[:-_OWN], []
        for cells in islice(lines, MOST_TO_CORRECT):
            width, came, (line, column, code, hint) = len(headings), cells[:-_OWN], cells[-_OWN:]
            padded = (came + [""] * width)[:width]
            rows.append(_Row(int(line), column, code, hint, padded, came[width:]))
        return headings, rows

    @property
    def headings(self) -> list[str]:
        """Return the headings of the lender's file."""
        return self._table[0]

    @property
    def rows(self) -> list[_Row]:
        """Return the rows of the list."""
        return self._table[1]

    @cached_property
    def done(self) -> dict[int, Upload]:
        """Return what was sent again, by line."""
        uploads = self.context.uploads
        sent = [each for each in uploads.fixing(self.run) if each.choices[LIST] == self.which]
        return {
            line: each for each in sent if uploads.is_screened(each) for line in each.choices[LINES]
        }

    @cached_property
    def dismissed(self) -> dict[int, Dismissal]:
        """Return which refused rows somebody dismissed, here or in an earlier file, by line."""
        if self.which == VALUES:
            return {}
        kept = Records(self.context.journal, Dismissal).all(batch=self.run.batch)
        gone = {each.row: each for each in kept}
        rows = self.rows if gone else []
        return {row.line: gone[key] for row in rows if (key := row.digest) in gone}

    @cached_property
    def mapping(self) -> Mapping:
        """Return what the run's headings meant, as a mapping for the rows of the list."""
        upload = self.context.uploads.of_run(self.run)
        given = Path(self.run.parameters.get("mapping") or "")
        if upload is None and not given.is_file():
            return Mapping()
        mapping = read_mapping(given) if upload is None else chosen_mapping(upload)
        present = tuple(heading for heading in mapping.drop if heading in self.headings)
        return mapping.model_copy(update={"drop": present, "sheet": None})

    @property
    def date_order(self) -> str:
        """Return the order of dates in the run's file, as they showed it, or as was answered."""
        shown = ((self.run.report or {}).get("provenance") or {}).get("date_orders", {}).values()
        orders = set(shown) or {self.run.parameters.get("date_order") or ""}
        return orders.pop() if len(orders) == 1 else ""

    def is_open(self, row: _Row) -> bool:
        """Return whether a row is neither sent again nor dismissed."""
        return row.line not in self.done and row.line not in self.dismissed

    def typed(self, row: _Row) -> list[str]:
        """Return a row's cells as they were typed; a browser's field holds no breaks of a line."""
        if not self.is_open(row):
            return row.came
        now = []
        for at, cell in enumerate(row.came):
            typed = self.context.form.get(f"c{row.line}.{at}", [cell])[-1]
            now.append(cell if typed == cell.replace("\r", "").replace("\n", "") else typed)
        return now

    @cached_property
    def _known(self) -> list[str]:
        """Return the column that each heading means, as the run understood it; empty for none."""
        known = dict[str, str]()
        with suppress(InputError):  # the run's mapping file is gone
            header = understand(Path(QUARANTINE), self.headings, self.mapping)
            known = {each.heading: each.known or "" for each in header.columns}
        return [known.get(heading, "") for heading in self.headings]

    def about(self, column: str) -> int | None:
        """Return which cell a column means that the list names: by meaning, or by heading."""
        names = self._known if column in self._known else self.headings
        return names.index(column) if column and column in names else None

    def customer_of(self, cells: Sequence[str]) -> str:
        """Return whose a row of these cells is; empty where it has no customer id."""
        ids = zip(cells, self._known, strict=True)
        return next((c.strip() for c, known in ids if known == "customer_id" and c.strip()), "")

    def differences(self, row: _Row, cells: Sequence[str]) -> list[tuple[str, str, str]]:
        """Return each heading whose cell was changed: as it came, and as it is now."""
        each_cell = zip(self.headings, row.came, cells, strict=True)
        return [each for each in each_cell if each[1] != each[2]]

    def part(self, rows: Changed) -> bytes:
        """Return changed rows as a part of the run's batch."""
        return as_part(self.headings, ((row.line, cells) for row, cells in rows))

    def page(self) -> tuple[list[_Row], dict[str, int]]:
        """Return the rows of the page that the address names, and where it is."""
        size = min(MOST_ROWS, max(1, MOST_CELLS // max(1, len(self.headings))))
        start, where = self.context.slice(len(self.rows), size)
        return self.rows[start : start + size], where

    def address(self, *parameters: str) -> str:
        """Return the address of the list's page."""
        asked = "&".join([*([f"list={self.which}"] if self.which else []), *parameters])
        return f"/runs/{self.run.run_id}/fix" + (f"?{asked}" if asked else "")


def _sheet(context: Context) -> Sheet:
    """Return the list of a run that the address names."""
    which = VALUES if context.asked_first("list") == VALUES else REFUSED
    sheet = Sheet(context, context.run, which)
    if sheet.run.flow != SCREEN_FLOW or not sheet.headings:
        raise DeskError(404, "Nothing is to be fixed here, or it is too old and gone.")
    return sheet


def fix(context: Context) -> Response:
    """Show a page of one of a run's lists."""
    sheet = _sheet(context)
    context.record("quarantine seen", run_id=sheet.run.run_id, list=sheet.which)
    return _page(sheet)


def fix_rows(context: Context) -> Response:
    """Quote the changed rows of a page or screen them again; or dismiss one."""
    with _ONE_AT_A_TIME:  # a second press finds that its rows were sent already
        sheet = _sheet(context)
        if "dismiss" in context.form:
            _dismiss(sheet)
            return see_other(sheet.address(f"page={context.whole_number('page')}"))
        typed = [(row, sheet.typed(row)) for row in sheet.page()[0]]
        changed = {row.line: (row, cells) for row, cells in typed if cells != row.came}
        changed |= {row.line: (row, cells) for row, cells in _by_rule(sheet)}
        rows = [changed[line] for line in sorted(changed)]
        if not rows:
            raise InputError("Change a cell first: only rows that you changed are screened again.")
        _require_sound(sheet, rows)
        upload = _keep(sheet, rows)
        with context.uploads.unless_started(upload):
            if context.text("do") == "quote":
                return _page(sheet, quote=quote_upload(context, upload))
            begin(context, upload)
        _correct(sheet, upload, rows)
        run_id = sheet.run.run_id
        context.record("quarantine screened again", run_id=run_id, rows=len(rows))
    return see_other(f"/new/{upload.upload_id}")


def _by_rule(sheet: Sheet) -> Changed:
    """Return every row whose cell in a column is what the form names, with the other text there.

    What was typed into its other cells stays.
    """
    names = ("rule_column", "rule_came", "rule_becomes")
    column, came, becomes = (sheet.context.text(name) for name in names)
    if not column and not came and not becomes:
        return []
    at = sheet.headings.index(column) if column in sheet.headings else None
    fitting = (
        row
        for row in sheet.rows
        if at is not None and sheet.is_open(row) and row.came[at].strip() == came != becomes
    )
    found = [(row, sheet.typed(row)) for row in islice(fitting, MOST_BY_RULE)]
    if at is None or not found:
        raise InputError(f"No row on this list has {came or 'nothing'} under {column or '…'}.")
    return [(row, [*cells[:at], becomes, *cells[at + 1 :]]) for row, cells in found]


def _dismiss(sheet: Sheet) -> None:
    """Record that a refused row is nobody's, here and in later files that have it again."""
    context, run = sheet.context, sheet.run
    rows = [] if sheet.which == VALUES else sheet.rows
    row = next((each for each in rows if str(each.line) == context.text("dismiss", 9)), None)
    if row is None or row.line in sheet.done:
        raise DeskError(409, "This row is not one to dismiss: it was sent again, or is gone.")
    pseudonyms, customer_id = context.journal.pseudonyms, sheet.customer_of(row.came)
    made = Dismissal(
        key=f"{run.run_id}.{row.line}",
        customer=pseudonyms.customer(run.batch, customer_id) if customer_id else b"",
        batch=run.batch,
        run_id=run.run_id,
        at=context.clock(),
        row=row.digest,
        by=context.name,
    )
    if Records(context.journal, Dismissal).add([made]):
        context.record("quarantine dismissed", run_id=run.run_id, line=row.line)


def _declined_above(context: Context, run: RunRecord, customers: Iterable[str]) -> set[str]:
    """Return customers whom one person may not turn from decline to approve by a correction."""
    pseudonyms, above = context.journal.pseudonyms, context.settings.override_above
    if above is None:  # one person is enough
        return set()
    keys = {each: pseudonyms.customer(run.batch, each) for each in customers if each}
    known = context.customers.known(list(keys.values()))
    approve = {"batch": run.batch, "decision": Decision.APPROVE.value}
    return {
        each
        for each, key in keys.items()
        if key in known and needs_second(context.journal, above, **approve, customer_id=each)
    }


# --- what was changed ---


def _reference(context: Context) -> str:
    """Return where the evidence of a correction is, as it was typed."""
    typed = context.text("reference", LONGEST_REFERENCE)
    if contains_identifier(typed):
        raise InputError("Reference: name the document, without anybody's number.")
    return typed


def _require_sound(sheet: Sheet, rows: Changed) -> None:
    """Judge changed rows as a file of them would be, and refuse what is wrong with any of them.

    A correction follows the rule of overrides: where one person may not turn a customer's decline
    into approve, no correction may either.
    """
    context = sheet.context
    reference = _reference(context)
    wrong = [f"line {row.line}: The row is blank." for row, cells in rows if not any(cells)]
    customers = [sheet.customer_of(cells) for _, cells in rows]
    if not wrong:
        with in_memory(sheet.part(rows)) as clear:
            source = open_source(clear, mapping=sheet.mapping)
            orders = DateOrders(source, sheet.date_order)
            corrections = Corrections.of(context.journal, sheet.run.batch)
            judged = preview(source, orders, len(rows), corrections=corrections)
        columns, proved = judged["columns"], set[str]()
        known = {each.heading: each.known for each in columns}
        for (row, cells), found, customer_id in zip(rows, judged["rows"], customers, strict=True):
            changed = {heading for heading, _, _ in sheet.differences(row, cells)}
            hints = [
                f"{column.heading}: {cell['hint']}"
                for column, cell in zip(columns, found["cells"], strict=True)
                if cell["hint"] and column.heading in changed
            ]
            said = [found["refused"]] if found["refused"] else hints
            if sheet.which == VALUES and customer_id != sheet.customer_of(row.came):
                said.append("The customer id cannot change here.")
            wrong += [f"line {row.line}: {each}" for each in said]
            proved |= {heading for heading in changed if known.get(heading) in _PROVED}
        if proved and not reference:
            wrong.append(
                f"{', '.join(sorted(proved))}: write under Reference where the evidence is, such "
                "as the number of a form"
            )
    if not wrong:
        screened = rows_of_run(sheet.run) if sheet.which == REFUSED else None
        merged = sheet.run.parameters.get("merge_rows")
        keep = "correct your file, where its rows are merged" if merged else "keep one of them"
        there = f"A customer with this id was screened in this run; {keep}."
        against = dict.fromkeys(_declined_above(context, sheet.run, customers), _DECLINED)
        against |= dict.fromkeys({} if screened is None else screened.among(customers), there)
        wrong = [
            f"line {row.line}: {against[customer_id]}"
            for (row, _), customer_id in zip(rows, customers, strict=True)
            if customer_id in against
        ]
    if wrong:
        raise InputError("Not sound yet, and nothing was started; " + "; ".join(wrong))


def _keep(sheet: Sheet, rows: Changed) -> Upload:
    """Seal the changed rows, to be screened as a part of the run's batch."""
    context = sheet.context
    chosen = {
        **as_before(sheet.run),
        "date_order": sheet.date_order,
        "max_spend": plain_naira(context.text("max_spend", 20)),
        FIXES: sheet.run.run_id,
        LIST: sheet.which,
        REFERENCE: _reference(context),
        LINES: [row.line for row, _ in rows],
        "mapping": sheet.mapping.model_dump(mode="json"),
    }
    return context.uploads.keep("fixed.csv", context.name, [sheet.part(rows)], chosen)


def _correct(sheet: Sheet, upload: Upload, rows: Changed) -> None:
    """Have what was corrected in customers' rows hold for later files of the batch.

    A row whose customer id was wrong too is no known customer's: it is screened, and no more.
    """
    context, run = sheet.context, sheet.run
    found = list[Correction]()
    for row, cells in rows:
        customer_id = sheet.customer_of(row.came)
        if not customer_id or sheet.customer_of(cells) != customer_id:
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
            for heading, came, now in sheet.differences(row, cells)
        ]
    kept = Records(context.journal, Correction)
    kept.merge(found, lambda _, corrected: corrected, context.clock())


def _page(sheet: Sheet, *, quote: AnyMapping[str, Any] | None = None) -> Response:
    context, (rows, where) = sheet.context, sheet.page()
    values = sheet.which == VALUES
    return context.page(
        "fix",
        run=sheet.run,
        headings=sheet.headings,
        rows=[
            {**row._asdict(), "cells": sheet.typed(row), "wrong": sheet.about(row.column)}
            for row in rows
        ],
        done=sheet.done,
        dismissed=sheet.dismissed,
        values=values,
        other=Sheet(context, sheet.run, REFUSED if values else VALUES).number,
        address=sheet.address(),
        where=where,
        limited=len(sheet.rows) == MOST_TO_CORRECT,
        quote=quote,
    )
