"""The decision list: what operations work through, largest exposure first, from the enriched parts.

It leaves out approved rows and rows whose review still stands. One query ranks all rows; the list's
rows are then assembled block by block into one private file, which is read in order. So memory
holds one block and a few numbers for each row. `wording` has the sentences, `decision_files` writes
the files.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.registry import CHECKS
from nightscreen.files.outputs import DECISIONS_CSV, DECISIONS_WORKBOOK, QUARANTINE
from nightscreen.files.private_files import atomic_write
from nightscreen.policy.engine import locked_connection, streamed
from nightscreen.results.changes import NEWS
from nightscreen.results.decision_files import (
    APPROVED_SHEET,
    WORKBOOK_ROWS,
    Cell,
    csv_bytes,
    write_workbook,
)
from nightscreen.results.enriched import columns_of_parts, read_customers
from nightscreen.results.wording import NAMES, Words, said_of
from nightscreen.schemas.decisions import DECISION_COLUMNS, LISTED, REVIEW_COLUMNS
from nightscreen.schemas.errors import OutputError
from nightscreen.schemas.rows import INSTANT, NAIRA

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from nightscreen.files.run_folder import RunFolder
    from nightscreen.results.changes import Comparison

BLOCK_ROWS = 8192
APPROVED_ROWS = 500
"""Most approved rows in the workbook, those of the largest exposure. Each is on two sheets, and
writing cells of a workbook takes more time than anything else here."""
_TYPES: dict[str, pa.DataType] = {
    "exposure": NAIRA,
    "karma_amount": NAIRA,
    "past_due_amount": NAIRA,
    "running_loans": pa.int64(),
    "karma_default_date": pa.date32(),
    "evidence_as_of": INSTANT,
}
_WORDING = ("reason_code", "reason_text", "other_reasons", "action", "missing_checks")
_OF_FILE = {name: pa.string() for name in ("full_name", *NAMES, "bvn")} | {"exposure": NAIRA}
_MAY_LACK = _OF_FILE | dict(zip(NEWS.names, NEWS.types, strict=True))
"""Columns that the lender's file may lack, and those of `NEWS`, missing without a comparison."""
_STATUSES = [f"{check}_status" for check in CHECKS]
_WORDING_FROM = ["decision", "reasons", *_STATUSES]
"""The columns with sentences about a row, and the columns that these are made from."""
_GIVEN_NAMES = ", ".join(f"nullif({name}, '')" for name in NAMES)
_ANSWERED = ", ".join(f"{check}_checked_at" for check in CHECKS)
_COLUMNS = f"""
    SELECT customer_id,
        coalesce(nullif(full_name, ''), nullif(concat_ws(' ', {_GIVEN_NAMES}), ''))
            AS customer_name,
        CASE WHEN regexp_full_match(bvn, '[0-9]{{11}}') THEN right(bvn, 4) END AS bvn_last4,
        decision, exposure,
        coalesce(array_to_string(karma_listed_by, ', '), '') AS karma_listed_by,
        ":worst".amount_in_contention AS karma_amount, ":worst".karma_type,
        ":worst".reason AS karma_reason, ":worst".reporting_entity_name AS karma_reporter,
        ":worst".default_date AS karma_default_date,
        ecosystem_past_due_loan_amount_due AS past_due_amount,
        ecosystem_running_loans AS running_loans, bank_account_name, name_match,
        least({_ANSWERED}) AS evidence_as_of,
        policy, $run_id AS run_id, ":previous" AS previous_decision, ":change" AS change,
        CASE WHEN decision = 'decline' THEN $declined_by ELSE 'policy' END AS decided_by
    FROM (SELECT *, list_reduce(nullif(karma_listings, []), lambda one, other: CASE
            WHEN (other.identity_kind = 'bvn', coalesce(other.amount_in_contention, 0))
                > (one.identity_kind = 'bvn', coalesce(one.amount_in_contention, 0))
            THEN other ELSE one END) AS ":worst"
        FROM listed)
"""  # noqa: S608 - names of our own
"""No column that is carried from the lender's file begins with a colon.

The worst listing is one by BVN before any other, then the one with the highest amount: a BVN
identifies a customer best, and it is the only identity for which the default policy declines. The
evidence is as old as its oldest answer. No digit is shown of a value that is not a BVN."""
_READ = frozenset(
    {
        *("customer_id", "decision", "reasons", "policy", "karma_listed_by", "karma_listings"),
        *("ecosystem_past_due_loan_amount_due", "ecosystem_running_loans"),
        *("bank_account_name", "name_match", *_OF_FILE, *_STATUSES),
        *(f"{check}_checked_at" for check in CHECKS),
    }
)
_SIZES = pa.schema([("decision", pa.string()), ("exposure", NAIRA), (":quiet", pa.bool_())])
BY_POLICY, PROPOSED = "policy", "policy, proposed"
"""Who decided. No person has decided on anything that is on the list."""


