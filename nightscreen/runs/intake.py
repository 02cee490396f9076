"""Intake: turn a file's text into typed rows, refused rows and issues.

This module has the order of judging, the rules that refuse a row, and a run's first station.
`reading` reads files; `values` has the rule of each column. An issue of a row is a value: bad
content of a file never raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nightscreen.reading.date_orders import DATE_COLUMNS, DateOrders, in_numbers
from nightscreen.reading.merge_rows import merge_rows, status_name
from nightscreen.runs.corrections import MOST_TO_CORRECT, Corrections, keep_to_correct
from nightscreen.schemas.columns import KNOWN_COLUMNS, Flaw
from nightscreen.schemas.rows import CUSTOMER, Action, Problem, RefusedRow, RowBatch, row_schema
from nightscreen.values.addresses import DOMAIN, EMAIL, IMAGE_URL
from nightscreen.values.amounts import DAYS, TENOR, amounts
from nightscreen.values.banks import BANK_UNKNOWN, judge_accounts, judge_banks
from nightscreen.values.dates import dates, instants, withdrawal_issue
from nightscreen.values.identifiers import (
    BVN,
    SUSPECT_PATTERN,
    CustomerNumbers,
    judge_customer_id,
    repeated,
)
from nightscreen.values.issues import (
    Column,
    ColumnRule,
    Issue,
    Issues,
    Mask,
    as_text,
    at,
    first_present,
    issue,
    joined,
    judge_column,
    matching,
    present,
    trimmed,
    where,
)
from nightscreen.values.phones import PHONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nightscreen.files.sealed_file import Workspace
    from nightscreen.reading.open_file import TableSource
    from nightscreen.runs.screening_run import ScreeningRun
    from nightscreen.schemas.rows import Header, SourceBatch

CHUNK_ROWS = 16_384
"""Rows in a chunk: smaller chunks spend more on the fixed cost of each chunk."""
NO_IDENTIFIER = Issue(
    "no_identifier",
    "The row has no usable identifier: no sound BVN, account with bank, phone, email or domain.",
    Action.REFUSED,
)

_ZERO_IS_A_VALUE = frozenset(
    {
        *("exposure", "principal", "due", "paid", "outstanding"),
        *("days_past_due", "restructured", "otp"),
    }
)
_EITHER = {"bank_code": "bank_name", "bank_name": "bank_code"}
_JOINED = frozenset({"first_name", "middle_name", "last_name", "full_name"})
_RULES: dict[str, ColumnRule[Any]] = {
    "phone": PHONE,
    "email": EMAIL,
    "domain": DOMAIN,
    "image_url": IMAGE_URL,
    **{name: amounts(name) for name in ("exposure", "requested_amount", "requested_instalment")},
    TENOR: DAYS,
}
"""The rules of columns that are judged by themselves."""


class Intake:
    """Judges the rows of one file, batch by batch; remembers the customer ids it has seen.

    Args:
        header: the file's columns with their meaning, defaults and the declared date order.
        customers: given if the rows of one id are merged: repeated ids are then allowed, and a row
            without an identifier is accepted if another row of its customer has one.
        orders: knows the order of each column's dates; without it, only the declared order counts.
        corrections: people's corrections of the batch's rows.
        most_to_correct: the most rows with values not understood to return for correction.
    """

    def __init__(
        self,
        header: Header,
        customers: CustomerNumbers | None = None,
        orders: DateOrders | None = None,
        corrections: Corrections | None = None,
        *,
        most_to_correct: int = 0,
    ) -> None:
        self._corrections = corrections or Corrections()
        self._still_to_correct = most_to_correct
        self._header = header
        self._customers = customers
        self._orders = orders
        self._orders_noted: set[str] = set()
        self._seen: set[int] = set()  # hashes of customer ids
        self._extra = [column.output for column in header.columns if column.known is None]
        self._schema = row_schema(self._extra)

    def take(self, batch: SourceBatch) -> RowBatch:
        """Judge rows; return the accepted ones in order, the refused ones, and all issues.

        Rows have the schema of `schemas.rows.row_schema`; `read` is always accepted plus refused.
        """
        original = batch
        batch, corrected = self._corrections.apply(batch, self._header)
        issues = Issues.blank(batch.lines)
        columns = known_text(batch.columns, self._header)
        given = dict(columns)
        _judge_columns(columns, self._date_orders(columns, issues), issues)
        wrong = _not_understood(issues, given, columns) if self._still_to_correct else {}
        issues.problems += corrected
        refusals = self._refusals(columns, issues)
        for row, (column, found) in refusals.items():
            issues.add(row, column, found)
        shown = sorted(row for row in wrong if row not in refusals)[: self._still_to_correct]
        self._still_to_correct -= len(shown)
        whose = at(columns["customer_id"], np.array(shown, np.int64))
        to_correct = refused_rows(original, {row: wrong[row] for row in shown})
        issues.problems += [broken.problem for broken in batch.broken]
        return RowBatch(
            rows=self._accepted(batch, columns, issues, refusals),
            refused=sorted(
                [*batch.broken, *refused_rows(original, refusals)], key=lambda row: row.line
            ),
            to_correct=list(zip(whose, to_correct, strict=True)),
            problems=sorted(issues.problems, key=lambda problem: problem.line),
            read=len(batch.lines) + len(batch.broken),
        )

    def _date_orders(self, columns: dict[str, Column], issues: Issues) -> dict[str, str | None]:
        """Return the order of each column's dates; the file is read for it only if needed."""
        orders: dict[str, str | None] = dict.fromkeys(DATE_COLUMNS, self._header.date_order)
        if self._orders is None:
            return orders
        for name in DATE_COLUMNS:
            if in_numbers(columns[name]):
                orders[name] = self._orders.of(name)
                note = None if name in self._orders_noted else self._orders.note(name)
                self._orders_noted.add(name)
                issues.problems += [] if note is None else [note]
        return orders

    def _refusals(self, columns: dict[str, Column], issues: Issues) -> dict[int, tuple[str, Issue]]:
        """Return the refused rows with column and issue, the first that applies."""
        ids = columns["customer_id"]
        named = present(ids)
        missing = ("customer_id", issue("customer_id_missing"))
        reasons = dict.fromkeys(np.flatnonzero(~named).tolist(), missing)
        for row in np.flatnonzero(matching(ids, SUSPECT_PATTERN)).tolist():
            disguise = judge_customer_id(
                ids[row].as_py(),
                bvn=columns["bvn"][row].as_py(),
                bank_code=columns["bank_code"][row].as_py(),
                account=columns["account_number"][row].as_py(),
                phone=columns["phone"][row].as_py(),
            )
            if disguise:
                reasons[row] = ("customer_id", disguise)
        usable = _identifiable(columns, issues)
        if self._customers is None:
            rows = np.flatnonzero(named)
            for row in rows[repeated(at(ids, rows), self._seen)].tolist():
                reasons.setdefault(row, ("customer_id", issue("customer_id_repeated")))
        else:
            rows = np.setdiff1d(np.arange(len(usable)), [*reasons])
            if self._customers.settled:
                # a row without an identifier is accepted if another of its customer has one
                usable[rows] = self._customers.numbers(at(ids, rows)) >= 0
            else:
                self._customers.note(at(ids, rows), usable[rows])
        for row in np.flatnonzero(~usable).tolist():
            reasons.setdefault(row, ("", NO_IDENTIFIER))
        return reasons

    def _accepted(
        self,
        batch: SourceBatch,
        columns: dict[str, Column],
        issues: Issues,
        refusals: Mapping[int, object],
    ) -> pa.RecordBatch:
        arrays: list[Column] = [
            pa.array(np.asarray(batch.lines, dtype=np.int64)),
            pa.array(issues.flaws),
            *(columns[name] for name in KNOWN_COLUMNS),
        ]
        for index, column in enumerate(self._header.columns):
            if column.known is None:
                arrays.append(as_text(batch.columns.column(index)))
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if not refusals:
            return rows
        accepted = np.ones(len(batch.lines), dtype=np.bool_)
        accepted[list(refusals)] = False
        return rows.filter(pa.array(accepted))


