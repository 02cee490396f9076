"""Intents before sending, outcomes after: the journal's heart.

A block of intents and the reservation of its worst cost are one transaction; so is a group of
outcomes with its answers and the money it settles. What to ask and when to retry is decided in
`calling/`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    and_,
    bindparam,
    cast,
    exists,
    func,
    literal_column,
    null,
    or_,
    select,
    union_all,
    update,
)

from nightscreen.journal.disputes import IS_OPEN, dispute, disputes
from nightscreen.journal.engine import (
    Turn,
    in_one_stroke,
    outlast,
    outlasting,
    reading,
    recording,
    writing,
)
from nightscreen.journal.money import (
    Confirmed,
    Delta,
    Room,
    Spent,
    apply_deltas,
    disputed_scope,
    headroom,
    read_scopes,
    scopes_of,
    with_disputed,
)
from nightscreen.journal.shared_caps import (
    STALE_MICROS,
    UNDER_WAY,
    SharedCaps,
    cap_users_of,
    cap_users_queries,
    under_way_key,
)
from nightscreen.journal.statements import (
    Many,
    adding_up,
    among,
    given,
    inserting,
    keeping_highest,
)
from nightscreen.journal.tables import (
    TOMBSTONE,
    UNSETTLED,
    answers,
    calls,
    meta,
    prices,
    spend,
    tallies,
)
from nightscreen.schemas.calls import (
    KEPT_STATES,
    CallResult,
    CallState,
    Caps,
    DisputedCosts,
    Reservation,
    ReservationStatus,
    ReserveRequest,
)
from nightscreen.schemas.checks import Outcome
from nightscreen.schemas.clock import LAGOS, spending_day, to_instant
from nightscreen.schemas.errors import JournalError
from nightscreen.schemas.prices import RECENT_MICROS, SeenPrice, max_cost

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy import ColumnElement, CompoundSelect, Connection, Engine, Select
    from sqlalchemy.sql.dml import UpdateBase

    from nightscreen.files.sealing import Sealer
    from nightscreen.journal.holders import Holders
    from nightscreen.schemas.clock import Clock

CRASHED = "crashed"
"""Trouble of a call whose process died between intent and outcome."""
OUTAGE = "outage"
"""Trouble of a call that could not be read in an outage of its check: it has no age."""
SEAL_KEY = "seal_key"
"""Name in `meta` of the fingerprint of the key that answers are to be sealed under."""
ASKED_ENDS = b"\x00"
"""Stands between whom an unread body was asked about and the body, both sealed together."""
NO_ANSWER = CallState.IN_DOUBT.value
"""Stands in the place of an outcome with the kept body of a call in doubt: no answer."""
UNREAD = frozenset({Outcome.UNREADABLE.value, NO_ANSWER})
"""What stored bodies that could not be read have for an outcome."""
_NEXT, _PRICE, _OPEN_CALLS, _OPEN_COSTS = "next", "price:", "open:", "disputed:"


@dataclass(slots=True)
class _Standing:
    """What a block is granted against, brought up to date as its checks are granted in turn.

    Attributes:
        counters: what is spent and reserved, by scope.
        next_id: the next free id.
        prices: what was charged so far, by check.
        open_calls: what is reserved for calls under way and their number, by run and check; read
            only where a cap on money binds.
        rows: all that was read, by key: also who shares a cap, where that is asked for.
        session: which prices were confirmed in it; None where no cap on money binds.
    """

    counters: dict[str, Spent]
    next_id: int
    prices: dict[str, SeenPrice]
    open_calls: dict[tuple[str, str], Spent]
    rows: dict[str, list[int]]
    session: Confirmed | None

    def take(self, run_id: str, check: str, at: int, delta: Delta, me: str) -> None:
        """Enter calls of one check that were granted, and are written at the end of the block."""
        self.next_id += delta.calls
        for scope in scopes_of(run_id, check, at):
            self.counters[scope] = self.counters[scope].after(delta)
        known = self.open_calls.get((run_id, check), Spent())
        self.open_calls[run_id, check] = known.after(delta)
        (mine, *_) = self.rows.get(under_way_key(check, me), (0,))
        self.rows[under_way_key(check, me)] = [mine + delta.calls]


@dataclass(frozen=True, slots=True)
class Calls:
    """Writes intents and outcomes; safe to use from several threads and processes at once."""

    _engine: Engine = field(repr=False)
    _sealer: Sealer = field(repr=False)
    _holders: Holders = field(repr=False)
    _clock: Clock = field(repr=False)
    _prices: dict[str, SeenPrice] = field(default_factory=dict, init=False, repr=False)
    _limits: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    _confirmed: dict[str, Confirmed] = field(default_factory=dict, init=False, repr=False)
    _shared: SharedCaps = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_shared", SharedCaps(self._holders))

    def reserve(
        self,
        run_id: str,
        purpose: str,
        asks: Sequence[ReserveRequest],
        caps: Caps,
        *,
        since: int,
        more: Mapping[str, int] | None = None,
    ) -> list[Reservation]:
        """Commit the intents of a block, as far as the caps allow, and reserve their worst cost.

        A call's worst cost is what its `ReserveRequest` says, or what this journal has seen charged
        of late for the check where that is more: a price that rose in another process counts at
        once. Until a price was charged in this session, calls under way together must fit under the
        caps at the highest price that is believed; where they do not, there is one at a time, over
        all processes. Of a cap on calls under way that processes share, each gets its part.

        Args:
            run_id: the run that asks.
            purpose: the run's purpose, kept with each call.
            asks: the block, most important first; those of one check lie together.
            caps: what the block must fit under.
            since: place in the journal (`Answers.position`): what was answered after it is not
                asked for again, whatever the clock of whoever asked.
            more: calls that follow these at once, by check; other processes keep room for them too.

        Returns:
            One grant for each ask, in the same order.

        Raises:
            JournalError: nothing was committed, nothing of the block may be sent.
        """
        if not asks:
            return []
        unsure: list[Reservation] = []

        def try_once() -> list[Reservation]:
            if caps.in_flight:
                self._shared.prepare(self._engine)
            return self._reserve(run_id, purpose, asks, caps, since, more or {}, unsure)

        return outlast(self._engine, try_once)

    def _reserve(
        self,
        run_id: str,
        purpose: str,
        asks: Sequence[ReserveRequest],
        caps: Caps,
        since: int,
        more: Mapping[str, int],
        unsure: list[Reservation],
    ) -> list[Reservation]:
        """Reserve a block, what is asked of each check in turn, unless an earlier try did.

        Args:
            run_id: the run that asks.
            purpose: the run's purpose.
            asks: the block.
            caps: what it must fit under.
            since: place in the journal.
            more: calls that follow, by check.
            unsure: the grants of an earlier try of which it is not known whether they were
                committed; gets those of this one.
        """
        with recording(self._engine, Turn.GRANTS, first=self._holders.assure) as connection:
            if self._holders.was_lost:
                self._refuse_if_taken_for_dead(connection)
            if self._were_committed(connection, run_id, unsure):
                return unsure
            self._limits.update(caps.price_limits)
            now = self._clock()
            blocks = [(check, list(block)) for check, block in groupby(asks, _check_of)]
            standing = self._standing(connection, run_id, {check for check, _ in blocks}, caps, now)
            grants: list[Reservation] = []
            rows: list[tuple[Any, ...]] = []
            deltas: dict[str, Delta] = defaultdict(Delta)
            for check, block in blocks:
                found, worst = self._grants_of(
                    connection, run_id, block, caps, since, more.get(check, 0), now, standing
                )
                new = [
                    self._intent_row(run_id, purpose, ask, grant, micro)
                    for ask, grant, micro in zip(block, found, worst, strict=True)
                    if grant.call_id
                ]
                if new:
                    delta = Delta(reserved=sum(row[_RESERVED] for row in new), calls=len(new))
                    standing.take(run_id, check, now, delta, self._holders.name)
                    for scope in scopes_of(run_id, check, now):
                        deltas[scope].add(delta)
                grants += found
                rows += new
            _INTEND.run(connection, rows)
            unsure[:] = grants
            if deltas:
                with in_one_stroke(connection):
                    apply_deltas(connection, deltas)
        return grants

    def _grants_of(
        self,
        connection: Connection,
        run_id: str,
        asks: Sequence[ReserveRequest],
        caps: Caps,
        since: int,
        more: int,
        now: int,
        standing: _Standing,
    ) -> tuple[list[Reservation], list[int]]:
        """Return what becomes of the asks of one check, and the worst cost of each."""
        check, limits = asks[0].check, dict(caps.price_limits)
        scopes = scopes_of(run_id, check, now)
        held: dict[bytes, str] = {}
        room = headroom(standing.counters, caps, scopes, check)
        if standing.session is not None:
            _weigh_unconfirmed(connection, room, standing, standing.session, scopes, caps)
        cap = caps.under_way(check)
        if cap is not None:
            part = self._shared.part(check, cap, standing.rows, now, standing.next_id)
            room.slots, dead = part.slots(len(asks) + more, connection)
            room.slots_with = "" if room.slots else part.who(connection)
            self._doubt(connection, dead)
        if _OPEN_COSTS + check in standing.rows:
            _one_at_a_time(connection, room, check, now)
        # where nothing is free all wait, whoever else asks for them
        subjects = [] if room.is_only_full else [ask.subject for ask in asks]
        taken = self._taken(connection, check, subjects, since, held)
        price, limit = standing.prices.get(check), limits.get(check)
        worst = [max_cost(ask.worst_micro, price, limit_micro=limit, now=now) for ask in asks]
        grants = _grant_in_order(asks, worst, taken, room, standing.next_id, now, held)
        if cap is not None and room.slots is not None:
            part.note(grants, now, connection, more=more - room.slots)
        if any(grant.kind is ReservationStatus.LATER for grant in grants):
            self._doubt(connection, self._dead(connection))  # nobody waits for their calls
        return grants, worst

    def _standing(
        self,
        connection: Connection,
        run_id: str,
        checks: Collection[str],
        caps: Caps,
        now: int,
    ) -> _Standing:
        """Read what a block is granted against; calls under way only where a cap rests on them."""
        scopes = dict.fromkeys(scope for check in checks for scope in scopes_of(run_id, check, now))
        session = None
        if caps.bind and caps.price_limits:
            session = self._session(connection, run_id, now, checks)
            scopes |= dict.fromkeys(
                scopes_of(run_id, name, now)[-1] for name in session.met - session.checks
            )
        shared = [check for check in checks if caps.under_way(check) is not None]
        given: dict[str, Any] = {
            "checks": list(checks),
            "after": now - STALE_MICROS,
            "scopes": [*scopes, *map(disputed_scope, scopes)],
        }
        if shared:
            given |= cap_users_of(shared)
        query = _standing_query(
            connection.dialect.name, binds=session is not None, shares=bool(shared)
        )
        found = {key: numbers for key, *numbers in connection.execute(query, given)}
        counters = {scope: Spent(*found[scope]) for scope in given["scopes"] if scope in found}
        return _Standing(
            counters=with_disputed(counters, list(scopes)),
            next_id=(found[_NEXT][0] or 0) + 1,
            prices={
                check: SeenPrice(*found[_PRICE + check])
                for check in checks
                if _PRICE + check in found
            },
            open_calls={
                (run, name): Spent(*numbers)
                for key, numbers in found.items()
                if key.startswith(_OPEN_CALLS)
                for _, name, run in [key.split(":", 2)]
            },
            rows=found,
            session=session,
        )

    def _were_committed(
        self, connection: Connection, run_id: str, grants: Sequence[Reservation]
    ) -> bool:
        """Return whether the intents of a try that broke off stand in the journal: all or none do.

        That try held the turn until it ended, so that it has ended by now.
        """
        ids = [grant.call_id for grant in grants if grant.call_id]
        query = select(calls.c.call_id).where(
            calls.c.call_id.in_(ids),
            calls.c.run_id == run_id,
            calls.c.holder == self._holders.name,
        )
        return bool(ids) and connection.execute(query).first() is not None

    def _refuse_if_taken_for_dead(self, connection: Connection) -> None:
        """Go on after the lock was lost, unless another process has taken over what was ours.

        Whoever took this process for dead did so within a turn: by now it shows.

        Raises:
            JournalError: calls of this process were put in doubt; others may make them.
        """
        self._holders.was_lost = False
        mine = select(calls.c.call_id).where(
            _CRASHED, UNSETTLED, calls.c.holder == self._holders.name
        )
        if connection.execute(mine.limit(1)).first() is not None:
            self._holders.was_lost = True
            raise JournalError(
                "this process could not reach the journal for so long that others took its calls "
                "for lost: resume the run; what was answered meanwhile is kept"
            )

    def _intent_row(
        self, run_id: str, purpose: str, ask: ReserveRequest, grant: Reservation, worst_micro: int
    ) -> tuple[Any, ...]:
        """Return a row in the order of `_INTENT_COLUMNS`."""
        return (
            grant.call_id,
            run_id,
            ask.check,
            ask.kind,
            ask.subject,
            purpose,
            ask.attempt,
            self._holders.name,
            ask.consent_reference,
            grant.intent_at,
            worst_micro,
            CallState.INTENT.value,
            False,
        )

    def _session(
        self, connection: Connection, run_id: str, now: int, checks: Collection[str]
    ) -> Confirmed:
        """Return which prices were confirmed since this process first asked for a run."""
        session = self._confirmed.get(run_id)
        if session is None:
            first = int(connection.execute(_FIRST_OPEN).scalar_one())
            scopes = {scopes_of(run_id, check, now)[-1]: check for check in checks}
            spent = read_scopes(connection, list(scopes))
            by_check = {check: spent[scope].spent_micro for scope, check in scopes.items()}
            session = self._confirmed[run_id] = Confirmed(
                first, f"day:{spending_day(now)}", by_check
            )
        return session

    def _taken(
        self,
        connection: Connection,
        check: str,
        subjects: Sequence[bytes],
        since: int,
        held: dict[bytes, str],
    ) -> dict[bytes, ReservationStatus]:
        """Return which subjects are being asked by someone alive, or were answered since.

        An intent whose process is dead is put in doubt on the way; `held` is told who holds one
        that is not.
        """
        taken: dict[bytes, ReservationStatus] = {}
        if not subjects:
            return taken
        values = {"subjects": list(subjects), "check": check, "since": since}
        dead: set[str] = set()
        for subject, holder, since_ in connection.execute(
            _taken_query(connection.dialect.name), values
        ):
            if holder is None:
                taken[bytes(subject)] = ReservationStatus.ANSWERED
            elif holder not in dead and not self._holders.dead(holder, connection):
                taken.setdefault(bytes(subject), ReservationStatus.HELD)
                who = self._holders.describe(holder, connection)
                began = to_instant(since_).astimezone(LAGOS)
                held[bytes(subject)] = f"{who} (since {began:%Y-%m-%d %H:%M} in Lagos)"
            else:
                dead.add(holder)
        if dead:
            self._doubt(connection, dead)
        return taken

    @outlasting
    def settle(self, run_id: str, outcomes: Sequence[CallResult]) -> DisputedCosts | None:
        """Commit a group of outcomes, their sealed answers, and the money they settle.

        Only a call that has no outcome yet is settled, so that the same outcome handed in twice
        counts once. A call that was put in doubt because its process was taken for dead is settled
        too: its answer was paid for. Money is counted by what the journal reserved. A cost that is
        not believed counts in full until a balance contradicts it (`disputes`).

        Returns:
            Which costs are disputed by now; None where nothing was settled.

        Raises:
            JournalError: nothing of the group was committed.
        """
        if not outcomes:
            return None
        sealed_under = self._sealer.fingerprint
        bodies = {each.call_id: self._seal(each) for each in outcomes if each.keeps_body}
        with recording(self._engine) as connection:
            found = _read_open(connection, [each.call_id for each in outcomes])
            pairs = [(each, found.pop(each.call_id)) for each in outcomes if each.call_id in found]
            if not pairs:
                return None
            if pairs[0][1].seal_key != sealed_under:
                self._sealer.switch(pairs[0][1].seal_key)
                bodies = {each.call_id: self._seal(each) for each, _ in pairs if each.keeps_body}
            fresh = [each for each, _ in pairs]
            _SETTLE.run(connection, [_outcome_row(each) for each in fresh])
            for each, row in pairs:
                if bytes(row.subject) == TOMBSTONE:  # erased since: only the money is written
                    bodies.pop(each.call_id, None)
            learned = self._keep_answers(connection, run_id, fresh, bodies)
            deltas, costs = _settled_money(pairs), DisputedCosts()
            if pairs[0][1].disputed or any(each.named_micro is not None for each in fresh):
                costs, changes = dispute(connection, fresh, self._clock())
                for scope, delta in changes.items():
                    deltas.setdefault(scope, Delta()).add(delta)
            with in_one_stroke(connection):
                apply_deltas(connection, deltas)
        self._prices.update(learned)
        return costs

    def _seal(self, settled: CallResult) -> bytes:
        body = settled.body
        if settled.state is not CallState.ANSWERED:
            body = settled.asked.encode() + ASKED_ENDS + body
        return self._sealer.seal(body, answer_context(settled.ask.check, settled.ask.subject))

    def _keep_answers(
        self,
        connection: Connection,
        run_id: str,
        fresh: Sequence[CallResult],
        bodies: dict[int, bytes],
    ) -> dict[str, SeenPrice]:
        """Write answers, tallies and prices; return the prices that are new."""
        rows = [
            _answer_row(run_id, each, bodies[each.call_id])
            for each in fresh
            if each.call_id in bodies
        ]
        if rows:
            _ANSWER.run(connection, rows)
        answered = [each for each in fresh if each.state in KEPT_STATES]
        if not answered:
            return {}
        _tally(connection, run_id, answered)
        return self._learn_prices(connection, answered)

    def _learn_prices(
        self, connection: Connection, answered: Sequence[CallResult]
    ) -> dict[str, SeenPrice]:
        """Remember the latest and the highest price of each check that charged something.

        A cost beyond the limit is spent, but is no price.
        """
        now = self._clock()
        learned: dict[str, SeenPrice] = {}
        for settled in answered:
            check, cost = settled.ask.check, settled.cost_micro
            if not cost or cost > self._limits.get(check, cost):
                continue
            price = learned.get(check) or self._prices.get(check)
            if price is None or cost >= price.highest_micro or _is_old(price.seen_at, now):
                price = SeenPrice(cost, cost, now)
            learned[check] = SeenPrice(cost, price.highest_micro, price.seen_at)
        new = {check: each for check, each in learned.items() if self._is_news(check, each)}
        rows = [
            (check, each.latest_micro, each.highest_micro, each.seen_at)
            for check, each in sorted(new.items())
        ]
        _PRICES.run(connection, rows)
        return new

    def _is_news(self, check: str, price: SeenPrice) -> bool:
        """Return whether a price is to be written: it differs, or was last written long ago."""
        known = self._prices.get(check)
        if known is None:
            return True
        same = (known.latest_micro, known.highest_micro) == (
            price.latest_micro,
            price.highest_micro,
        )
        return not same or price.seen_at - known.seen_at > _REFRESH_MICROS

    @outlasting
    def recover(self) -> int:
        """Put in doubt every intent whose process is dead; return how many there were."""
        with reading(self._engine) as connection:
            dead = self._dead(connection)
        if not dead:
            return 0
        with writing(self._engine) as connection:
            still = {holder for holder in dead if not self._holders.alive(holder, connection)}
            return self._doubt(connection, still)

    def _dead(self, connection: Connection) -> set[str]:
        """Return the holders of intents whose process is dead."""
        held = connection.execute(
            select(calls.c.holder).where(_IS_INTENT, UNSETTLED).distinct()
        ).scalars()
        return {holder for holder in held.all() if self._holders.dead(holder, connection)}

    def _doubt(self, connection: Connection, dead: set[str]) -> int:
        if not dead:
            return 0
        done = connection.execute(
            update(calls)
            .where(_IS_INTENT, UNSETTLED, calls.c.holder.in_(dead))
            .values(state=CallState.IN_DOUBT.value, trouble=CRASHED, settled_at=self._clock())
        )
        return int(done.rowcount)


def answer_context(check: str, subject: bytes) -> bytes:
    """Return what a sealed answer is bound to, so that it cannot stand in for another's."""
    return check.encode() + b"\x1f" + subject


