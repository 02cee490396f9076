"""Intents before sending, outcomes after: the journal's heart.

Claiming lookups is reserving: the next lookups in rank, their intents and the reservation of their
worst cost are one transaction; so is a group of outcomes with its answers and the money it settles.
When to retry is decided in `calling/`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
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

from nightscreen.journal import askers, lookups
from nightscreen.journal.askers import STALE_MICROS, UNDER_WAY, part_of
from nightscreen.journal.disputes import IS_OPEN, dispute
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
from nightscreen.journal.schema import (
    TOMBSTONE,
    UNSETTLED,
    answers,
    calls,
    disputes,
    prices,
    spend,
    tallies,
)
from nightscreen.journal.statements import (
    Many,
    adding_up,
    among,
    given,
    inserting,
    keeping_highest,
)
from nightscreen.schemas.calls import (
    KEPT_STATES,
    CallResult,
    CallState,
    Caps,
    DisputedCosts,
    LookupStatus,
    Reservation,
    ReservationStatus,
    ReserveRequest,
)
from nightscreen.schemas.checks import Outcome, family_of
from nightscreen.schemas.clock import LAGOS, MICROS, spending_day, to_instant
from nightscreen.schemas.errors import JournalError
from nightscreen.schemas.prices import RECENT_MICROS, SeenPrice, max_cost

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy import ColumnElement, CompoundSelect, Connection, Engine, Select
    from sqlalchemy.sql.dml import UpdateBase

    from nightscreen.files.sealing import Sealer
    from nightscreen.journal.holders import Holders
    from nightscreen.journal.lookups import ClaimedLookup, Left, LookupRun
    from nightscreen.schemas.clock import Clock

CRASHED = "crashed"
"""Trouble of a call whose process died between intent and outcome."""
OUTAGE = "outage"
"""Trouble of a call that could not be read in an outage of its check: it has no age."""
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
        disputed: checks with a cost that is not believed, and that nothing settles yet.
        granted_micro: what is reserved for calls of the block, which are not written yet;
            `granted` is their number, by check or family.
        session: which prices were confirmed in it; None where no cap on money binds.
    """

    counters: dict[str, Spent]
    next_id: int
    prices: dict[str, SeenPrice]
    open_calls: dict[tuple[str, str], Spent]
    disputed: frozenset[str]
    session: Confirmed | None
    granted_micro: int = 0
    granted: Counter[str] = field(default_factory=Counter)

    def take(self, run_id: str, check: str, at: int, delta: Delta) -> None:
        """Enter calls of one check that were granted, and are written at the end of the block."""
        self.next_id += delta.calls
        self.granted_micro += delta.reserved
        self.granted[family_of(check)] += delta.calls
        for scope in scopes_of(run_id, check, at):
            self.counters[scope] = self.counters[scope].after(delta)
        known = self.open_calls.get((run_id, check), Spent())
        self.open_calls[run_id, check] = known.after(delta)


@dataclass(frozen=True, slots=True)
class Wish:
    """How many lookups of a check a process would ask now.

    Attributes:
        number: at most so many.
        only: one lookup by its number, whatever its rank, such as the one kept for the end.
        wallet_micro: what is known to be left in the wallet; None where nothing is.
        stopped: checks that are not asked any more, so that no money is kept for them.
    """

    number: int
    only: int | None = None
    wallet_micro: int | None = None
    stopped: frozenset[str] = frozenset()


@dataclass(slots=True)
class Claim:
    """What became of a wish.

    Attributes:
        taken: lookups with their grants; one that another process is asking has none, and is to be
            looked at again.
        ended: lookups that need no call: answered meanwhile, or their consent has lapsed.
        refused: why there are not more; nothing where no more wait.
        holder: who has the calls under way, in words, where that is why.
        left: what has not come to an end; None where the wish was granted.
        stops: why the run and its checks are to stop, by scope.
    """

    taken: list[tuple[ClaimedLookup, Reservation]] = field(default_factory=list)
    ended: list[ClaimedLookup] = field(default_factory=list)
    refused: ReservationStatus | None = None
    holder: str = ""
    left: Left | None = None
    stops: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Block:
    """What is asked of one check: calls that are named, and the next lookups in rank."""

    check: str
    asks: list[ReserveRequest] = field(default_factory=list)
    wish: Wish | None = None
    picked: list[ClaimedLookup] = field(default_factory=list)
    requests: list[ReserveRequest] = field(default_factory=list)  # the asks, and those picked
    claim: Claim = field(default_factory=Claim)


