"""Money that a person explains: costs by the service's invoice, and money that left the wallet.

A call whose cost was not believed or is unknown is settled by the invoice: a person enters the
cost, and all values are stored. If the desk has users, a cost below the reserved one counts only
after a second person has confirmed it.

Money may leave the wallet, or be added, while no run is under way. The missing amount is the
closing balance of one run, less the opening balance of the next, less every known call in between.
It is not computed if another run was under way at either end, since the exact time of a charge is
unknown.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import BigInteger, and_, case, func, insert, or_, select, update

from nightscreen.journal.actor import SETTLE
from nightscreen.journal.money import (
    OF_CALL,
    Changes,
    DisputeState,
    enter_changes,
    keeps_reservation,
    recount,
    restore_excluded_cost,
)
from nightscreen.journal.records import Records
from nightscreen.journal.runs import RUNNING
from nightscreen.journal.schema import UNSETTLED, calls, disputes, runs
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.money import MOST_COST_MICRO, naira_text, naira_words, to_micro
from nightscreen.schemas.wallet import OPEN, WalletGap

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from nightscreen.journal import Journal
    from nightscreen.journal.actor import Actor
    from nightscreen.journal.runs import RunRecord
    from nightscreen.journal.storage import Storage

_LOOKED_AT = 50  # earlier runs that are searched for a closing balance; most runs have one
LONGEST_REASON = 500  # a choice: characters, some sentences; the desk's field takes as many
# the highest number in the database: a higher one that is typed would be an error there
_HIGHEST_ID = 2**63 - 1


class DisputedCall(NamedTuple):
    """A call whose cost was not believed or is unknown, and its dispute.

    Attributes:
        at: when it was sent.
        state: the state of its cost, a `DisputeState`.
        named_micro: the cost in the answer, or None.
        counted_micro: the cost that counts; None if it is unknown, and the reservation counts.
        before_micro: the cost that counted before the invoice's.
        confirmed_by: the second person, or None.
        settled_at: since when the invoice's cost counts; None while it waits for a second person.
    """

    call_id: int
    run_id: str
    check: str
    at: int
    state: str
    named_micro: int | None
    counted_micro: int | None
    reserved_micro: int
    before_micro: int | None
    invoice_micro: int | None
    entered_by: str | None
    confirmed_by: str | None
    settled_at: int | None

    @property
    def waits(self) -> bool:
        """Return whether the invoice's cost waits for a second person."""
        return self.invoice_micro is not None and self.settled_at is None

    def document(self) -> dict[str, Any]:
        """Return it as a JSON document; money is decimal text in naira, instants are UTC."""
        return {
            "call_id": self.call_id,
            "check": self.check,
            "at": instant_text(self.at),
            "state": self.state,
            "named": naira_text(self.named_micro),
            "counted": naira_text(self.counted_micro),
            "before": naira_text(self.before_micro),
            "invoice": naira_text(self.invoice_micro),
        }


def disputed_calls(journal: Storage, run_id: str = "", *, limit: int = 0) -> list[DisputedCall]:
    """Return the calls whose cost was not believed, or was settled by invoice, newest first."""
    query = _DISPUTED.order_by(calls.c.call_id.desc())
    if run_id:
        query = query.where(calls.c.run_id == run_id)
    return [DisputedCall(*row) for row in journal.database.fetch(query.limit(limit or None))]


def settle_call(journal: Journal, actor: Actor, call_id: int, cost_micro: int) -> DisputedCall:
    """Record a call's cost by the service's invoice; the cost that counted before is stored too.

    A cost below the reserved one, if entered at the desk, counts after a second person has
    confirmed it. Calls of dead processes are first put in doubt; a call under way is refused.

    Raises:
        NotAllowedError: the actor may not settle costs.
        InputError: the call's cost is neither disputed nor unknown, or the amount is impossible.
    """
    actor.require(journal, SETTLE)
    journal.calls.recover()
    with journal.database.writing() as connection:
        row = _settleable(connection, call_id, cost_micro)
        waits = actor.rights is not None and cost_micro < int(row.reserved_micro)
        entered: dict[str, Any] = {
            "before_micro": row.cost_micro,
            "invoice_micro": cost_micro,
            "entered_by": actor.name,
            "confirmed_by": None,
            "invoice_at": None,
        }
        if row.dispute is None:
            unknown = {"dispute": DisputeState.UNKNOWN.value, "excess_micro": 0}
            made = {"call_id": call_id, **unknown, "found_at": journal.clock(), **entered}
            connection.execute(insert(disputes), made)
        else:
            of_call = disputes.c.call_id == call_id
            connection.execute(update(disputes).where(of_call).values(**entered))
        if not waits:
            _apply(connection, journal, call_id)
        done = _find(connection, call_id)
    word = "cost entered" if waits else "cost settled"
    actor.note(journal, word, run_id=done.run_id, **done.document())
    return done