def open_answer(
    sealer: Sealer, check: str, subject: bytes, outcome: str, sealed: bytes
) -> tuple[str, bytes]:
    """Return whom a stored answer was asked about, and its body as received.

    The first is known only of bodies that could not be read, for they may be read again.

    Raises:
        JournalDamagedError: it does not open.
    """
    plain = sealer.open(sealed, answer_context(check, subject))
    if outcome not in UNREAD:
        return "", plain
    asked, _, body = plain.partition(ASKED_ENDS)
    return asked.decode(), body


def _check_of(ask: ReserveRequest) -> str:
    return ask.check


_IS_INTENT = calls.c.state == CallState.INTENT.value
_CRASHED = and_(calls.c.state == CallState.IN_DOUBT.value, calls.c.trouble == CRASHED)
_NOTHING: ColumnElement[int] = literal_column("0")


@cache
def _standing_query(dialect: str, *, binds: bool, shares: bool) -> CompoundSelect[Any]:
    """Return what a block is granted against.

    Args:
        dialect: the database's.
        binds: a cap on money binds, so that calls under way count by what they may cost.
        shares: calls under way are shared with other processes.
    """
    parts: list[Select[Any]] = [
        select(spend.c.scope, spend.c.spent_micro, spend.c.reserved_micro, spend.c.calls).where(
            among(dialect, spend.c.scope, "scopes")
        ),
        select(literal_column(f"'{_NEXT}'"), func.max(calls.c.call_id), _NOTHING, _NOTHING),
        select(
            literal_column(f"'{_PRICE}'").concat(prices.c.check),
            prices.c.latest_micro,
            prices.c.highest_micro,
            prices.c.seen_at,
        ).where(among(dialect, prices.c.check, "checks")),
        select(
            literal_column(f"'{_OPEN_COSTS}'").concat(calls.c.check),
            func.count(),
            _NOTHING,
            _NOTHING,
        )
        .where(IS_OPEN, calls.c.call_id == disputes.c.call_id)
        .group_by(calls.c.check),
    ]
    if binds:
        key = literal_column(f"'{_OPEN_CALLS}'").concat(calls.c.check)
        parts.append(
            select(
                key.concat(":").concat(calls.c.run_id),
                _NOTHING,
                cast(func.sum(calls.c.reserved_micro), BigInteger),
                func.count(),
            )
            .where(*UNDER_WAY)
            .group_by(calls.c.check, calls.c.run_id)
        )
    if shares:
        parts += cap_users_queries(dialect)
    return union_all(*parts)