@dataclass(slots=True)
class Calls:
    """Writes intents and outcomes; safe to use from several threads and processes at once."""

    _engine: Engine = field(repr=False)
    _sealer: Sealer = field(repr=False)
    _holders: Holders = field(repr=False)
    _clock: Clock = field(repr=False)
    _prices: dict[str, SeenPrice] = field(default_factory=dict, init=False, repr=False)
    _limits: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    _confirmed: dict[str, Confirmed] = field(default_factory=dict, init=False, repr=False)
    _looked_at: int = field(default=0, init=False, repr=False)

    def reserve(
        self,
        run_id: str,
        purpose: str,
        asks: Sequence[ReserveRequest],
        caps: Caps,
        *,
        since: int,
    ) -> list[Reservation]:
        """Commit the intents of calls by name, as `claim` does; one grant for each, in order."""
        return self.claim(run_id, purpose, asks, caps, since=since, wishes={})[0]

    def claim(
        self,
        run_id: str,
        purpose: str,
        asks: Sequence[ReserveRequest],
        caps: Caps,
        *,
        since: int,
        wishes: Mapping[str, Wish],
    ) -> tuple[list[Reservation], dict[str, Claim]]:
        """Commit the intents of a block, as far as the caps allow, and reserve their worst cost.

        A call's worst cost is what its `ReserveRequest` says, or what this journal has seen charged
        of late for the check where that is more: a price that rose in another process counts at
        once. Until a price was charged in this session, calls under way together must fit under the
        caps at the highest price that is believed; where they do not, there is one at a time, over
        all processes. Of a cap on calls under way that processes share, each gets its part. Where a
        cap on money binds, no lookup is claimed beyond the rank that the money reaches over all
        checks of the run.

        Args:
            run_id: the run that asks.
            purpose: the run's purpose, kept with each call.
            asks: calls by name, most important first; those of one check lie together.
            caps: what the block must fit under.
            since: place in the journal (`Answers.position`): what was answered after it is not
                asked for again, whatever the clock of whoever asked.
            wishes: how many of the run's lookups are wanted next, by check.

        Returns:
            One grant for each ask, in the same order, and what became of each wish.

        Raises:
            JournalError: nothing was committed, nothing of the block may be sent.
        """
        if not asks and not wishes:
            return [], {}
        unsure: list[tuple[list[Reservation], dict[str, Claim]]] = []

        def try_once() -> tuple[list[Reservation], dict[str, Claim]]:
            return self._claim(run_id, purpose, asks, caps, since, wishes, unsure)

        return outlast(self._engine, try_once)

    def _claim(
        self,
        run_id: str,
        purpose: str,
        asks: Sequence[ReserveRequest],
        caps: Caps,
        since: int,
        wishes: Mapping[str, Wish],
        unsure: list[tuple[list[Reservation], dict[str, Claim]]],
    ) -> tuple[list[Reservation], dict[str, Claim]]:
        """Reserve a block, what is asked of each check in turn, unless an earlier try did.

        Args:
            run_id: the run that asks.
            purpose: the run's purpose.
            asks: calls by name.
            caps: what the block must fit under.
            since: place in the journal.
            wishes: lookups that are wanted next, by check.
            unsure: what an earlier try granted, of which it is not known whether it was committed;
                gets what this one grants.
        """
        with recording(self._engine, Turn.GRANTS, first=self._holders.assure) as connection:
            if self._holders.was_lost:
                self._refuse_if_taken_for_dead(connection)
            if unsure and self._were_committed(connection, run_id, unsure[-1]):
                return unsure[-1]
            self._limits.update(caps.price_limits)
            now = self._clock()
            dead = self._look_for_dead(connection, now) if caps.in_flight else set()
            run = lookups.find_run(connection, run_id)
            blocks = _blocks(asks, {} if run is None else wishes)
            stops = lookups.stops_of(connection, run_id) if wishes else {}
            checks = {block.check for block in blocks}
            standing = self._standing(connection, run_id, checks, run, caps, now)
            grants: list[Reservation] = []
            rows: list[tuple[Any, ...]] = []
            deltas: dict[str, Delta] = defaultdict(Delta)
            for block in blocks:
                check = block.check
                block.claim.stops = stops
                found = self._grants_of(
                    connection, run_id, run, check, block, caps, since, now, standing, dead
                )
                new = [
                    self._intent_row(run_id, purpose, ask, grant)
                    for ask, grant in zip(block.requests, found, strict=True)
                    if grant.call_id
                ]
                if new:
                    delta = Delta(reserved=sum(row[_RESERVED] for row in new), calls=len(new))
                    standing.take(run_id, check, now, delta)
                    for scope in scopes_of(run_id, check, now):
                        deltas[scope].add(delta)
                grants += found[: len(block.asks)]
                rows += new
                if block.wish is not None:
                    self._fulfil(connection, run, check, block, found[len(block.asks) :])
            granted = grants, {each.check: each.claim for each in blocks if each.wish}
            _INTEND.run(connection, rows)
            unsure[:] = [granted]
            if deltas:
                with in_one_stroke(connection):
                    apply_deltas(connection, deltas)
        return granted

    def _fulfil(
        self,
        connection: Connection,
        run: LookupRun | None,
        check: str,
        block: _Block,
        grants: Sequence[Reservation],
    ) -> None:
        """Write down what became of the lookups that were picked, and what is left."""
        claim, wish = block.claim, block.wish
        for each, grant in zip(block.picked, grants, strict=True):
            match grant.kind:
                case ReservationStatus.GRANTED | ReservationStatus.HELD:
                    claim.taken.append((each, grant))
                case ReservationStatus.ANSWERED:
                    unreadable = grant.outcome == Outcome.UNREADABLE.value
                    each.state = LookupStatus.UNREADABLE if unreadable else LookupStatus.REUSED
                    claim.ended.append(each)
                case _:
                    claim.refused, claim.holder = grant.kind, grant.holder
        taken = [each for each, _ in claim.taken]
        lookups.claim(connection, [*taken, *claim.ended], self._holders.name)
        if run is not None and wish is not None and len(taken) + len(claim.ended) < wish.number:
            claim.left = lookups.left_of(connection, run, check)

    def _grants_of(
        self,
        connection: Connection,
        run_id: str,
        run: LookupRun | None,
        check: str,
        block: _Block,
        caps: Caps,
        since: int,
        now: int,
        standing: _Standing,
        dead: Collection[str],
    ) -> list[Reservation]:
        """Return what becomes of what is asked of one check: calls by name, then lookups."""
        limits = dict(caps.price_limits)
        scopes = scopes_of(run_id, check, now)
        held: dict[bytes, str] = {}
        room = headroom(standing.counters, caps, scopes, check)
        if standing.session is not None:
            _weigh_unconfirmed(connection, room, standing, standing.session, scopes, caps)
        cap = caps.under_way(check)
        if cap is not None:
            part = part_of(connection, check, cap, self._holders.name, dead, now)
            room.slots = max(0, part.slots - standing.granted[family_of(check)])
            words = [self._holders.describe(name, connection) for name in part.others]
            room.slots_with = ", ".join(words)
        if check in standing.disputed:
            _one_at_a_time(connection, room, check, now)
        only = None if block.wish is None else block.wish.only
        if run is not None and room.micro is not None and only is None:
            room.micro -= self._worst(standing, limits, run.closer_check, run.closer_micro, now)
        if run is not None and block.wish is not None:
            self._pick(connection, run, check, block, room, now)
        asks = block.requests = [*block.asks, *map(_request_of, block.picked)]
        # where nothing is free all wait, whoever else asks for them
        subjects = [] if room.is_only_full else [ask.subject for ask in asks]
        taken = self._taken(connection, check, subjects, since, held)
        worst = [self._worst(standing, limits, check, ask.worst_micro, now) for ask in asks]
        reached = len(asks)
        if run is not None and block.picked and only is None:
            reached = len(block.asks) + self._reached(
                connection, run, block, room.micro, standing, limits, now
            )
        grants = _grant_in_order(
            asks, worst, taken, room, standing.next_id, now, held, reached=reached
        )
        if any(grant.kind is ReservationStatus.LATER for grant in grants):
            self._doubt(connection, self._dead(connection))  # nobody waits for their calls
        return grants

    @staticmethod
    def _pick(
        connection: Connection,
        run: LookupRun,
        check: str,
        block: _Block,
        room: Room,
        now: int,
    ) -> None:
        """Pick the next lookups of a check, no more than there are slots; end those that lapsed."""
        wish, claim = block.wish, block.claim
        if wish is None or lookups.WHOLE_RUN in claim.stops or check in claim.stops:
            return
        number = wish.number
        if room.slots is not None:
            number = min(number, max(0, room.slots - len(block.asks)))
        if number < wish.number:
            claim.refused, claim.holder = ReservationStatus.BUSY, room.slots_with
        found = []
        if number:
            found = lookups.next_in_rank(connection, run, check, number, only=wish.only)
        for each in found:
            if each.consent_ends_at is not None and now >= each.consent_ends_at:
                each.state = LookupStatus.LAPSED
                claim.ended.append(each)
            else:
                block.picked.append(each)
        if len(found) < number:
            claim.refused = None  # no more wait, whatever slots there are

    @staticmethod
    def _worst(
        standing: _Standing, limits: Mapping[str, int], check: str, known_micro: int, now: int
    ) -> int:
        price = standing.prices.get(check)
        return max_cost(known_micro, price, limit_micro=limits.get(check), now=now)

    def _reached(
        self,
        connection: Connection,
        run: LookupRun,
        block: _Block,
        room_micro: int | None,
        standing: _Standing,
        limits: Mapping[str, int],
        now: int,
    ) -> int:
        """Return how many of the picked lookups the money reaches, over all checks in rank.

        A wallet that seems too low ends no run: where nothing else is under way, the service says.
        """
        wallet_micro = None if block.wish is None else block.wish.wallet_micro
        known = [each for each in (room_micro, wallet_micro) if each is not None]
        if not known:
            return len(block.picked)
        claimed_micro = lookups.claimed_micro(connection, run)
        under_way_micro = _under_way_micro(connection, run.run_id, now) + standing.granted_micro
        waits_micro = max(0, claimed_micro - under_way_micro)
        stopped = {*block.claim.stops, *(block.wish.stopped if block.wish else ())}
        prices = {
            check: self._worst(standing, limits, check, 0, now)
            for check in run.checks
            if check not in stopped
        }
        first, last = block.picked[0].lookup_id, block.picked[-1].lookup_id
        last = lookups.reach(connection, run, prices, min(known) - waits_micro, last)
        reached = sum(each.lookup_id <= last for each in block.picked)
        if wallet_micro is not None and last < run.first_id and not claimed_micro:
            by_cap = room_micro is None or first == lookups.reach(
                connection, run, prices, room_micro, first
            )
            return int(by_cap)
        return reached

    def _standing(
        self,
        connection: Connection,
        run_id: str,
        checks: Collection[str],
        run: LookupRun | None,
        caps: Caps,
        now: int,
    ) -> _Standing:
        """Read what a block is granted against; calls under way only where a cap rests on them."""
        priced = set(checks) if run is None else {*checks, *run.checks}
        scopes = dict.fromkeys(scope for check in checks for scope in scopes_of(run_id, check, now))
        session = None
        if caps.bind and caps.price_limits:
            session = self._session(connection, run_id, now, checks)
            scopes |= dict.fromkeys(
                scopes_of(run_id, name, now)[-1] for name in session.met - session.checks
            )
        given: dict[str, Any] = {
            "checks": sorted(priced),
            "after": now - STALE_MICROS,
            "scopes": [*scopes, *map(disputed_scope, scopes)],
        }
        query = _standing_query(connection.dialect.name, binds=session is not None)
        found = {key: numbers for key, *numbers in connection.execute(query, given)}
        counters = {scope: Spent(*found[scope]) for scope in given["scopes"] if scope in found}
        return _Standing(
            counters=with_disputed(counters, list(scopes)),
            next_id=(found[_NEXT][0] or 0) + 1,
            prices={
                check: SeenPrice(*found[_PRICE + check])
                for check in priced
                if _PRICE + check in found
            },
            open_calls={
                (run, name): Spent(*numbers)
                for key, numbers in found.items()
                if key.startswith(_OPEN_CALLS)
                for _, name, run in [key.split(":", 2)]
            },
            disputed=frozenset(
                key.removeprefix(_OPEN_COSTS) for key in found if key.startswith(_OPEN_COSTS)
            ),
            session=session,
        )

    def _were_committed(
        self,
        connection: Connection,
        run_id: str,
        granted: tuple[Sequence[Reservation], Mapping[str, Claim]],
    ) -> bool:
        """Return whether the intents of a try that broke off stand in the journal: all or none do.

        That try held the turn until it ended, so that it has ended by now.
        """
        grants, claims = granted
        taken = (grant for each in claims.values() for _, grant in each.taken)
        ids = [grant.call_id for grant in (*grants, *taken) if grant.call_id]
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
        self, run_id: str, purpose: str, ask: ReserveRequest, grant: Reservation
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
            grant.reserved_micro,
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

        An intent whose process is dead is put in doubt on the way; `held` gets who holds one that
        is not, and what the others were answered.
        """
        taken: dict[bytes, ReservationStatus] = {}
        if not subjects:
            return taken
        values = {"subjects": list(subjects), "check": check, "since": since}
        dead: set[str] = set()
        for subject, holder, since_, outcome in connection.execute(
            _taken_query(connection.dialect.name), values
        ):
            if holder is None:
                taken[bytes(subject)] = ReservationStatus.ANSWERED
                held[bytes(subject)] = outcome
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
    def settle(
        self,
        run_id: str,
        outcomes: Sequence[CallResult],
        changes: Sequence[tuple[int, LookupStatus, int]] = (),
    ) -> DisputedCosts | None:
        """Commit a group of outcomes, their sealed answers, and the money they settle.

        Only a call that has no outcome yet is settled, so that the same outcome handed in twice
        counts once. A call that was put in doubt because its process was taken for dead is settled
        too: its answer was paid for. Money is counted by what the journal reserved. A cost that is
        not believed counts in full until a balance contradicts it (`disputes`).

        Args:
            run_id: the run.
            outcomes: how calls ended.
            changes: what became of claimed lookups: number, state, and attempts made.

        Returns:
            Which costs are disputed by now; None where nothing was settled.

        Raises:
            JournalError: nothing of the group was committed.
        """
        if not outcomes and not changes:
            return None
        bodies = {each.call_id: self._seal(each) for each in outcomes if each.keeps_body}
        with recording(self._engine) as connection:
            found = _read_open(connection, [each.call_id for each in outcomes]) if outcomes else {}
            lookups.change(connection, changes, self._holders.name)
            pairs = [(each, found.pop(each.call_id)) for each in outcomes if each.call_id in found]
            if not pairs:
                return None
            fresh = [each for each, _ in pairs]
            _SETTLE.run(connection, [_outcome_row(each) for each in fresh])
            for each, row in pairs:
                if bytes(row.subject) == TOMBSTONE:  # erased since: only the money is written
                    bodies.pop(each.call_id, None)
            learned = self._keep_answers(connection, run_id, fresh, bodies)
            deltas, costs = _settled_money(pairs), DisputedCosts()
            if pairs[0][1].disputed or any(each.named_micro is not None for each in fresh):
                costs, recounted = dispute(connection, fresh, self._clock())
                for scope, delta in recounted.items():
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

    def _look_for_dead(self, connection: Connection, now: int) -> set[str]:
        """Free what dead processes had claimed, and return them; looks once a second.

        Each look asks the database about every process, while all others wait for their turn.
        """
        if abs(now - self._looked_at) < MICROS:
            return set()
        self._looked_at = now
        known = lookups.claimants(connection) | askers.living(connection)
        under_way = select(calls.c.holder).where(_IS_INTENT, UNSETTLED).distinct()
        known |= set(connection.execute(under_way).scalars())
        known.discard(self._holders.name)
        dead = {name for name in known if self._holders.dead(name, connection)}
        self._doubt(connection, dead)
        lookups.free(connection, dead)
        askers.remove(connection, dead)
        return dead

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


_IS_INTENT = calls.c.state == CallState.INTENT.value
_CRASHED = and_(calls.c.state == CallState.IN_DOUBT.value, calls.c.trouble == CRASHED)
_NOTHING: ColumnElement[int] = literal_column("0")


@cache
def _standing_query(dialect: str, *, binds: bool) -> CompoundSelect[Any]:
    """Return what a block is granted against.

    Args:
        dialect: the database's.
        binds: a cap on money binds, so that calls under way count by what they may cost.
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
        select(calls.c.subject, calls.c.holder, calls.c.intent_at, null()).where(
            among(dialect, calls.c.subject, "subjects"),
            calls.c.check == bindparam("check"),
            _IS_INTENT,
        ),
        select(answers.c.subject, null(), _NOTHING, answers.c.outcome).where(
            among(dialect, answers.c.subject, "subjects"),
            answers.c.check == bindparam("check"),
            answers.c.answer_id > bindparam("since"),
            answers.c.outcome != NO_ANSWER,
        ),
    )


