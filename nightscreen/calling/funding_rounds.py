"""Funding rounds: the lookups of a run that are paid for, between an opening and a closing call.

A round is what one process asks: the next lookups in rank. What settles below its reservation pays
for more of it at once (`funding`), and another round follows only where a cap or a wallet moved
meanwhile. Several workers get offers instead: whatever the money pays for by now and nobody has.
The calls themselves are made by `call_session`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nightscreen.calling.call_session import open_call_session
from nightscreen.calling.control import WITNESSES_LATER, StopReason
from nightscreen.calling.funding import Funding
from nightscreen.calling.lookup_task import LookupTask
from nightscreen.calling.shards import LEAST_ROWS, ShardLayout, chains_of
from nightscreen.checks.registry import CHECKS
from nightscreen.client.response_rules import FailureReason
from nightscreen.journal.unreadable import Doubts
from nightscreen.planning.lookup_table import check_number, check_of
from nightscreen.planning.price import fund
from nightscreen.planning.short_circuit import ShortCircuit, Spares
from nightscreen.runs.run import money_left
from nightscreen.runs.screening_run import closed_lookups, count_doubts
from nightscreen.schemas.calls import UNREAD_TROUBLES
from nightscreen.schemas.checks import IdentityKind, Lookup, Outcome
from nightscreen.schemas.plan import LookupStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from nightscreen.calling.call_session import CallSession
    from nightscreen.client.transport import Transport
    from nightscreen.runs.screening_run import ScreeningRun
    from nightscreen.schemas.calls import Caps


AHEAD = 20_000
"""Lookups laid out beyond what the money pays for at their worst cost: misses may be free."""

_NONE = np.zeros(0, np.int64)


@dataclass(slots=True)
class FundingRounds:
    """What a screening run has open while it asks.

    Attributes:
        layout: where shards lie.
        session: makes the calls.
        laid_out: how often shards were laid out, in rounds or offers.
        waiting: lookups that waited when shards were laid out last; -1 before.
        closing: the lookup held back for the closing balance, as a row of the needed lookups.
        short: lookups are left that the money did not reach in rounds.
        attempts: attempts made at each needed lookup in this session.
        offered: needed lookups that other processes have, or may take.
        sparing: what waits for what, where karma stops at the first listing.
        funding: what the money of the round pays for by now.
    """

    run: ScreeningRun
    layout: ShardLayout
    session: CallSession = field(init=False)
    laid_out: int = 0
    waiting: int = -1
    closing: int | None = None
    short: bool = False
    attempts: NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, np.int16))
    offered: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    sparing: Spares | None = None
    funding: Funding = field(default_factory=Funding)

    def note(self, task: LookupTask) -> None:
        """Write down what became of a lookup, whoever waits for it."""
        outcome = task.outcome
        if task.status is LookupStatus.REUSED:
            outcome = self._outcome_elsewhere(task)
            if outcome is Outcome.UNREADABLE:
                task.status = LookupStatus.UNREADABLE
        self.run.status[task.index] = task.status.value
        self.attempts[task.index] = task.attempts
        if task.doubts and isinstance(task.lookup, Lookup):
            of_check = self.run.doubts.setdefault(task.lookup.check, {})
            of_check[task.subject] = Doubts(task.doubts, task.unread, int(task.was_unread))
        self.funding.end(task.index)
        if self.sparing is not None and task.status is not LookupStatus.WAITING:
            listed = outcome is Outcome.LISTED
            self.run.listed[task.index] = listed
            self.sparing.end(task.index, listed=listed)

    def _outcome_elsewhere(self, task: LookupTask) -> Outcome | None:
        """Return what another run was answered meanwhile."""
        check = task.lookup.check
        found = self.run.journal.answers.latest(check, [task.subject], bodies=False)
        answer = found.get(task.subject)
        return None if answer is None else Outcome(answer.outcome)

    async def close(self) -> None:
        """Let everything in flight settle, and close the session."""
        await self.session.close()


def open_rounds(
    run: ScreeningRun,
    *,
    transport: Transport | None = None,
    layout: ShardLayout | None = None,
    sparing: Spares | None = None,
) -> FundingRounds:
    """Open the calls of a screening run.

    Args:
        run: the run.
        transport: carries calls in place of sockets.
        layout: where shards lie; None is the run's own workspace.
        sparing: what waits for what; None is what the run's chains say.
    """
    layout = layout or ShardLayout(run.workspace, run.settings.shard_rows)
    attempts, offered = np.zeros(len(run.status), np.int16), np.zeros(len(run.status), bool)
    rounds = FundingRounds(run, layout, attempts=attempts, offered=offered, sparing=sparing)
    if run.chains is not None:
        ended = run.status != LookupStatus.WAITING.value
        rounds.sparing = ShortCircuit(run.chains, ended=ended, listed=run.listed)
    reused = () if run.plan is None else run.plan.checks.values()
    run.control.proved_before = any(each.reused for each in reused)
    count_doubts(run)
    rounds.session = open_call_session(
        run,
        transport=transport,
        since=run.freshness.since,
        note=rounds.note,
        sparing=rounds.sparing,
        funding=rounds.funding,
    )
    rounds.session.concludes = False  # `take_closing_balance` does, in the run's own process
    return rounds


def make_tasks(
    rounds: FundingRounds, table: pa.Table, indexes: NDArray[np.int64]
) -> list[LookupTask]:
    """Return one task for each lookup of a table in the shape of `schemas.plan.NEEDED`."""
    run = rounds.run
    check = table["check"][0].as_py()
    doubts, unread = run.doubts.get(check, {}), run.unread.get(check, ())
    rows, nothing = table.to_pylist(), Doubts()
    of_rows = [doubts.get(row["subject"], nothing) for row in rows]
    return [
        LookupTask(
            lookup=Lookup(
                row["check"], IdentityKind(row["kind"]), row["identity"], row["together_with"]
            ),
            subject=row["subject"],
            worst_micro=int(run.worst[index]),
            consent_reference=row["consent_reference"],
            consent_ends_at=row["consent_ends_at"],
            index=int(index),
            row=row["row"],
            attempts=int(rounds.attempts[index]),
            doubts=sent.attempts,
            unread=sent.unread,
            was_unread=row["subject"] in unread or sent.unread_ever > 0,
        )
        for index, row, sent in zip(indexes, rows, of_rows, strict=True)
    ]


async def ask_indexes(rounds: FundingRounds, table: pa.Table, indexes: NDArray[np.int64]) -> None:
    """Ask lookups of one check, but for those that came to an end before; each end is noted."""
    open_ = rounds.run.status[indexes] == LookupStatus.WAITING.value
    if not open_.any():
        return
    tasks = make_tasks(rounds, table.filter(pa.array(open_)), indexes[open_])
    await rounds.session.windows[table["check"][0].as_py()].ask(tasks)


async def _ask_one(rounds: FundingRounds, index: int) -> None:
    one = np.array([index], dtype=np.int64)
    await ask_indexes(rounds, rounds.run.needed.one(index), one)


# --- opening ---


async def take_opening_balance(rounds: FundingRounds) -> None:
    """Ask one lookup alone, so that the opening balance is exact and the service is known.

    Raises:
        ServiceAddressError: the address answers, but not as the service does.
    """
    run = rounds.run
    for check, candidates in _openers(run):
        if await _opens(rounds, check, candidates):
            break
    run.refuse_wrong_address()


async def _opens(rounds: FundingRounds, check: str, candidates: NDArray[np.int64]) -> bool:
    """Return whether one of a check's lookups gave the balance, or nothing may be asked any more.

    Where the first is refused, another is asked alone: one row tells nothing of the service.
    """
    run, control = rounds.run, rounds.run.control
    for index in candidates[:WITNESSES_LATER]:
        if control.stop is not None:
            return True
        await _ask_one(rounds, int(index))
        if run.status[index] in {LookupStatus.PAID, LookupStatus.FREE, LookupStatus.UNREADABLE}:
            return True
        if control.answered == 0 and _no_sign_of_the_service(run):
            control.stop_run(StopReason.OUTAGE)
        if check in control.stopped_checks or not control.evidence(check).is_open:
            break
    return control.stop is not None


def _no_sign_of_the_service(run: ScreeningRun) -> bool:
    """Return whether nothing listens at the address, or nothing that it says can be read.

    One lookup tells nothing of the service where its response cannot be read: several must agree.
    """
    troubles = {trouble for _, trouble in run.control.troubles}
    if troubles == {FailureReason.NOT_SENT.value}:
        return True
    silent = {FailureReason.NOT_SENT.value, *UNREAD_TROUBLES}
    return bool(troubles) and troubles <= silent and bool(run.control.unread_outages())


def _openers(run: ScreeningRun) -> list[tuple[str, NDArray[np.int64]]]:
    """Return funded lookups that can give the opening balance, the surest checks first."""
    funded = fund(_waiting(run), run.worst, money_left(run))
    by_check = {
        check: funded[run.ranked.check[funded] == check_number(check)]
        for check in run.wanted.checks
    }
    sure = [check for check in CHECKS if CHECKS[check].bears_balance and check in by_check]
    rest = [check for check in by_check if not CHECKS[check].bears_balance]
    return [(check, by_check[check]) for check in (*sure, *rest) if len(by_check[check])]


# --- rounds ---


def _waiting(run: ScreeningRun) -> NDArray[np.int64]:
    """Return the lookups that wait, in rank, without those of checks that stopped."""
    here = run.status[run.order] == LookupStatus.WAITING.value
    waiting: NDArray[np.int64] = run.order[here].astype(np.int64)
    stopped = [check_number(check) for check in run.control.stopped_checks]
    if not stopped:
        return waiting
    return waiting.compress(~np.isin(run.ranked.check[waiting], stopped))


def _follow_prices(run: ScreeningRun) -> None:
    """Take the highest price seen in this run for the least that a lookup may cost at worst."""
    for check, highest in run.control.highest_micro.items():
        mine = run.ranked.is_of(check)
        run.worst[mine] = np.maximum(run.worst[mine], highest)


def next_round(rounds: FundingRounds) -> dict[str, list[str]]:
    """Lay out the next lookups in rank as shards for this process.

    Returns:
        Names of the shards of each check; empty where nothing more is needed or can be funded.
    """
    run = rounds.run
    rounds.funding.begin(_NONE, _NONE, None)
    if run.control.stop is not None:
        return {}
    waiting, funded, room_micro = _fund_next(rounds)
    stuck = len(waiting) == rounds.waiting
    rounds.waiting = len(waiting)
    if stuck or not len(funded):
        rounds.short = len(waiting) > 0
        return {}
    ahead = waiting[: len(funded) + AHEAD]
    rounds.funding.begin(ahead, run.worst[ahead], room_micro)
    return _lay_out(rounds, ahead)


def next_offer(rounds: FundingRounds) -> dict[str, list[str]]:
    """Lay out for other processes what the money pays for by now and none of them has.

    Lookups that may spare each other are never with two of them: those whose others are out wait.
    So do too few for a shard; where no more follow, they are left to a round.

    Returns:
        Names of the shards of each check; empty where there is nothing to offer now.
    """
    run, chains = rounds.run, rounds.layout.chains
    if run.control.stop is not None:
        return {}
    waiting, funded, _ = _fund_next(rounds)
    offer = funded[~rounds.offered[funded]]
    if chains is not None:
        family = rounds.layout.family_of(chains)
        offer = offer[~np.isin(family[offer], family[rounds.offered])]
    if len(waiting) == rounds.waiting or len(offer) < LEAST_ROWS:
        return {}
    rounds.waiting = len(waiting)
    rounds.offered[offer] = True
    return _lay_out(rounds, offer)


def affordable(rounds: FundingRounds) -> int:
    """Return how many lookups that wait the money pays for at once."""
    return len(_funded(rounds, _waiting(rounds.run))[0])


def _fund_next(
    rounds: FundingRounds,
) -> tuple[NDArray[np.int64], NDArray[np.int64], int | None]:
    """Return what waits, what of it is paid for, and by how much money; one is held back to close.

    What was offered still waits, and is paid for before what comes after it: at its worst, and once
    more where it is under way. The journal could tell, at a query more; what is too little for a
    moment is made up as soon as something settles.
    """
    run = rounds.run
    run.control.renew_quotas(run.clock())
    _follow_prices(run)
    waiting = _waiting(run)
    rounds.closing = _still_closing(rounds, waiting)
    waiting = waiting[waiting != rounds.closing] if rounds.closing is not None else waiting
    funded, room_micro = _funded(rounds, waiting)
    if rounds.closing is None and len(funded):
        rounds.closing = _closer(run, funded[~rounds.offered[funded]])
        if rounds.closing is not None:
            funded, waiting = funded[funded != rounds.closing], waiting[waiting != rounds.closing]
            room_micro = None if room_micro is None else room_micro - int(run.worst[rounds.closing])
    rounds.session.writer.caps = _keeping_back(rounds)
    return waiting, funded, room_micro


def _still_closing(rounds: FundingRounds, waiting: NDArray[np.int64]) -> int | None:
    """Return the lookup held back, unless its check has stopped meanwhile."""
    closing = rounds.closing
    return closing if closing is not None and closing in waiting else None


def _funded(
    rounds: FundingRounds, waiting: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int | None]:
    """Return the next lookups that caps and wallet pay for, and that money; None where none binds.

    A wallet that seems too low does not end a run: the service knows better and says so (402).
    """
    run = rounds.run
    kept_back = 0 if rounds.closing is None else int(run.worst[rounds.closing])
    money = money_left(run)
    room = None if money is None else max(0, money - kept_back)
    capped = fund(waiting, run.worst, room)
    least = run.control.wallet.least_micro
    if least is None:
        return capped, room
    floor = run.control.balance_floor_micro or 0
    left = max(0, least - floor - kept_back)
    within = fund(capped, run.worst, left)
    return (within, left if room is None else min(left, room)) if len(within) else (capped, room)


def _keeping_back(rounds: FundingRounds) -> Caps:
    """Return the caps less what the closing call may cost, so that no resend takes its money."""
    run = rounds.run
    if rounds.closing is None:
        return run.caps
    kept = int(run.worst[rounds.closing])
    names = ("run_micro", "day_micro", "month_micro")
    limits = {name: getattr(run.caps, name) for name in names}
    lower = {name: max(0, cap - kept) for name, cap in limits.items() if cap is not None}
    return replace(run.caps, **lower)


def _closer(run: ScreeningRun, funded: NDArray[np.int64]) -> int | None:
    """Choose the last funded lookup that is sure to bear a balance, for the closing one."""
    sure = [check_number(check) for check in CHECKS if CHECKS[check].bears_balance]
    bearing = funded[np.isin(run.ranked.check[funded], sure)]
    return int(bearing[-1]) if len(bearing) else None


def _lay_out(rounds: FundingRounds, lookups: NDArray[np.int64]) -> dict[str, list[str]]:
    run, layout = rounds.run, rounds.layout
    rounds.laid_out += 1
    shards: dict[str, list[str]] = {}
    names: list[str] = []
    cut: list[NDArray[np.int64]] = []
    checks = run.ranked.check[lookups]
    for check in run.wanted.checks:
        mine = lookups[checks == check_number(check)]
        for number, places in enumerate(layout.cut(mine)):
            name = f"lookups-{check}-{rounds.laid_out:03d}-{number:05d}"
            names.append(name)
            cut.append(mine[places])
            shards.setdefault(check, []).append(name)
    for name, indexes, table in zip(names, cut, run.needed.shards(cut), strict=True):
        shard = table.append_column("index", pa.array(indexes))
        if layout.is_shared:
            shard = shard.append_column("worst", pa.array(run.worst[indexes]))
            if layout.chains is not None and name in shards.get("karma", ()):
                ended = run.status != LookupStatus.WAITING.value
                waits = chains_of(layout.chains, indexes, ended, run.listed)
                layout.space.put(f"chains-{name}", waits)
        layout.space.put(name, shard)
    return shards


async def ask_shard(rounds: FundingRounds, name: str) -> Mapping[str, int]:
    """Ask one shard's lookups; return how many came to which end."""
    table = rounds.layout.space.get(name)
    indexes = table["index"].to_numpy()
    await ask_indexes(rounds, table, indexes)
    ends, counts = np.unique(rounds.run.status[indexes], return_counts=True)
    return {
        LookupStatus(int(end)).name.lower(): int(number)
        for end, number in zip(ends, counts, strict=True)
    }


