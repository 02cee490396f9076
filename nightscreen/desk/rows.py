"""Customers as the desk lists them, by DuckDB: a run's rows, and the open cases of all batches.

Both are held only in memory. The rows of the few runs viewed last are read from their enriched
parts. Open cases are sealed records of the journal; only those written since the last time are
read. What opens and ends a case, and which columns a page shows, is not decided here.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from nightscreen.checks.registry import CHECKS
from nightscreen.files.outputs import enriched_parts
from nightscreen.journal.cases import IN_TURN, Cases
from nightscreen.journal.records import Records
from nightscreen.policy.engine import locked_connection
from nightscreen.report.facts import group_columns
from nightscreen.results.enriched import columns_of_parts, read_customers
from nightscreen.runs.open_cases import CLAIMED, CUSTOMERS, customers_of
from nightscreen.schemas.cases import OpenCase
from nightscreen.schemas.columns import CUSTOMERS as CUSTOMER_FILE
from nightscreen.schemas.columns import NAME_FIELDS
from nightscreen.schemas.decisions import LISTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duckdb import DuckDBPyConnection

    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord, Runs
    from nightscreen.schemas.cases import Share

MEMORY: Final = "256MB"
RUNS_KEPT: Final = 3
_COLUMNS_KEPT: Final = 12
"""Cases of so many batches are narrowed by a column of their files without reading them again."""
_BLOCK_ROWS: Final = 8_192
_PERSONAL: Final = {*CUSTOMER_FILE.personal, *NAME_FIELDS, "consent_reference"}
PAGE_ROWS: Final = 40
MOST_VALUES: Final = 12  # of a facet that are shown: the most frequent ones, and those chosen
FACETS: Final = ("decision", "reason", "ecosystem_status", "branch", "officer")  # of a run's list
CASE_FACETS: Final = ("whose", "batch", "decision", "reason", "branch", "officer")
IN_FILE: Final = "in."  # before the name of a column of the lender's file where that is a facet
SORTS: Final = {
    "exposure": "exposure DESC NULLS LAST",
    "customer": "customer_id",
    "decision": "CASE decision WHEN 'decline' THEN 0 WHEN 'review' THEN 1 WHEN 'undecided' THEN 2"
    " ELSE 3 END",
    "branch": "branch NULLS LAST",
    "officer": "officer NULLS LAST",
}
_SEARCH: Final = """(starts_with(lower(customer_id), lower(?)) OR account_last4 = ?
OR starts_with(strip_accents(lower(branch)), strip_accents(lower(?)))
OR list_bool_and([contains(strip_accents(lower(name)), word)
    FOR word IN string_split(strip_accents(lower(?)), ' ')]))"""
"""Every word that was typed is a part of the name, or all of it begins or ends something else."""
_NEEDS: Final = "decision IN ('{}')".format("', '".join(LISTED))
_ORDER: Final = {
    "whose": ("mine", "free", "others", "waiting"),
    "decision": ("decline", "review", "undecided", "approve"),
}
"""Facets whose values have an order of their own; the others stand by number of rows."""
_CASES: Final = pa.schema(
    [
        *CUSTOMERS,
        *((name, pa.string()) for name in ("batch", "run_id", "purpose", "holder", "waits_for")),
        *((name, pa.int64()) for name in ("number", "since", "held_at", "waits_until")),
    ]
)
_SHARES: Final = pa.schema(
    [
        ("number", pa.int64()),
        ("facet", pa.string()),
        ("value", pa.string()),
        ("users", pa.list_(pa.string())),
    ]
)
_GIVEN: Final = f"""
SELECT row, users[1 + (row_number() OVER (PARTITION BY number ORDER BY row) - 1) % len(users)]
  AS owner
FROM (SELECT row, min(shares.number) AS number FROM work JOIN shares ON CASE facet
  WHEN 'branch' THEN branch = value WHEN 'officer' THEN officer = value
  WHEN 'reason' THEN list_contains(reasons, value) WHEN '{IN_TURN}' THEN true END GROUP BY row)
