"""Who asks at present: the processes that share a cap on calls under way, and a run's workers.

Each has a row while it asks, with the caps that it shares and how far it has come. A claim gives
it an equal part of each cap. Nothing here lasts: rows of dead processes are removed by those who
live, and no backup holds them.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, func, select, update

from nightscreen.journal.engine import outlasting, reading, recording
from nightscreen.journal.schema import UNSETTLED, askers, calls
from nightscreen.journal.statements import among, insert_into
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.checks import FAMILIES, family_of
from nightscreen.schemas.clock import MICROS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy import Connection, Engine

    from nightscreen.journal.holders import Holders

STALE_MICROS = 600 * MICROS
"""Age from which nobody waits for a call under way: no timeout is that long.

One that is never settled, as that of a process that lost its database for a moment and lives on,
holds nobody up for longer.
"""
UNDER_WAY = (
    calls.c.state == CallState.INTENT.value,
    UNSETTLED,
    calls.c.intent_at > bindparam("after"),
)
"""Condition of a call under way that somebody waits for; `after` is `STALE_MICROS` ago."""
_NAMED = 3
_NO_CAPS = "{}"
"""What a process shares that asks no more."""


@dataclass(frozen=True, slots=True)
class Part:
    """A process's part of a cap, as a claim finds it.

    Attributes:
        slots: calls it may add to those under way.
        others: who else has calls under way, where it has none itself.
    """

    slots: int
    others: tuple[str, ...] = ()


def part_of(
    connection: Connection, check: str, cap: int, me: str, dead: Collection[str], now: int
) -> Part:
    """Return how many calls a process may add to those under way, of a cap that it shares.

    Each process that shares it gets the cap divided by their number, rounded up. Where their
    settings differ, the lowest cap counts. Who does not share it is not counted.

    Args:
        connection: holds the turn.
        check: the check, or an operation of a family.
        cap: calls that may be under way, by this process's settings.
        me: this process.
        dead: processes that are known to be dead.
        now: the instant.
    """
    family = family_of(check)
    members = FAMILIES.get(family, (family,))
    query = (
        select(calls.c.holder, func.count())
        .where(*UNDER_WAY, among(connection.dialect.name, calls.c.check, "members"))
        .group_by(calls.c.holder)
    )
    given = {"members": list(members), "after": now - STALE_MICROS}
    caps = {me: cap}
    for row in connection.execute(select(askers.c.holder, askers.c.caps)):
        theirs = json.loads(row.caps).get(family)
        if theirs is not None and row.holder not in dead:
            caps[row.holder] = min(theirs, caps.get(row.holder, theirs))
    under_way = {
        str(holder): int(number)
        for holder, number in connection.execute(query, given)
        if holder in caps
    }
    lowest, mine = min(caps.values()), under_way.pop(me, 0)
    fair = math.ceil(lowest / len(caps)) - mine
    slots = max(0, min(fair, lowest - mine - sum(under_way.values())))
    busiest = sorted(under_way, key=lambda name: -under_way[name])[:_NAMED]
    return Part(slots, () if mine or slots else tuple(busiest))


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
