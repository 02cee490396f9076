"""The decision list: what operations work through, worst exposure first, from the enriched parts.

Approved rows and rows whose review still stands are not on it. Its columns are one query over
blocks of enriched rows, laid into one private file and read in order, so that memory holds a block
and two numbers a row. What rules say is in `wording`, how files are written in `decision_files`.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.registry import CHECKS
from nightscreen.files.outputs import DECISIONS_CSV, DECISIONS_WORKBOOK
from nightscreen.policy.engine import locked_connection
from nightscreen.results.changes import NEWS
from nightscreen.results.customer_rows import columns_of_parts, read_customers
from nightscreen.results.decision_files import (
    APPROVED_SHEET,
    WORKBOOK_ROWS,
    Cell,
    DecisionList,
    write_decision_files,
)
from nightscreen.results.wording import NAMES, Words, said_of
from nightscreen.schemas.decisions import DECISION_COLUMNS, LISTED, REVIEW_COLUMNS
from nightscreen.schemas.errors import OutputError
from nightscreen.schemas.policy import Decision
from nightscreen.schemas.rows import INSTANT, NAIRA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from nightscreen.files.run_folder import RunFolder
    from nightscreen.results.changes import ChangeSet

BLOCK_ROWS = 8192
APPROVED_ROWS = 2_000
"""Approved rows that the workbook shows, those of the largest exposure."""
_UNKNOWN = -1
_OTHERWISE = -2
"""In place of the exposure of a row that is decided otherwise."""
_TYPES: dict[str, pa.DataType] = {
    "exposure": NAIRA,
    "karma_amount": NAIRA,
    "past_due_amount": NAIRA,
    "running_loans": pa.int64(),
    "karma_default_date": pa.date32(),
    "evidence_as_of": INSTANT,
}
_SAID = ("reason_code", "reason_text", "other_reasons", "action", "missing_checks")
_OF_FILE = {name: pa.string() for name in ("full_name", *NAMES, "bvn")} | {"exposure": NAIRA}
_MAY_LACK = _OF_FILE | dict(zip(NEWS.names, NEWS.types, strict=True))
"""What the lender's file may lack; nothing is new where no night was compared."""
_STATUSES = [f"{check}_status" for check in CHECKS]
_SAID_FROM = ["decision", "reasons", *_STATUSES]
"""What is said of a row, and what it is said from."""
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

The listing that counts most is by BVN before others, then of the highest amount: by its BVN a
customer is known best, and by it alone the default policy declines. The evidence is as old as its
oldest answer. Of anything that is no BVN no digit is shown."""
_READ = frozenset(
    {
        *("customer_id", "decision", "reasons", "policy", "karma_listed_by", "karma_listings"),
        *("ecosystem_past_due_loan_amount_due", "ecosystem_running_loans"),
        *("bank_account_name", "name_match", *_OF_FILE, *_STATUSES),
        *(f"{check}_checked_at" for check in CHECKS),
    }
)
BY_POLICY, PROPOSED = "policy", "policy, proposed"
"""Who decided: of all that is on the list, no person has."""


def list_schema(carried: Sequence[str] = ()) -> pa.Schema:
    """Return the list's columns: its own, those carried from the lender's file, the reviewer's."""
    own = [pa.field(name, _TYPES.get(name, pa.string())) for name in DECISION_COLUMNS]
    names = [*map(heading, carried), *REVIEW_COLUMNS]
    return pa.schema([*own, *(pa.field(name, pa.string()) for name in names)])


def heading(carried: str) -> str:
    """Return the list's name of a carried column; one of the list's own is told apart."""
    return f"input_{carried}" if carried in (*DECISION_COLUMNS, *REVIEW_COLUMNS) else carried


@dataclass(slots=True)
class ListCounts:
    """What is on the list."""

    listed: dict[str, int] = field(default_factory=dict)  # rows by decision
    exposure: dict[str, Decimal] = field(default_factory=dict)  # known naira at risk by decision
    approved: int = 0  # approved rows that the workbook shows
    quiet: int = 0  # rows left out because their review stands
    fix: int = 0  # rows in quarantine

    @property
    def rows(self) -> int:
        """Return how many rows the list has."""
        return sum(self.listed.values())