def number_customers(
    source: TableSource, orders: DateOrders, corrections: Corrections | None = None
) -> tuple[CustomerNumbers, int]:
    """Read a file once to number its customers before intake; return them and their count."""
    customers = CustomerNumbers()
    counting = Intake(source.header, customers, orders, corrections)
    for batch in source.batches():
        counting.take(batch)
    return customers, customers.settle()


def known_text(
    source: pa.RecordBatch, header: Header, names: Sequence[str] = KNOWN_COLUMNS
) -> dict[str, Column]:
    """Return every known column as trimmed text, null if absent.

    Columns merged by a mapping: names are joined with a space, of others the first present value
    counts. Defaults fill absent values.
    """
    parts: dict[str, list[Column]] = {name: [] for name in names}
    for index, column in enumerate(header.columns):
        if column.known in parts:
            zero_is_value = column.known in _ZERO_IS_A_VALUE
            text = trimmed(as_text(source.column(index)), zero_is_value=zero_is_value)
            parts[column.known].append(text)
    columns = {name: _merged(name, texts, source.num_rows) for name, texts in parts.items()}
    return columns | _filled(columns, header.defaults)


def _filled(columns: Mapping[str, Column], defaults: Mapping[str, str]) -> dict[str, Column]:
    """Return the columns with defaults, filled; a bank's code only if the bank has no name."""
    filled = {}
    for name, default in defaults.items():
        if name in columns and default.strip():
            taken = present(columns[name]) | present(columns[_EITHER.get(name, name)])
            text = pa.array([default.strip()] * len(taken), pa.string())
            filled[name] = where(taken, columns[name], text)
    return filled