JOIN shares USING (number)
"""  # noqa: S608 - a word of ours
"""Whose each case is by the first share that fits; of several users each gets one in turn."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter and order of a list."""

    chosen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # values of each facet
    # words of a name, how a customer id or branch begins, or the last four digits of an account
    search: str = ""
    sort: str = "exposure"  # a key of `SORTS`
    by: tuple[str, ...] = ()  # the file's columns that are facets as well (`IN_FILE` before them)

    def pairs(self, *, without: str = "") -> list[tuple[str, str]]:
        """Return the filter as parameters of an address."""
        chosen = {name: values for name, values in self.chosen.items() if name != without}
        pairs = [(name, value) for name, values in chosen.items() for value in values]
        pairs += [("search", self.search)] if self.search else []
        pairs += [("sort", self.sort)] if self.sort != "exposure" else []
        return pairs + [("by", name) for name in self.by if name not in chosen]

    def words(self) -> str:
        """Return the filter in words, as a file that is taken out bears it."""
        said = [
            f"{name.removeprefix(IN_FILE)}: {', '.join(values)}"
            for name, values in self.chosen.items()
            if values
        ]
        said += [f"search: {self.search}"] if self.search else []
        return "; ".join(said) or "all customers"

    def conditions(self) -> tuple[dict[str, str], list[Any]]:
        """Return a condition by facet, and one for the search; and their values in order."""
        said: dict[str, str] = {}
        values: list[Any] = []
        for name, chosen in self.chosen.items():
            has = "list_has_any(reasons, ?)"
            has = has if name == "reason" else f"list_contains(?, {_column(name)})"
            said[name] = f"coalesce({has}, false)"
            values.append(list(chosen))
        if self.search:
            said["search"] = _SEARCH
            values += [" ".join(self.search.split())] * 4
        return said, values


class Listing:
    """Rows in memory, a table or a query, that are listed and counted by facets."""

    def __init__(
        self,
        connection: DuckDBPyConnection,
        source: str,
        facets: Sequence[str] = FACETS,
        beside: pa.Table | None = None,
    ) -> None:
        self._connection = connection
        self._beside = beside
        self.source = source
        self.facets = facets

    def with_file(self, runs: Runs, asked: Filter) -> Self:
        """Return the rows with the columns of the lender's file that a filter is by, as facets.

        They are read from the results of each row's run; where these are gone, it has none.
        """
        names = tuple(name.removeprefix(IN_FILE) for name in asked.by)
        text = [(name, pa.string()) for name in ("customer_id", *asked.by, "run_id")]
        found = [pa.schema(text).empty_table()]
        for each in self.ask(f"SELECT DISTINCT run_id FROM {self.source}"):  # noqa: S608 - words of ours
            run = runs.find(each["run_id"])
            if run is not None:
                folder = Path(run.folder)
                found.append(_columns(folder, run.run_id, _written_at(folder), names))
        source = f"(SELECT * FROM {self.source} LEFT JOIN of_file USING (run_id, customer_id))"  # noqa: S608 - words of ours
        beside = pa.concat_tables(found)
        return type(self)(self._connection, source, (*self.facets, *asked.by), beside)

    def page(
        self, asked: Filter, start: int, number: int = PAGE_ROWS, *, first: str = ""
    ) -> list[dict[str, Any]]:
        """Return rows of a filter in its order; `first` is an order that goes before it."""
        conditions, values = asked.conditions()
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
        conditions, values = asked.conditions()
        shown = [f"{_column(name)} AS value{at}" for at, name in enumerate(self.facets)]
        holds = [f"({condition}) AS holds{at}" for at, condition in enumerate(conditions.values())]
        pieces = []
        for at, name in enumerate((*self.facets, "")):
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
        facets = {
            name: _shown(name, of[at], asked.chosen.get(name, ()))
            for at, name in enumerate(self.facets)
        }
        number = sum(n for _, n in of[len(self.facets)])
        return number, {name: values for name, values in facets.items() if values}

    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Return the result of a query."""
        cursor = self._connection.cursor()  # pages are made in several threads
        try:
            if self._beside is not None:
                cursor.register("of_file", self._beside)
            asked = cursor.execute(sql, list(values))
            names = [each[0] for each in asked.description or ()]
            return [dict(zip(names, row, strict=True)) for row in asked.fetchall()]
        finally:
            cursor.close()


def _shown(name: str, found: list[tuple[str, int]], chosen: Sequence[str]) -> list[tuple[str, int]]:
    """Return the values of a facet with their rows: the first of them, and those chosen."""
    own = _ORDER.get(name, ())
    found.sort(key=lambda each: (own.index(each[0]) if each[0] in own else 99, -each[1], each[0]))
    shown = [each for at, each in enumerate(found) if at < MOST_VALUES or each[0] in chosen]
    missing = set(chosen) - {value for value, _ in shown}
    return [*shown, *((value, 0) for value in sorted(missing))]


def _column(facet: str) -> str:
    """Return what a facet is by, as SQL; a column of the file may have any name."""
    if facet.startswith(IN_FILE):
        return '"{}"'.format(facet.replace('"', '""'))
    return "reasons" if facet == "reason" else facet


def _within(branches: Sequence[str]) -> str:
    """Return the condition under which a row is of some branches; of any where none is given."""
    quoted = ("'" + each.strip().lower().replace("'", "''") + "'" for each in branches)
    return f"lower(trim(branch)) IN ({', '.join(quoted)})" if branches else "true"


# --- a run's rows ---


class RunRows(Listing):
    """One run's rows in memory, or those of some branches."""

    def within(self, branches: Sequence[str]) -> RunRows:
        """Return the rows of some branches alone."""
        source = f"(SELECT * FROM {self.source} WHERE {_within(branches)})"  # noqa: S608 - in quotes
        return RunRows(self._connection, source)

    def count_to_review(self) -> tuple[int, int]:
        """Return how many customers there are, and how many of them somebody must look at."""
        sql = f"SELECT count(*) AS n, count(*) FILTER ({_NEEDS}) AS needing FROM {self.source}"  # noqa: S608 - words of ours
        (found,) = self.ask(sql)
        return found["n"], found["needing"]

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
        (row,) = self.ask(sql, [customer_id])
        return row["next"], int(row["place"]), int(row["n"])

    def among(self, customer_ids: Sequence[str]) -> dict[str, str | None]:
        """Return which of some customers the run has, each with the name in the lender's file."""
        sql = (
            f"SELECT customer_id, name FROM {self.source}"  # noqa: S608 - words of ours
            " WHERE customer_id IN (SELECT unnest(?))"
        )
        return {each["customer_id"]: each["name"] for each in self.ask(sql, [list(customer_ids)])}