def write_decisions(
    folder: RunFolder,
    parts: Sequence[Path],
    *,
    run_id: str,
    reasons: Words,
    scratch: Path,
    carried: Sequence[str] = (),
    compared: ChangeSet | None = None,
    problems: Iterable[Sequence[str]] = (),
    about: Sequence[tuple[str, str]] = (),
    proposes: bool = False,
) -> ListCounts:
    """Write `decisions.csv` and `decisions.xlsx`.

    Rows are put into order in a private folder in `scratch`; nothing is left there. Columns of the
    lender's file that are carried are shown where it has them. `problems` are line, column, code
    and hint of each row in quarantine, `about` is for the head of the summary. Where the run
    proposes, a decline waits for a person to confirm it.

    Raises:
        OutputError: the disk is full or the folder cannot be written.
    """
    fixes: list[list[Cell]] = [
        [int(line) if line.isdecimal() else line, *rest] for line, *rest in problems
    ]
    counts = ListCounts(fix=len(fixes))
    there = columns_of_parts(parts)
    shown = [name for name in carried if name in there]
    schema = list_schema(shown)
    values = {"run_id": run_id, "declined_by": PROPOSED if proposes else BY_POLICY}
    approved = [schema.empty_table()]

    def listed_blocks(engine: DuckDBPyConnection) -> Iterator[pa.Table]:
        for block in _to_list(parts, shown, compared, counts):
            rows = _listed(block, shown, reasons, engine, values)
            is_approved = pc.equal(rows["decision"], Decision.APPROVE.value)
            approved.append(rows.filter(is_approved))
            yield rows.filter(pc.invert(is_approved))

    try:
        with (
            TemporaryDirectory(dir=scratch, prefix="list-") as private,
            closing(locked_connection()) as engine,
            _stored(Path(private) / "rows", schema, listed_blocks(engine)) as rows,
        ):
            _count(rows, counts)
            largest = pa.concat_tables(approved)
            counts.approved = largest.num_rows
            order = worst_first(_kobo(rows))
            blocks = (order[at : at + BLOCK_ROWS] for at in range(0, len(order), BLOCK_ROWS))
            write_decision_files(
                folder.path / DECISIONS_CSV,
                folder.path / DECISIONS_WORKBOOK,
                DecisionList(
                    schema=schema,
                    tables=(rows.take(pa.array(block)) for block in blocks),
                    rows=counts.rows,
                    approved=largest.take(pa.array(worst_first(_kobo(largest)))),
                    summary=summary(run_id, counts, compared, about),
                    fixes=fixes,
                ),
                Path(private),
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
    compared: ChangeSet | None,
    about: Sequence[tuple[str, str]],
) -> list[tuple[str, Cell]]:
    """Return the lines of the summary sheet."""
    lines: list[tuple[str, Cell]] = [("Run", run_id), *about]
    for decision in LISTED:
        word = decision.value
        lines.append((f"To work on: {word}", counts.listed.get(word, 0)))
        lines.append((f"Known exposure: {word}", counts.exposure.get(word, Decimal("0.00"))))
    lines.append((f"The largest approved (sheet {APPROVED_SHEET})", counts.approved))
    lines.append(("Left out: reviewed, evidence unchanged", counts.quiet))
    lines.append(("To fix and feed back (sheet Fix)", counts.fix))
    if compared is not None:
        lines += [
            (f"Customers: {name.replace('_', ' ')}", number)
            for name, number in compared.report().items()
        ]
    return lines