def _merged(name: str, texts: list[Column], rows: int) -> Column:
    if not texts:
        return pa.nulls(rows, pa.string())
    if len(texts) == 1:
        return texts[0]
    return joined(texts, " ") if name in _JOINED else first_present(texts)


def _judge_columns(
    columns: dict[str, Column], orders: Mapping[str, str | None], issues: Issues
) -> None:
    """Replace each column of text by its judged form, in place."""
    withdrawn = "consent_withdrawn_at"
    rules: dict[str, ColumnRule[Any]] = _RULES | {
        "date_of_birth": dates(orders["date_of_birth"]),
        "consented_at": instants(orders["consented_at"]),
        "consent_expires_at": instants(orders["consent_expires_at"], ends=True),
        withdrawn: instants(orders[withdrawn], issue=withdrawal_issue),
    }
    columns["bvn"] = judge_column(columns["bvn"], BVN, "bvn", issues)
    columns["bank_code"], banks = judge_banks(columns["bank_code"], columns["bank_name"], issues)
    columns["account_number"] = judge_accounts(columns["account_number"], banks, issues)
    for name, rule in rules.items():
        columns[name] = judge_column(columns[name], rule, name, issues)


def _not_understood(
    issues: Issues, given: Mapping[str, Column], judged: Mapping[str, Column]
) -> dict[int, tuple[str, Issue]]:
    """Return rows with cells that were not understood: the first column, and all hints."""
    rows, by_row = {line: row for row, line in enumerate(issues.lines)}, dict[int, list[Problem]]()
    for problem in issues.problems:
        row, name = rows.get(problem.line), problem.column
        if row is None or name not in given:
            continue
        is_of_no_use = problem.action is Action.WARNED and (
            problem.code == BANK_UNKNOWN
            or (given[name][row].is_valid and not judged[name][row].is_valid)
        )
        if problem.action is Action.INVALID or is_of_no_use:
            by_row.setdefault(row, []).append(problem)
    return {
        row: (first.column, Issue(first.code, " ".join(hints), first.action))
        for row, (first, *others) in by_row.items()
        for hints in [dict.fromkeys(each.hint for each in (first, *others))]
    }


