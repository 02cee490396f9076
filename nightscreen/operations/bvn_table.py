"""The table of BVN consent: one row for each customer, and what a BVN record says about them.

A row shows the request and the BVN record only if the customer's consent is valid at this moment.
The record is compared with the lender's data, and what was compared is quoted. A record may be
incomplete (specification, BVN details): a missing field counts against nobody.
"""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from nightscreen.client.response_parser import parse_answer
from nightscreen.journal.records import Records
from nightscreen.schemas.answers import BvnAccount, BvnDetails
from nightscreen.schemas.bvn import BvnRequest, BvnState, Doubt
from nightscreen.schemas.checks import NoAnswer, Operation
from nightscreen.schemas.columns import NAME_FIELDS
from nightscreen.schemas.enriched import COST, WORD
from nightscreen.schemas.money import from_micro
from nightscreen.schemas.rows import INSTANT
from nightscreen.values.names import CONTRADICTS, match_names
from nightscreen.values.phones import NATIONAL_DIGITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nightscreen.calling.run import Run
    from nightscreen.journal import Journal

PARTS = "bvn"
_BLOCK = 1000  # rows built at once: bounds memory
TEXT = pa.string()
_DETAILS = tuple(name for name in BvnDetails.model_fields if name in BvnDetails.specified)
_DAYS = {name for name in _DETAILS if BvnDetails.model_fields[name].annotation == (date | None)}
BVNS = pa.schema(
    {
        "customer_id": TEXT,
        "bvn": TEXT,
        "batch": WORD,
        "state": WORD,
        "in_doubt": WORD,  # start, finish: sent, and the answer was lost
        "explained": TEXT,
        "masked_contact": TEXT,
        "attempts": pa.int32(),
        "requested_at": INSTANT,
        "settled_at": INSTANT,
        "consent_reference": TEXT,
        "otp_link": TEXT,  # where the customer can type the password
        **{f"bvn_{name}": pa.date32() if name in _DAYS else TEXT for name in _DETAILS},
        "bvn_watchlisted": pa.int64(),
        "bvn_extra": TEXT,
        "bvn_accounts": pa.list_(
            pa.struct(
                {name: TEXT for name in BvnAccount.model_fields if name in BvnAccount.specified}
            )
        ),
        "name_match": WORD,
        "name_explained": TEXT,
        "dob_match": pa.bool_(),
        "dob_explained": TEXT,
        "phone_match": pa.bool_(),
        "phone_explained": TEXT,
        "checked_at": INSTANT,
        "cost": COST,
        "run_id": TEXT,  # the run that requested, or that sent the last password
    }
)
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


class BvnLine(NamedTuple):
    """A customer to write."""

    customer_id: str
    batch: str
    request: BvnRequest | None
    why: str = ""  # why the row has no request; empty if it has one
    link: str | None = None


def requests_of(journal: Journal) -> Records[BvnRequest]:
    """Return the requests of a journal."""
    return Records(journal, BvnRequest)


def requests_to(journal: Journal, customer_id: str) -> list[BvnRequest]:
    """Return every request to a customer, oldest first."""
    customer = journal.pseudonyms.customers_anywhere([customer_id])
    return requests_of(journal).of_customers([customer])


def write_bvns(run: Run, lines: Sequence[BvnLine]) -> dict[str, int]:
    """Write `bvn/part-*.parquet`; return how many rows are in each state."""
    states: Counter[str] = Counter()

    def tables() -> Iterator[pa.Table]:
        for start in range(0, len(lines), _BLOCK):
            rows = list(_rows(run.journal, lines[start : start + _BLOCK], run.clock()))
            states.update(row["state"] for row in rows)
            yield pa.Table.from_pylist(rows, BVNS)

    run.folder.write_parts(PARTS, BVNS, tables())
    return dict(sorted(states.items()))