_FIRST_OPEN = select(
    func.coalesce(
        select(func.min(calls.c.call_id)).where(_IS_INTENT, UNSETTLED).scalar_subquery(),
        select(func.max(calls.c.call_id) + 1).scalar_subquery(),
        1,
    )
)


@cache
def _taken_query(dialect: str) -> CompoundSelect[Any]:
    """Return who asks for some subjects, and which of them were answered since."""
    return union_all(
        select(calls.c.subject, calls.c.holder, calls.c.intent_at).where(
            among(dialect, calls.c.subject, "subjects"),
            calls.c.check == bindparam("check"),
            _IS_INTENT,
        ),
        select(answers.c.subject, null(), _NOTHING).where(
            among(dialect, answers.c.subject, "subjects"),
            answers.c.check == bindparam("check"),
            answers.c.answer_id > bindparam("since"),
            answers.c.outcome != NO_ANSWER,
        ),
    )


@cache
def _open_query(dialect: str) -> Select[Any]:
    """Return those of some calls that have no outcome yet."""
    key = select(meta.c.value).where(meta.c.name == SEAL_KEY).scalar_subquery()
    return (
        select(
            calls.c.call_id,
            calls.c.run_id,
            calls.c.check,
            calls.c.subject,
            calls.c.intent_at,
            calls.c.reserved_micro,
            key.label("seal_key"),
            exists().where(IS_OPEN).label("disputed"),
        )
        .where(
            among(dialect, calls.c.call_id, "ids"),
            or_(_IS_INTENT, and_(_CRASHED, calls.c.cost_micro.is_(None))),
        )
        .order_by(calls.c.call_id)
        .with_for_update(of=calls)  # of outcomes written beside each other one is each call's
    )


