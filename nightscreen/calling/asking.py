"""Asking: how a screening run asks the lookups in its table, from the first to the last.

The first lookup is asked alone to get the opening balance, and one is reserved for the end to get
the closing balance. Between them each check has a lane. A worker of the run asks in the same way,
without the two balances. Claiming a lookup decides which one is next and whether the money reaches
it (`journal.lookups`, `journal.calls`).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nightscreen.calling.caller import Caller
from nightscreen.calling.lookup_task import LookupTask
from nightscreen.calling.stops import FEW
from nightscreen.checks.registry import CHECKS
from nightscreen.client.response_rules import FailureReason
from nightscreen.client.wire import lookup_request
from nightscreen.journal.answers import Doubts
from nightscreen.journal.lookups import WHOLE_RUN
from nightscreen.planning.freshness import is_closed
from nightscreen.schemas.calls import NOT_ENDED, UNREAD_TROUBLES, LookupStatus
from nightscreen.schemas.checks import IdentityKind, Lookup, Outcome
from nightscreen.schemas.errors import JournalError
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from nightscreen.calling.run import Run
    from nightscreen.client.transport import Transport
    from nightscreen.journal.lookups import ClaimedLookup, LookupRun
    from nightscreen.planning.freshness import Freshness
    from nightscreen.planning.lookup_table import Chains
    from nightscreen.schemas.calls import Reservation

_ANSWERED = frozenset({LookupStatus.PAID, LookupStatus.FREE, LookupStatus.UNREADABLE})
_LOST = frozenset({LookupStatus.FAILED, LookupStatus.IN_DOUBT})
_SPARING = "karma"
"""The check that may ask its identities in stages."""


@dataclass(frozen=True, slots=True)
class Stages:
    """Karma's lookups for each row, if it stops at the first listing."""

    chains: Chains  # the lookups of each row, by number, in the order in which they are asked
    order: NDArray[np.int32]  # the numbers of all lookups, in rank