def list_schema(carried: Sequence[str] = ()) -> pa.Schema:
    """Return the list's columns: its own, those carried from the lender's file, the reviewers'."""
    own = [pa.field(name, _TYPES.get(name, pa.string())) for name in DECISION_COLUMNS]
    names = [*map(heading, carried), *REVIEW_COLUMNS]
    return pa.schema([*own, *(pa.field(name, pa.string()) for name in names)])


def heading(carried: str) -> str:
    """Return the list's name of a carried column, prefixed if the list has one of that name."""
    return f"input_{carried}" if carried in (*DECISION_COLUMNS, *REVIEW_COLUMNS) else carried


@dataclass(frozen=True, slots=True)
class ListCounts:
    """How many rows are on the list."""

    listed: Mapping[str, int]  # rows by decision
    exposure: Mapping[str, Decimal]  # known naira at risk by decision
    approved: int  # approved rows in the workbook
    quiet: int  # rows left out because their review stands

    @property
    def rows(self) -> int:
        """Return how many rows the list has."""
        return sum(self.listed.values())


_WORDS = ", ".join(f"'{each.value}'" for each in LISTED)
_UNKNOWN = f"SELECT median(exposure) FROM sizes WHERE decision IN ({_WORDS}) AND NOT quiet"  # noqa: S608 - words of our own
_WORST_FIRST = f"""
    SELECT place FROM sizes WHERE decision IN ({_WORDS}) AND NOT quiet
    ORDER BY coalesce(exposure, ({_UNKNOWN})) DESC, place
"""  # noqa: S608 - words of our own
"""An unknown exposure is not zero: it ranks as the median of the known ones."""
_LARGEST_APPROVED = """
    SELECT place FROM sizes WHERE decision = 'approve' AND NOT quiet
    ORDER BY exposure DESC NULLS LAST, place LIMIT $most
"""
_COUNTS = f"""
    SELECT decision, count(*) FILTER (NOT quiet), coalesce(sum(exposure) FILTER (NOT quiet), 0),
        count(*) FILTER (quiet)
    FROM sizes WHERE decision IN ({_WORDS}) GROUP BY decision
"""  # noqa: S608 - words of our own


def write_decisions(
    folder: RunFolder,
    parts: Sequence[Path],
    *,
    run_id: str,
    reasons: Words,
    scratch: Path,
    carried: Sequence[str] = (),
    compared: Comparison | None = None,
    problems: Iterable[Sequence[str]] = (),
    about: Sequence[tuple[str, str]] = (),
    proposes: bool = False,
) -> ListCounts:
    """Write `decisions.csv` and `decisions.xlsx`.

    Args:
        folder: the run's folder.
        parts: the run's enriched parts, in order.
        run_id: the run.
        reasons: the policy's sentences.
        scratch: rows are put into order in a private folder in it, which is removed.
        carried: columns of the lender's file to show, if it has them.
        compared: the run compared with earlier states.
        problems: line, column, code and hint of each row in quarantine.
        about: names and values for the head of the summary.
        proposes: whether declines wait for a person to confirm them.

    Raises:
        OutputError: the disk is full or the folder cannot be written.
    """
    there = columns_of_parts(parts)
    shown = [name for name in carried if name in there]
    news = None if compared is None else compared.news
    values = {"run_id": run_id, "declined_by": PROPOSED if proposes else BY_POLICY}
    fixes: list[list[Cell]] = [
        [int(line) if line.isdecimal() else line, *rest] for line, *rest in problems
    ]
    try:
        with (
            TemporaryDirectory(dir=scratch, prefix="list-") as private,
            closing(locked_connection(optimizer=False)) as engine,
        ):
            _rank(engine, parts, news)
            order = engine.execute(_WORST_FIRST).fetchnumpy()["place"]
            most = {"most": APPROVED_ROWS}
            approved = engine.execute(_LARGEST_APPROVED, most).fetchnumpy()["place"]
            counts = _counts(engine, len(approved))
            chosen = np.sort(np.concatenate([order, approved]))
            listed = (
                _listed(block, shown, reasons, engine, values)
                for block in _blocks(parts, {*_READ, *shown}, news, chosen)
            )
            with (
                _stored(Path(private) / "rows", list_schema(shown), listed) as rows,
                atomic_write(folder.path / DECISIONS_CSV) as csv_file,
                atomic_write(folder.path / DECISIONS_WORKBOOK) as workbook,
            ):
                first, largest = (
                    pa.array(np.searchsorted(chosen, places)) for places in (order, approved)
                )
                with csv_file.open("wb") as file:
                    file.write(csv_bytes(rows.schema.empty_table(), headings=True))
                    for start in range(0, len(first), BLOCK_ROWS):
                        file.write(csv_bytes(rows.take(first.slice(start, BLOCK_ROWS))))
                write_workbook(
                    workbook,
                    Path(private),
                    rows=rows.take(first.slice(0, WORKBOOK_ROWS)),
                    approved=rows.take(largest),
                    summary=summary(run_id, counts, len(fixes), compared, about),
                    fixes=fixes,
                )
    except OSError as error:
        raise OutputError(
            f"cannot write the decision list into {folder.path}: {error.strerror or error}; free "
            "some disk, then resume the run"
        ) from None
    folder.rows[DECISIONS_CSV] = counts.rows
    folder.rows[DECISIONS_WORKBOOK] = min(counts.rows, WORKBOOK_ROWS)
    return counts