_INTENT_COLUMNS = (
    "call_id",
    "run_id",
    "check",
    "kind",
    "subject",
    "purpose",
    "attempt",
    "holder",
    "consent_reference",
    "intent_at",
    "reserved_micro",
    "state",
    "final",
)
_RESERVED = _INTENT_COLUMNS.index("reserved_micro")
_INTEND = inserting(
    calls,
    _INTENT_COLUMNS,
    same=("run_id", "purpose", "holder", "intent_at", "state", "final"),
)

_OUTCOME_COLUMNS = (
    "state",
    "trouble",
    "status",
    "outcome",
    "cost_micro",
    "balance_micro",
    "sent_at",
    "settled_at",
    "final",
)
_SETTLE_COLUMNS = (*_OUTCOME_COLUMNS, "call_id")
_SETTLE_NAMES = tuple(f"{name}_" for name in _SETTLE_COLUMNS)


def _settle_given() -> UpdateBase:
    row = given(calls, _SETTLE_NAMES, _SETTLE_COLUMNS)
    return (
        update(calls)
        .where(calls.c.call_id == row.c.call_id_)
        .values({name: row.c[f"{name}_"] for name in _OUTCOME_COLUMNS})
    )


_SETTLE = Many(
    lambda _: (
        update(calls)
        .where(calls.c.call_id == bindparam("call_id_"))
        .values({name: bindparam(f"{name}_") for name in _OUTCOME_COLUMNS})
    ),
    _SETTLE_NAMES,
    _settle_given,
)