@cache
def _open_query(dialect: str) -> Select[Any]:
    """Return those of some calls that have no outcome yet."""
    return (
        select(
            calls.c.call_id,
            calls.c.run_id,
            calls.c.check,
            calls.c.subject,
            calls.c.intent_at,
            calls.c.reserved_micro,
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
    *,
    reached: int,
) -> list[Reservation]:
    """Grant the asks in order until one does not fit; none after it is granted either.

    The money does not reach beyond the first so many (`reached`).
    """
    grants: list[Reservation] = []
    full: ReservationStatus | None = None
    for place, (ask, worst) in enumerate(zip(asks, worst_micro, strict=True)):
        refused = taken.get(ask.subject)
        if refused is ReservationStatus.ANSWERED:
            grants.append(Reservation(refused, outcome=held.get(ask.subject, "")))
            continue
        if refused is None:
            full = full or room.refusal(worst)
            if full is None and place >= reached:
                full = ReservationStatus.UNAFFORDABLE
            refused = full
        if refused is not None:
            others = room.slots_with if refused is ReservationStatus.BUSY else ""
            grants.append(Reservation(refused, holder=held.get(ask.subject, others)))
            continue
        room.take(worst)
        taken[ask.subject] = ReservationStatus.HELD
        granted = ReservationStatus.GRANTED
        grants.append(Reservation(granted, next_id, now, reserved_micro=worst))
        next_id += 1
    return grants


def _blocks(asks: Sequence[ReserveRequest], wishes: Mapping[str, Wish]) -> list[_Block]:
    """Return what is asked of each check: calls by name, then how many of its lookups."""
    blocks: list[_Block] = []
    for ask in asks:
        if not blocks or blocks[-1].check != ask.check:
            blocks.append(_Block(ask.check))
        blocks[-1].asks.append(ask)
    for check, wish in wishes.items():
        of_check = [block for block in blocks if block.check == check]
        if not of_check:
            blocks.append(_Block(check))
        (of_check or blocks)[-1].wish = wish
    return blocks


def _request_of(picked: ClaimedLookup) -> ReserveRequest:
    return ReserveRequest(
        check=picked.check,
        kind=picked.kind,
        subject=picked.subject,
        worst_micro=picked.worst_micro,
        consent_reference=picked.consent_reference,
        attempt=picked.attempts + 1,
    )


def _under_way_micro(connection: Connection, run_id: str, now: int) -> int:
    """Return what is reserved for the calls of a run that are under way."""
    query = select(func.coalesce(func.sum(calls.c.reserved_micro), 0)).where(
        *UNDER_WAY, calls.c.run_id == run_id
    )
    return int(connection.execute(query, {"after": now - STALE_MICROS}).scalar_one())


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
