"""Intents before sending, outcomes after: the journal's heart.

A block of intents and the reservation of its worst cost are one transaction; so is a group of
outcomes with its answers and the money it settles. What to ask and when to retry is decided in
`steps/`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, func, insert, select, update

from schemas.calls import Ask, CallState, Caps, Grant, GrantKind, Settled
from storage.journal.engine import reading, writing
from storage.journal.money import Delta, apply_deltas, headroom, scopes_of
from storage.journal.tables import answers, calls, prices, tallies
from storage.journal.upsert import add_up, put

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Engine

    from storage.clock import Clock
    from storage.holders import Holders
    from storage.sealing import Sealer

CRASHED = "crashed"
"""Trouble of a call whose process died between intent and outcome."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Writes intents and outcomes; safe to use from several processes at once."""

    _engine: Engine = field(repr=False)
    _sealer: Sealer = field(repr=False)
    _holders: Holders = field(repr=False)
    _clock: Clock = field(repr=False)

    def reserve(
        self, run_id: str, purpose: str, asks: Sequence[Ask], caps: Caps, *, since: int
    ) -> list[Grant]:
        """Commit the intents of a block, as far as the caps allow, and reserve their worst cost.

        Args:
            run_id: the run that asks.
            purpose: the run's purpose, kept with each call.
            asks: the block, most important first, all of one check.
            caps: what the block must fit under.
            since: an answer that arrived after this instant is not asked for again.

        Returns:
            One grant for each ask, in the same order.
        """
        if not asks:
            return []
        now = self._clock()
        with writing(self._engine) as connection:
            taken = self._taken(connection, run_id, asks, since)
            grants = self._grant(connection, run_id, asks, caps, taken, now)
            rows = [
                self._intent_row(run_id, purpose, ask, grant, now)
                for ask, grant in zip(asks, grants, strict=True)
                if grant.kind is GrantKind.GRANTED
            ]
            if rows:
                connection.execute(insert(calls), rows)
                deltas: dict[str, Delta] = defaultdict(Delta)
                for row in rows:
                    for scope in scopes_of(run_id, row["check"], now):
                        deltas[scope].add(reserved=row["reserved_micro"], calls=1)
                apply_deltas(connection, deltas)
        return grants

    def _intent_row(
        self, run_id: str, purpose: str, ask: Ask, grant: Grant, now: int
    ) -> dict[str, Any]:
        return {
            "call_id": grant.call_id,
            "run_id": run_id,
            "check": ask.check,
            "kind": ask.kind,
            "subject": ask.subject,
            "purpose": purpose,
            "attempt": ask.attempt,
            "holder": self._holders.name,
            "consent_reference": ask.consent_reference,
            "intent_at": now,
            "reserved_micro": ask.worst_micro,
            "state": CallState.INTENT.value,
            "final": False,
        }

    def _taken(
        self, connection: Connection, run_id: str, asks: Sequence[Ask], since: int
    ) -> dict[bytes, GrantKind]:
        """Return which subjects are being asked by another run, or were answered since."""
        check = asks[0].check
        subjects = [ask.subject for ask in asks]
        taken: dict[bytes, GrantKind] = {}
        open_calls = connection.execute(
            select(calls.c.subject, calls.c.holder, calls.c.run_id).where(
                calls.c.subject.in_(subjects),
                calls.c.check == check,
                calls.c.state == CallState.INTENT.value,
            )
        ).all()
        for subject, holder, other_run in open_calls:
            mine = holder == self._holders.name and other_run == run_id
            if not mine and self._holders.alive(holder):
                taken[bytes(subject)] = GrantKind.HELD
        fresh = connection.execute(
            select(answers.c.subject).where(
                answers.c.subject.in_(subjects),
                answers.c.check == check,
                answers.c.answered_at > since,
            )
        ).scalars()
        taken.update((bytes(subject), GrantKind.ANSWERED) for subject in fresh)
        return taken

    def _grant(
        self,
        connection: Connection,
        run_id: str,
        asks: Sequence[Ask],
        caps: Caps,
        taken: dict[bytes, GrantKind],
        now: int,
    ) -> list[Grant]:
        """Grant the asks in order until one does not fit; none after it is granted either."""
        room = headroom(connection, caps, run_id=run_id, check=asks[0].check, now=now)
        next_id = (connection.execute(select(func.max(calls.c.call_id))).scalar() or 0) + 1
        grants: list[Grant] = []
        full: GrantKind | None = None
        for ask in asks:
            other = taken.get(ask.subject)
            if other is None and full is None:
                full = room.refusal(ask.worst_micro)
            if other is not None or full is not None:
                grants.append(Grant(other or full or GrantKind.HELD))
                continue
            room.take(ask.worst_micro)
            grants.append(Grant(GrantKind.GRANTED, next_id, now))
            next_id += 1
        return grants

    def settle(self, run_id: str, outcomes: Sequence[Settled]) -> None:
        """Commit a group of outcomes, their sealed answers, and the money they settle."""
        if not outcomes:
            return
        with writing(self._engine) as connection:
            connection.execute(_SETTLE, [_outcome_row(each) for each in outcomes])
            answered = [each for each in outcomes if each.state is CallState.ANSWERED]
            if answered:
                connection.execute(insert(answers), [self._answer_row(run_id, a) for a in answered])
                _tally(connection, run_id, answered)
                _learn_prices(connection, answered)
            deltas: dict[str, Delta] = defaultdict(Delta)
            for each in outcomes:
                for scope in scopes_of(run_id, each.ask.check, each.intent_at):
                    deltas[scope].settle(each)
            apply_deltas(connection, deltas)

    def _answer_row(self, run_id: str, settled: Settled) -> dict[str, Any]:
        context = answer_context(settled.ask.check, settled.ask.subject)
        return {
            "check": settled.ask.check,
            "subject": settled.ask.subject,
            "outcome": settled.outcome,
            "answered_at": settled.settled_at,
            "call_id": settled.call_id,
            "run_id": run_id,
            "cost_micro": settled.cost_micro,
            "body": self._sealer.seal(settled.body, context),
        }

    def recover(self) -> int:
        """Put in doubt every intent whose process is dead; return how many there were."""
        with reading(self._engine) as connection:
            held = connection.execute(
                select(calls.c.holder).where(calls.c.state == CallState.INTENT.value).distinct()
            ).scalars()
            dead = [holder for holder in held if not self._holders.alive(holder)]
        if not dead:
            return 0
        with writing(self._engine) as connection:
            done = connection.execute(
                update(calls)
                .where(calls.c.state == CallState.INTENT.value, calls.c.holder.in_(dead))
                .values(state=CallState.IN_DOUBT.value, trouble=CRASHED, settled_at=self._clock())
            )
            return int(done.rowcount)


