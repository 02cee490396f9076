"""A run's rows as the desk lists them: filtered, counted and sorted by DuckDB.

Read from the enriched parts into memory alone; the few runs looked at last are kept, as a page asks
many small questions of one run. Which columns a page shows and what a decision means is not decided
here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from nightscreen.checks.registry import CHECKS
from nightscreen.files.outputs import enriched_parts
from nightscreen.policy.engine import locked_connection
from nightscreen.report.facts import group_columns
from nightscreen.results.customer_rows import columns_of_parts, read_customers
from nightscreen.runs.open_cases import CUSTOMERS, customers_of
from nightscreen.schemas.columns import CUSTOMERS as CUSTOMER_FILE
from nightscreen.schemas.columns import NAME_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from duckdb import DuckDBPyConnection

    from nightscreen.journal.runs import RunRecord

MEMORY: Final = "256MB"
RUNS_KEPT: Final = 3
_COLUMNS_KEPT: Final = 12
"""Cases of so many batches are narrowed by a column of their files without reading them again."""
_BLOCK_ROWS: Final = 8_192
_PERSONAL: Final = {*CUSTOMER_FILE.personal, *NAME_FIELDS, "consent_reference"}
PAGE_ROWS: Final = 40
MOST_VALUES: Final = 12
"""Values of a facet that are shown; the most frequent ones, and those chosen."""
FACETS: Final = ("decision", "reason", "ecosystem_status", "branch", "officer")
IN_FILE: Final = "in."
"""Stands before the name of a column of the lender's file where that is a facet."""
SORTS: Final = {
    "exposure": "exposure DESC NULLS LAST",
    "customer": "customer_id",
    "decision": "CASE decision WHEN 'decline' THEN 0 WHEN 'review' THEN 1 WHEN 'undecided' THEN 2"
    " ELSE 3 END",
    "branch": "branch NULLS LAST",
    "officer": "officer NULLS LAST",
}


@dataclass(frozen=True, slots=True)
class Filter:
    """What of a run is asked for.

    Attributes:
        chosen: the values chosen of each facet.
        search: words of a name, or the beginning of a customer id or branch, or the last four
            digits of an account.
        sort: a key of `SORTS`.
        by: the file's columns that are facets as well (`IN_FILE` before their names).
    """

    chosen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    search: str = ""
    sort: str = "exposure"
    by: tuple[str, ...] = ()

    def pairs(self, *, without: str = "") -> list[tuple[str, str]]:
        """Return the filter as parameters of an address."""
        pairs = [
            (name, value)
            for name, values in self.chosen.items()
            if name != without
            for value in values
        ]
        if self.search:
            pairs.append(("search", self.search))
        if self.sort != "exposure":
            pairs.append(("sort", self.sort))
        pairs += [("by", name) for name in self.by if name not in self.chosen or name == without]
        return pairs

    def words(self) -> str:
        """Return the filter in words, as a file that is taken out bears it."""
        said = [
            f"{name.removeprefix(IN_FILE)}: {', '.join(values)}"
            for name, values in self.chosen.items()
            if values
        ]
        if self.search:
            said.append(f"search: {self.search}")
        return "; ".join(said) or "all customers"