# --- closing ---


async def take_closing_balance(rounds: FundingRounds) -> None:
    """Ask the lookup that was held back, once all else has settled, for an exact closing.

    Where money ran short and this call cost less than was held back for it, the next in rank that
    can be paid for is asked as well, one at a time, until nothing fits.
    """
    run = rounds.run
    rounds.session.writer.caps = run.caps
    last = rounds.closing
    while run.control.stop is None and (last is not None or rounds.short):
        if last is None or not _is_affordable(run, last):
            rounds.short, last = True, _next_affordable(run)
        if last is None:
            run.control.stop_run(StopReason.BUDGET)
            break
        for window in rounds.session.windows.values():
            await window.drain()
        await _ask_one(rounds, last)
        stopped = check_of(run.ranked.check[last]) in run.control.stopped_checks
        if run.status[last] == LookupStatus.WAITING.value and not stopped:
            run.control.stop_run(StopReason.BUDGET)
        rounds.closing = last = None
    run.control.conclude()
    run.refuse_wrong_address()


def _is_affordable(run: ScreeningRun, lookup: int) -> bool:
    """Return whether there is money for a lookup at the price it has by now."""
    _follow_prices(run)
    money = money_left(run)
    return money is None or int(run.worst[lookup]) <= money


def _next_affordable(run: ScreeningRun) -> int | None:
    """Return the first lookup in rank that the money pays for, None where there is none."""
    _follow_prices(run)
    waiting = _waiting(run)
    money = money_left(run)
    if money is not None:
        waiting = waiting[run.worst[waiting] <= money]
    return int(waiting[0]) if len(waiting) else None


