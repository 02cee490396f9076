"""Calls: intents before sending, outcomes afterwards.

Claiming is reserving: taking the next lookups in rank, their intents and the reservation of their
worst cost are one transaction; so is a group of outcomes with its answers and the money it settles.
`calling/` decides when to retry.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    and_,
    bindparam,
    cast,
    exists,
    func,
    insert,
    null,
    or_,
    select,
    union,
    union_all,
    update,
)

from nightscreen.journal import lookups
from nightscreen.journal.database import Turn, execute_many, insert_rows
from nightscreen.journal.money import (
    IS_OPEN,
    Changes,
    Room,
    Spent,
    dispute,
    enter_changes,
    headroom,
    read_scopes,
    scopes_of,
    settled,
)
from nightscreen.journal.schema import (
    ANSWER,
    TOMBSTONE,
    UNSETTLED,
    answers,
    calls,
    disputes,
    prices,
)
from nightscreen.journal.storage import Part, with_retries
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
from nightscreen.schemas.checks import FAMILIES, Outcome, family_of
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.errors import JournalError
from nightscreen.schemas.money import RECENT_MICROS, SeenPrice, max_cost

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from nightscreen.files.sealing import Sealer
    from nightscreen.journal.lookups import ClaimedLookup, Left, LookupRun
    from nightscreen.journal.storage import Storage

CRASHED = "crashed"
"""Trouble of a call whose process died between intent and outcome."""
OUTAGE = "outage"
"""Trouble of a call whose response was unreadable in an outage of its check: it may be repeated."""
ASKED_ENDS = b"\x00"
"""Separates the identifier of an unreadable body from the body; both are sealed together."""
NO_ANSWER = CallState.IN_DOUBT.value
"""The outcome stored with the body of a call in doubt, which is no answer."""
UNREAD = frozenset({Outcome.UNREADABLE.value, NO_ANSWER})
"""The outcomes of stored bodies that could not be read."""
STALE_MICROS = 600 * MICROS
"""Age from which no process waits for a call under way, longer than any timeout.