def _identifiable(columns: dict[str, Column], issues: Issues) -> Mask:
    """Return which rows have a usable identifier.

    An account counts if its bank is given, even if the service does not know the bank: the row is
    then screened without that check.
    """
    banked = present(columns["bank_code"]) | present(columns["bank_name"])
    account = present(columns["account_number"]) & ~issues.spot(Flaw.ACCOUNT | Flaw.BANK) & banked
    usable = account | (present(columns["bvn"]) & ~issues.spot(Flaw.BVN))
    usable |= present(columns["phone"]) & ~issues.spot(Flaw.PHONE)
    usable |= present(columns["email"]) & ~issues.spot(Flaw.EMAIL)
    return usable | (present(columns["domain"]) & ~issues.spot(Flaw.DOMAIN))


def refused_rows(batch: SourceBatch, refusals: Mapping[int, tuple[str, Issue]]) -> list[RefusedRow]:
    """Return these rows for quarantine, with their original values."""
    rows = sorted(refusals)
    taken = batch.columns.take(pa.array(rows, pa.int64()))
    columns = [as_text(column).to_pylist() for column in taken.columns]
    values = zip(*columns, strict=True) if columns else iter([()] * len(rows))
    return [
        RefusedRow(batch.lines[row], column, found.code, found.hint, tuple(cells))
        for row, cells in zip(rows, values, strict=True)
        for column, found in [refusals[row]]
    ]


# --- of a run ---


def read_input(run: ScreeningRun) -> None:
    """Read the input into sealed chunks of rows; write quarantine and problems."""
    source = run.source
    orders = DateOrders(source, run.parameters.date_order)
    corrections = Corrections.of(run.journal, run.batch)
    customers = None
    if run.parameters.merge_rows:
        customers, run.customers = number_customers(source, orders, corrections)
    keeps = customers is None and not run.parameters.quote_only  # merged rows need the source
    most = MOST_TO_CORRECT if keeps else 0
    intake = Intake(source.header, customers, orders, corrections, most_to_correct=most)
    merging = None if customers is None else RowsToMerge(run.workspace, customers)
    to_correct: list[tuple[str, RefusedRow]] = []
    run.chunks = run.rows_read = run.rows_quarantined = 0
    with run.folder.findings(source.header.columns) as write:
        for batch in source.batches(CHUNK_ROWS):
            result = intake.take(batch)
            write(result.refused, result.problems)
            to_correct += result.to_correct
            run.rows_read += result.read
            run.rows_quarantined += len(result.refused)
            if merging is not None:
                merging.add(result.rows)
            elif result.rows.num_rows:
                run.workspace.put(f"rows-{run.chunks:05d}", result.rows)
                run.chunks += 1
        if merging is not None:
            run.input_chunks = len(merging.spans)
            status = status_name(source.header.columns, source.header.loan_status)
            for merged, problems_of in merging.merged(run.customers, status):
                write((), problems_of)
                run.workspace.put(f"rows-{run.chunks:05d}", merged)
                run.chunks += 1
    run.date_orders = orders.used()
    if keeps:
        keep_to_correct(run.journal, run.run_id, run.batch, source.header, to_correct)


class RowsToMerge:
    """The input's rows in the workspace, each with the number of its customer."""

    def __init__(self, workspace: Workspace, customers: CustomerNumbers) -> None:
        self._workspace = workspace
        self._customers = customers
        self.spans: list[tuple[int, int]] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Store rows in the workspace."""
        if not rows.num_rows:
            return
        numbers = self._customers.numbers(rows["customer_id"].to_pylist())
        table = pa.Table.from_batches([rows]).append_column(CUSTOMER, pa.array(numbers))
        self._workspace.put(f"input-{len(self.spans):05d}", table)
        self.spans.append((int(numbers.min()), int(numbers.max())))

    def merged(
        self, customers: int, status: str | None
    ) -> Iterator[tuple[pa.Table, Sequence[Problem]]]:
        """Yield the merged customers chunk by chunk, with their problems."""
        for start in range(0, customers, CHUNK_ROWS):
            end = start + CHUNK_ROWS
            pieces = []
            for place, (least, most) in enumerate(self.spans):
                if least < end and most >= start:
                    table = self._workspace.get(f"input-{place:05d}")
                    number = table[CUSTOMER].to_numpy()
                    pieces.append(table.filter(pa.array((number >= start) & (number < end))))
            yield merge_rows(pa.concat_tables(pieces), status)
