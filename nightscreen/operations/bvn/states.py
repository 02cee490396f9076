"""BVN consent: how two calls change the state of a request, and the output table.

A call whose answer was lost is never repeated automatically. `requests` decides which customers to
ask, `confirmations` which passwords to send. The output shows a BVN record only if the customer's
consent is valid at this moment. It compares the record with the lender's data and quotes what was
compared. A record may be incomplete (specification, BVN details): a missing field counts against
nobody.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nightscreen.client.response_parser import parse_answer
from nightscreen.client.response_rules import FailureReason
from nightscreen.journal.records import Records
from nightscreen.journal.schema import records
from nightscreen.operations.person_run import OutputTable, P, RecordRun, S
from nightscreen.schemas.answers import BvnAccount, BvnDetails, BvnStarted
from nightscreen.schemas.bvn import (
    OPEN_STATES,
    UNDER_WAY,
    BvnRequest,
    BvnState,
    Doubt,
    HeldCustomer,
)
from nightscreen.schemas.checks import NoAnswer, Operation, SubjectKind
from nightscreen.schemas.clock import span_micros
from nightscreen.schemas.columns import NAME_FIELDS
from nightscreen.schemas.enriched import COST, WORD
from nightscreen.schemas.money import from_micro
from nightscreen.schemas.rows import INSTANT
from nightscreen.values.names import CONTRADICTS, match_names
from nightscreen.values.phones import NATIONAL_DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.run import Run
    from nightscreen.config.settings import BvnConsent
    from nightscreen.journal import Journal
    from nightscreen.operations.person_run import CallEnd
    from nightscreen.schemas.requests import Request

_STATE_OF_TROUBLE = {
    FailureReason.OTP_WRONG.value: BvnState.WRONG_OTP,
    FailureReason.OTP_EXPIRED.value: BvnState.EXPIRED,
    FailureReason.OTP_UNASKED.value: BvnState.EXPIRED,
}
_NOT_SENT = {
    FailureReason.UNREACHABLE.value: BvnState.UNREACHABLE,
    FailureReason.WRONG_CONTACT.value: BvnState.WRONG_CONTACT,
}
_MASKS = frozenset("*•xX#")
_SHOWN_FIRST, _SHOWN_LAST = 4, 3  # characters of a phone number: `+234` and the last three digits


def requests_of(journal: Journal) -> Records[BvnRequest]:
    """Return the requests of a journal."""
    return Records(journal, BvnRequest)


def requests_to(journal: Journal, customer_id: str) -> list[BvnRequest]:
    """Return every request to a customer, oldest first."""
    customer = journal.pseudonyms.customers_anywhere([customer_id])
    return requests_of(journal).of_customers([customer])


def after_start(request: BvnRequest, end: CallEnd | None) -> BvnRequest | None:
    """Return a request in the state `requested` after its first call; None if nothing was sent."""
    if end is None:
        return None
    contact = end.contact
    if end.body:  # it has the contact to which the password was sent
        answer = parse_answer(Operation.BVN_START, end.body)
        contact = answer.masked_contact if isinstance(answer, BvnStarted) else None
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


def after_finish(request: BvnRequest, end: CallEnd | None) -> BvnRequest:
    """Return a request after its second call.

    Another password may be sent if this one was wrong, which is counted, or was not sent. A call
    whose answer was lost may have used the password up and been charged.
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
        confirmed = {"state": BvnState.CONFIRMED, "cost_micro": cost_micro}
        return answered.model_copy(update={**confirmed, "settled_at": end.settled_at})
    if end.is_lost:
        lost = {"doubt": Doubt.FINISH, "attempts": request.attempts + 1}
        return answered.model_copy(update=lost)
    state = _STATE_OF_TROUBLE.get(end.trouble or "")
    if state is None:
        return free.model_copy(update={"trouble": end.trouble})
    return answered.model_copy(update={"state": state, **ended})


def masked(contact: str | None) -> str | None:
    """Return a contact as the service masked it; if the service did not, mask it here."""
    if contact is None or _MASKS & set(contact):
        return contact
    name, at, host = contact.partition("@")
    if at:
        return f"{name[:1]}***@{host}"
    return f"{contact[:_SHOWN_FIRST]}***{contact[-_SHOWN_LAST:]}"


