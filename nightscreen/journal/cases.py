"""Cases: who works on which customer, and what is waited for.

A customer stands in them by a keyed pseudonym. A case goes once the customer is decided on
(`results/settle_case.py`). Which customers need somebody is the desk's `work_list`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, insert, select, true, update

from nightscreen.journal.engine import Turn, reading, recording
from nightscreen.journal.records import Records
from nightscreen.journal.schema import cases, shares
from nightscreen.schemas.cases import OpenCase

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import ColumnElement, Connection, Row

    from nightscreen.journal.storage import Storage

WAITS_FOR: Final = ("customer", "reporter")
IN_TURN: Final = "in turn"
_BLOCK: Final = 500
SHARED_BY: Final = ("branch", "officer", "reason", IN_TURN)


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


@dataclass(frozen=True, slots=True)
class Cases:
    """Reads and writes cases and shares."""

    _journal: Storage = field(repr=False)

    # --- cases ---

    def key(self, batch: str, customer_id: str) -> bytes:
        """Return the pseudonym of a customer in a batch."""
        return self._journal.pseudonyms.customer(batch, customer_id)

    def all(self) -> list[HeldCase]:
        """Return every case that somebody has."""
        return self._read(true())

    def find(self, batch: str, key: bytes) -> HeldCase | None:
        """Return the case of a customer, or None where nobody has it."""
        return next(iter(self._read(_of(batch, key))), None)

    def _read(self, which: ColumnElement[bool]) -> list[HeldCase]:
        columns = (cases.c.batch, cases.c.customer, cases.c.holder, cases.c.at)
        query = select(*columns, cases.c.waits_until, cases.c.waits_for).where(which)
        with reading(self._journal.engine) as connection:
            return [HeldCase(row[0], bytes(row[1]), *row[2:]) for row in connection.execute(query)]

    def _writing(self) -> AbstractContextManager[Connection]:
        return recording(self._journal.engine, Turn.DESK)

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
        key, now = self.key(batch, customer_id), self._journal.clock()
        with self._writing() as connection:
            held = _own(connection, batch, key, user)
            at = held.at if held is not None and held.holder else now
            _put(connection, HeldCase(batch, key, user, at, until, waits_for))

    def give_back(self, batch: str, customer_id: str, user: str) -> None:
        """Free a case of a user's for everybody, also one that a share gave.

        Raises:
            CaseTakenError: somebody else has it.
        """
        key = self.key(batch, customer_id)
        with self._writing() as connection:
            _own(connection, batch, key, user)
            _put(connection, HeldCase(batch, key, "", self._journal.clock(), None, ""))

    def close(self, batch: str, keys: Collection[bytes]) -> None:
        """Free cases of customers whose reviews are saved."""
        with self._writing() as connection:
            connection.execute(
                delete(cases).where(cases.c.batch == batch, cases.c.customer.in_(keys))
            )

    def settle(self, batch: str, keys: Collection[bytes]) -> None:
        """End cases of customers who need nobody any more."""
        every = list(keys)
        for start in range(0, len(every), _BLOCK):
            block = every[start : start + _BLOCK]
            self.close(batch, block)
            Records.of(self._journal, OpenCase).drop([key.hex() for key in block])

    # --- shares ---

    def shares(self) -> list[Share]:
        """Return who gets which free cases; the first that fits a case counts."""
        query = select(shares).order_by(shares.c.facet == IN_TURN, shares.c.share_id)
        with reading(self._journal.engine) as connection:
            rows = connection.execute(query).all()
        return [
            Share(row.share_id, row.facet, row.value, tuple(json.loads(row.users))) for row in rows
        ]

    def share(self, facet: str, value: str, users: Sequence[str], by: str) -> None:
        """Give free cases, of now and of nights to come, to users; each in turn where several."""
        row = {"facet": facet, "value": value}
        with self._writing() as connection:
            connection.execute(delete(shares).filter_by(**row))
            given = {"users": json.dumps(list(users)), "by": by, "at": self._journal.clock()}
            connection.execute(insert(shares), row | given)

    def end_share(self, share_id: int) -> Share | None:
        """Free the cases of a share again, unless they were taken; return what it was."""
        found = next((each for each in self.shares() if each.share_id == share_id), None)
        with self._writing() as connection:
            connection.execute(delete(shares).where(shares.c.share_id == share_id))
        return found

    def hand_over(self, user: str, to: str) -> int:
        """Give all that is a user's to another, shares too; return how many cases were taken."""
        taken = {"holder": to, "at": self._journal.clock()}
        with self._writing() as connection:
            for row in connection.execute(select(shares.c.share_id, shares.c.users)).all():
                users = [to if each == user else each for each in json.loads(row.users)]
                mine = update(shares).where(shares.c.share_id == row.share_id)
                connection.execute(mine.values(users=json.dumps(users)))
            done = connection.execute(update(cases).where(cases.c.holder == user).values(taken))
        return done.rowcount


def _of(batch: str, key: bytes) -> ColumnElement[bool]:
    return (cases.c.batch == batch) & (cases.c.customer == key)


def _own(connection: Connection, batch: str, key: bytes, user: str) -> Row[Any] | None:
    """Return the case of a customer as it stands, unless somebody else has it."""
    row = connection.execute(select(cases).where(_of(batch, key))).first()
    if row is not None and row.holder not in {user, ""}:
        raise CaseTakenError(row.holder)
    return row


def _put(connection: Connection, case: HeldCase) -> None:
    connection.execute(delete(cases).where(_of(case.batch, case.key)))
    row = {"batch": case.batch, "customer": case.key, "holder": case.holder, "at": case.at}
    waits = {"waits_until": case.waits_until, "waits_for": case.waits_for}
    connection.execute(insert(cases), row | waits)