class Listing:
    """Rows in memory that are listed and counted by facets.

    Attributes:
        source: the table they are in, or a query for them.
    """

    def __init__(
        self,
        connection: DuckDBPyConnection,
        source: str,
        facets: Sequence[str] = FACETS,
        beside: pa.Table | None = None,
    ) -> None:
        self._connection = connection
        self._facets = facets
        self._beside = beside
        self.source = source

    def with_columns(self, columns: pa.Table, joined_by: str) -> Self:
        """Return the rows with columns of the lender's file, each of them a facet."""
        source = f"(SELECT * FROM {self.source} LEFT JOIN of_file USING ({joined_by}))"  # noqa: S608 - words of ours
        names = [name for name in columns.column_names if name.startswith(IN_FILE)]
        return type(self)(self._connection, source, (*self._facets, *names), columns)

    def page(
        self, asked: Filter, start: int, number: int = PAGE_ROWS, *, first: str = ""
    ) -> list[dict[str, Any]]:
        """Return rows of a filter in its order; `first` is an order that goes before it."""
        conditions, values = _conditions(asked)
        where = " AND ".join(["true", *conditions.values()])
        order = SORTS.get(asked.sort, SORTS["exposure"])
        sql = (
            f"SELECT * FROM {self.source} WHERE {where} ORDER BY {first}{order}, row"  # noqa: S608 - words of ours
            f" LIMIT {int(number)} OFFSET {int(start)}"
        )
        return self.ask(sql, values)

    def counted(self, asked: Filter) -> tuple[int, dict[str, list[tuple[str, int]]]]:
        """Return how many rows a filter has, and values and rows of each facet that has some.

        Of its own choice each facet is free. Every condition is judged once a row, for all of it.
        """
        conditions, values = _conditions(asked)
        shown = [f"{_column(name)} AS value{at}" for at, name in enumerate(self._facets)]
        holds = [f"({condition}) AS holds{at}" for at, condition in enumerate(conditions.values())]
        pieces = []
        for at, name in enumerate((*self._facets, "")):
            value = f"unnest(value{at})" if name == "reason" else f"value{at}" if name else "'all'"
            others = [f"holds{at}" for at, each in enumerate(conditions) if each != name]
            pieces.append(
                f"SELECT {at} AS facet, value, count(*) AS n FROM (SELECT {value} AS value"  # noqa: S608 - words of ours
                f" FROM asked WHERE {' AND '.join(['true', *others])})"
                " WHERE value <> '' GROUP BY value"
            )
        found = self.ask(
            f"WITH asked AS MATERIALIZED (SELECT {', '.join([*shown, *holds])}"  # noqa: S608 - the same
            f" FROM {self.source}) " + " UNION ALL ".join(pieces),
            values,
        )
        of: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for each in found:
            of[each["facet"]].append((each["value"], each["n"]))
        number = sum(n for _, n in of[len(self._facets)])
        facets = {
            name: _shown(name, of[at], asked.chosen.get(name, ()))
            for at, name in enumerate(self._facets)
        }
        return number, {name: values for name, values in facets.items() if values}

    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Return what a query finds."""
        cursor = self._connection.cursor()  # pages are made in several threads
        try:
            if self._beside is not None:
                cursor.register("of_file", self._beside)
            asked = cursor.execute(sql, list(values))
            names = [each[0] for each in asked.description or ()]
            return [dict(zip(names, row, strict=True)) for row in asked.fetchall()]
        finally:
            cursor.close()


class RunRows(Listing):
    """One run's rows in memory, or those of some branches."""

    @property
    def rows(self) -> int:
        """Return how many there are."""
        return int(self.ask(f"SELECT count(*) AS n FROM {self.source}")[0]["n"])  # noqa: S608 - words of ours

    def within(self, branches: Sequence[str]) -> RunRows:
        """Return the rows of some branches alone."""
        source = f"(SELECT * FROM {self.source} WHERE {within(branches)})"  # noqa: S608 - in quotes
        return RunRows(self._connection, source)

    def at_stake(self) -> tuple[int, Decimal]:
        """Return how many customers somebody must look at, and their exposure in naira."""
        sql = f"SELECT count(*) AS n, sum(exposure) AS naira FROM {self.source} WHERE {_NEEDS}"  # noqa: S608 - words of ours
        (found,) = self.ask(sql)
        return int(found["n"]), Decimal(found["naira"] or 0)

    def among(self, customer_ids: Sequence[str]) -> set[str]:
        """Return which of some customers the run has."""
        sql = (
            f"SELECT DISTINCT customer_id FROM {self.source}"  # noqa: S608 - words of ours
            " WHERE customer_id IN (SELECT unnest(?))"
        )
        return {each["customer_id"] for each in self.ask(sql, [list(customer_ids)])}

    def next_after(self, customer_id: str) -> tuple[str | None, int, int]:
        """Return who follows a customer on the list to work on, the customer's place, its length.

        The list holds what is not approved, worst exposure first.
        """
        sql = (
            "WITH list AS (SELECT customer_id, row_number() OVER (ORDER BY exposure DESC NULLS"  # noqa: S608 - words of ours
            f" LAST, row) AS place FROM {self.source} WHERE {_NEEDS}),"
            " own AS (SELECT coalesce(max(place), 0) AS place FROM list WHERE customer_id = ?)"
            " SELECT (SELECT customer_id FROM list WHERE place = own.place + 1) AS next, place,"
            " (SELECT count(*) FROM list) AS n FROM own"
        )
        row = self.ask(sql, [customer_id])[0]
        return row["next"], int(row["place"]), int(row["n"])


_SEARCH = """(starts_with(lower(customer_id), lower(?)) OR account_last4 = ?
OR starts_with(strip_accents(lower(branch)), strip_accents(lower(?)))
OR list_bool_and([contains(strip_accents(lower(name)), word)
    FOR word IN string_split(strip_accents(lower(?)), ' ')]))"""
"""Every word that was typed is a part of the name, or all of it begins or ends something else."""
_NEEDS = "decision IN ('decline', 'review', 'undecided')"
_ORDER = {
    "whose": ("mine", "free", "others", "waiting"),
    "decision": ("decline", "review", "undecided", "approve"),
}
"""Facets whose values have an order of their own; the others stand by number of rows."""


def _shown(name: str, found: list[tuple[str, int]], chosen: Sequence[str]) -> list[tuple[str, int]]:
    """Return the values of a facet with their rows: the first of them, and those chosen."""
    own = _ORDER.get(name, ())
    found.sort(key=lambda each: (own.index(each[0]) if each[0] in own else 99, -each[1], each[0]))
    shown = [each for at, each in enumerate(found) if at < MOST_VALUES or each[0] in chosen]
    missing = set(chosen) - {value for value, _ in shown}
    return [*shown, *((value, 0) for value in sorted(missing))]