@dataclass(kw_only=True)
class Asking(Caller):
    """One process's open resources while it asks lookups of a screening run.

    Its lanes claim lookups from it (`lane.LookupTable`). Other code ends the run.
    """

    concludes = False
    table: LookupRun  # the run's lookups
    freshness: Freshness  # how old an answer may be, and from which instant calls in doubt count
    # lookups whose latest answer could not be read, by check
    unread: Mapping[str, Collection[bytes]] = field(default_factory=dict)
    # the lookups to ask in stages; None if there are none, or another process opens the stages
    stages: Stages | None = None
    shared: bool = False  # other processes claim lookups too; those they leave are asked here
    staged: bool = False  # another process opens stages, and this one waits for them
    # this process was told to end, and leaves its claimed lookups to others
    leaves: bool = False
    # recent calls in doubt of lookups, by check
    doubts: Mapping[str, Mapping[bytes, Doubts]] = field(init=False)

    def __post_init__(self, transport: Transport | None) -> None:
        self.doubts = self.doubts_now()
        self._open(transport, since=self.freshness.since, table=self)

    def doubts_now(self) -> dict[str, dict[bytes, Doubts]]:
        """Return the recent calls in doubt of lookups, by check."""
        journal, run_id, since = self.run.journal, self.run.run_id, self.freshness.doubts_since
        return {
            check: journal.answers.doubts(check, run_id, since(check))
            for check in self.table.checks
        }

    def tasks(
        self, taken: Sequence[tuple[ClaimedLookup, Reservation]]
    ) -> list[tuple[LookupTask, Reservation]]:
        """Return the tasks of claimed lookups, with their identities decrypted."""
        none, found = Doubts(), []
        for claimed, grant in taken:
            identity, together_with, row = self.run.journal.lookups.identities(claimed)
            doubts = self.doubts.get(claimed.check, {}).get(claimed.subject, none)
            unread = self.unread.get(claimed.check, ())
            lookup = Lookup(claimed.check, IdentityKind(claimed.kind), identity, together_with)
            task = LookupTask(
                check=claimed.check,
                request=partial(lookup_request, lookup),
                kind=claimed.kind,
                subject=claimed.subject,
                worst_micro=claimed.worst_micro,
                asked=identity,
                consent_reference=claimed.consent_reference,
                consent_ends_at=claimed.consent_ends_at,
                lookup_id=claimed.lookup_id,
                row=row,
                attempts=claimed.attempts,
                doubts=doubts.attempts,
                unread=doubts.unread,
                was_unread=claimed.subject in unread or doubts.unread_ever > 0,
            )
            found.append((task, grant))
        return found

    async def ask(self, check: str) -> None:
        """Ask a check's lookups, stage by stage, until none is left or they are stopped."""
        lane = self.lanes[check]
        await lane.ask()
        run = self.run
        while check == _SPARING and self.stages is not None and run.stops.reason is None:
            if not await asyncio.to_thread(self._open_stage, check, self.stages):
                break
            await lane.ask()
        if run.caps.in_flight:
            await asyncio.to_thread(self._leave_cap, check)

    def _leave_cap(self, check: str) -> None:
        """Leave this check's cap of calls in flight to the other processes."""
        caps, lanes = self.run.settings.max_in_flight, self.lanes
        left = {name: caps[name] for name, lane in lanes.items() if lane.is_asking}
        left.pop(check, None)
        self.run.journal.askers.join(self.run.run_id, left)

    def _open_stage(self, check: str, stages: Stages) -> bool:
        """Queue or spare lookups that waited for others to end; return whether any was queued."""
        run, chains, order = self.run, stages.chains, stages.order
        ended, listed = np.zeros((2, chains.needed), dtype=bool)
        later = np.zeros(chains.needed, dtype=bool)
        for block in run.journal.lookups.in_states(self.table, set(LookupStatus), check):
            numbers = order[[each.lookup_id - self.table.first_id for each in block]]
            states = np.array([each.state for each in block])
            ended[numbers] = ~np.isin(states, [each.value for each in NOT_ENDED])
            later[numbers] = states == LookupStatus.LATER.value
            subjects = [bytes(each.subject) for each in block]
            blocks = run.journal.answers.latest_blocks(check, sorted(subjects))
            answers = {each.subject: each.outcome for answered in blocks for each in answered}
            listed[numbers] = [answers.get(each) == Outcome.LISTED.value for each in subjects]
        states = chains.states(ended, listed & ended)
        place = np.empty(chains.needed, dtype=np.int64)
        place[order] = np.arange(chains.needed)
        for status in (LookupStatus.SPARED, LookupStatus.WAITING):
            moved = self.table.first_id + np.sort(place[later & (states == status.value)])
            run.journal.lookups.set_state(moved.tolist(), status)
            if status is LookupStatus.SPARED:
                run.progress[check].spared += len(moved)
        return bool(len(moved))

    # --- stops that the processes of a run share ---

    async def sync_stops(self) -> None:
        """Save this process's stops, and apply those of the other processes."""
        stops, lookups, run_id = self.run.stops, self.run.journal.lookups, self.run.run_id
        mine: dict[str, str] = dict(stops.checks)
        if stops.reason is not None:
            mine[WHOLE_RUN] = stops.reason
        theirs = await asyncio.to_thread(lookups.stops, run_id)
        for scope in mine.keys() - theirs.keys():
            await asyncio.to_thread(lookups.stop, run_id, scope, mine[scope])
        stops.obey(theirs)

    async def close(self) -> None:
        """Let calls in flight settle, close like a caller, and release lookups that were not asked.

        If the journal is unreachable, other processes release them when this process has ended.
        """
        await super().close()
        with suppress(JournalError):
            await asyncio.to_thread(self.run.journal.lookups.release_claims, self.table)


# --- opening ---


async def ask_opening_lookup(asking: Asking) -> None:
    """Ask one lookup alone, so that the opening balance is exact and the service is known to work.

    Then one lookup is reserved for the end, with the money for it: the last one that the money
    reaches, of a check whose answers always have a balance.

    Raises:
        SettingsError: the address answers, but not as the service does.
    """
    run = asking.run
    bearing = [check for check in run.operations if CHECKS[check].bears_balance]
    for check in (*bearing, *(each for each in run.operations if each not in bearing)):
        if await _opens(asking, check):
            break
    run.refuse_wrong_address()
    if run.stops.reason is None:
        bearing = [check for check in bearing if check not in run.stops.checks]
        reached = await asyncio.to_thread(_reached, asking, bearing)
        last = None if reached is None else reached[1]
        await asyncio.to_thread(run.journal.lookups.set_closing_lookup, asking.table, last)


