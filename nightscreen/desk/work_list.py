"""The list to work on over all batches: who needs somebody, whose case it is, what is left of it.

Made of the publishable runs' rows once a run has ended, and kept in memory; what people do to it
(cases, shares, reviews) is laid over it at each look. How a review is saved is not decided here.
"""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from nightscreen.config.parameters import SCREEN_FLOW
from nightscreen.desk.run_rows import MEMORY, STATUSES, Listing
from nightscreen.files.sealing import pieces_of
from nightscreen.journal.cases import IN_TURN
from nightscreen.journal.customers import BatchMembership, Customers
from nightscreen.journal.reviews import Reviews
from nightscreen.policy.engine import locked_connection
from nightscreen.results.tracked_state import evidence_digest
from nightscreen.schemas.decisions import LISTED
from nightscreen.schemas.policy import Decision
from nightscreen.schemas.rows import NAIRA

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duckdb import DuckDBPyConnection

    from nightscreen.desk.run_rows import RunRows, RunRowsCache
    from nightscreen.files.sealing import Pseudonyms
    from nightscreen.journal import Journal
    from nightscreen.journal.cases import Cases, HeldCase, Share
    from nightscreen.journal.runs import RunRecord

MOST_RUNS: Final = 500
FACETS: Final = ("whose", "batch", "decision", "reason", "branch", "officer")
_KEY_BYTES: Final = 16


@dataclass(slots=True)
class _Taken:
    """What is laid over the rows now; compared before it is written again."""

    cases: tuple[HeldCase, ...] = ()
    shares: tuple[Share, ...] = ()
    last_review: int = 0


