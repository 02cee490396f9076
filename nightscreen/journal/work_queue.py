"""Work that several processes of one run share: its parts, its shards, its stops.

These tables hold nothing that lasts: they are made when first needed, belong to no version of the
journal, are in no backup, and are emptied when all was asked. Names and numbers only;
what a shard holds lies sealed in the workspace. What a part does is in `calling/worker.py`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Boolean,
    Column,
    Integer,
    MetaData,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from nightscreen.journal.engine import (
    Turn,
    outlast,
    outlasting,
    reading,
    recording,
    writing,
)
from nightscreen.journal.statements import insert_into

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy import Connection, Engine, Select

    from nightscreen.journal import Journal
    from nightscreen.journal.holders import Holders

work = MetaData()

parts = Table(
    "work_parts",
    work,
    Column("run_id", Text, primary_key=True),
    Column("part", Integer, primary_key=True),
    Column("session", Text, nullable=False),
    Column("holder", Text),
    Column("state", Text, nullable=False),  # called, asking, ended
    Column("numbers", Text, nullable=False),  # JSON, no personal data
)
shards = Table(
    "work_shards",
    work,
    Column("run_id", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("check", Text, nullable=False),
    Column("place", Integer, nullable=False),
    Column("holder", Text),
    Column("done", Boolean, nullable=False),
)
stops = Table(
    "work_stops",
    work,
    Column("run_id", Text, primary_key=True),
    Column("scope", Text, primary_key=True),  # a check, or empty for the run
    Column("reason", Text, nullable=False),
)

CALLED, ASKING, ENDED = "called", "asking", "ended"
WHOLE_RUN = ""
LEFT: dict[bool, dict[str, str | None]] = {
    True: {"state": ENDED},
    False: {"state": CALLED, "holder": None},
}
"""How a part stands once its process has left it, by whether it came to its end."""


@dataclass(frozen=True, slots=True)
class PartState:
    """How one part stands; `alive` where the process that took it up still lives."""

    part: int
    state: str
    holder: str | None
    alive: bool
    numbers: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ShardState:
    """How one shard stands; `held` where a living process has it in hand."""

    name: str
    check: str
    done: bool
    held: bool


@dataclass(frozen=True, slots=True)
class WorkState:
    """All that is known of a run's shared work at one instant."""

    parts: tuple[PartState, ...]
    shards: tuple[ShardState, ...]
    stops: dict[str, str]


