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

from nightscreen.journal.database import insert_rows, with_retries
from nightscreen.journal.schema import askers

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy import ColumnElement, Connection

    from nightscreen.journal.database import Database
    from nightscreen.journal.holders import Holders

_NO_CAPS = "{}"  # what a process shares that asks no more
ASKING = select(askers.c.holder)
"""The processes that have a row."""


def caps_of_all(connection: Connection) -> dict[str, dict[str, int]]:
    """Return the caps that each process shares, by check or family of operations."""
    found: dict[str, dict[str, int]] = {}
    for row in connection.execute(select(askers.c.holder, askers.c.caps)):
        found.setdefault(row.holder, {}).update(json.loads(row.caps))
    return found


def remove(connection: Connection, holders: Collection[str]) -> None:
    """Remove the rows of dead processes."""
    connection.execute(delete(askers).where(askers.c.holder.in_(list(holders))))


@dataclass(frozen=True, slots=True)
class Askers:
    """Writes and reads who asks for runs."""

    _database: Database = field(repr=False)
    _holders: Holders = field(repr=False)

    @with_retries
    def join(self, run_id: str, caps: Mapping[str, int]) -> None:
        """Say that this process asks for a run, and which caps it shares."""
        shared = json.dumps(dict(caps))
        row = (run_id, self._holders.name, shared, "{}")
        with self._database.recording() as connection:
            insert_rows(connection, askers, [row], changed="caps = excluded.caps")

    def report(self, run_id: str, numbers: Mapping[str, Any]) -> None:
        """Write down how far this process has come."""
        numbered = update(askers).values(numbers=json.dumps(numbers))
        self._database.execute(numbered.where(*self._mine(run_id)))

    def leave(self, run_id: str, *, forget: bool) -> None:
        """Say that this process asks no more; its numbers stay for the run to read, or go too."""
        left = delete(askers) if forget else update(askers).values(caps=_NO_CAPS)
        self._database.execute(left.where(*self._mine(run_id)))

    def _mine(self, run_id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
        return askers.c.run_id == run_id, askers.c.holder == self._holders.name

    def others(self, run_id: str) -> dict[str, dict[str, Any]]:
        """Return how far the other processes of a run have come, by process, dead ones too."""
        query = select(askers.c.holder, askers.c.numbers).where(
            askers.c.run_id == run_id, askers.c.holder != self._holders.name
        )
        return {row.holder: json.loads(row.numbers) for row in self._database.fetch(query)}

    def asks_elsewhere(self, run_id: str) -> bool:
        """Return whether a living process other than this one asks for a run."""
        query = select(askers.c.holder).where(
            askers.c.run_id == run_id,
            askers.c.holder != self._holders.name,
            askers.c.caps != _NO_CAPS,
        )
        return any(self._holders.alive(row.holder) for row in self._database.fetch(query))

    def clear(self, run_id: str) -> None:
        """Forget who asked for a run."""
        self._database.execute(delete(askers).where(askers.c.run_id == run_id))