def summary(
    run_id: str,
    counts: ListCounts,
    fixes: int,
    compared: Comparison | None,
    about: Sequence[tuple[str, str]],
) -> list[tuple[str, Cell]]:
    """Return the lines of the summary sheet; `fixes` counts the rows in quarantine."""
    lines: list[tuple[str, Cell]] = [("Run", run_id), *about]
    for decision in LISTED:
        name = decision.value
        lines.append((f"To work on: {name}", counts.listed.get(name, 0)))
        lines.append((f"Known exposure: {name}", counts.exposure.get(name, Decimal("0.00"))))
    lines.append((f"The largest approved (sheet {APPROVED_SHEET})", counts.approved))
    lines.append(("Left out: reviewed, evidence unchanged", counts.quiet))
    lines.append(("To fix and feed back (sheet Fix)", fixes))
    changes = {} if compared is None else compared.report()
    lines += [(f"Customers: {name.replace('_', ' ')}", number) for name, number in changes.items()]
    if counts.rows > WORKBOOK_ROWS:
        held = f"The first {WORKBOOK_ROWS:,} of {counts.rows:,} by rank"
        lines.append(("In this workbook", f"{held}; all are in {DECISIONS_CSV}"))
    if fixes > WORKBOOK_ROWS:
        held = f"The first {WORKBOOK_ROWS:,} of {fixes:,}"
        lines.append(("On the sheet Fix", f"{held}; all are in {QUARANTINE}"))
    return lines


def _rank(engine: DuckDBPyConnection, parts: Sequence[Path], news: pa.Table | None) -> None:
    """Fill the table `sizes` with the decision and exposure of every customer."""
    batches = (
        batch
        for _, rows in _customers(parts, {"decision", "exposure"}, news)
        for batch in rows.select(_SIZES.names).cast(_SIZES).to_batches()
    )
    with streamed(engine, "customers", _SIZES, batches):
        engine.execute(
            "CREATE TEMP TABLE sizes AS SELECT row_number() OVER () - 1 AS place, decision, "
            'exposure, coalesce(":quiet", false) AS quiet FROM customers'
        )


def _counts(engine: DuckDBPyConnection, approved: int) -> ListCounts:
    counts = engine.execute(_COUNTS).fetchall()
    nonempty = [each for each in counts if each[1]]
    return ListCounts(
        listed={word: rows for word, rows, *_ in nonempty},
        exposure={word: naira for word, _, naira, _ in nonempty},
        approved=approved,
        quiet=sum(quiet for *_, quiet in counts),
    )


def _customers(
    parts: Sequence[Path], columns: Collection[str], news: pa.Table | None
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the customers in blocks with the number of the first; missing columns are null."""
    start = 0
    for rows in read_customers(parts, columns, BLOCK_ROWS, news):
        whole = rows
        for name, kind in _MAY_LACK.items():
            if name not in rows.column_names:
                whole = whole.append_column(name, pa.nulls(rows.num_rows, kind))
        yield start, whole
        start += rows.num_rows


def _blocks(
    parts: Sequence[Path],
    columns: Collection[str],
    news: pa.Table | None,
    places: NDArray[np.int64],
) -> Iterator[pa.Table]:
    """Yield the customers with some numbers, which are sorted."""
    for start, rows in _customers(parts, columns, news):
        first, last = np.searchsorted(places, [start, start + rows.num_rows])
        yield rows.take(pa.array(places[first:last] - start))


def _listed(
    rows: pa.Table,
    carried: Sequence[str],
    reasons: Words,
    engine: DuckDBPyConnection,
    values: Mapping[str, str],
) -> pa.Table:
    """Return the list's rows for enriched rows."""
    engine.register("listed", rows)
    table: pa.Table = engine.sql(_COLUMNS, params=values).to_arrow_table()
    engine.unregister("listed")
    columns = {name: table[name] for name in table.column_names}
    wordings = [said_of(row, reasons) for row in rows.select(_WORDING_FROM).to_pylist()]
    columns |= {name: pa.array([each[name] for each in wordings], pa.string()) for name in _WORDING}
    columns["past_due_amount"] = pc.round(
        columns["past_due_amount"], NAIRA.scale, round_mode="half_to_even"
    )
    columns |= {heading(name): rows[name].cast(pa.string()) for name in carried}
    columns |= {name: pa.nulls(rows.num_rows, pa.string()) for name in REVIEW_COLUMNS}
    schema = list_schema(carried)
    return pa.table([columns[each.name].cast(each.type) for each in schema], schema)


@contextmanager
def _stored(file: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Write rows into a private file, and return them all, mapped from it, not held in memory."""
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for table in tables:
            writer.write_table(table)
    with pa.memory_map(str(file)) as mapped:
        yield pa.ipc.open_stream(mapped).read_all()
