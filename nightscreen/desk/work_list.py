"""The list to work on over all batches: who needs somebody, whose case it is, what is left of it.

Open cases are records of the journal, sealed; they are kept in memory, unsealed, and what people do
(cases, shares) is laid over them at each look. What opens and ends a case is not decided here.
"""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from nightscreen.desk.run_rows import MEMORY, STATUSES, Listing
from nightscreen.journal.cases import IN_TURN
from nightscreen.journal.records import Records
from nightscreen.policy.engine import locked_connection
from nightscreen.schemas.cases import OpenCase
from nightscreen.schemas.rows import NAIRA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

    from nightscreen.journal import Journal
    from nightscreen.journal.cases import Cases, HeldCase, Share

FACETS: Final = ("whose", "batch", "decision", "reason", "branch", "officer")
_BLOCK: Final = 5_000


class OpenCases(Listing):
    """The open cases of all batches, as one user sees them."""

    def case(self, batch: str, customer_id: str) -> dict[str, Any] | None:
        """Return the case of a customer; None where nobody is needed."""
        sql = f"SELECT * FROM {self.source} WHERE batch = ? AND customer_id = ?"  # noqa: S608 - made in `seen_by`
        return next(iter(self.ask(sql, [batch, customer_id])), None)

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
    _stamp: tuple[int, ...] = ()
    _read: dict[int, int] = field(default_factory=dict)
    """When each record that is in memory was written, by its number."""
    _taken: tuple[tuple[HeldCase, ...], tuple[Share, ...]] = ((), ())
    """What is laid over the rows now."""

    def seen_by(self, user: str, branches: Sequence[str] = ()) -> OpenCases:
        """Return the open cases as one user sees them: `whose` each is, and who has it.

        Args:
            user: by name.
            branches: the only branches the user sees; all where none is given.
        """
        with self._lock:
            connection = self._brought_up()
        within = ", ".join(_quoted(each.strip().lower()) for each in branches)
        now = self.journal.clock()
        source = (
            "(SELECT *, CASE"  # noqa: S608 - names in quotes, numbers and words of ours
            f" WHEN waits_until > {now} THEN 'waiting' WHEN holder = {_quoted(user)} THEN 'mine'"
            " WHEN holder = '' THEN 'free' ELSE 'others' END AS whose FROM (SELECT work.*,"
            " coalesce(held.holder, given.owner, '') AS holder, held.at AS held_at,"
            " held.waits_until, held.waits_for, coalesce(held.holder, '') <> '' AS taken"
            " FROM work LEFT JOIN given USING (row) LEFT JOIN held USING (batch, key)"
            + (f" WHERE lower(trim(branch)) IN ({within})" if within else "")
            + ")) AS work"
        )
        return OpenCases(connection, source, FACETS)

    # --- how it is made ---

    def _brought_up(self) -> DuckDBPyConnection:
        """Return the tables as things are now; only what has changed is read."""
        connection = self._connection
        if connection is None:
            connection = self._connection = locked_connection(MEMORY)
            _put(connection, "gathered", _GATHERED.empty_table())
        store = Records.of(self.journal, OpenCase)
        stamp = store.stamp()
        fresh = stamp != self._stamp
        if fresh:
            self._gather(connection, store)
            self._stamp = stamp
        taken = tuple(self.cases.all()), tuple(self.cases.shares())
        if fresh or taken != self._taken:
            _put(connection, "held", _held(taken[0]))
            _put(connection, "given", _given(connection, taken[1]))
            self._taken = taken
        return connection

    def _gather(self, connection: DuckDBPyConnection, store: Records[OpenCase]) -> None:
        """Read the cases that are new or changed, and forget those that are gone."""
        before, written = self._read, store.versions()
        old = [number for number, at in before.items() if written.get(number) != at]
        new = [number for number, at in written.items() if before.get(number) != at]
        connection.execute("DELETE FROM gathered WHERE number IN (SELECT unnest(?))", [old])
        for start in range(0, len(new), _BLOCK):
            found = store.numbered(new[start : start + _BLOCK])
            rows = [_row(number, case) for number, case in found]
            connection.register("new_rows", pa.Table.from_pylist(rows, _GATHERED))
            connection.execute("INSERT INTO gathered SELECT * FROM new_rows")
            connection.unregister("new_rows")
        connection.execute(
            "CREATE OR REPLACE TABLE work AS SELECT *, row_number() OVER (ORDER BY exposure DESC"
            " NULLS LAST, batch, place) AS row FROM gathered"
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


def _row(number: int, case: OpenCase) -> dict[str, Any]:
    shown = case.model_dump(include={*_GATHERED.names})
    return {**shown, **case.statuses, "number": number, "key": case.customer}


_HELD: Final = pa.schema(
    [
        ("batch", pa.string()),
        ("key", pa.binary()),
        ("holder", pa.string()),
        ("at", pa.int64()),
        ("waits_until", pa.int64()),
        ("waits_for", pa.string()),
    ]
)
_GIVEN: Final = pa.schema([("row", pa.int64()), ("owner", pa.string())])
_GATHERED: Final = pa.schema(
    [
        ("number", pa.int64()),
        ("key", pa.binary()),
        *((name, pa.string()) for name in ("customer_id", "decision", "policy", *STATUSES)),
        *((name, pa.string()) for name in ("branch", "officer", "batch", "run_id", "purpose")),
        ("reasons", pa.list_(pa.string())),
        ("exposure", NAIRA),
        ("place", pa.int64()),
    ]
)


def _held(cases: Sequence[HeldCase]) -> pa.Table:
    return pa.Table.from_pylist([asdict(each) for each in cases], _HELD)


def _given(connection: DuckDBPyConnection, shares: Sequence[Share]) -> pa.Table:
    """Return whose each case is by the shares: the first that fits; in turn where several users."""
    if not shares:
        return _GIVEN.empty_table()
    fits = " ".join(
        f"WHEN {_condition(share)} THEN {number}" for number, share in enumerate(shares)
    )
    found = connection.sql(
        f"SELECT row, CASE {fits} ELSE -1 END AS share FROM work ORDER BY row"  # noqa: S608 - words in quotes
    ).to_arrow_table()
    rows, fitting = found["row"].to_numpy(), found["share"].to_numpy()
    tables = []
    for number, share in enumerate(shares):
        own = rows[fitting == number]
        users = [share.users[each % len(share.users)] for each in range(len(own))]
        tables.append(pa.table([pa.array(own, pa.int64()), pa.array(users, pa.string())], _GIVEN))
    return pa.concat_tables(tables)


def _condition(share: Share) -> str:
    value = _quoted(share.value)
    return {
        "branch": f"branch = {value}",
        "officer": f"officer = {value}",
        "reason": f"list_contains(reasons, {value})",
        IN_TURN: "true",
    }[share.facet]


def _put(connection: DuckDBPyConnection, name: str, table: pa.Table) -> None:
    """Put a table in the place of an earlier one; whoever reads meanwhile sees one or the other."""
    connection.register("new_rows", table)
    connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM new_rows")  # noqa: S608 - a name of ours
    connection.unregister("new_rows")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