def recover_requests(journal: Journal, settings: BvnConsent, run_id: str = "") -> None:
    """Recover calls whose process died, and abandon requests that have waited too long.

    Args:
        journal: where the requests are.
        settings: how long a request may wait.
        run_id: a run that is being resumed or closed: none of its calls is under way.
    """
    BvnRun.recover_dead_calls(journal, run_id)
    requests, now = requests_of(journal), journal.clock()
    waiting = records.c.state.in_([*OPEN_STATES, UNDER_WAY])
    asked_before = records.c.created_at < now - span_micros(settings.abandon_after)
    for each in requests.select(waiting, asked_before):
        if each.finishing is None:
            abandoned = {"state": BvnState.ABANDONED, "settled_at": now}
            requests.replace(each.model_copy(update=abandoned), each, now)


class BvnRun(RecordRun[P, S]):
    """A run of either stage: requests or confirmations."""

    kind = SubjectKind.BVN
    model, under_way = BvnRequest, UNDER_WAY

    @staticmethod
    def made_by(record: BvnRequest) -> tuple[str, Operation]:
        """Return the id of the run that makes the first or the second call, and which it is."""
        if record.finishing:
            return record.finishing, Operation.BVN_FINISH
        return record.run_id, Operation.BVN_START

    @staticmethod
    def after(_journal: Journal, end: CallEnd | None, record: BvnRequest) -> BvnRequest | None:
        """Return a request after its first or its second call."""
        return after_finish(record, end) if record.finishing else after_start(record, end)

    def recover(self) -> None:
        """Recover dead calls, those of this run included, and abandon old requests."""
        run = self.run
        recover_requests(run.journal, run.settings.bvn_consent, run.run_id)

    def consented(self, caller: Caller, request: BvnRequest, sent: Request) -> LookupTask:
        """Return a call about a request's BVN, under the customer's consent."""
        return caller.task(
            sent,
            kind=self.kind,
            subject=request.subject,
            consent_reference=request.consent_reference,
            consent_ends_at=request.consent_ends_at,
        )


# --- the output: one row for each customer ---

PARTS = "bvn"
_BEST_FIRST = ("strong", "likely", "weak", "none", "business")
_NOT_IN_ACCOUNTS = "the answer is a list of accounts, which has none"
_NOT_IN_RECORD = "the BVN record has none"
_NOT_HELD = "we hold none"
TEXT = pa.string()
_BLOCK = 1000  # rows built at once: bounds memory
_FIELDS = tuple(name for name in BvnDetails.model_fields if name in BvnDetails.specified)
_ACCOUNT_FIELDS = tuple(name for name in BvnAccount.model_fields if name != "extra")
ACCOUNTS = pa.list_(pa.struct([pa.field(name, pa.string()) for name in _ACCOUNT_FIELDS]))


def _kind(name: str) -> pa.DataType:
    annotation = BvnDetails.model_fields[name].annotation
    return pa.date32() if annotation == (date | None) else pa.string()


EXPLAINED = {
    NoAnswer.INELIGIBLE.value: "no BVN, or no phone or email; or the BVN is asked for another row",
    NoAnswer.INVALID.value: "the BVN or every contact is malformed",
    NoAnswer.REFUSED.value: "no valid consent at this moment",
    NoAnswer.FAILED.value: "the service refused the request or could not be reached",
    NoAnswer.PENDING.value: "not asked yet: the run stopped before",
    NoAnswer.TEST_MODE.value: "the service is in test mode: nothing counts",
    BvnState.REQUESTED.value: "the request is being made",
    BvnState.AWAITING_OTP.value: "the customer was sent a password",
    BvnState.CONFIRMED.value: "the customer consented by password",
    BvnState.WRONG_OTP.value: "the password was wrong; another may be supplied",
    BvnState.EXPIRED.value: "the password was too late, or the service knows of no open request",
    BvnState.UNREACHABLE.value: "the service could not send a password to the contact",
    BvnState.WRONG_CONTACT.value: (
        "the contact is not the registered one; `masked_contact` shows that one as the service does"
    ),
    BvnState.ABANDONED.value: "no password came in time",
    Doubt.START.value: "the request was sent, its answer lost: the customer may have a password",
    Doubt.FINISH.value: (
        "a password was sent, its answer lost: it may be used up and charged; it is not sent "
        "again, only a new request can follow"
    ),
}