def rows_of_run(run: RunRecord) -> RunRows | None:
    """Return a run's rows; None where its files are not on this machine, or gone."""
    folder = Path(run.folder)
    written_at = _written_at(folder)
    return _read(folder, run.run_id, written_at) if written_at else None


def _written_at(folder: Path) -> int:
    """Return when a run's rows were written last, nanoseconds; 0 where it has none here."""
    return max((part.stat().st_mtime_ns for part in enriched_parts(folder)), default=0)


@lru_cache(maxsize=RUNS_KEPT)
def _read(folder: Path, run_id: str, _written_at: int) -> RunRows:
    connection = locked_connection(MEMORY)
    batches = (batch for block in customers_of(folder) for batch in block.to_batches())
    connection.register("customers", pa.Table.from_batches(batches, CUSTOMERS))
    with_run = "CREATE TABLE run AS SELECT *, place AS row, $1 AS run_id FROM customers"
    connection.execute(with_run, [run_id])
    connection.unregister("customers")
    return RunRows(connection, "run")


def file_columns(run: RunRecord) -> list[str]:
    """Return the columns of the lender's file that a run's rows can be narrowed by.

    All but those that differ from person to person, such as identifiers and names.
    """
    first_of_ours = next(iter(CHECKS.values())).status
    there = columns_of_parts(enriched_parts(Path(run.folder)))
    names = takewhile(lambda name: name != first_of_ours, there)
    return one_of_each(name for name in names if name not in _PERSONAL)


def one_of_each(names: Iterable[str]) -> list[str]:
    """Return names without those that differ from an earlier one by capitals alone."""
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(name.casefold(), name)
    return list(found.values())


@lru_cache(maxsize=_COLUMNS_KEPT)
def _columns(folder: Path, run_id: str, _written_at: int, names: tuple[str, ...]) -> pa.Table:
    """Return columns of the lender's file as text, by customer; the run and `IN_FILE` names."""
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


def columns_of_care(row: Mapping[str, Any]) -> list[str]:
    """Return the lender's own columns of a row that say who looks after the customer."""
    return [name for name in group_columns(list(row)).values() if row[name]]


def branch_of(row: Mapping[str, Any]) -> str:
    """Return the branch of a row; empty where the lender's file names none."""
    name = group_columns(list(row)).get("branch")
    return "" if name is None or row[name] is None else str(row[name]).strip()


# --- the open cases of all batches ---


class OpenCases(Listing):
    """The open cases of all batches, as one user sees them."""

    def case(self, batch: str, customer_id: str) -> dict[str, Any] | None:
        """Return the case of a customer; None where nobody is needed."""
        sql = f"SELECT * FROM {self.source} WHERE batch = ? AND customer_id = ?"  # noqa: S608 - made in `seen_by`
        return next(iter(self.ask(sql, [batch, customer_id])), None)

    def to_review(self) -> list[dict[str, Any]]:
        """Return how many cases of each batch wait for nobody but the user or any, and at stake."""
        sql = (
            "SELECT batch, count(*) AS rows, sum(exposure) AS exposure, min(since) AS since"  # noqa: S608 - made in `seen_by`
            f" FROM {self.source} WHERE whose IN ('mine', 'free') GROUP BY batch ORDER BY batch"
        )
        return self.ask(sql)

    def next_own(self, batch: str, customer_id: str) -> dict[str, Any] | None:
        """Return the user's own case that follows a customer's; None where there is none.

        Worst exposure first; from the top at the end.
        """
        sql = (
            f"SELECT * FROM {self.source} WHERE whose = 'mine'"  # noqa: S608 - made in `seen_by`
            " AND NOT (batch = $1 AND customer_id = $2) ORDER BY row <= coalesce("
            "(SELECT max(row) FROM work WHERE batch = $1 AND customer_id = $2), -1), row LIMIT 1"
        )
        return next(iter(self.ask(sql, [batch, customer_id])), None)


