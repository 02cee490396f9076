"""BVN consent: how the state of a request follows from what came of its two calls.

The same rule reads a call that has just come back and one whose process died. A call whose answer
was lost is never made again by machine. `requests` decides which customers to ask; `confirmations`
and `links` decide which passwords are sent on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from nightscreen.client.classify import FailureReason
from nightscreen.client.response_parser import parse_answer
from nightscreen.journal.records import Records
from nightscreen.journal.schema import records
from nightscreen.operations.person_run import CallRule, Recorded, RecordRun
from nightscreen.schemas.answers import BvnStarted
from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.schemas.bvn import OPEN_STATES, UNDER_WAY, BvnRequest, BvnState, Doubt
from nightscreen.schemas.checks import Operation, SubjectKind
from nightscreen.schemas.clock import span_micros

if TYPE_CHECKING:
    from collections.abc import Collection

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.config.settings import BvnConsent
    from nightscreen.journal import Journal
    from nightscreen.operations.person_run import CallEnd
    from nightscreen.schemas.requests import Request

P = TypeVar("P", bound=ApiRunParameters)
S = TypeVar("S", bound=Recorded)

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


def requests_of(journal: Journal) -> Records[BvnRequest]:
    """Return the requests that a journal keeps."""
    return Records(journal, BvnRequest)


def requests_to(journal: Journal, customer_id: str) -> list[BvnRequest]:
    """Return every request to a customer, oldest first."""
    customer = journal.pseudonyms.customers_anywhere([customer_id])
    return requests_of(journal).of_customers([customer])


def newest(journal: Journal, customers: Collection[bytes]) -> dict[bytes, BvnRequest]:
    """Return the newest request of each customer that has one."""
    return {each.customer: each for each in requests_of(journal).of_customers(customers)}


def started(request: BvnRequest, end: CallEnd | None) -> BvnRequest | None:
    """Return a request in the state `requested` after its first call; None if nothing was sent."""
    if end is None:
        return None
    contact = _masked_contact(end.body) if end.body else end.contact
    held = replace(request.held, masked_contact=masked(contact))
    if end.is_answered:
        cost_micro = request.cost_micro + (end.cost_micro or 0)
        sent = {"state": BvnState.AWAITING_OTP, "held": held, "cost_micro": cost_micro}
        return request.model_copy(update=sent)
    if end.is_lost:
        return request.model_copy(update={"doubt": Doubt.START, "trouble": end.trouble})
    state = _NOT_SENT.get(end.trouble or "")
    if state is None:
        return None
    ended = {"trouble": end.trouble, "settled_at": end.settled_at}
    return request.model_copy(update={"state": state, "held": held, **ended})


def finished(request: BvnRequest, end: CallEnd | None) -> BvnRequest:
    """Return a request after its second call, free again for another password if it may have one.

    A wrong password is counted; one whose answer was lost may have been used up and charged.
    """
    free = request.model_copy(update={"finishing": None})
    if end is None:
        return free
    answered = free.model_copy(
        update={"finish_run_id": request.finishing, "trouble": end.trouble, "doubt": None}
    )
    ended = {"settled_at": end.settled_at, "attempts": request.attempts + 1}
    if end.is_answered:
        cost_micro = request.cost_micro + (end.cost_micro or 0)
        sure = {"state": BvnState.CONFIRMED, "cost_micro": cost_micro}
        return answered.model_copy(update={**ended, **sure, "attempts": request.attempts})
    if end.is_lost:
        lost = {"doubt": Doubt.FINISH, "attempts": request.attempts + 1}
        return answered.model_copy(update=lost)
    state = _SAID.get(end.trouble or "")
    if state is None:
        return free.model_copy(update={"trouble": end.trouble})
    return answered.model_copy(update={"state": state, **ended})


def masked(contact: str | None) -> str | None:
    """Return a contact as the service masked it, masked by ourselves where it did not."""
    if contact is None or _MASKS & set(contact):
        return contact
    name, at, host = contact.partition("@")
    if at:
        return f"{name[:1]}***@{host}"
    return f"{contact[:_SHOWN_FIRST]}***{contact[-_SHOWN_LAST:]}"


def _masked_contact(body: bytes) -> str | None:
    """Return where the service says it sent the password."""
    answer = parse_answer(Operation.BVN_START, body)
    return answer.masked_contact if isinstance(answer, BvnStarted) else None


def _made_by(request: BvnRequest) -> tuple[str, Operation]:
    if request.finishing:
        return request.finishing, Operation.BVN_FINISH
    return request.run_id, Operation.BVN_START


CALLS = CallRule(
    BvnRequest,
    UNDER_WAY,
    _made_by,
    lambda _, request, end: finished(request, end) if request.finishing else started(request, end),
)


def bring_up_to_date(journal: Journal, settings: BvnConsent, run_id: str = "") -> None:
    """Learn what came of calls whose process died, and give up what has waited too long.

    Args:
        journal: the journal; its clock says how long a request has waited.
        settings: how long a request may wait.
        run_id: the run that is resumed or closed, whose calls are not under way.
    """
    CALLS.learn_dead(journal, run_id)
    kept, now = requests_of(journal), journal.clock()
    waiting = records.c.state.in_([*OPEN_STATES, UNDER_WAY])
    asked_before = records.c.created_at < now - span_micros(settings.abandon_after)
    for each in kept.select(waiting, asked_before):
        if each.finishing is None:
            given_up = {"state": BvnState.ABANDONED, "settled_at": now}
            kept.replace(each.model_copy(update=given_up), each, now)


class BvnRun(RecordRun[P, S]):
    """A run of either stage."""

    kind = SubjectKind.BVN
    rule = CALLS

    def recover(self) -> None:
        """Learn what came of calls whose process died; give up what has waited too long."""
        run = self.run
        bring_up_to_date(run.journal, run.settings.bvn_consent, run.run_id)

    def consented(self, caller: Caller, request: BvnRequest, sent: Request) -> LookupTask:
        """Return a call about a request's BVN, made under its customer's consent."""
        return caller.task(
            sent,
            kind=self.kind,
            subject=request.subject,
            consent_reference=request.consent_reference,
            consent_ends_at=request.consent_ends_at,
        )
