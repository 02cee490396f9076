"""BVN consent: how the state of a request follows from what came of its two calls.

The same rule reads a call that has just come back and one whose process died: the journal of calls
knows both. A call whose answer was lost is never made again by machine. `requesting` decides which
customers to ask; `confirming` and `links` decide which passwords are sent on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nightscreen.calling.lookup_task import CALL_STATES
from nightscreen.client.classify import FailureReason
from nightscreen.client.response_parser import parse_answer
from nightscreen.journal.bvn_consents import BvnConsents, LastCall
from nightscreen.journal.runs import RUNNING
from nightscreen.schemas.answers import BvnStarted
from nightscreen.schemas.bvn import BvnRequest, BvnState, Doubt
from nightscreen.schemas.calls import CallState, LookupStatus
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.clock import span_micros

if TYPE_CHECKING:
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.config.settings import BvnConsent
    from nightscreen.journal import Journal

_LOST = frozenset({CallState.IN_DOUBT.value, CallState.INTENT.value, CallState.UNREADABLE.value})
"""Nobody knows what the call did, though that of an unreadable one is paid for."""
_SAID = {
    FailureReason.OTP_WRONG.value: BvnState.WRONG_OTP,
    FailureReason.OTP_EXPIRED.value: BvnState.EXPIRED,
    FailureReason.OTP_UNASKED.value: BvnState.EXPIRED,
}
_NOT_SENT = {
    FailureReason.UNREACHABLE.value: BvnState.UNREACHABLE,
    FailureReason.WRONG_CONTACT.value: BvnState.WRONG_CONTACT,
}
_MASKS = frozenset("*•xX#")
_SHOWN_FIRST, _SHOWN_LAST = 4, 3


@dataclass(slots=True)
class Transitions:
    """How requests moved from state to state in a run; the words are those of the states.

    Attributes:
        moves: requests by the state before (empty where there was none) and after.
        rows: request, state before and state after.
    """

    moves: Counter[tuple[str, str]] = field(default_factory=Counter)
    rows: list[tuple[BvnRequest, str, str]] = field(default_factory=list)

    def note(self, before: str, after: BvnRequest) -> None:
        """Take note of a request that may have moved."""
        if before != after.state.value:
            self.moves[(before, after.state.value)] += 1
            self.rows.append((after, before, after.state.value))


def call_of(task: LookupTask, now: int) -> LastCall | None:
    """Return how a call that has just come back ended; None if it was never sent."""
    reading = task.reading
    if reading is None or task.status is LookupStatus.LAPSED:
        return None
    trouble = None if reading.trouble is None else reading.trouble.value
    return LastCall(CALL_STATES[reading.verdict].value, trouble, reading.cost_micro, now)


def started(request: BvnRequest, call: LastCall | None, contact: str | None) -> BvnRequest | None:
    """Return a request after its first call; None if nothing was sent to the customer.

    Args:
        request: in the state `requested`.
        call: how its call ended.
        contact: where the service says it sent the password, or which contact it would send it to.
    """
    if call is None:
        return None
    if call.state == CallState.ANSWERED.value:
        held = replace(request.held, masked_contact=masked(contact))
        cost_micro = request.cost_micro + (call.cost_micro or 0)
        sent = {"state": BvnState.AWAITING_OTP, "held": held, "cost_micro": cost_micro}
        return request.model_copy(update=sent)
    if call.state in _LOST:
        return request.model_copy(update={"doubt": Doubt.START, "trouble": call.trouble})
    state = _NOT_SENT.get(call.trouble or "")
    if state is not None:
        return request.model_copy(
            update={
                "state": state,
                "held": replace(request.held, masked_contact=masked(contact)),
                "trouble": call.trouble,
                "settled_at": call.settled_at,
            }
        )
    return None


def finished(request: BvnRequest, call: LastCall | None) -> BvnRequest:
    """Return a request after its second call, free again for another password if it may have one.

    A wrong password is counted; one whose answer was lost may have been used up and charged.
    """
    free = request.model_copy(update={"finishing": None})
    if call is None:
        return free
    answered = free.model_copy(update={"finish_run_id": request.finishing})
    if call.state == CallState.ANSWERED.value:
        return answered.model_copy(
            update={
                "state": BvnState.CONFIRMED,
                "doubt": None,
                "trouble": None,
                "settled_at": call.settled_at,
                "cost_micro": request.cost_micro + (call.cost_micro or 0),
            }
        )
    if call.state in _LOST:
        lost = {"doubt": Doubt.FINISH, "trouble": call.trouble, "attempts": request.attempts + 1}
        return answered.model_copy(update=lost)
    state = _SAID.get(call.trouble or "")
    if state is None:
        return free.model_copy(update={"trouble": call.trouble})
    return answered.model_copy(
        update={
            "state": state,
            "doubt": None,
            "trouble": call.trouble,
            "settled_at": call.settled_at,
            "attempts": request.attempts + 1,
        }
    )


def masked(contact: str | None) -> str | None:
    """Return a contact as the service masked it, masked by ourselves where it did not."""
    if contact is None or _MASKS & set(contact):
        return contact
    name, at, host = contact.partition("@")
    if at:
        return f"{name[:1]}***@{host}"
    return f"{contact[:_SHOWN_FIRST]}***{contact[-_SHOWN_LAST:]}"


def masked_contact_of(body: bytes) -> str | None:
    """Return where the service says it sent the password."""
    answer = parse_answer(Operation.BVN_START, body)
    return answer.masked_contact if isinstance(answer, BvnStarted) else None


def bring_up_to_date(journal: Journal, settings: BvnConsent, *, run_id: str = "") -> Transitions:
    """Learn what came of calls whose process died, and give up what has waited too long.

    Args:
        journal: the journal; its clock says how long a request has waited.
        settings: how long a request may wait.
        run_id: the run that is resumed, whose calls are not under way.
    """
    consents = BvnConsents.of(journal)
    moved = Transitions()
    for request in consents.under_way():
        worker = request.finishing or request.run_id
        if worker != run_id and _is_live(journal, worker):
            continue
        after = _learnt(journal, consents, request, worker)
        if after is None:
            consents.drop(request)
        else:
            consents.put(after)
            moved.note(request.state.value, after)
    now = journal.clock()
    consents.abandon(now - span_micros(settings.abandon_after), now)
    return moved


def _is_live(journal: Journal, run_id: str) -> bool:
    run = journal.runs.find(run_id)
    return run is not None and run.state == RUNNING


def _learnt(
    journal: Journal, consents: BvnConsents, request: BvnRequest, run_id: str
) -> BvnRequest | None:
    """Return a request after the call that its process did not live to see the end of."""
    if request.finishing:
        return finished(request, consents.last_call(request, Operation.BVN_FINISH.value, run_id))
    check = Operation.BVN_START.value
    call = consents.last_call(request, check, run_id)
    stored = journal.answers.latest(check, [request.subject]).get(request.subject)
    contact = None
    if stored is not None and stored.run_id == run_id:
        contact = masked_contact_of(journal.answers.body(check, stored))
    return started(request, call, contact)


def status_of(request: BvnRequest, doubt: Doubt) -> LookupStatus:
    """Return how a call of an earlier session of a run ended."""
    if request.doubt is doubt:
        return LookupStatus.IN_DOUBT
    return LookupStatus.PAID if request.cost_micro else LookupStatus.FREE