_ANSWER = inserting(
    answers,
    ("check", "subject", "outcome", "answered_at", "call_id", "run_id", "cost_micro", "body"),
    same=("run_id",),
)
_TALLY = adding_up(tallies, ("answers", "cost_micro"))
_PRICES = keeping_highest(prices, "highest_micro", "seen_at", RECENT_MICROS)
_REFRESH_MICROS = RECENT_MICROS // 100


def _weigh_unconfirmed(
    connection: Connection,
    room: Room,
    standing: _Standing,
    session: Confirmed,
    scopes: Sequence[str],
    caps: Caps,
) -> None:
    """Enter what calls may cost whose price is not confirmed yet in this session."""
    limits = dict(caps.price_limits)
    run_id, day = scopes[0].removeprefix("run:"), scopes[1]
    check = scopes[-1].removeprefix(f"{day}:")
    spent = {
        scope.removeprefix(f"{day}:"): counter.spent_micro
        for scope, counter in standing.counters.items()
        if scope.startswith(f"{day}:")
    }
    session.look(connection, day, spent, limits)
    session.met |= {check, *(name for _, name in standing.open_calls)}
    if check not in session.checks:
        room.limit_micro = limits.get(check)
    everywhere = caps.day_micro is not None or caps.month_micro is not None
    room.risk_micro = sum(
        max(0, limits.get(name, 0) * under_way.calls - under_way.reserved_micro)
        for (run, name), under_way in standing.open_calls.items()
        if name not in session.checks and (everywhere or run == run_id)
    )