@dataclass(frozen=True, slots=True)
class BvnRecord:
    """One row of the output; the last four fields depend on consent at the moment of writing."""

    customer_id: str
    batch: str
    why: str = ""  # why the row has no request; empty if it has one
    request: BvnRequest | None = None
    link: str | None = None  # where the customer can type the password
    shown: BvnRequest | None = None  # the request; None if it may not be shown
    checked_at: int | None = None  # microseconds
    answer: BvnDetails | None = None  # the service's record of a confirmed customer
    compared: BvnComparison | None = None

    @property
    def state(self) -> str:
        """Return the request's state, or why none is shown."""
        return self.shown.state.value if self.shown else self.why or NoAnswer.REFUSED.value

    @property
    def doubt(self) -> str | None:
        """Return which call's answer was lost, if any."""
        return self.shown.doubt.value if self.shown and self.shown.doubt else None

    @property
    def accounts(self) -> list[dict[str, Any]] | None:
        """Return the linked accounts; None if the answer has none."""
        linked = self.answer.accounts if self.answer else ()
        return [{name: getattr(each, name) for name in _ACCOUNT_FIELDS} for each in linked] or None


def _as_integer(flag: bool | None) -> int | None:
    return None if flag is None else int(flag)


def _of(
    part: str, name: str, kind: pa.DataType = TEXT
) -> tuple[pa.DataType, Callable[[BvnRecord], Any]]:
    """Return a column for a field of one part of a row; null if the row lacks the part."""
    return kind, lambda row: (value := getattr(row, part)) and getattr(value, name)


BVNS = OutputTable[BvnRecord](
    customer_id=(TEXT, lambda row: row.customer_id),
    bvn=(TEXT, lambda row: row.request and row.request.held.bvn),
    batch=(WORD, lambda row: row.batch),
    state=(WORD, lambda row: row.state),
    in_doubt=(WORD, lambda row: row.doubt),  # start, finish: sent, and the answer was lost
    explained=(TEXT, lambda row: EXPLAINED[row.doubt or row.state]),
    masked_contact=(TEXT, lambda row: row.shown and row.shown.held.masked_contact),
    attempts=_of("shown", "attempts", pa.int32()),
    requested_at=_of("shown", "at", INSTANT),
    settled_at=_of("shown", "settled_at", INSTANT),
    consent_reference=_of("shown", "consent_reference"),
    otp_link=(TEXT, lambda row: row.link if row.shown and row.shown.is_open else None),
    **{f"bvn_{name}": _of("answer", name, _kind(name)) for name in _FIELDS}
    | {
        "bvn_watchlisted": (
            pa.int64(),
            lambda row: _as_integer(row.answer and row.answer.watchlisted),
        )
    },
    bvn_extra=(
        TEXT,
        lambda row: (row.answer and row.answer.extra and row.answer.extra_json()) or None,
    ),
    bvn_accounts=(ACCOUNTS, lambda row: row.accounts),
    name_match=_of("compared", "name_match", WORD),
    name_explained=_of("compared", "name_explained"),
    dob_match=_of("compared", "dob_match", pa.bool_()),
    dob_explained=_of("compared", "dob_explained"),
    phone_match=_of("compared", "phone_match", pa.bool_()),
    phone_explained=_of("compared", "phone_explained"),
    checked_at=(INSTANT, lambda row: row.checked_at),
    cost=(COST, lambda row: from_micro(row.request.cost_micro if row.request else 0)),
    # the run that requested, or that sent the last password
    run_id=(TEXT, lambda row: row.shown and (row.shown.finish_run_id or row.shown.run_id)),
)


def write_bvns(run: Run, lines: Sequence[BvnRecord]) -> dict[str, int]:
    """Write `bvn/part-*.parquet`; return how many rows are in each state."""
    states: Counter[str] = Counter()

    def tables() -> Iterator[pa.Table]:
        for start in range(0, len(lines), _BLOCK):
            rows = list(_shown(run.journal, lines[start : start + _BLOCK], run.clock()))
            states.update(row.state for row in rows)
            yield BVNS.table(rows)

    run.folder.write_parts(PARTS, BVNS.schema, tables())
    return dict(sorted(states.items()))


def _shown(journal: Journal, lines: Sequence[BvnRecord], now: int) -> Iterator[BvnRecord]:
    """Yield the rows with what may be shown at this moment filled in."""
    check = Operation.BVN_FINISH
    subjects = [line.request.subject for line in lines if line.request is not None]
    stored = journal.answers.latest(check.value, subjects)
    for line in lines:
        request = line.request
        if request is None or line.why or now >= request.consent_ends_at:
            yield line
            continue
        saved = stored.get(request.subject) if request.state is BvnState.CONFIRMED else None
        answer = compared = None
        if saved is not None:
            parsed = parse_answer(check, journal.answers.body(check.value, saved))
            if isinstance(parsed, BvnDetails):
                answer, compared = parsed, compare(request.held, parsed)
        at = None if saved is None else saved.answered_at
        yield replace(line, shown=request, checked_at=at, answer=answer, compared=compared)