A call that is never settled, because its process lost the database for a moment, then blocks
nobody.
"""


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """The calls of one check, or operation, that a process wants to make now.

    Attributes:
        asks: specific calls, most important first.
        number: the most of the run's lookups to take, in rank.
        only: take only this lookup, by its number, such as the one reserved for the end.
        wallet_micro: what is left in the wallet; None if unknown.
        stopped: checks that are no longer asked, so that no money is reserved for them.
    """

    check: str
    asks: Sequence[ReserveRequest] = ()
    number: int = 0
    only: int | None = None
    wallet_micro: int | None = None
    stopped: frozenset[str] = frozenset()


@dataclass(slots=True)
class Claim:
    """The result of a claim request.

    Attributes:
        granted: one grant for each specific call.
        taken: lookups with their grants; one that another process is asking has the grant `HELD`,
            and is tried again later.
        ended: lookups that need no call: answered meanwhile, or their consent has ended.
        refused: why there are not more; None if no more wait.
        left: the lookups that have not ended; None if the request was granted in full.
        stops: stops of the run and its checks, by scope.
    """

    granted: list[Reservation] = field(default_factory=list)
    taken: list[tuple[ClaimedLookup, Reservation]] = field(default_factory=list)
    ended: list[ClaimedLookup] = field(default_factory=list)
    refused: ReservationStatus | None = None
    left: Left | None = None
    stops: dict[str, str] = field(default_factory=dict)


class Calls(Part):
    """Writes intents and outcomes; safe to use from several threads and processes at once."""

    def __init__(self, journal: Storage) -> None:
        super().__init__(journal)
        self._began_at: dict[str, int] = {}  # when this process first asked, by run
        self._looked_at = 0  # when it last looked for dead processes

    def claim(
        self, run_id: str, purpose: str, request: ClaimRequest, caps: Caps, *, since: int
    ) -> Claim:
        """Commit the intents of a block, as far as the caps allow, and reserve their worst cost.

        A call's worst cost is that of its `ReserveRequest`, or the check's recent price in this
        journal if that is higher: a price that rose in another process counts at once. Until a
        price was charged since this process first asked for the run, all calls under way must fit
        under the caps at the highest believed price; if they do not, there is one at a time, over
        all processes. Each process gets its part of a shared cap on calls under way. If a cap on
        money binds, no lookup is claimed beyond the rank that the money reaches over all checks of
        the run.

        Args:
            run_id: the run that asks.
            purpose: the run's purpose, saved with each call.
            request: specific calls, and how many of the run's lookups.
            caps: the caps that the block must fit under.
            since: position in the journal (`Answers.position`): lookups answered after it are not
                asked again, whatever the clocks of machines say.

        Raises:
            JournalError: nothing was committed, nothing of the block may be sent.
        """
        unsure: list[_Turn] = []  # a try that may or may not have been committed

        def try_once() -> Claim:
            with self._database.recording(Turn.GRANTS, first=self._holders.assure) as connection:
                if self._holders.was_lost:
                    self._require_alive(connection)
                if unsure and self._was_committed(connection, run_id, unsure[-1]):
                    return unsure[-1].claim
                now = self._clock()
                self._recover_dead(connection, now)
                began_at = self._began_at.setdefault(run_id, now)
                turn = _Turn(
                    connection, self._holders.name, run_id, request, caps, since, now, began_at
                )
                turn.grant()
                intents = [turn.intent(purpose, *pair) for pair in turn.granted]
                execute_many(connection, insert(calls), intents)
                unsure[:] = [turn]
                enter_changes(connection, turn.changes)
            return turn.claim

        return self._database.retry(try_once)

    def _was_committed(self, connection: Connection, run_id: str, turn: _Turn) -> bool:
        """Return whether an interrupted try was committed: all of it is, or nothing.

        That try held the turn until it ended, so it has ended by now.
        """
        if not turn.granted:  # it may have ended lookups, or taken some that others ask for
            return bool(turn.changed) and lookups.is_changed(
                connection, turn.changed[0], self._holders.name
            )
        query = select(calls.c.call_id).where(
            calls.c.call_id.in_([grant.call_id for _, grant in turn.granted]),
            calls.c.run_id == run_id,
            calls.c.holder == self._holders.name,
        )
        return connection.execute(query).first() is not None

    def _require_alive(self, connection: Connection) -> None:
        """Continue after the lock was lost, unless another process has taken over this one's calls.

        A process that counted this one as dead did so within a turn, so it is visible by now.

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

    @with_retries
    def settle(
        self,
        run_id: str,
        outcomes: Sequence[CallResult],
        lookup_changes: Sequence[tuple[int, LookupStatus, int]] = (),
    ) -> DisputedCosts | None:
        """Commit a group of outcomes, their sealed answers, and the money they settle.

        Only a call without an outcome is settled, so that a repeated outcome counts once. A call
        that was put in doubt because its process seemed dead is settled too: its answer was paid
        for. Money is counted against the journal's reservation. A cost that is not believed counts
        in full until a balance contradicts it (`money`).

        Args:
            run_id: the run.
            outcomes: how calls ended.
            lookup_changes: changes of claimed lookups: number, status, and attempts made.

        Returns:
            The costs that are disputed now; None if nothing was settled.

        Raises:
            JournalError: nothing of the group was committed.
        """
        if not outcomes and not lookup_changes:
            return None
        bodies = {each.call_id: self._seal(each) for each in outcomes if each.keeps_body}
        with self._database.recording() as connection:
            ids = [each.call_id for each in outcomes]
            opened = connection.execute(_OPEN, {"ids": ids}) if ids else ()
            found = {row.call_id: row for row in opened}
            me = self._holders.name
            lookups.change(connection, lookup_changes, me, owner=me)
            pairs = [(each, found.pop(each.call_id)) for each in outcomes if each.call_id in found]
            if not pairs:
                return None
            fresh = [each for each, _ in pairs]
            columns = [
                {name: getattr(each, name) for name in _OUTCOME_COLUMNS}
                | {"of_call": each.call_id, "state": each.state.value}
                for each in fresh
            ]
            execute_many(connection, _SETTLE, columns)
            for each, row in pairs:
                if bytes(row.subject) == TOMBSTONE:  # erased meanwhile: only the money is written
                    bodies.pop(each.call_id, None)
            kept = [
                {
                    "check": each.ask.check,
                    "subject": each.ask.subject,
                    "outcome": each.outcome or NO_ANSWER,
                    "answered_at": each.settled_at,
                    "call_id": each.call_id,
                    "run_id": run_id,
                    "cost_micro": each.cost_micro,
                    "body": bodies[each.call_id],
                }
                for each in fresh
                if each.call_id in bodies
            ]
            execute_many(connection, insert(answers), kept)
            answered = [each for each in fresh if each.state in KEPT_STATES]
            changes, costs = Changes(), DisputedCosts()
            for each, row in pairs:  # with the journal's reservation
                scopes = scopes_of(row.run_id, row.check, row.intent_at)
                changes.add(scopes, settled(each, row.reserved_micro))
            if pairs[0][1].disputed or any(each.named_micro is not None for each in fresh):
                costs = dispute(connection, fresh, self._clock(), changes)
            charged = _charged_prices(answered, self._clock())
            insert_rows(connection, prices, charged, changed=_CHARGED)
            enter_changes(connection, changes)
        return costs

    def _seal(self, ended: CallResult) -> bytes:
        body = ended.body
        if ended.state is not CallState.ANSWERED:
            body = ended.asked.encode() + ASKED_ENDS + body
        return self._sealer.seal(body, ANSWER.context(ended.ask.check, ended.ask.subject))

    def _recover_dead(self, connection: Connection, now: int) -> None:
        """Put calls of dead processes in doubt, and release their lookups to others.

        At most once a second: it asks the database about every process, while others wait for their
        turn.
        """
        if abs(now - self._looked_at) < MICROS:
            return
        self._looked_at = now
        known = connection.execute(_HOLDERS).scalars().all()
        dead = {name for name in known if name and self._holders.dead(name, connection)}
        if dead:
            self._doubt(connection, dead)
            lookups.release_dead_claims(connection, dead)

    @with_retries
    def recover(self) -> int:
        """Put in doubt every intent whose process is dead; return how many there were."""
        with self._database.reading() as connection:
            held = connection.execute(_HOLDING).scalars().all()
            dead = {holder for holder in held if self._holders.dead(holder, connection)}
        if not dead:
            return 0
        with self._database.writing() as connection:
            still = {holder for holder in dead if not self._holders.alive(holder, connection)}
            return self._doubt(connection, still)

    def _doubt(self, connection: Connection, dead: set[str]) -> int:
        done = connection.execute(
            update(calls)
            .where(_IS_INTENT, UNSETTLED, calls.c.holder.in_(dead))
            .values(state=CallState.IN_DOUBT.value, trouble=CRASHED, settled_at=self._clock())
        )
        return int(done.rowcount)