def _one_at_a_time(connection: Connection, room: Room, check: str, now: int) -> None:
    """Leave room for one call of a check, over all processes: a cost of it is disputed."""
    query = select(func.count()).select_from(calls).where(*UNDER_WAY, calls.c.check == check)
    others = connection.execute(query, {"after": now - STALE_MICROS}).scalar_one()
    room.slots = max(0, min(1 if room.slots is None else room.slots, 1 - others))


def _read_open(connection: Connection, ids: Sequence[int]) -> dict[int, Any]:
    """Return those of some calls that have no outcome yet, by id."""
    query = _open_query(connection.dialect.name)
    return {row.call_id: row for row in connection.execute(query, {"ids": list(ids)})}


def _is_old(instant: int, now: int) -> bool:
    return now - instant >= RECENT_MICROS


def _grant_in_order(
    asks: Sequence[ReserveRequest],
    worst_micro: Sequence[int],
    taken: dict[bytes, ReservationStatus],
    room: Room,
    next_id: int,
    now: int,
    held: dict[bytes, str],
) -> list[Reservation]:
    """Grant the asks in order until one does not fit; none after it is granted either."""
    grants: list[Reservation] = []
    full: ReservationStatus | None = None
    for ask, worst in zip(asks, worst_micro, strict=True):
        refused = taken.get(ask.subject)
        if refused is None:
            full = refused = full or room.refusal(worst)
        if refused is not None:
            others = room.slots_with if refused is ReservationStatus.BUSY else ""
            grants.append(Reservation(refused, holder=held.get(ask.subject, others)))
            continue
        room.take(worst)
        taken[ask.subject] = ReservationStatus.HELD
        grants.append(Reservation(ReservationStatus.GRANTED, next_id, now))
        next_id += 1
    return grants


