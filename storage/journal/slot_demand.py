"""Claims: which living processes want calls of a check in flight, so that each gets its share.

How many calls may be in flight over all of them is the engine's to hold; this only tells how many
want some. Like `shared_work` it holds nothing that lasts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import Column, MetaData, Table, Text, delete, select

from nightscreen.storage.journal.engine import Turn, reading, recording, writing
from nightscreen.storage.journal.statements import insert_into

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from nightscreen.storage.holders import Holders
    from nightscreen.storage.journal import Journal

wishes = MetaData()
claims = Table(
    "work_claims",
    wishes,
    Column("check", Text, primary_key=True),
    Column("holder", Text, primary_key=True),
)


@dataclass(frozen=True, slots=True)
class Claims:
    """Reads and writes claims; safe from several processes at once."""

    _engine: Engine = field(repr=False)
    _holders: Holders = field(repr=False)

    @classmethod
    def of(cls, journal: Journal) -> Claims:
        """Return the claims of an open journal, making the table where there is none."""
        with writing(journal.engine) as connection:
            wishes.create_all(connection, checkfirst=True)
        return cls(journal.engine, journal.holders)

    @property
    def name(self) -> str:
        """Return the name this process claims under."""
        return self._holders.name

    def claim(self, check: str) -> None:
        """Say that this process wants calls of a check in flight."""
        with recording(self._engine, Turn.WORK) as connection:
            statement = insert_into(connection.dialect.name, claims).on_conflict_do_nothing()
            connection.execute(statement, {"check": check, "holder": self._holders.name})

    def drop(self, check: str) -> None:
        """Say that this process wants none any more."""
        self._forget(check, {self._holders.name})

    def claimants(self) -> dict[str, list[str]]:
        """Return who alive wants calls in flight, by check, in an order all agree on."""
        found: dict[str, list[str]] = {}
        dead: dict[str, set[str]] = {}
        with reading(self._engine) as connection:
            rows = connection.execute(select(claims).order_by(claims.c.holder)).all()
            alive = {holder: self._holders.alive(holder, connection) for _, holder in rows}
        for check, holder in rows:
            if alive[holder]:
                found.setdefault(check, []).append(holder)
            else:
                dead.setdefault(check, set()).add(holder)
        for check, holders in dead.items():
            self._forget(check, holders)
        return found

    def _forget(self, check: str, holders: set[str]) -> None:
        with recording(self._engine, Turn.WORK) as connection:
            connection.execute(
                delete(claims).where(claims.c.check == check, claims.c.holder.in_(sorted(holders)))
            )