# --- one claim ---


@dataclass
class _Turn:
    """One claim: the state of caps and calls that it is judged by, and its grants.

    Attributes:
        claim: the result of the request.
        granted: the calls that may be sent, with their grants.
        changed: the changes of lookups: number, status, and attempts made.
    """

    _connection: Connection  # of the claim; it holds the turn
    _me: str  # this process
    _run_id: str
    _request: ClaimRequest
    _caps: Caps
    _since: int  # journal position after which an answer is not asked for again
    _now: int
    _began_at: int  # when this process first asked: a price charged later is confirmed

    def __post_init__(self) -> None:
        connection = self._connection
        self._limits = dict(self._caps.price_limits)
        self._scopes = scopes_of(self._run_id, self._request.check, self._now)
        self._run = lookups.find_run(connection, self._run_id)
        after = {"after": self._now - STALE_MICROS}
        self._under_way = connection.execute(_UNDER_WAY, after).all()
        self._next_id = (connection.execute(_LAST_CALL).scalar() or 0) + 1
        seen = connection.execute(select(prices)).all()
        self._prices = {row.check: SeenPrice(*row[1:4]) for row in seen}
        self._confirmed = {row.check for row in seen if row.charged_at >= self._began_at}
        self._disputed = set(connection.execute(_DISPUTED).scalars())
        self._sharing = lookups.caps_of_all(connection) if self._caps.in_flight else {}
        stops = {} if self._run is None else lookups.stops_of(connection, self._run_id)
        self.claim = Claim(stops=stops)
        self.granted: list[tuple[ReserveRequest | ClaimedLookup, Reservation]] = []
        self.changed: list[tuple[int, LookupStatus, int]] = []

    @property
    def changes(self) -> Changes:
        """Return the changes of counters by the granted calls."""
        changes = Changes()
        if self.granted:
            reserved_micro = sum(grant.reserved_micro for _, grant in self.granted)
            change = Spent(reserved_micro=reserved_micro, calls=len(self.granted))
            changes.add(self._scopes, change)
        return changes

    def grant(self) -> None:
        """Grant specific calls, then lookups, until one does not fit.

        No later one is granted then, unless it was answered meanwhile.
        """
        request, room, run = self._request, self._room(), self._run
        named = len(request.asks)
        if run is not None and request.only is None and room.micro is not None:
            room.micro -= self._worst(run.closer_check, run.closer_micro)
        picked = [] if run is None else self._pick(run, room)
        asks: list[ReserveRequest | ClaimedLookup] = [*request.asks, *picked]
        taken = self._taken([ask.subject for ask in asks])
        reached = named + self._reached(picked, room.micro)
        grants: list[Reservation] = []
        full: ReservationStatus | None = None
        for place, ask in enumerate(asks):
            found = taken.get(ask.subject)
            if found is None:
                worst = self._worst(ask.check, ask.worst_micro)
                full = full or room.refusal(worst)
                if full is None and place >= reached:
                    full = ReservationStatus.UNAFFORDABLE
                if full is not None:
                    found = Reservation(full)
                else:
                    room.take(worst)
                    taken[ask.subject] = Reservation(ReservationStatus.HELD)
                    found = Reservation(
                        ReservationStatus.GRANTED, self._next_id, self._now, reserved_micro=worst
                    )
                    self._next_id += 1
                    self.granted.append((ask, found))
            grants.append(found)
        self.claim.granted = grants[:named]
        if run is not None:
            self._fulfil(run, picked, grants[named:])

    def intent(
        self, purpose: str, ask: ReserveRequest | ClaimedLookup, grant: Reservation
    ) -> dict[str, Any]:
        """Return a row of `calls`."""
        return {
            "call_id": grant.call_id,
            "run_id": self._run_id,
            "check": ask.check,
            "kind": ask.kind,
            "subject": ask.subject,
            "purpose": purpose,
            "attempt": ask.attempt,
            "holder": self._me,
            "consent_reference": ask.consent_reference,
            "intent_at": grant.intent_at,
            "reserved_micro": grant.reserved_micro,
            "state": CallState.INTENT.value,
        }

    def _room(self) -> Room:
        """Return what is left under the caps."""
        caps, check = self._caps, self._request.check
        counters = read_scopes(self._connection, self._scopes)
        room = headroom(counters, caps, self._scopes, check)
        if caps.bind and self._limits:
            if check not in self._confirmed:
                room.limit_micro = self._limits.get(check)
            everywhere = caps.day_micro is not None or caps.month_micro is not None
            room.risk_micro = sum(
                max(0, self._limits.get(each.check, 0) * each.number - each.micro)
                for each in self._under_way
                if each.check not in self._confirmed and (everywhere or each.run_id == self._run_id)
            )
        cap = caps.under_way(check)
        if cap is not None:
            room.slots = self._part(check, cap)
        if check in self._disputed:
            alone = 1 - sum(each.number for each in self._under_way if each.check == check)
            room.slots = max(0, alone if room.slots is None else min(room.slots, alone))
        return room

    def _part(self, check: str, cap: int) -> int:
        """Return how many calls this process may add to those under way, under a shared cap.

        Each sharing process gets the cap divided by their number, rounded up. If their settings
        differ, the lowest cap counts. Processes that do not share it are not counted.
        """
        family = family_of(check)
        members = FAMILIES.get(family, (family,))
        theirs = {who: own[family] for who, own in self._sharing.items() if family in own}
        lowest, sharing = min([cap, *theirs.values()]), {self._me, *theirs}
        under_way: Counter[str] = Counter()
        for each in self._under_way:
            if each.check in members and each.holder in sharing:
                under_way[each.holder] += each.number
        fair = math.ceil(lowest / len(sharing)) - under_way[self._me]
        return max(0, min(fair, lowest - under_way.total()))

    def _worst(self, check: str, known_micro: int) -> int:
        price, limit = self._prices.get(check), self._limits.get(check)
        return max_cost(known_micro, price, limit_micro=limit, now=self._now)

    def _pick(self, run: LookupRun, room: Room) -> list[ClaimedLookup]:
        """Pick the next lookups, at most one for each slot; end those without valid consent."""
        request, claim, check = self._request, self.claim, self._request.check
        if lookups.WHOLE_RUN in claim.stops or check in claim.stops:
            return []
        number = request.number
        if room.slots is not None:
            number = min(number, max(0, room.slots - len(request.asks)))
        if number < request.number:
            claim.refused = ReservationStatus.BUSY
        found, picked = [], []
        if number:
            found = lookups.next_in_rank(self._connection, run, check, number, only=request.only)
        for each in found:
            if each.consent_ends_at is not None and self._now >= each.consent_ends_at:
                each.state = LookupStatus.LAPSED
                claim.ended.append(each)
            else:
                picked.append(each)
        if len(found) < number:
            claim.refused = None  # no more lookups wait, so slots do not matter
        return picked

    def _reached(self, picked: Sequence[ClaimedLookup], room_micro: int | None) -> int:
        """Return how many of the picked lookups the money reaches, over all checks in rank.

        A wallet that seems too low does not end a run: if nothing else is under way, one lookup is
        sent, and the service decides.
        """
        run, request, connection = self._run, self._request, self._connection
        known = [each for each in (room_micro, request.wallet_micro) if each is not None]
        if run is None or not picked or not known or request.only is not None:
            return len(picked)
        claimed_micro = lookups.claimed_micro(connection, run)
        under_way_micro = sum(each.micro for each in self._under_way if each.run_id == self._run_id)
        waits_micro = max(0, claimed_micro - under_way_micro)
        asked = [each for each in run.checks if each not in {*self.claim.stops, *request.stopped}]
        worst = {check: self._worst(check, 0) for check in asked}
        first, last = picked[0].lookup_id, picked[-1].lookup_id
        last = lookups.reach(connection, run, worst, min(known) - waits_micro, last)
        if request.wallet_micro is not None and last < run.first_id and not claimed_micro:
            by_cap = room_micro is None or first == lookups.reach(
                connection, run, worst, room_micro, first
            )
            return int(by_cap)
        return sum(each.lookup_id <= last for each in picked)

    def _taken(self, subjects: Sequence[bytes]) -> dict[bytes, Reservation]:
        """Return which subjects are being asked now, or were answered meanwhile."""
        taken: dict[bytes, Reservation] = {}
        if not subjects:
            return taken
        values = {"subjects": subjects, "check": self._request.check, "since": self._since}
        for subject, outcome in self._connection.execute(_TAKEN, values):
            if outcome is None:
                taken.setdefault(bytes(subject), Reservation(ReservationStatus.HELD))
            else:
                answered = Reservation(ReservationStatus.ANSWERED, outcome=outcome)
                taken[bytes(subject)] = answered
        return taken

    def _fulfil(
        self, run: LookupRun, picked: Sequence[ClaimedLookup], grants: Sequence[Reservation]
    ) -> None:
        """Save the new state of the picked lookups, and read what is left."""
        claim = self.claim
        for each, grant in zip(picked, grants, strict=True):
            match grant.kind:
                case ReservationStatus.GRANTED | ReservationStatus.HELD:
                    claim.taken.append((each, grant))
                case ReservationStatus.ANSWERED:
                    each.state = grant.ends_as
                    claim.ended.append(each)
                case _:
                    claim.refused = grant.kind
        found = [*(each for each, _ in claim.taken), *claim.ended]
        self.changed = [(each.lookup_id, each.state, each.attempts) for each in found]
        lookups.change(self._connection, self.changed, self._me, owner=lookups.NOBODY)
        if len(found) < self._request.number:
            claim.left = lookups.left_of(self._connection, run, self._request.check)