def _outcome_row(settled: CallResult) -> tuple[Any, ...]:
    """Return a row in the order of `_SETTLE`."""
    return (
        settled.state.value,
        settled.trouble,
        settled.status,
        settled.outcome,
        settled.cost_micro,
        settled.balance_micro,
        settled.sent_at,
        settled.settled_at,
        settled.final,
        settled.call_id,
    )


def _answer_row(run_id: str, settled: CallResult, body: bytes) -> tuple[Any, ...]:
    """Return a row in the order of `_ANSWER`."""
    return (
        settled.ask.check,
        settled.ask.subject,
        settled.outcome or NO_ANSWER,
        settled.settled_at,
        settled.call_id,
        run_id,
        settled.cost_micro,
        body,
    )


def _settled_money(pairs: Sequence[tuple[CallResult, Any]]) -> dict[str, Delta]:
    """Return what a group of outcomes changes in each scope, by what the journal reserved."""
    days: dict[tuple[str, str, str, str], Delta] = defaultdict(Delta)
    for each, row in pairs:
        days[scopes_of(row.run_id, row.check, row.intent_at)].settle(each, row.reserved_micro)
    deltas: dict[str, Delta] = defaultdict(Delta)
    for scopes, delta in days.items():
        for scope in scopes:
            deltas[scope].add(delta)
    return deltas


def _tally(connection: Connection, run_id: str, answered: Sequence[CallResult]) -> None:
    """Count answers and cost by check, kind and outcome: what quotes are made from."""
    counts: Counter[tuple[str, str, str]] = Counter()
    costs: Counter[tuple[str, str, str]] = Counter()
    for each in answered:
        key = (each.ask.check, each.ask.kind, each.outcome or "")
        counts[key] += 1
        costs[key] += each.cost_micro or 0
    rows = [(run_id, *key, number, costs[key]) for key, number in sorted(counts.items())]
    _TALLY.run(connection, rows)
