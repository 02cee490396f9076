"""Who asks at present: the processes that share a cap on calls under way, and a run's workers.

Each has a row while it asks, with the caps that it shares and how far it has come. A claim gives
it an equal part of each cap. Nothing here lasts: rows of dead processes are removed by those who
live, and no backup holds them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, select, update

from nightscreen.journal.engine import outlasting, reading, recording
from nightscreen.journal.schema import askers
from nightscreen.journal.statements import insert_into

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy import Connection, Engine

    from nightscreen.journal.holders import Holders

_NO_CAPS = "{}"  # what a process shares that asks no more


def caps_of_all(connection: Connection) -> dict[str, dict[str, int]]:
    """Return the caps that each process shares, by check or family of operations."""
    found: dict[str, dict[str, int]] = {}
    for row in connection.execute(select(askers.c.holder, askers.c.caps)):
        found.setdefault(row.holder, {}).update(json.loads(row.caps))
    return found


def living(connection: Connection) -> set[str]:
    """Return the processes that have a row."""
    return set(connection.execute(select(askers.c.holder).distinct()).scalars())


def remove(connection: Connection, holders: Collection[str]) -> None:
    """Remove the rows of dead processes."""
    if holders:
        connection.execute(delete(askers).where(askers.c.holder.in_(list(holders))))


@dataclass(frozen=True, slots=True)
class Askers:
    """Writes and reads who asks for runs."""

    _engine: Engine = field(repr=False)
    _holders: Holders = field(repr=False)

    @outlasting
    def join(self, run_id: str, caps: Mapping[str, int]) -> None:
        """Say that this process asks for a run, and which caps it shares."""
        row = {
            "run_id": run_id,
            "holder": self._holders.name,
            "caps": json.dumps(dict(caps)),
            "numbers": "{}",
        }
        with recording(self._engine) as connection:
            statement = insert_into(connection.dialect.name, askers).on_conflict_do_update(
                index_elements=list(askers.primary_key.columns), set_={"caps": row["caps"]}
            )
            connection.execute(statement, row)

    @outlasting
    def report(self, run_id: str, numbers: Mapping[str, Any]) -> None:
        """Write down how far this process has come."""
        with recording(self._engine) as connection:
            mine = (askers.c.run_id == run_id, askers.c.holder == self._holders.name)
            connection.execute(update(askers).where(*mine).values(numbers=json.dumps(numbers)))

    @outlasting
    def leave(self, run_id: str, *, forget: bool) -> None:
        """Say that this process asks no more; its numbers stay for the run to read, or go too."""
        mine = (askers.c.run_id == run_id, askers.c.holder == self._holders.name)
        with recording(self._engine) as connection:
            if forget:
                connection.execute(delete(askers).where(*mine))
            else:
                connection.execute(update(askers).where(*mine).values(caps=_NO_CAPS))

    @outlasting
    def others(self, run_id: str) -> dict[str, dict[str, Any]]:
        """Return how far the other processes of a run have come, by process, dead ones too."""
        query = select(askers.c.holder, askers.c.numbers).where(
            askers.c.run_id == run_id, askers.c.holder != self._holders.name
        )
        with reading(self._engine) as connection:
            rows = connection.execute(query).all()
        return {row.holder: json.loads(row.numbers) for row in rows}

    def asks_elsewhere(self, run_id: str) -> bool:
        """Return whether a living process other than this one asks for a run."""
        return any(self._holders.alive(name) for name in self._asking(run_id))

    @outlasting
    def _asking(self, run_id: str) -> list[str]:
        query = select(askers.c.holder).where(
            askers.c.run_id == run_id,
            askers.c.holder != self._holders.name,
            askers.c.caps != _NO_CAPS,
        )
        with reading(self._engine) as connection:
            return list(connection.execute(query).scalars())

    @outlasting
    def clear(self, run_id: str) -> None:
        """Forget who asked for a run."""
        with recording(self._engine) as connection:
            connection.execute(delete(askers).where(askers.c.run_id == run_id))