@dataclass(slots=True)
class WorkList:
    """Who needs somebody, over all batches."""

    journal: Journal
    newest: list[tuple[str, str]] = field(default_factory=list)  # batch and newest run of each
    # by what cases can be shared out: each branch, officer and reason there is
    values: list[tuple[str, str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _connection: DuckDBPyConnection | None = None
    # how cases and shares stood when they were read
    _seen: tuple[tuple[int, ...], list[Share]] | None = None
    # when each case that is in memory was written, by its number
    _read: dict[int, int] = field(default_factory=dict)

    def seen_by(self, user: str, branches: Sequence[str] = ()) -> OpenCases:
        """Return the open cases as one user sees them: `whose` each is, and who has it.

        Of some branches alone, where any are given.
        """
        with self._lock:
            connection = self._brought_up()
        mine, now = user.replace("'", "''"), self.journal.clock()
        source = f"""(SELECT *, CASE WHEN waits_until > {now} THEN 'waiting'
            WHEN holder = '{mine}' THEN 'mine' WHEN holder = '' THEN 'free' ELSE 'others' END
            AS whose FROM (SELECT work.* REPLACE (coalesce(work.holder, owner, '') AS holder),
            coalesce(work.holder, '') <> '' AS taken FROM work LEFT JOIN given USING (row))
            WHERE {_within(branches)})"""  # noqa: S608 - in quotes
        return OpenCases(connection, source, CASE_FACETS)

    def _brought_up(self) -> DuckDBPyConnection:
        """Return the tables as things are now; only cases that are new or changed are read."""
        connection = self._connection
        if connection is None:
            connection = self._connection = locked_connection(MEMORY)
            _put(connection, "CREATE TABLE kept AS", _CASES.empty_table())
        store = Records(self.journal, OpenCase)
        now = store.stamp(), Cases(self.journal).shares()
        if now == self._seen:
            return connection
        written = store.versions()
        old = [number for number, at in self._read.items() if written.get(number) != at]
        new = [number for number, at in written.items() if self._read.get(number) != at]
        connection.execute("DELETE FROM kept WHERE number IN (SELECT unnest(?))", [old])
        for start in range(0, len(new), _BLOCK_ROWS):
            rows = [
                {
                    **dict(case),
                    **case.statuses,
                    CLAIMED: case.claimed,
                    "number": number,
                    "since": case.at,
                }
                for number, case in store.numbered(new[start : start + _BLOCK_ROWS])
            ]
            _put(connection, "INSERT INTO kept", pa.Table.from_pylist(rows, _CASES))
        shares = [
            {"number": number, "facet": each.facet, "value": each.value, "users": list(each.users)}
            for number, each in enumerate(now[1])
        ]
        as_shares = "CREATE OR REPLACE TABLE shares AS"
        _put(connection, as_shares, pa.Table.from_pylist(shares, _SHARES))
        connection.execute(
            "CREATE OR REPLACE TABLE work AS SELECT *, row_number() OVER (ORDER BY exposure DESC"
            " NULLS LAST, batch, place) AS row FROM kept"
        )
        connection.execute(f"CREATE OR REPLACE TABLE given AS {_GIVEN}")
        self.newest = connection.execute(
            "SELECT batch, max(run_id) FROM work GROUP BY batch ORDER BY batch"
        ).fetchall()
        self.values = connection.execute(
            "SELECT DISTINCT 'branch', branch FROM work WHERE branch IS NOT NULL UNION ALL SELECT"
            " DISTINCT 'officer', officer FROM work WHERE officer IS NOT NULL UNION ALL SELECT"
            " DISTINCT 'reason', unnest(reasons) FROM work ORDER BY ALL"
        ).fetchall()
        self._read, self._seen = written, now
        return connection


def _put(connection: DuckDBPyConnection, into: str, rows: pa.Table) -> None:
    connection.register("rows_read", rows)
    connection.execute(f"{into} SELECT * FROM rows_read")  # noqa: S608 - a statement of ours
    connection.unregister("rows_read")