# --- answers ---


def open_answer(
    sealer: Sealer, check: str, subject: bytes, outcome: str, sealed: bytes
) -> tuple[str, bytes]:
    """Return the identifier that a stored answer is about, and its body as received.

    The identifier is only stored with bodies that could not be read, since they may be read again.

    Raises:
        JournalDamagedError: it does not open.
    """
    plain = sealer.open(sealed, ANSWER.context(check, subject))
    if outcome not in UNREAD:
        return "", plain
    asked, _, body = plain.partition(ASKED_ENDS)
    return asked.decode(), body


# --- statements ---

_IS_INTENT = calls.c.state == CallState.INTENT.value
_CRASHED = and_(calls.c.state == CallState.IN_DOUBT.value, calls.c.trouble == CRASHED)
_HOLDING = select(calls.c.holder).where(_IS_INTENT, UNSETTLED).distinct()
_HOLDERS = union(_HOLDING, *lookups.CLAIMANTS)
_UNDER_WAY = (
    select(
        calls.c.check,
        calls.c.run_id,
        calls.c.holder,
        func.count().label("number"),
        cast(func.sum(calls.c.reserved_micro), BigInteger).label("micro"),
    )
    .where(_IS_INTENT, UNSETTLED, calls.c.intent_at > bindparam("after"))
    .group_by(calls.c.check, calls.c.run_id, calls.c.holder)
)
"""The number and the reservation of calls under way, by check, run and process."""
_LAST_CALL = select(func.max(calls.c.call_id))
_DISPUTED = select(calls.c.check).where(IS_OPEN, calls.c.call_id == disputes.c.call_id).distinct()


