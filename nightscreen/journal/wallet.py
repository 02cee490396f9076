"""The wallet between two runs: money that left it, or was added, while no run was under way.

It is the closing balance of one run, less the opening balance of the next, less every known call in
between. It is not computed if another run was under way at either end, since the exact time of a
charge is unknown.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import BigInteger, and_, case, func, or_, select

from nightscreen.journal.actor import SETTLE
from nightscreen.journal.records import Records
from nightscreen.journal.runs import RUNNING
from nightscreen.journal.schema import UNSETTLED, calls, runs
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.money import naira_text, to_micro
from nightscreen.schemas.wallet import OPEN, WalletGap

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from nightscreen.journal.actor import Actor
    from nightscreen.journal.opening import Journal
    from nightscreen.journal.runs import RunRecord

_LOOKED_AT = 50  # earlier runs that are searched for a closing balance; most runs have one
LONGEST_REASON = 500  # a choice: characters, some sentences; the desk's field takes as many


class OpeningBalance(NamedTuple):
    """A run's balance before its first call, in micro-naira, and whether it is exact."""

    micro: int
    exact: bool


class BetweenRuns(NamedTuple):
    """The wallet's loss between two runs."""

    run_before: str  # the earlier run
    micro: int  # micro-naira that left it unexplained; negative if money was added


def between_runs(
    journal: Journal, run_id: str, balance: OpeningBalance, *, under_way: int
) -> BetweenRuns | None:
    """Return the wallet's loss since the last run that ended before a run started.

    Args:
        journal: the open journal.
        run_id: the run.
        balance: its opening balance.
        under_way: the most calls that a run has under way at once. An inexact balance may be wrong
            by the cost of so many calls; a loss within that margin does not count.

    Returns:
        None if nothing was lost or added, or if it is unknown.
    """
    run = journal.runs.find(run_id)
    before = None if run is None else _run_before(journal, run)
    if run is None or before is None or before.finished_at is None:
        return None
    closing = (before.report or {})["balance"]
    with journal.database.reading() as connection:
        if _others_under_way(connection, before, run):
            return None
        lost = to_micro(Decimal(closing["closing"])) - balance.micro
        spent, doubtful = _known_between(connection, before.run_id, run.run_id)
        margin = 0 if closing["exact"] else _at_an_end(connection, before.run_id, under_way)
        margin += 0 if balance.exact else _at_an_end(connection, run_id, under_way, first=True)
    lost -= spent
    doubtful -= to_micro(Decimal(closing["explained_in_doubt"]))
    if lost > 0:
        lost -= min(lost, max(0, doubtful))
    return BetweenRuns(before.run_id, lost) if abs(lost) > margin else None


def _run_before(journal: Journal, run: RunRecord) -> RunRecord | None:
    """Return the last run that ended before a run started and has a closing balance."""
    for each in journal.runs.ended_before(run.started_at, limit=_LOOKED_AT):
        if ((each.report or {}).get("balance") or {}).get("closing") is not None:
            return each
    return None


def _others_under_way(connection: Connection, before: RunRecord, run: RunRecord) -> bool:
    """Return whether a third run was under way when one ended or the other started."""
    ended, begun = before.finished_at, run.started_at
    last_call = (
        select(func.max(calls.c.intent_at)).where(calls.c.run_id == runs.c.run_id).scalar_subquery()
    )
    # A run that was killed ended with its last call.
    end = func.coalesce(runs.c.finished_at, last_call, runs.c.started_at)
    at_an_edge = or_(
        and_(runs.c.started_at <= ended, end > ended), and_(runs.c.started_at < begun, end > begun)
    )
    third = runs.c.run_id.not_in([before.run_id, run.run_id])
    alive = and_(runs.c.state == RUNNING, runs.c.started_at < begun, runs.c.finished_at.is_(None))
    query = select(runs.c.run_id).where(third, or_(at_an_edge, alive)).limit(1)
    return connection.execute(query).first() is not None


def _known_between(connection: Connection, before: str, run_id: str) -> tuple[int, int]:
    """Return the cost of calls between two runs, and the worst cost of those in doubt.

    Calls in doubt of the earlier run are included: the service may have charged them late.
    """
    ends = select(func.min(calls.c.call_id), func.max(calls.c.call_id))
    _, last = connection.execute(ends.where(calls.c.run_id == before)).one()
    first, _ = connection.execute(ends.where(calls.c.run_id == run_id)).one()
    if last is None or first is None:
        return 0, 0
    between = and_(
        calls.c.call_id.between(last + 1, first - 1), calls.c.run_id.not_in([before, run_id])
    )
    known = func.coalesce(func.sum(calls.c.cost_micro), 0).cast(BigInteger)
    doubt = case((and_(UNSETTLED, calls.c.cost_micro.is_(None)), calls.c.reserved_micro), else_=0)
    worst = func.coalesce(func.sum(doubt), 0).cast(BigInteger)
    spent, doubtful = connection.execute(select(known, worst).where(between)).one()
    (late,) = connection.execute(select(worst).where(calls.c.run_id == before)).one()
    return int(spent), int(doubtful) + int(late)


def _at_an_end(connection: Connection, run_id: str, number: int, *, first: bool = False) -> int:
    """Return the most that a run's first or last calls cost together, in micro-naira."""
    by_time = calls.c.call_id.asc() if first else calls.c.call_id.desc()
    worst = func.coalesce(calls.c.cost_micro, calls.c.reserved_micro).label("worst")
    some = select(worst).where(calls.c.run_id == run_id).order_by(by_time).limit(number).subquery()
    query = select(func.coalesce(func.sum(some.c.worst), 0).cast(BigInteger))
    return int(connection.execute(query).scalar_one())


def keep_gap(journal: Journal, run_id: str, found: BetweenRuns, at: int) -> None:
    """Save missing money, which stays open until a person notes the reason.

    A resumed run keeps a noted reason, unless the amount has changed.
    """
    kept = Records(journal, WalletGap)
    gap = WalletGap(
        key=run_id, run_id=run_id, at=at, run_before=found.run_before, micro=found.micro
    )
    known = kept.find(run_id)
    if known is None:
        kept.add([gap])
    elif (known.run_before, known.micro) != (gap.run_before, gap.micro):
        kept.replace(gap, known, at)


def open_gaps(journal: Journal) -> list[WalletGap]:
    """Return the missing amounts without a reason, oldest first."""
    return Records(journal, WalletGap).all(state=OPEN)


def explain_gap(journal: Journal, actor: Actor, run_id: str, reason: str) -> WalletGap:
    """Note the reason of missing money.

    `run_id` is the run before which it went missing.

    Raises:
        InputError: the reason is blank, none is needed, or another user was faster.
        NotAllowedError: the actor may not.
    """
    actor.require(journal, SETTLE)
    words = " ".join(reason.split())
    if not words:
        raise InputError("Write where the money went.")
    if len(words) > LONGEST_REASON:
        raise InputError(f"Write at most {LONGEST_REASON} characters.")
    kept, at = Records(journal, WalletGap), journal.clock()
    gap = kept.find(run_id)
    noted = None if gap is None or gap.state != OPEN else gap.explained(words, actor.name, at)
    if gap is None or noted is None or not kept.replace(noted, gap, at):
        raise InputError("A reason was noted meanwhile; load the page again.")
    actor.note(journal, "missing money explained", run_id=run_id, naira=naira_text(gap.micro))
    return noted