def _rows(journal: Journal, lines: Sequence[BvnLine], now: int) -> Iterator[dict[str, Any]]:
    """Yield rows with what may be shown at this moment; what is missing is null."""
    check = Operation.BVN_FINISH
    requests = [line.request for line in lines if line.request is not None]
    answers = journal.answers.latest(check.value, [each.subject for each in requests])
    for line in lines:
        request = line.request
        row: dict[str, Any] = {
            "customer_id": line.customer_id,
            "bvn": request and request.bvn,
            "batch": line.batch,
            "state": line.why or NoAnswer.REFUSED.value,
            "cost": from_micro(request.cost_micro if request else 0),
        }
        if request is not None and not line.why and now < request.consent_ends_at:
            row |= {
                "state": request.state.value,
                "in_doubt": request.doubt and request.doubt.value,
                "masked_contact": request.masked_contact,
                "attempts": request.attempts,
                "requested_at": request.at,
                "settled_at": request.settled_at,
                "consent_reference": request.consent_reference,
                "otp_link": line.link if request.is_open else None,
                "run_id": request.finish_run_id or request.run_id,
            }
            if request.state is BvnState.CONFIRMED and (saved := answers.get(request.subject)):
                row["checked_at"] = saved.answered_at
                answer = parse_answer(check, journal.answers.body(check.value, saved))
                if isinstance(answer, BvnDetails):
                    row |= {**_details(answer), **compare(request.model_dump(), answer)}
        yield {**row, "explained": EXPLAINED[row.get("in_doubt") or row["state"]]}


def _details(answer: BvnDetails) -> dict[str, Any]:
    accounts = [each.model_dump(exclude={"extra"}) for each in answer.accounts]
    return {
        **{f"bvn_{name}": getattr(answer, name) for name in _DETAILS},
        "bvn_watchlisted": None if answer.watchlisted is None else int(answer.watchlisted),
        "bvn_extra": answer.extra_json() if answer.extra else None,
        "bvn_accounts": accounts or None,
    }


# --- comparing ---

PERSONAL = tuple(
    name for name in BvnDetails.model_fields if name not in {"reference", "bvn", "watchlisted"}
)
"""Fields of BVN details about the person the BVN belongs to."""
_BEST_FIRST = ("strong", "likely", "weak", "none", "business")
_NOT_IN_RECORD = "the BVN record has none"
_NOT_HELD = "we hold none"


def is_theirs(answer: BvnDetails, rows: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a BVN answer agrees with the customer by any of their rows.

    A record that contradicts them may belong to another person.
    """
    compared = (compare(row, answer) for row in rows)
    return any(
        each["name_match"] not in {None, *CONTRADICTS} and each["dob_match"] is not False
        for each in compared
    )


def compare(row: Mapping[str, Any], answer: BvnDetails) -> dict[str, Any]:
    """Compare a customer with a BVN answer: its details, or its accounts if it has nothing else.

    Of several accounts the name that agrees best counts.

    Args:
        row: the lender's data about the customer, with the names of its columns.
        answer: the answer.

    Returns:
        The result of each comparison, None if one side is missing, and an explanation, by column.
    """
    if answer.only_accounts():
        theirs = [account.account_name for account in answer.accounts]
    else:
        parts = (answer.first_name, answer.middle_name, answer.last_name)
        theirs = [" ".join(part for part in parts if part)]
    ours = [row.get(each) for each in NAME_FIELDS]
    matches = [match for each in theirs if (match := match_names(ours, each or None))]
    best = min(matches, key=lambda match: _BEST_FIRST.index(match.grade), default=None)
    missing = None, _NOT_HELD if any(theirs) else _NOT_IN_RECORD
    found: dict[str, tuple[str | bool | None, str]] = {
        "name": missing if best is None else (best.grade, best.explained),
        "dob": _dates(row.get("date_of_birth"), answer.dob),
        "phone": _phones(row.get("phone"), answer.mobile),
    }
    return {
        column: value
        for what, (match, explained) in found.items()
        for column, value in ((f"{what}_match", match), (f"{what}_explained", explained))
    }


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