async def _opens(asking: Asking, check: str) -> bool:
    """Return whether a lookup of the check gave the balance, or asking must stop.

    If the first is refused, another is asked alone: one refusal may be about its customer only.
    """
    run, stops = asking.run, asking.run.stops
    for _ in range(FEW):
        if stops.reason is not None:
            return True
        answered = _answered(asking, check)
        reached = await asyncio.to_thread(_reached, asking, [check])
        if reached is None:
            break
        await asking.lanes[check].ask(only=reached[0])
        if _answered(asking, check) > answered:
            return True
        if stops.answered == 0 and _is_service_missing(run):
            stops.stop(StopReason.OUTAGE)
        if check in stops.checks or not stops.evidence(check).is_open:
            break
    return stops.reason is not None


def _answered(asking: Asking, check: str) -> int:
    progress = asking.run.progress[check]
    return sum(getattr(progress, status.name.lower()) for status in _ANSWERED)


def _is_service_missing(run: Run) -> bool:
    """Return whether nothing listens at the address, or none of its responses can be read.

    One unreadable response says nothing about the service: several lookups must agree.
    """
    troubles = {trouble for _, trouble in run.stops.errors}
    if troubles == {FailureReason.NOT_SENT.value}:
        return True
    silent = {FailureReason.NOT_SENT.value, *UNREAD_TROUBLES}
    return bool(troubles) and troubles <= silent and bool(run.stops.unread_outages())


def _reached(asking: Asking, checks: Collection[str]) -> tuple[int, int] | None:
    """Return the first and the last lookup of some checks that caps and wallet allow."""
    run = asking.run
    known = (run.journal.money.left(run.run_id, run.caps), run.wallet.left())
    money = min((each for each in known if each is not None), default=None)
    return run.journal.lookups.reached(asking.table, checks, money)


# --- closing ---


async def ask_closing_lookups(asking: Asking) -> None:
    """Ask the lookup reserved for the end after all others, for an exact closing balance.

    If money ran short and this call cost less than was reserved for it, the next affordable lookups
    are asked too, one at a time.
    """
    run, lookups, stops = asking.run, asking.run.journal.lookups, asking.run.stops
    await asking.drain()
    while stops.reason is None:
        found = await asyncio.to_thread(_next_alone, asking)
        if found is None:
            if await asyncio.to_thread(lookups.next_affordable, asking.table, stops.checks, None):
                stops.stop(StopReason.BUDGET)
            break
        check, number = found
        await asking.lanes[check].ask(only=number)
        await asking.drain()
        await asyncio.to_thread(lookups.set_closing_lookup, asking.table, None)
        if asking.lanes[check].short:
            stops.stop(StopReason.BUDGET)
    stops.conclude()
    run.refuse_wrong_address()


def _next_alone(asking: Asking) -> tuple[str, int] | None:
    """Return check and number of the next lookup to ask alone: the reserved one, or the next."""
    run, stopped = asking.run, asking.run.stops.checks
    lookups = run.journal.lookups
    table = lookups.find(run.run_id)
    if table is not None and table.closer_id is not None and table.closer_check not in stopped:
        return table.closer_check, table.closer_id
    left_micro = run.journal.money.left(run.run_id, run.caps)
    return lookups.next_affordable(asking.table, stopped, left_micro)


# --- after a stop that may pass ---


def requeue_lost(asking: Asking) -> bool:
    """Queue lost and failed lookups to be asked again, if they may be sent again.

    Those that may not no longer count as failures: the outage caused them.

    Returns:
        Whether any lookup is left to ask.
    """
    run, table, lookups = asking.run, asking.table, asking.run.journal.lookups
    doubts, nothing, again = asking.doubts_now(), Doubts(), []
    for block in lookups.in_states(table, _LOST):
        for each in block:
            status = LookupStatus(each.state)
            run.progress[each.check].take_back([status])
            sent = doubts[each.check].get(bytes(each.subject), nothing)
            used_up = is_closed(sent.attempts, sent.unread, run.settings.attempts)
            if status is LookupStatus.FAILED or not used_up:
                again.append(each.lookup_id)
    lookups.set_state(again, LookupStatus.WAITING)
    lookups.release_claims(table)
    waiting = {status for _, status in lookups.counts(table)}
    return bool(waiting & NOT_ENDED)
