"""Cases: who works on which customer, and what is waited for.

In the desk's own file; a customer stands in it by a keyed pseudonym. A case goes once its review is
saved. Which customers need somebody is `work_list`; reviews are recorded in `results/`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Sequence

    from nightscreen.desk.accounts import Accounts
    from nightscreen.journal import Journal

WAITS_FOR: Final = ("customer", "reporter")
IN_TURN: Final = "in turn"
SHARED_BY: Final = ("branch", "officer", "reason", IN_TURN)
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS cases (
  batch TEXT NOT NULL, customer BLOB NOT NULL, holder TEXT NOT NULL,
  at INTEGER NOT NULL, waits_until INTEGER, waits_for TEXT NOT NULL,
  PRIMARY KEY (batch, customer));
CREATE TABLE IF NOT EXISTS shares (
  id INTEGER PRIMARY KEY, facet TEXT NOT NULL, value TEXT NOT NULL, users TEXT NOT NULL,
  by TEXT NOT NULL, at INTEGER NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class HeldCase:
    """A customer somebody has taken; or, without a holder, gave back though it was shared out.

    Attributes:
        key: the customer's pseudonym in the batch.
        at: since when, microseconds.
        waits_until: until when it waits; None where it does not.
    """

    batch: str
    key: bytes
    holder: str
    at: int
    waits_until: int | None
    waits_for: str


@dataclass(frozen=True, slots=True)
class Share:
    """Which free cases are whose: those of a branch, an officer or a reason, or all in turn."""

    share_id: int
    facet: str
    value: str
    users: tuple[str, ...]


class CaseTakenError(Exception):
    """Somebody else has the case."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


class Cases:
    """Reads and writes cases and shares."""

    def __init__(self, accounts: Accounts, journal: Journal) -> None:
        self._accounts = accounts
        self._journal = journal
        with accounts.transaction() as connection:
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)

    # --- cases ---

    def key(self, batch: str, customer_id: str) -> bytes:
        """Return the pseudonym of a customer in a batch."""
        return self._journal.pseudonyms.customer(batch, customer_id)

    def all(self) -> list[HeldCase]:
        """Return every case that somebody has."""
        return [_case(row) for row in self._accounts.rows("SELECT * FROM cases")]

    def find(self, batch: str, key: bytes) -> HeldCase | None:
        """Return the case of a customer, or None where nobody has it."""
        rows = self._accounts.rows(
            "SELECT * FROM cases WHERE batch = ? AND customer = ?", batch, key
        )
        return _case(rows[0]) if rows else None

    def take(
        self,
        batch: str,
        customer_id: str,
        user: str,
        *,
        until: int | None = None,
        waits_for: str = "",
    ) -> None:
        """Give a case to a user, and have it wait until an instant where one is given.

        Raises:
            CaseTakenError: somebody else has it.
        """
        key = self.key(batch, customer_id)
        row = (batch, key, user, self._accounts.clock(), until, waits_for)
        with self._accounts.transaction() as connection:
            _require_own(connection, batch, key, user)
            connection.execute(
                "INSERT INTO cases VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                " at = iif(holder = '', excluded.at, at), holder = excluded.holder,"
                " waits_until = excluded.waits_until, waits_for = excluded.waits_for",
                row,
            )

    def give_back(self, batch: str, customer_id: str, user: str) -> None:
        """Free a case of a user's for everybody, also one that a share gave.

        Raises:
            CaseTakenError: somebody else has it.
        """
        key = self.key(batch, customer_id)
        with self._accounts.transaction() as connection:
            _require_own(connection, batch, key, user)
            connection.execute(
                "INSERT OR REPLACE INTO cases VALUES (?, ?, '', ?, NULL, '')",
                (batch, key, self._accounts.clock()),
            )

    def close(self, batch: str, keys: Iterable[bytes]) -> None:
        """Remove cases of customers: their reviews are saved, or they need nobody."""
        pairs = [(batch, key) for key in keys]
        with self._accounts.transaction() as connection:
            connection.executemany("DELETE FROM cases WHERE batch = ? AND customer = ?", pairs)

    # --- shares ---

    def shares(self) -> list[Share]:
        """Return who gets which free cases; the first that fits a case counts."""
        rows = self._accounts.rows("SELECT * FROM shares ORDER BY facet = ?, id", IN_TURN)
        return [
            Share(row["id"], row["facet"], row["value"], tuple(json.loads(row["users"])))
            for row in rows
        ]

    def share(self, facet: str, value: str, users: Sequence[str], by: str) -> None:
        """Give free cases, of now and of nights to come, to users; each in turn where several."""
        row = (facet, value, json.dumps(list(users)), by, self._accounts.clock())
        with self._accounts.transaction() as connection:
            connection.execute("DELETE FROM shares WHERE facet = ? AND value = ?", (facet, value))
            connection.execute(
                "INSERT INTO shares (facet, value, users, by, at) VALUES (?, ?, ?, ?, ?)", row
            )

    def end_share(self, share_id: int) -> Share | None:
        """Free the cases of a share again, unless they were taken; return what it was."""
        found = next((each for each in self.shares() if each.share_id == share_id), None)
        with self._accounts.transaction() as connection:
            connection.execute("DELETE FROM shares WHERE id = ?", (share_id,))
        return found

    def hand_over(self, user: str, to: str) -> int:
        """Give all that is a user's to another, shares too; return how many cases were taken."""
        now = self._accounts.clock()
        with self._accounts.transaction() as connection:
            for row in connection.execute("SELECT id, users FROM shares").fetchall():
                users = [to if each == user else each for each in json.loads(row["users"])]
                connection.execute(
                    "UPDATE shares SET users = ? WHERE id = ?", (json.dumps(users), row["id"])
                )
            done = connection.execute(
                "UPDATE cases SET holder = ?, at = ? WHERE holder = ?", (to, now, user)
            )
        return done.rowcount

    # --- erasure ---

    def forget(self, customer_ids: Collection[str]) -> None:
        """Remove erased customers."""
        for (batch,) in self._accounts.rows("SELECT DISTINCT batch FROM cases"):
            self.close(batch, [self.key(batch, each) for each in customer_ids])


def _require_own(connection: sqlite3.Connection, batch: str, key: bytes, user: str) -> None:
    row = connection.execute(
        "SELECT holder FROM cases WHERE batch = ? AND customer = ?", (batch, key)
    ).fetchone()
    if row is not None and row["holder"] not in {user, ""}:
        raise CaseTakenError(row["holder"])


def _case(row: sqlite3.Row) -> HeldCase:
    return HeldCase(
        row["batch"],
        bytes(row["customer"]),
        row["holder"],
        row["at"],
        row["waits_until"],
        row["waits_for"],
    )