@dataclass(frozen=True, slots=True)
class SharedWork:
    """Reads and writes the shared work of runs; safe from several processes at once."""

    _engine: Engine = field(repr=False)
    _holders: Holders = field(repr=False)

    @classmethod
    def of(cls, journal: Journal) -> SharedWork:
        """Return the shared work of an open journal, making its tables where there are none."""
        with writing(journal.engine) as connection:
            work.create_all(connection, checkfirst=True)
        return cls(journal.engine, journal.holders)

    # --- the run's own process ---

    @outlasting
    def begin(self, run_id: str, session: str, number: int) -> None:
        """Call so many parts to a run's work; whatever an earlier session left is forgotten."""
        self.end(run_id)
        rows = [
            {
                "run_id": run_id,
                "part": part,
                "session": session,
                "holder": None,
                "state": CALLED,
                "numbers": "{}",
            }
            for part in range(1, number + 1)
        ]
        with recording(self._engine, Turn.WORK) as connection:
            connection.execute(insert(parts), rows)

    @outlasting
    def lay_out(
        self,
        run_id: str,
        names: Sequence[tuple[str, str]],
        *,
        gathered: Collection[str] = (),
    ) -> None:
        """Offer shards, most important first; those offered before are taken before.

        Args:
            run_id: the run.
            names: pairs of name and check.
            gathered: shards whose ends are known, which are forgotten.
        """
        mine = shards.c.run_id == run_id
        with recording(self._engine, Turn.WORK) as connection:
            if gathered:
                connection.execute(delete(shards).where(mine, shards.c.name.in_(gathered)))
            last = connection.execute(select(func.max(shards.c.place)).where(mine)).scalar()
            rows = [
                {
                    "run_id": run_id,
                    "name": name,
                    "check": check,
                    "place": place,
                    "holder": None,
                    "done": False,
                }
                for place, (name, check) in enumerate(names, -1 if last is None else last + 1)
            ]
            statement = insert_into(connection.dialect.name, shards)
            connection.execute(statement.on_conflict_do_nothing(), rows)

    @outlasting
    def look(self, run_id: str) -> WorkState:
        """Return how parts, shards and stops stand."""
        with reading(self._engine) as connection:
            # A part reports what it met before its shard is done: read in the other order.
            shard_rows = connection.execute(
                select(shards).where(shards.c.run_id == run_id).order_by(shards.c.place)
            ).all()
            part_rows = connection.execute(
                select(parts).where(parts.c.run_id == run_id).order_by(parts.c.part)
            ).all()
            stop_rows = connection.execute(select(stops).where(stops.c.run_id == run_id)).all()
            held = {row.holder for row in (*part_rows, *shard_rows) if row.holder is not None}
            alive = {holder for holder in held if not self._holders.dead(holder, connection)}
        return WorkState(
            tuple(
                PartState(
                    row.part, row.state, row.holder, row.holder in alive, json.loads(row.numbers)
                )
                for row in part_rows
            ),
            tuple(
                ShardState(row.name, row.check, row.done, row.holder in alive) for row in shard_rows
            ),
            {row.scope: row.reason for row in stop_rows},
        )

    @outlasting
    def call_again(self, run_id: str, part: int) -> None:
        """Offer a part whose process was lost to another."""
        with recording(self._engine, Turn.WORK) as connection:
            connection.execute(
                update(parts)
                .where(parts.c.run_id == run_id, parts.c.part == part)
                .values(holder=None, state=CALLED, numbers="{}")
            )

    @outlasting
    def end(self, run_id: str) -> None:
        """Forget a run's shared work; parts that are still there then end by themselves."""
        with recording(self._engine, Turn.WORK) as connection:
            for table in (parts, shards, stops):
                connection.execute(delete(table).where(table.c.run_id == run_id))

    # --- every process ---

    @outlasting
    def stop(self, run_id: str, scope: str, reason: str) -> None:
        """Write down that the run or one of its checks is to stop; the first reason stays."""
        with recording(self._engine, Turn.WORK) as connection:
            statement = insert_into(connection.dialect.name, stops)
            connection.execute(
                statement.on_conflict_do_nothing(),
                {"run_id": run_id, "scope": scope, "reason": reason},
            )

    @outlasting
    def stops(self, run_id: str) -> dict[str, str]:
        """Return why the run and its checks are to stop, by scope."""
        with reading(self._engine) as connection:
            rows = connection.execute(select(stops).where(stops.c.run_id == run_id)).all()
        return {row.scope: row.reason for row in rows}

    # --- a part ---

    @outlasting
    def join(self, run_id: str, part: int) -> str | None:
        """Take a part up and return its session; None where there is nothing to take up."""
        with recording(self._engine, Turn.WORK) as connection:
            row = connection.execute(
                select(parts).where(parts.c.run_id == run_id, parts.c.part == part)
            ).first()
            if row is None or row.state == ENDED:
                return None
            theirs = row.holder not in (None, self._holders.name)
            if theirs and not self._holders.dead(row.holder, connection):
                return None
            connection.execute(
                update(parts)
                .where(parts.c.run_id == run_id, parts.c.part == part)
                .values(holder=self._holders.name, state=ASKING)
            )
        return str(row.session)

    @outlasting
    def report(self, run_id: str, numbers: Mapping[str, Any]) -> bool:
        """Write down how far this process has come; False where its part is not wanted any more."""
        return self._mine(run_id, numbers=json.dumps(numbers))

    @outlasting
    def leave(self, run_id: str, numbers: Mapping[str, Any], *, ended: bool) -> None:
        """Give back the shards in hand; a part that did not end is offered to another."""
        with recording(self._engine, Turn.WORK) as connection:
            connection.execute(
                update(shards)
                .where(
                    shards.c.run_id == run_id,
                    shards.c.holder == self._holders.name,
                    shards.c.done.is_(False),
                )
                .values(holder=None)
            )
        self._mine(run_id, numbers=json.dumps(numbers), **LEFT[ended])

    def _mine(self, run_id: str, **values: str | None) -> bool:
        with recording(self._engine, Turn.WORK) as connection:
            done = connection.execute(
                update(parts)
                .where(parts.c.run_id == run_id, parts.c.holder == self._holders.name)
                .values(**values)
            )
            return bool(done.rowcount)

    def take(self, run_id: str, check: str) -> str | None:
        """Take the most important shard of a check that nobody alive has in hand."""
        free = (
            select(shards.c.name, shards.c.holder)
            .where(shards.c.run_id == run_id, shards.c.check == check, shards.c.done.is_(False))
            .order_by(shards.c.place)
        )
        unsure: list[str] = []

        def try_once() -> str | None:
            with reading(self._engine) as connection:
                if not unsure and self._first_free(connection, free) is None:
                    return None
            with recording(self._engine, Turn.WORK) as connection:
                if self._is_mine(connection, run_id, unsure):
                    return unsure[0]
                name = self._first_free(connection, free)
                if name is not None:
                    connection.execute(
                        update(shards)
                        .where(shards.c.run_id == run_id, shards.c.name == name)
                        .values(holder=self._holders.name)
                    )
                    unsure[:] = [name]
            return name

        return outlast(self._engine, try_once)

    def _is_mine(self, connection: Connection, run_id: str, names: Sequence[str]) -> bool:
        """Return whether a shard that was taken as the database went away is this process's."""
        query = select(shards.c.name).where(
            shards.c.run_id == run_id,
            shards.c.name.in_(names),
            shards.c.holder == self._holders.name,
        )
        return bool(names) and connection.execute(query).first() is not None

    def _first_free(self, connection: Connection, query: Select[Any]) -> str | None:
        alive: dict[str | None, bool] = {None: False}
        for name, holder in connection.execute(query).all():
            if holder not in alive:
                alive[holder] = not self._holders.dead(holder, connection)
            if not alive[holder]:
                return str(name)
        return None

    @outlasting
    def done(self, run_id: str, name: str) -> None:
        """Write down that a shard was asked."""
        with recording(self._engine, Turn.WORK) as connection:
            connection.execute(
                update(shards)
                .where(shards.c.run_id == run_id, shards.c.name == name)
                .values(done=True)
            )