@dataclass(slots=True)
class _Extract:
    """What of a run is kept for the list.

    Attributes:
        stamp: when the run ended.
        table: its rows that need somebody.
        customers: how many it has.
        keys: pseudonyms of all of them, once they were asked for.
    """

    stamp: int | None
    table: pa.Table
    customers: int
    keys: bytes | None = None


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
        rows: the rows of runs.
        cases: who took which case, and how they are shared out.
        newest: the newest run of each batch on the list.
        values: by what cases can be shared out: each branch, officer and reason there is.
    """

    journal: Journal
    rows: RunRowsCache
    cases: Cases
    newest: list[tuple[str, str]] = field(default_factory=list)
    values: list[tuple[str, str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _stamp: tuple[int, ...] | None = None
    _connection: DuckDBPyConnection | None = None
    _now: _Taken = field(default_factory=_Taken)
    _extracts: dict[str, _Extract] = field(default_factory=dict)
    _unread: set[str] = field(default_factory=set)
    """Batches of which files could not be reached: who waits in them is not known."""

    @property
    def _reviews(self) -> Reviews:
        return Reviews.of(self.journal)

    @property
    def _customers(self) -> Customers:
        return Customers.of(self.journal)

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
            " WHERE NOT EXISTS (SELECT 1 FROM reviewed WHERE reviewed.key = work.key"
            f" AND reviewed.until > {now})"
            + (f" AND lower(trim(branch)) IN ({within})" if within else "")
            + ")) AS work"
        )
        return OpenCases(connection, source, FACETS)

    # --- how it is made ---

    def _brought_up(self) -> DuckDBPyConnection:
        """Return the tables as things are now; what has not changed is not made again."""
        stamp = self._reviews.stamp(SCREEN_FLOW)
        connection = self._connection
        if connection is None or stamp != self._stamp:
            connection = locked_connection(MEMORY)
            self._make(connection)
            self._connection, self._stamp, self._now = connection, stamp, _Taken()
            connection.execute("CREATE TABLE reviewed (key BLOB, until BIGINT)")
            _put(connection, "held", _held(()))
            _put(connection, "given", _GIVEN.empty_table())
        self._lay_over(connection)
        return connection

    def _lay_over(self, connection: DuckDBPyConnection) -> None:
        now, cases = self._now, self.cases
        taken, shares = tuple(cases.all()), tuple(cases.shares())
        if taken != now.cases:
            _put(connection, "held", _held(taken))
        if shares != now.shares:
            _put(connection, "given", _given(connection, shares))
        numbered = list(self._reviews.since(now.last_review, self.journal.clock()))
        last = numbered[-1][0] if numbered else now.last_review
        reviews = [review for _, review in numbered]
        self._now = _Taken(taken, shares, last)
        keys = [each.customer for each in reviews]
        known = self._customers.known(keys) if keys else {}
        for each in reviews:
            connection.execute("DELETE FROM reviewed WHERE key = ?", [each.customer])
            state = known.get(each.customer)
            stands = state is not None and evidence_digest(state.state) == each.evidence
            if stands and each.decision != Decision.REVIEW.value:
                connection.execute(
                    "INSERT INTO reviewed VALUES (?, ?)", [each.customer, each.until]
                )

    def _make(self, connection: DuckDBPyConnection) -> None:
        runs: dict[str, list[RunRecord]] = {}
        for run in self.journal.runs.newest(limit=MOST_RUNS):
            if run.flow == SCREEN_FLOW:
                runs.setdefault(run.batch, []).append(run)
        self._unread.clear()
        self.newest = []
        tables = [table for batch in sorted(runs) for table in self._batch(runs[batch])]
        used = {run.run_id for found in runs.values() for run in found}
        self._extracts = {name: each for name, each in self._extracts.items() if name in used}
        table = pa.concat_tables([_WORK.empty_table(), *tables])
        connection.register("gathered", table)
        connection.execute(
            "CREATE TABLE work AS SELECT * EXCLUDE (row),"
            " row_number() OVER (ORDER BY exposure DESC NULLS LAST, batch, row) AS row"
            " FROM gathered"
        )
        connection.unregister("gathered")
        self.values = connection.execute(
            "SELECT DISTINCT 'branch', branch FROM work WHERE branch IS NOT NULL UNION ALL SELECT"
            " DISTINCT 'officer', officer FROM work WHERE officer IS NOT NULL UNION ALL SELECT"
            " DISTINCT 'reason', unnest(reasons) FROM work ORDER BY ALL"
        ).fetchall()
        read = [batch for batch, _ in self.newest if batch not in self._unread]
        self._close_settled(connection, read)

    def _close_settled(self, connection: DuckDBPyConnection, batches: Sequence[str]) -> None:
        """Close cases of customers who need nobody any more since a newer run."""
        for batch in batches:
            held = [each.key for each in self.cases.all() if each.batch == batch]
            if held:
                still = connection.execute(
                    "SELECT key FROM work WHERE batch = ? AND key IN (SELECT unnest(?))",
                    [batch, held],
                ).fetchall()
                self.cases.close(batch, set(held) - {bytes(key) for (key,) in still})

    def _batch(self, runs: Sequence[RunRecord]) -> Iterator[pa.Table]:
        """Yield the rows that count of a batch's runs, newest first.

        A run may hold a part of its batch: rows that were fixed, a customer asked about again. Who
        is not in it counts by the run before, until everybody in the batch was met.
        """
        counting = (run for run in runs if _counts(run))  # few reports are read of many runs
        newest = next(counting, None)
        if newest is None:
            return
        self.newest.append((newest.batch, newest.run_id))
        members = self._customers.members(newest.batch, newest.run_id)
        there = int((members.standing == BatchMembership.PRESENT.value).sum())
        met = np.array([], f"S{_KEY_BYTES}")
        for run in chain([newest], counting):
            extract = self._extract(run)
            if extract is None:
                self._unread.add(newest.batch)
                return
            listed = np.array(extract.table["key"].to_pylist(), f"S{_KEY_BYTES}")
            places = members.places(listed.tobytes())
            counts = ~np.isin(listed, met)
            if there:
                present = members.standing[places] == BatchMembership.PRESENT.value
                counts &= (places < 0) | present
            yield extract.table.filter(pa.array(counts))
            if run is newest and extract.customers >= there:
                return  # nearly always, and the keys of all its customers take half a second
            keys = self._keys(run, extract)
            if keys is None:
                self._unread.add(newest.batch)
                return
            met = np.union1d(met, np.frombuffer(keys, f"S{_KEY_BYTES}"))
            if len(met) >= there:
                return

    def _extract(self, run: RunRecord) -> _Extract | None:
        """Return what of a run is kept for the list; None where its files are not here."""
        stamp = run.finished_at
        known = self._extracts.get(run.run_id)
        if known is not None and known.stamp == stamp:
            return known
        rows = self.rows.of(run, keep=False)
        if rows is None:
            return None
        found = _Extract(stamp, _listed(self.journal.pseudonyms, run, rows), rows.rows)
        self._extracts[run.run_id] = found
        return found

    def _keys(self, run: RunRecord, extract: _Extract) -> bytes | None:
        """Return the pseudonyms of all of a run's customers; None where its files are not here."""
        rows = self.rows.of(run, keep=False) if extract.keys is None else None
        if rows is not None:
            ids = rows.table("true", "customer_id")[0].to_pylist()
            extract.keys = self.journal.pseudonyms.customers(run.batch, ids)
        return extract.keys


def _counts(run: RunRecord) -> bool:
    """Tell whether people work on what a run decided."""
    report = run.report or {}
    return bool(report.get("publishable") and report.get("decisions"))


def _listed(pseudonyms: Pseudonyms, run: RunRecord, rows: RunRows) -> pa.Table:
    """Return a run's rows that need somebody."""
    words = ", ".join(_quoted(word.value) for word in LISTED)
    table = rows.table(f"decision IN ({words})")
    joined = pseudonyms.customers(run.batch, table["customer_id"].to_pylist())
    number = len(table)
    table = table.append_column("key", pa.array(pieces_of(joined), pa.binary()))
    for name, value in (("batch", run.batch), ("run_id", run.run_id), ("purpose", run.purpose)):
        table = table.append_column(name, pa.array([value] * number, pa.string()))
    return table.select(_WORK.names).cast(_WORK)


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
_WORK: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("customer_id", "decision", "policy")),
        *((name, pa.string()) for name in ("branch", "officer", *STATUSES)),
        ("reasons", pa.list_(pa.string())),
        ("exposure", NAIRA),
        ("row", pa.int32()),
        ("new", pa.string()),
        ("key", pa.binary()),
        *((name, pa.string()) for name in ("batch", "run_id", "purpose")),
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