def _to_list(
    parts: Sequence[Path], carried: Sequence[str], compared: ChangeSet | None, counts: ListCounts
) -> Iterator[pa.Table]:
    """Yield the rows to list and the largest approved, with what changed; count those left out."""
    words = pa.array([each.value for each in LISTED])
    news, largest = None if compared is None else compared.news, _largest_approved(parts)
    start = 0
    for rows in read_customers(parts, _READ.union(carried), BLOCK_ROWS, news):
        approved = np.isin(np.arange(start, start + rows.num_rows), largest)
        start += rows.num_rows
        listed = rows
        for name, kind in _MAY_LACK.items():
            if name not in rows.column_names:
                listed = listed.append_column(name, pa.nulls(rows.num_rows, kind))
        wanted = pc.is_in(listed["decision"].cast(pa.string()), value_set=words)
        is_quiet = listed[":quiet"].fill_null(False)  # noqa: FBT003 - by place
        counts.quiet += int(pc.sum(pc.and_(wanted, is_quiet)).as_py() or 0)
        shown = pc.or_(wanted, pa.array(approved))
        yield listed.filter(pc.and_(shown, pc.invert(is_quiet)))


def _largest_approved(parts: Sequence[Path]) -> NDArray[np.int64]:
    """Return the places of the approved rows of the largest exposure; unknown ones come last."""
    found = [np.empty(0, np.int64)]
    for rows in read_customers(parts, {"decision", "exposure"}, BLOCK_ROWS):
        sizes = rows
        if "exposure" not in rows.column_names:
            sizes = rows.append_column("exposure", pa.nulls(rows.num_rows, NAIRA))
        is_approved = pc.equal(rows["decision"].cast(pa.string()), Decision.APPROVE.value)
        found.append(np.where(is_approved.to_numpy(), _kobo(sizes), _OTHERWISE))
    kobo = np.concatenate(found)
    order = np.argsort(-kobo, kind="stable")[:APPROVED_ROWS]
    largest: NDArray[np.int64] = order[kobo[order] != _OTHERWISE]
    return largest


def _listed(
    rows: pa.Table,
    carried: Sequence[str],
    reasons: Words,
    engine: DuckDBPyConnection,
    values: Mapping[str, str],
) -> pa.Table:
    """Return rows of the list for enriched rows that are on it."""
    engine.register("listed", rows)
    table: pa.Table = engine.sql(_COLUMNS, params=values).to_arrow_table()
    engine.unregister("listed")
    found = {name: table[name] for name in table.column_names}
    said = [said_of(row, reasons) for row in rows.select(_SAID_FROM).to_pylist()]
    found |= {name: pa.array([each[name] for each in said], pa.string()) for name in _SAID}
    found["past_due_amount"] = pc.round(
        found["past_due_amount"], NAIRA.scale, round_mode="half_to_even"
    )
    found |= {heading(name): rows[name].cast(pa.string()) for name in carried}
    found |= {name: pa.nulls(rows.num_rows, pa.string()) for name in REVIEW_COLUMNS}
    schema = list_schema(carried)
    return pa.table([found[each.name].cast(each.type) for each in schema], schema)


@contextmanager
def _stored(file: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Write rows into a private file, and give them all; none of them stays in memory."""
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for table in tables:
            writer.write_table(table)
    with pa.memory_map(str(file)) as mapped:
        yield pa.ipc.open_stream(mapped).read_all()


def _count(rows: pa.Table, counts: ListCounts) -> None:
    by_decision = rows.select(["decision", "exposure"]).group_by("decision")
    for each in by_decision.aggregate([("exposure", "sum"), ([], "count_all")]).to_pylist():
        counts.listed[each["decision"]] = each["count_all"]
        counts.exposure[each["decision"]] = each["exposure_sum"] or Decimal("0.00")


def _kobo(rows: pa.Table) -> NDArray[np.int64]:
    """Return exposures in kobo, -1 where unknown."""
    scaled = pc.multiply(rows["exposure"], pa.scalar(100, pa.decimal128(3, 0)))
    kobo = scaled.cast(pa.decimal128(38, 0), safe=False).cast(pa.int64())
    found: NDArray[np.int64] = kobo.fill_null(_UNKNOWN).to_numpy()
    return found


def worst_first(kobo: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the order of exposures, greatest first, equal ones as they came.

    An unknown exposure (-1) is taken as the median of the known ones, since it is not zero.
    """
    known = kobo[kobo != _UNKNOWN]
    middle = int(np.median(known)) if len(known) else 0
    order: NDArray[np.int64] = np.argsort(-np.where(kobo == _UNKNOWN, middle, kobo), kind="stable")
    return order