# --- after a stop that may pass ---


def ask_again(run: ScreeningRun) -> bool:
    """Let what was lost or failed wait to be asked again, as far as it may be sent again.

    What may not is not weighed either: what was lost in an outage is the outage's doing.

    Returns:
        Whether anything is left to ask.
    """
    lost = np.isin(run.status, (LookupStatus.FAILED.value, LookupStatus.IN_DOUBT.value))
    for check, progress in run.control.progress.items():
        mine = run.status[lost & run.ranked.is_of(check)]
        progress.take_back(LookupStatus(int(each)) for each in mine)
    lost[_left_alone(run)] = False
    run.status[lost] = LookupStatus.WAITING.value
    return bool((run.status == LookupStatus.WAITING.value).any())


def _left_alone(run: ScreeningRun) -> NDArray[np.int64]:
    """Return the lookups in doubt that were sent as often as they may be within their age."""
    count_doubts(run)
    closed = {check: closed_lookups(run, check) for check in run.wanted.checks}
    found: list[int] = []
    in_doubt = run.status == LookupStatus.IN_DOUBT.value
    for start, piece in run.needed.pieces() if in_doubt.any() else ():
        places = np.flatnonzero(in_doubt[start : start + piece.num_rows])
        rows = piece.select(["check", "subject"]).take(pa.array(places)).to_pylist()
        found += [
            start + int(place)
            for place, row in zip(places, rows, strict=True)
            if row["subject"] in closed[row["check"]]
        ]
    return np.array(found, np.int64)