def answer_context(check: str, subject: bytes) -> bytes:
    """Return what a sealed answer is bound to, so that it cannot stand in for another's."""
    return check.encode() + b"\x1f" + subject


_SETTLE = (
    update(calls)
    .where(calls.c.call_id == bindparam("id_"))
    .values(
        {
            name: bindparam(f"{name}_")
            for name in (
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
        }
    )
)


def _outcome_row(settled: Settled) -> dict[str, Any]:
    return {
        "id_": settled.call_id,
        "state_": settled.state.value,
        "trouble_": settled.trouble,
        "status_": settled.status,
        "outcome_": settled.outcome,
        "cost_micro_": settled.cost_micro,
        "balance_micro_": settled.balance_micro,
        "sent_at_": settled.sent_at,
        "settled_at_": settled.settled_at,
        "final_": settled.final,
    }


def _tally(connection: Connection, run_id: str, answered: Sequence[Settled]) -> None:
    """Count answers and cost by check, kind and outcome: what quotes are made from."""
    counts: Counter[tuple[str, str, str]] = Counter()
    costs: Counter[tuple[str, str, str]] = Counter()
    for each in answered:
        key = (each.ask.check, each.ask.kind, each.outcome or "")
        counts[key] += 1
        costs[key] += each.cost_micro or 0
    rows = [
        {
            "run_id": run_id,
            "check": check,
            "kind": kind,
            "outcome": outcome,
            "answers": number,
            "cost_micro": costs[(check, kind, outcome)],
        }
        for (check, kind, outcome), number in counts.items()
    ]
    add_up(connection, tallies, rows, adding=("answers", "cost_micro"))


def _learn_prices(connection: Connection, answered: Sequence[Settled]) -> None:
    """Remember the latest and the highest price of each check that charged something."""
    latest: dict[str, Settled] = {}
    highest: dict[str, int] = {}
    for each in answered:
        if each.cost_micro:
            check = each.ask.check
            latest[check] = each
            highest[check] = max(highest.get(check, 0), each.cost_micro)
    for check, each in latest.items():
        known = connection.execute(
            select(prices.c.highest_micro).where(prices.c.check == check)
        ).scalar()
        row = {
            "check": check,
            "latest_micro": each.cost_micro,
            "highest_micro": max(known or 0, highest[check]),
            "seen_at": each.settled_at,
        }
        put(connection, prices, row)