def confirm_invoice(journal: Journal, actor: Actor, call_id: int, seen: str) -> DisputedCall:
    """Confirm, as a second person, a cost that was entered; it counts from then on.

    `seen` is the cost that the person saw, as in `DisputedCall.document`.

    Raises:
        NotAllowedError: the actor may not settle costs, or entered the cost.
        InputError: that cost does not wait for confirmation.
    """
    actor.require(journal, SETTLE)
    with journal.database.writing() as connection:
        found = _find(connection, call_id)
        if not found.waits or naira_text(found.invoice_micro) != seen:
            raise InputError(f"no such cost of call {call_id} waits for a second person")
        actor.require_other(
            [found.entered_by or ""],
            f"You entered the cost of call {call_id} yourself; somebody else confirms it.",
        )
        confirmed = update(disputes).where(disputes.c.call_id == call_id)
        connection.execute(confirmed.values(confirmed_by=actor.name))
        _apply(connection, journal, call_id)
        done = _find(connection, call_id)
    actor.note(journal, "cost settled", run_id=done.run_id, **done.document())
    return done


def _apply(connection: Connection, journal: Storage, call_id: int) -> None:
    """Make the invoice's cost the one that counts."""
    query = OF_CALL.where(calls.c.call_id == call_id)
    row = connection.execute(query.with_for_update()).one()
    changes = Changes()
    recount(connection, row, row.invoice_micro, changes)
    restore_excluded_cost(row, changes)
    done = {
        "dispute": DisputeState.SETTLED.value,
        "excess_micro": 0,
        "before_micro": row.cost_micro,
        "invoice_at": journal.clock(),
    }
    connection.execute(update(disputes).where(disputes.c.call_id == call_id).values(**done))
    enter_changes(connection, changes)


def _settleable(connection: Connection, call_id: int, cost_micro: int) -> Row[Any]:
    """Return a call whose cost may be settled, with its dispute if it has one.

    Raises:
        InputError: there is no such call, its cost is known and believed, it is under way, or the
            amount is impossible.
    """
    if not 0 <= cost_micro <= MOST_COST_MICRO:
        raise InputError(f"a call costs between ₦0 and {naira_words(MOST_COST_MICRO)}")
    joined = calls.outerjoin(disputes, disputes.c.call_id == calls.c.call_id)
    query = select(*calls.c, disputes.c.dispute).select_from(joined)
    known = 0 < call_id <= _HIGHEST_ID
    row = connection.execute(query.where(calls.c.call_id == call_id)).first() if known else None
    if row is None:
        raise InputError(
            f"there is no call {call_id}; its number is in the report, in calls.parquet, and in: "
            "nightscreen journal in-doubt"
        )
    if row.state == CallState.INTENT:
        raise InputError(f"call {call_id} is under way: settle it once its run has ended")
    if row.dispute is None and not keeps_reservation(row.state, row.cost_micro):
        raise InputError(
            f"the cost of call {call_id} is known and believed, "
            f"{naira_words(row.cost_micro or 0)}: there is nothing to settle"
        )
    return row


def _find(connection: Connection, call_id: int) -> DisputedCall:
    query = _DISPUTED.where(calls.c.call_id == call_id)
    row = connection.execute(query).first() if 0 < call_id <= _HIGHEST_ID else None
    if row is None:
        raise InputError(f"no cost of call {call_id} waits for a second person")
    return DisputedCall(*row)


_DISPUTED = OF_CALL.with_only_columns(
    *(calls.c[name] for name in ("call_id", "run_id", "check")),
    func.coalesce(calls.c.sent_at, calls.c.intent_at),
    *(disputes.c.dispute, disputes.c.named_micro, calls.c.cost_micro, calls.c.reserved_micro),
    *(disputes.c[name] for name in ("before_micro", "invoice_micro", "entered_by")),
    *(disputes.c.confirmed_by, disputes.c.invoice_at),
)
"""Selects the fields of `DisputedCall`."""


# --- the wallet between two runs ---


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