def _conditions(asked: Filter) -> tuple[dict[str, str], list[Any]]:
    """Return a condition by facet, and one for the search; and their values in order."""
    said: dict[str, str] = {}
    values: list[Any] = []
    for name, chosen in asked.chosen.items():
        marks = ", ".join("?" * len(chosen))
        if name == "reason":
            said[name] = f"list_has_any(reasons, [{marks}])"
        else:
            said[name] = f"coalesce({_column(name)} IN ({marks}), false)"
        values.extend(chosen)
    if asked.search:
        said["search"] = _SEARCH
        values += [" ".join(asked.search.split())] * 4
    return said, values


def _column(facet: str) -> str:
    """Return what a facet is by, as SQL; a column of the file may have any name."""
    if facet.startswith(IN_FILE):
        return '"{}"'.format(facet.replace('"', '""'))
    return "reasons" if facet == "reason" else facet


def rows_of_run(run: RunRecord) -> RunRows | None:
    """Return a run's rows; None where its files are not on this machine, or gone."""
    folder = Path(run.folder)
    written_at = _written_at(folder)
    return _read(folder, written_at) if written_at else None


def _written_at(folder: Path) -> int:
    """Return when a run's rows were written last, nanoseconds; 0 where it has none here."""
    return max((part.stat().st_mtime_ns for part in enriched_parts(folder)), default=0)


@lru_cache(maxsize=RUNS_KEPT)
def _read(folder: Path, _written_at: int) -> RunRows:
    """Return the rows of a folder, whose newest file was written at an instant."""
    connection = locked_connection(MEMORY)
    connection.register("customers", pa.Table.from_batches(_batches(folder), CUSTOMERS))
    connection.execute("CREATE TABLE run AS SELECT *, place AS row FROM customers")
    connection.unregister("customers")
    return RunRows(connection, "run")


def _batches(folder: Path) -> Iterator[pa.RecordBatch]:
    for block in customers_of(folder):
        yield from block.to_batches()


def file_columns(run: RunRecord) -> list[str]:
    """Return the columns of the lender's file that a run's rows can be narrowed by.

    All but those that differ from person to person, such as identifiers and names.
    """
    folder = Path(run.folder)
    return _file_columns(folder, _written_at(folder))


@lru_cache(maxsize=_COLUMNS_KEPT)
def _file_columns(folder: Path, _written_at: int) -> list[str]:
    first_of_ours = next(iter(CHECKS.values())).status
    there = columns_of_parts(enriched_parts(folder))
    names = takewhile(lambda name: name != first_of_ours, there)
    return one_of_each(name for name in names if name not in _PERSONAL)


def one_of_each(names: Iterable[str]) -> list[str]:
    """Return names without those that differ from an earlier one by capitals alone."""
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(name.casefold(), name)
    return list(found.values())


def columns_of(run: RunRecord, names: Sequence[str]) -> pa.Table:
    """Return columns of the lender's file as text, by customer; the run and `IN_FILE` names."""
    folder = Path(run.folder)
    return _columns(folder, run.run_id, _written_at(folder), tuple(names))


@lru_cache(maxsize=_COLUMNS_KEPT)
def _columns(folder: Path, run_id: str, _written_at: int, names: tuple[str, ...]) -> pa.Table:
    schema = pa.schema([(name, pa.string()) for name in ("customer_id", *names)])
    blocks = [schema.empty_table()]
    for rows in read_customers(enriched_parts(folder), schema.names, _BLOCK_ROWS):
        nothing = pa.nulls(rows.num_rows, pa.string())
        there = dict(zip(rows.column_names, rows.columns, strict=True))
        found = [there.get(name, nothing).cast(pa.string()) for name in schema.names]
        blocks.append(pa.table(found, schema))
    found = pa.concat_tables(blocks)
    found = found.rename_columns(["customer_id", *(f"{IN_FILE}{name}" for name in names)])
    return found.append_column("run_id", pa.repeat(run_id, found.num_rows))


def within(branches: Sequence[str]) -> str:
    """Return the condition under which a row is of some branches; of any where none is given."""
    quoted = ("'" + each.strip().lower().replace("'", "''") + "'" for each in branches)
    return f"lower(trim(branch)) IN ({', '.join(quoted)})" if branches else "true"


def columns_of_care(row: Mapping[str, Any]) -> list[str]:
    """Return the lender's own columns of a row that say who looks after the customer."""
    return [name for name in group_columns(list(row)).values() if row[name]]


def branch_of(row: Mapping[str, Any]) -> str:
    """Return the branch of a row; empty where the lender's file names none."""
    name = group_columns(list(row)).get("branch")
    return "" if name is None or row[name] is None else str(row[name]).strip()