def lines_of(journal: Journal, batches: Iterable[str]) -> list[BvnRecord]:
    """Return a row for the newest request of each customer of some batch names."""
    requests = requests_of(journal).select(records.c.batch.in_(sorted(set(batches))))
    newest = {each.customer: each.key for each in requests}
    return [
        BvnRecord(each.held.customer_id, each.batch, request=each)
        for each in requests
        if newest[each.customer] == each.key
    ]


# --- comparing ---

PERSONAL = tuple(
    name for name in BvnDetails.model_fields if name not in {"reference", "bvn", "watchlisted"}
)
"""Fields of BVN details about the person the BVN belongs to."""


def is_theirs(answer: BvnDetails, rows: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a BVN answer agrees with the customer by any of their rows.

    A record that contradicts them may belong to another person.
    """
    names = ("phone", *NAME_FIELDS, "date_of_birth")
    held = (HeldCustomer("", "", "", **{name: row.get(name) for name in names}) for row in rows)
    compared = (compare(each, answer) for each in held)
    return any(
        each.name_match not in {None, *CONTRADICTS} and each.dob_match is not False
        for each in compared
    )


@dataclass(frozen=True, slots=True)
class BvnComparison:
    """The result of each comparison, None if one side is missing, and an explanation."""

    name_match: str | None
    name_explained: str
    dob_match: bool | None
    dob_explained: str
    phone_match: bool | None
    phone_explained: str


def compare(held: HeldCustomer, answer: BvnDetails) -> BvnComparison:
    """Compare a customer with a BVN answer: its details, or its accounts if it has nothing else."""
    if answer.only_accounts():
        name, explained = _best_account(held, answer.accounts)
        return BvnComparison(name, explained, None, _NOT_IN_ACCOUNTS, None, _NOT_IN_ACCOUNTS)
    parts = (answer.first_name, answer.middle_name, answer.last_name)
    record_name = " ".join(part for part in parts if part)
    match = match_names(held.names, record_name or None)
    name, explained = None, _NOT_HELD if record_name else _NOT_IN_RECORD
    if match is not None:
        name, explained = match.grade, match.explained
    dob, dob_explained = _dates(held.date_of_birth, answer.dob)
    phone, phone_explained = _phones(held.phone, answer.mobile)
    return BvnComparison(name, explained, dob, dob_explained, phone, phone_explained)


def _best_account(held: HeldCustomer, accounts: Sequence[BvnAccount]) -> tuple[str | None, str]:
    """Return the grade of the account whose name agrees best."""
    matches = [match_names(held.names, account.account_name) for account in accounts]
    known = [match for match in matches if match is not None]
    if not known:
        return None, "nothing to compare on one side"
    best = min(known, key=lambda match: _BEST_FIRST.index(match.grade))
    return best.grade, f"best of {len(accounts)}: {best.explained}"


def _dates(ours: date | None, theirs: date | None) -> tuple[bool | None, str]:
    if theirs is None:
        return None, _NOT_IN_RECORD
    if ours is None:
        return None, _NOT_HELD
    if ours == theirs:
        return True, f"agree: {theirs}"
    hint = ""
    if (ours.year, ours.month, ours.day) == (theirs.year, theirs.day, theirs.month):
        hint = "; day and month changed places"
    elif (ours.month, ours.day) == (theirs.month, theirs.day):
        hint = "; only the year differs"
    return False, f"against: {ours} / {theirs}{hint}"


def _phones(ours: str | None, theirs: str | None) -> tuple[bool | None, str]:
    """Compare the last ten digits; a masked digit agrees with any."""
    own, others = _national(ours), _national(theirs)
    if not others:
        return None, _NOT_IN_RECORD
    if not own:
        return None, _NOT_HELD
    if len(own) < NATIONAL_DIGITS or len(others) < NATIONAL_DIGITS:
        return None, "one of the two is no whole phone number"
    shown = [pair for pair in zip(own, others, strict=True) if pair[1] != "*"]
    if not shown:
        return None, "the BVN record shows no digit"
    if all(mine == other for mine, other in shown):
        covered = "" if len(shown) == NATIONAL_DIGITS else f" on the {len(shown)} digits shown"
        return True, f"agree{covered}: ...{others[-4:]}"
    return False, f"against: ...{own[-4:]} / ...{others[-4:]}"


def _national(phone: str | None) -> str:
    digits = [char for char in phone or "" if char in "0123456789*"]
    return "".join(digits)[-NATIONAL_DIGITS:]
