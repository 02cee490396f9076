"""Askers: the processes that make calls now, workers included, which share caps on calls under way.

Each has a row while it asks, with the caps that it shares and its progress. A claim gives it an
equal part of each cap. The rows are temporary: living processes remove those of dead ones, and no
backup has them.
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

_NO_CAPS = "{}"  # the caps of a process that no longer asks
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
    connection.execute(delete(askers).where(askers.c.holder.in_(holders)))


@dataclass(frozen=True, slots=True)
class Askers:
    """Reads and writes the processes that ask for runs."""

    _database: Database = field(repr=False)
    _holders: Holders = field(repr=False)

    @with_retries
    def join(self, run_id: str, caps: Mapping[str, int]) -> None:
        """Record that this process asks for a run, and which caps it shares."""
        shared = json.dumps(dict(caps))
        row = (run_id, self._holders.name, shared, "{}")
        with self._database.recording() as connection:
            insert_rows(connection, askers, [row], changed="caps = excluded.caps")

    def report(self, run_id: str, numbers: Mapping[str, Any]) -> None:
        """Save this process's progress."""
        numbered = update(askers).values(numbers=json.dumps(numbers))
        self._database.execute(numbered.where(*self._mine(run_id)))

    def leave(self, run_id: str, *, forget: bool) -> None:
        """Record that this process no longer asks; its figures stay readable unless `forget`."""
        left = delete(askers) if forget else update(askers).values(caps=_NO_CAPS)
        self._database.execute(left.where(*self._mine(run_id)))

    def _mine(self, run_id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
        return askers.c.run_id == run_id, askers.c.holder == self._holders.name

    def others(self, run_id: str) -> dict[str, dict[str, Any]]:
        """Return the progress of a run's other processes, by process, including dead ones."""
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
        """Delete the rows of a run."""
        self._database.execute(delete(askers).where(askers.c.run_id == run_id))
