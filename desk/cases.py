"""Cases: who works on which customer, what is waited for, overrides that wait for somebody else.

In the desk's own file; a customer stands in it by a keyed pseudonym. A case goes once its review is
saved. Which customers need somebody is `work_list`; reviews are recorded in `steps/`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Sequence

    from nightscreen.desk.accounts import Accounts
    from nightscreen.storage.journal import Journal

WAITS_FOR: Final = ("customer", "reporter")
IN_TURN: Final = "in turn"
SHARED_BY: Final = ("branch", "officer", "reason", IN_TURN)
_CONTEXT: Final = b"desk case"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS cases (
  batch TEXT NOT NULL, customer BLOB NOT NULL, holder TEXT NOT NULL,
  at INTEGER NOT NULL, waits_until INTEGER, waits_for TEXT NOT NULL,
  PRIMARY KEY (batch, customer));
CREATE TABLE IF NOT EXISTS shares (
  id INTEGER PRIMARY KEY, facet TEXT NOT NULL, value TEXT NOT NULL, users TEXT NOT NULL,
  by TEXT NOT NULL, at INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS proposals (
  id INTEGER PRIMARY KEY, batch TEXT NOT NULL, customer BLOB NOT NULL, sealed BLOB NOT NULL,
  user TEXT NOT NULL, at INTEGER NOT NULL, UNIQUE (batch, customer));
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


@dataclass(frozen=True, slots=True)
class Proposal:
    """An override that waits for a second person.

    Attributes:
        review: the cells of the review: customer, run, decision, note; and the reason chosen.
    """

    proposal_id: int
    batch: str
    key: bytes
    user: str
    at: int
    review: dict[str, str] = field(repr=False)


class CaseTakenError(Exception):
    """Somebody else has the case."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


class Cases:
    """Reads and writes cases, shares and proposals."""

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
        """Remove cases and proposals of customers: their reviews are saved, or need nobody."""
        pairs = [(batch, key) for key in keys]
        with self._accounts.transaction() as connection:
            for table in ("cases", "proposals"):
                connection.executemany(
                    f"DELETE FROM {table} WHERE batch = ? AND customer = ?",  # noqa: S608 - names of ours
                    pairs,
                )

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

    # --- proposals ---

    def propose(self, batch: str, customer_id: str, user: str, review: dict[str, str]) -> None:
        """Keep an override until a second person confirms it; an earlier one is replaced."""
        key = self.key(batch, customer_id)
        sealed = self._journal.sealer.seal(json.dumps(review).encode(), _CONTEXT)
        with self._accounts.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO proposals (batch, customer, sealed, user, at)"
                " VALUES (?, ?, ?, ?, ?)",
                (batch, key, sealed, user, self._accounts.clock()),
            )

    def proposals(self) -> list[Proposal]:
        """Return the overrides that wait, oldest first."""
        return [
            self._proposal(row)
            for row in self._accounts.rows("SELECT * FROM proposals ORDER BY id")
        ]

    def proposal(self, batch: str, key: bytes) -> Proposal | None:
        """Return the override that waits for a customer, or None."""
        rows = self._accounts.rows(
            "SELECT * FROM proposals WHERE batch = ? AND customer = ?", batch, key
        )
        return self._proposal(rows[0]) if rows else None

    def end_proposal(self, proposal: Proposal) -> bool:
        """Remove an override that waits; tell whether it was still there."""
        with self._accounts.transaction() as connection:
            done = connection.execute("DELETE FROM proposals WHERE id = ?", (proposal.proposal_id,))
        return bool(done.rowcount)

    def _proposal(self, row: sqlite3.Row) -> Proposal:
        review = json.loads(self._journal.sealer.open(row["sealed"], _CONTEXT))
        return Proposal(
            row["id"], row["batch"], bytes(row["customer"]), row["user"], row["at"], review
        )

    # --- erasure and a new data key ---

    def forget(self, customer_ids: Collection[str]) -> None:
        """Remove erased customers."""
        for (batch,) in self._accounts.rows(
            "SELECT batch FROM cases UNION SELECT batch FROM proposals"
        ):
            self.close(batch, [self.key(batch, each) for each in customer_ids])

    def reseal(self) -> None:
        """Seal what waits for a second person under the present data key."""
        sealer = self._journal.sealer
        with self._accounts.transaction() as connection:
            rows = connection.execute("SELECT id, sealed FROM proposals").fetchall()
            anew = [
                (sealer.seal(sealer.open(row["sealed"], _CONTEXT), _CONTEXT), row["id"])
                for row in rows
            ]
            connection.executemany("UPDATE proposals SET sealed = ? WHERE id = ?", anew)


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