_TAKEN = union_all(
    select(calls.c.subject, null()).where(
        calls.c.subject.in_(bindparam("subjects", expanding=True)),
        calls.c.check == bindparam("check"),
        _IS_INTENT,
    ),
    select(answers.c.subject, answers.c.outcome).where(
        answers.c.subject.in_(bindparam("subjects", expanding=True)),
        answers.c.check == bindparam("check"),
        answers.c.answer_id > bindparam("since"),
        answers.c.outcome != NO_ANSWER,
    ),
)
"""Which of some subjects are being asked now, and the answers to others since."""
_OPEN = (
    select(calls, exists().where(IS_OPEN).label("disputed"))
    .where(
        calls.c.call_id.in_(bindparam("ids", expanding=True)),
        or_(_IS_INTENT, and_(_CRASHED, calls.c.cost_micro.is_(None))),
    )
    .order_by(calls.c.call_id)
    .with_for_update(of=calls)  # of outcomes written beside each other one is each call's
)
"""Selects those of some calls that have no outcome yet."""

_OUTCOME_COLUMNS = (
    *("trouble", "status", "outcome", "cost_micro", "balance_micro"),
    *("sent_at", "settled_at", "final"),
)
_SETTLE = update(calls).where(calls.c.call_id == bindparam("of_call"))


_HIGHER_OF_LATE = (
    "prices.highest_micro > excluded.highest_micro "
    f"AND prices.seen_at > excluded.seen_at - {RECENT_MICROS}"
)
_CHARGED = "latest_micro = excluded.latest_micro, charged_at = excluded.charged_at, " + ", ".join(
    f"{name} = CASE WHEN {_HIGHER_OF_LATE} THEN prices.{name} ELSE excluded.{name} END"
    for name in ("highest_micro", "seen_at")
)
"""The update by a charged price: the highest recent price stays, with its instant."""


def _charged_prices(answered: Iterable[CallResult], now: int) -> list[tuple[Any, ...]]:
    """Return the latest and the highest price that each check charged, as rows of `prices`.

    A cost that is not believed counts as spent, but not as a price.
    """
    charged: dict[str, list[int]] = defaultdict(list)
    for each in answered:
        if each.cost_micro and each.named_micro is None:
            charged[each.ask.check].append(each.cost_micro)
    return [(check, costs[-1], max(costs), now, now) for check, costs in sorted(charged.items())]
