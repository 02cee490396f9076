"""Costs by the service's invoice, for calls whose cost was not believed or is unknown.

A person enters the cost, and all values are stored. If the desk has users, a cost below the
reserved one counts only after a second person has confirmed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import func, insert, select, update

from nightscreen.journal.actor import SETTLE
from nightscreen.journal.disputes import OF_CALL, DisputeState, recount, restore_excluded_cost
from nightscreen.journal.money import Changes, enter_changes, keeps_reservation
from nightscreen.journal.schema import calls, disputes
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.money import MOST_COST_MICRO, naira_text, naira_words

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from nightscreen.journal import Journal
    from nightscreen.journal.actor import Actor
    from nightscreen.journal.storage import Storage

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
