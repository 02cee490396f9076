"""The list to work on over all batches: who needs somebody, whose case it is, what is left of it.

Open cases are records of the journal, sealed; they are kept in memory, unsealed, and at each look
only those are read that were written since. What opens and ends a case is not decided here.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.desk.run_rows import IN_FILE, MEMORY, Listing, columns_of, within
from nightscreen.journal.cases import IN_TURN
from nightscreen.journal.records import Records
from nightscreen.policy.engine import locked_connection
from nightscreen.runs.open_cases import CLAIMED, CUSTOMERS
from nightscreen.schemas.cases import OpenCase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

    from nightscreen.desk.run_rows import Filter
    from nightscreen.journal import Journal
    from nightscreen.journal.cases import Cases
    from nightscreen.journal.runs import Runs
    from nightscreen.schemas.cases import Share

FACETS: Final = ("whose", "batch", "decision", "reason", "branch", "officer")
_BLOCK: Final = 5_000
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

    def with_file(self, runs: Runs, asked: Filter) -> OpenCases:
        """Return the cases with the columns of the lender's file that a filter is by.

        They are read from the results of each case's run; where these are gone, it has none.
        """
        names = [name.removeprefix(IN_FILE) for name in asked.by]
        of_runs = (
            f"SELECT run_id, list(customer_id) AS ids FROM {self.source}"  # noqa: S608 - made in `seen_by`
            " GROUP BY run_id"
        )
        text = [(name, pa.string()) for name in ("customer_id", *asked.by, "run_id")]
        found = [pa.schema(text).empty_table()]
        for each in self.ask(of_runs):
            run = runs.find(each["run_id"])
            if run is not None:
                rows = columns_of(run, names)
                found.append(rows.filter(pc.is_in(rows["customer_id"], pa.array(each["ids"]))))
        return self.with_columns(pa.concat_tables(found), "run_id, customer_id")

    def next_own(self, batch: str, customer_id: str) -> dict[str, Any] | None:
        """Return the user's next case after a customer's; from the top at the end."""
        sql = (
            f"SELECT * FROM {self.source} WHERE whose = 'mine'"  # noqa: S608 - made in `seen_by`
            " AND NOT (batch = $1 AND customer_id = $2) ORDER BY row <= coalesce((SELECT max(row)"
            " FROM work WHERE batch = $1 AND customer_id = $2), -1), row LIMIT 1"
        )
        return next(iter(self.ask(sql, [batch, customer_id])), None)


@dataclass(slots=True)
class WorkList:
    """Who needs somebody, over all batches.

    Attributes:
        journal: an open journal.
        cases: who took which case, and how they are shared out.
        newest: the newest run of each batch on the list.
        values: by what cases can be shared out: each branch, officer and reason there is.
    """

    journal: Journal
    cases: Cases
    newest: list[tuple[str, str]] = field(default_factory=list)
    values: list[tuple[str, str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _connection: DuckDBPyConnection | None = None
    _seen: tuple[tuple[int, ...], list[Share]] | None = None
    """How cases and shares stood when they were read."""
    _read: dict[int, int] = field(default_factory=dict)
    """When each case that is in memory was written, by its number."""

    def seen_by(self, user: str, branches: Sequence[str] = ()) -> OpenCases:
        """Return the open cases as one user sees them: `whose` each is, and who has it.

        Args:
            user: by name.
            branches: the only branches the user sees; all where none is given.
        """
        with self._lock:
            connection = self._brought_up()
        mine, now = user.replace("'", "''"), self.journal.clock()
        source = f"""(SELECT *, CASE WHEN waits_until > {now} THEN 'waiting'
            WHEN holder = '{mine}' THEN 'mine' WHEN holder = '' THEN 'free' ELSE 'others' END
            AS whose FROM (SELECT work.* REPLACE (coalesce(work.holder, owner, '') AS holder),
            coalesce(work.holder, '') <> '' AS taken FROM work LEFT JOIN given USING (row))
            WHERE {within(branches)})"""  # noqa: S608 - in quotes
        return OpenCases(connection, source, FACETS)

    def _brought_up(self) -> DuckDBPyConnection:
        """Return the tables as things are now; only what has changed is read."""
        connection = self._connection
        if connection is None:
            connection = self._connection = locked_connection(MEMORY)
            _put(connection, "kept", _CASES.empty_table())
        store = Records.of(self.journal, OpenCase)
        now = store.stamp(), self.cases.shares()
        if now != self._seen:
            self._gather(connection, store)
            numbered = enumerate(now[1])
            rows = [(number, each.facet, each.value, list(each.users)) for number, each in numbered]
            shares = [dict(zip(_SHARES.names, row, strict=True)) for row in rows]
            _put(connection, "shares", pa.Table.from_pylist(shares, _SHARES))
            connection.execute(f"CREATE OR REPLACE TABLE given AS {_GIVEN}")
            self._seen = now
        return connection

    def _gather(self, connection: DuckDBPyConnection, store: Records[OpenCase]) -> None:
        """Read the cases that are new or changed, and forget those that are gone."""
        before, written = self._read, store.versions()
        old = [number for number, at in before.items() if written.get(number) != at]
        new = [number for number, at in written.items() if before.get(number) != at]
        connection.execute("DELETE FROM kept WHERE number IN (SELECT unnest(?))", [old])
        for start in range(0, len(new), _BLOCK):
            found = store.numbered(new[start : start + _BLOCK])
            rows = [
                {
                    **dict(case),
                    **case.statuses,
                    CLAIMED: case.claimed,
                    "number": number,
                    "since": case.at,
                }
                for number, case in found
            ]
            connection.register("rows_read", pa.Table.from_pylist(rows, _CASES))
            connection.execute("INSERT INTO kept SELECT * FROM rows_read")
            connection.unregister("rows_read")
        connection.execute(
            "CREATE OR REPLACE TABLE work AS SELECT *, row_number() OVER (ORDER BY exposure DESC"
            " NULLS LAST, batch, place) AS row FROM kept"
        )
        self._read = written
        self.newest = connection.execute(
            "SELECT batch, max(run_id) FROM work GROUP BY batch ORDER BY batch"
        ).fetchall()
        self.values = connection.execute(
            "SELECT DISTINCT 'branch', branch FROM work WHERE branch IS NOT NULL UNION ALL SELECT"
            " DISTINCT 'officer', officer FROM work WHERE officer IS NOT NULL UNION ALL SELECT"
            " DISTINCT 'reason', unnest(reasons) FROM work ORDER BY ALL"
        ).fetchall()


def _put(connection: DuckDBPyConnection, name: str, table: pa.Table) -> None:
    connection.register("rows_read", table)
    connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM rows_read")  # noqa: S608 - a name of ours
    connection.unregister("rows_read")
