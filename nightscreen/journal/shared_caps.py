"""Shared caps: how many calls of a check may be under way over all processes, and whose they are.

A condition of `Calls.reserve`, within its transaction. Each process that shares a cap has a row
here; the calls it has under way are its intents. Nothing here lasts: the table is made when first
needed, belongs to no version of the journal, and a restore leaves it out.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    delete,
    func,
    literal_column,
    select,
)

from nightscreen.journal.engine import writing
from nightscreen.journal.statements import among, insert_into
from nightscreen.journal.tables import UNSETTLED, calls
from nightscreen.schemas.calls import CallState, ReservationStatus
from nightscreen.schemas.checks import FAMILIES, family_of
from nightscreen.schemas.clock import MICROS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Engine, Select

    from nightscreen.journal.holders import Holders
    from nightscreen.schemas.calls import Reservation

WISH_LASTS_MICROS = 2 * MICROS
"""How long a part of the cap is kept free for a process that was refused and asks no more.

It is suspended, or paused. One that wants calls asks again twice a second at least, and so repeats
its wish four times as often as this.
"""
_RENEW_MICROS = WISH_LASTS_MICROS // 4
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
LOOK_AGAIN_MICROS = MICROS
"""How often a process looks for the dead: each look asks the database about every holder, while
all others wait for their turn."""
_NAMED = 3
_GRANTED = ReservationStatus.GRANTED

_tables = MetaData()
cap_users = Table(
    "cap_users",
    _tables,
    Column("family", Text, primary_key=True),
    Column("holder", Text, primary_key=True),
    Column("cap", Integer, nullable=False),
    Column("wanted", Integer, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("asked_at", BigInteger, nullable=False),
)

_USER, _CAP, _UNDER_WAY = "user:", "cap:", "under_way:"
_NOTHING: ColumnElement[int] = literal_column("0")


def cap_users_queries(dialect: str) -> tuple[Select[Any], ...]:
    """Return who shares a cap and what each has under way: a part of what a block is granted for.

    `cap_users_of` gives their parameters; `after` is `STALE_MICROS` ago.
    """
    of_family = among(dialect, cap_users.c.family, "families")
    whose = cap_users.c.family.concat(":").concat(cap_users.c.holder)
    return (
        select(
            literal_column(f"'{_USER}'").concat(whose),
            cap_users.c.wanted,
            cap_users.c.since,
            cap_users.c.asked_at,
        ).where(of_family),
        select(
            literal_column(f"'{_CAP}'").concat(whose),
            cap_users.c.cap,
            _NOTHING,
            _NOTHING,
        ).where(of_family),
        select(
            literal_column(f"'{_UNDER_WAY}'")
            .concat(calls.c.check)
            .concat(":")
            .concat(calls.c.holder),
            func.count(),
            _NOTHING,
            _NOTHING,
        )
        .where(*UNDER_WAY, among(dialect, calls.c.check, "members"))
        .group_by(calls.c.check, calls.c.holder),
    )


@dataclass(slots=True)
class CapUser:
    """A process that shares a cap.

    Attributes:
        wanted: calls it was refused when it last asked.
        since: the id of the next call when it was last granted one, or began to want some.
        asked_at: when it was last written down, by its own clock; 0 before the first time.
        under_way: calls it may send now, or has sent.
        cap: the cap by its own settings.
    """

    wanted: int = 0
    since: int = 0
    asked_at: int = 0
    under_way: int = 0
    cap: int = 0


def slots_for(me: str, users: Mapping[str, CapUser], cap: int, wanted: int) -> int:
    """Return how many calls a process may add, of those it wants.

    What is free goes one by one to who has the fewest under way, of these to who has waited for
    longest. So each comes to the cap divided by their number, more processes than calls take turns,
    and nothing is left unused that somebody wants.
    """
    free = cap - sum(user.under_way for user in users.values())
    queue = [
        (user.under_way, user.since, name, wanted if name == me else user.wanted)
        for name, user in users.items()
    ]
    heapq.heapify(queue)
    found = 0
    while free > 0 and queue:
        under_way, since, name, left = heapq.heappop(queue)
        if left:
            free -= 1
            found += name == me
            heapq.heappush(queue, (under_way + 1, since, name, left - 1))
    return found


def cap_users_of(checks: Iterable[str]) -> dict[str, object]:
    """Return the parameters of `cap_users_queries` for checks, or operations of families."""
    families = sorted({family_of(check) for check in checks})
    members = [member for family in families for member in _members(family)]
    return {"families": families, "members": members}


def under_way_key(check: str, holder: str) -> str:
    """Return where the number of calls is that a process has under way, as `part` reads it."""
    return f"{_UNDER_WAY}{check}:{holder}"


def _members(family: str) -> tuple[str, ...]:
    return tuple(FAMILIES.get(family, (family,)))


@dataclass(frozen=True, slots=True)
class CapPart:
    """A process's part of a cap, as a block is granted.

    Attributes:
        family: the check, or the family of operations.
        own_cap: calls that may be under way over all who share it, by this process's settings.
        users: who they are, `me` among them.
        looks: it is time to look for the dead.
    """

    family: str
    own_cap: int
    users: dict[str, CapUser]
    me: str
    holders: Holders
    looks: bool

    @property
    def cap(self) -> int:
        """Return the lowest cap of those at work.

        Where settings differ each would keep room for the other by a cap of its own, and who has
        the lower one would get nothing.
        """
        others = (user for name, user in self.users.items() if name != self.me)
        return min([self.own_cap, *(user.cap for user in others if user.wanted or user.under_way)])

    def slots(self, wanted: int, connection: Connection) -> tuple[int, set[str]]:
        """Return how many calls may be added, and whose are to be put in doubt: the dead have none.

        Who comes first looks for the dead as well, so that their rows do not pile up.
        """
        found, dead = slots_for(self.me, self.users, self.cap, wanted), set[str]()
        if self.looks and (found < wanted or not self.users[self.me].asked_at):
            dead = self._bury(connection)
            found = slots_for(self.me, self.users, self.cap, wanted)
        return found, dead

    def _bury(self, connection: Connection) -> set[str]:
        """Take out who is dead, and return those who had calls under way.

        Who has none is taken out at the first sign: one that lives comes back with its next block.
        """
        gone, dead = set(), set()
        for name in self.users.keys() - {self.me}:
            if not self.users[name].under_way:
                gone |= set() if self.holders.alive(name, connection) else {name}
            elif self.holders.dead(name, connection):
                dead.add(name)
        if gone | dead:
            rows = (cap_users.c.family == self.family, cap_users.c.holder.in_(gone | dead))
            connection.execute(delete(cap_users).where(*rows))
        for name in gone | dead:
            del self.users[name]
        return dead

    def who(self, connection: Connection) -> str:
        """Return in words who has calls under way, where this process has none."""
        if self.users[self.me].under_way:
            return ""
        most = sorted(self.users, key=lambda name: -self.users[name].under_way)[:_NAMED]
        busy = [name for name in most if self.users[name].under_way]
        return ", ".join(self.holders.describe(name, connection) for name in busy)

    def note(
        self, grants: Sequence[Reservation], now: int, connection: Connection, *, more: int
    ) -> None:
        """Write down what this process was refused of a cap, and at first that it shares it.

        Args:
            grants: what became of a block.
            now: the instant.
            connection: holds the turn.
            more: calls that follow and would be refused as well; none where it is not positive.
        """
        mine, kinds = self.users[self.me], Counter(grant.kind for grant in grants)
        wanted, granted = kinds[ReservationStatus.BUSY] + max(0, more), kinds[_GRANTED]
        is_news = wanted != mine.wanted or (wanted and granted) or self.own_cap != mine.cap
        is_old = not mine.asked_at or (wanted and abs(now - mine.asked_at) >= _RENEW_MICROS)
        if not (is_news or is_old):
            return
        since = max((grant.call_id for grant in grants), default=0) or mine.since
        row = {"cap": self.own_cap, "wanted": wanted, "since": since, "asked_at": now}
        statement = insert_into(connection.dialect.name, cap_users).on_conflict_do_update(
            index_elements=list(cap_users.primary_key.columns), set_=row
        )
        connection.execute(statement, {"family": self.family, "holder": self.me, **row})


class SharedCaps:
    """The caps that one process shares; used while it has the turn to reserve."""

    def __init__(self, holders: Holders) -> None:
        self._holders = holders
        self._is_there = False
        self._heard: dict[tuple[str, str], tuple[int, int]] = {}
        self._looked: dict[str, int] = {}

    def prepare(self, engine: Engine) -> None:
        """Make the table where there is none."""
        if not self._is_there:
            with writing(engine) as connection:
                _tables.create_all(connection, checkfirst=True)
            self._is_there = True

    def part(
        self, check: str, cap: int, rows: Mapping[str, Sequence[int]], now: int, next_id: int
    ) -> CapPart:
        """Return this process's part of a cap, of what `cap_users_queries` brought.

        Wishes of long ago are left out: those not repeated since they were first seen here, as the
        clocks of two machines differ.
        """
        me, family = self._holders.name, family_of(check)
        prefix = f"{_USER}{family}:"
        users = {
            key.removeprefix(prefix): CapUser(*numbers)
            for key, numbers in rows.items()
            if key.startswith(prefix)
        }
        mine = users.setdefault(me, CapUser())
        for name, user in users.items():
            keys = (under_way_key(member, name) for member in _members(family))
            user.under_way = sum(rows[key][0] for key in keys if key in rows)
            asked_at, heard_at = self._heard.get((family, name), (0, 0))
            if user.asked_at != asked_at:
                self._heard[family, name] = user.asked_at, now
            elif name != me and abs(now - heard_at) > WISH_LASTS_MICROS:
                user.wanted = 0
            user.cap, *_ = rows.get(f"{_CAP}{family}:{name}", (cap,))
        if not mine.wanted:
            mine.since = next_id
        looks = abs(now - self._looked.get(family, 0)) >= LOOK_AGAIN_MICROS
        if looks:
            self._looked[family] = now
        return CapPart(family, cap, users, me, self._holders, looks)
