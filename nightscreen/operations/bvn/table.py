"""The BVN output: one row for each customer, with state, details and what of them agrees.

An answer is shown only where the customer's consent counts at this moment. `consent` decides
states; `compare` compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nightscreen.client.response_parser import parse_answer
from nightscreen.files.outputs import CHANGES_FILE
from nightscreen.journal.bvn_consents import BvnConsents
from nightscreen.operations.bvn.compare import compare
from nightscreen.schemas.answers import BvnAccount, BvnDetails
from nightscreen.schemas.bvn import BvnState, Doubt
from nightscreen.schemas.checks import NoAnswer, Operation
from nightscreen.schemas.enriched import COST, WORD
from nightscreen.schemas.money import from_micro
from nightscreen.schemas.rows import INSTANT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nightscreen.calling.run import Run
    from nightscreen.journal import Journal
    from nightscreen.journal.answers import StoredAnswer
    from nightscreen.operations.bvn.consent import Transitions
    from nightscreen.schemas.bvn import BvnRequest

PARTS = "bvn"
WATCHLISTED = "bvn_watchlisted"
_BLOCK = 1000
_FIELDS = tuple(name for name in BvnDetails.model_fields if name in BvnDetails.specified)
_ACCOUNT_FIELDS = tuple(name for name in BvnAccount.model_fields if name != "extra")
ACCOUNTS = pa.list_(pa.struct([pa.field(name, pa.string()) for name in _ACCOUNT_FIELDS]))


def _kind(name: str) -> pa.DataType:
    if f"bvn_{name}" == WATCHLISTED:
        return pa.int64()
    annotation = BvnDetails.model_fields[name].annotation
    return pa.date32() if annotation == (date | None) else pa.string()


SCHEMA = pa.schema(
    [
        pa.field("customer_id", pa.string()),
        pa.field("bvn", pa.string()),
        pa.field("batch", WORD),
        pa.field("state", WORD),
        pa.field("in_doubt", WORD),  # start, finish: sent, and the answer was lost
        pa.field("explained", pa.string()),
        pa.field("masked_contact", pa.string()),
        pa.field("attempts", pa.int32()),
        pa.field("requested_at", INSTANT),
        pa.field("settled_at", INSTANT),
        pa.field("consent_reference", pa.string()),
        pa.field("otp_link", pa.string()),
        *(pa.field(f"bvn_{name}", _kind(name)) for name in _FIELDS),
        pa.field("bvn_extra", pa.string()),
        pa.field("bvn_accounts", ACCOUNTS),
        pa.field("name_match", WORD),
        pa.field("name_explained", pa.string()),
        pa.field("dob_match", pa.bool_()),
        pa.field("dob_explained", pa.string()),
        pa.field("phone_match", pa.bool_()),
        pa.field("phone_explained", pa.string()),
        pa.field("checked_at", INSTANT),
        pa.field("cost", COST),
        pa.field("run_id", pa.string()),  # that asked, or that supplied the last password
    ]
)

CHANGES = pa.schema(
    [
        pa.field("customer", pa.string()),
        pa.field("batch", WORD),
        pa.field("before", WORD),
        pa.field("after", WORD),
        pa.field("run_id", pa.string()),
    ]
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


@dataclass(frozen=True, slots=True)
class BvnRecord:
    """One row of the output before details are added.

    Attributes:
        customer_id: of the lender.
        why: why there is no request to be shown; empty where there is one.
        link: where the customer can type the password.
    """

    customer_id: str
    batch: str
    why: str = ""
    request: BvnRequest | None = None
    link: str | None = None


def write_table(run: Run, lines: Sequence[BvnRecord], now: int) -> dict[str, int]:
    """Write `bvn/part-*.parquet`; return how many rows are in each state."""
    states: dict[str, int] = {}

    def tables() -> Iterator[pa.Table]:
        for start in range(0, len(lines), _BLOCK):
            rows = list(_rows(run.journal, lines[start : start + _BLOCK], now))
            for row in rows:
                states[row["state"]] = states.get(row["state"], 0) + 1
            yield pa.Table.from_pylist(rows, schema=_plain(SCHEMA)).cast(SCHEMA)

    run.folder.write_parts(PARTS, SCHEMA, tables())
    return dict(sorted(states.items()))


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema whose words are plain text, as Arrow reads rows."""
    return pa.schema(
        [
            pa.field(field.name, pa.string() if field.type == WORD else field.type)
            for field in schema
        ]
    )


def _rows(journal: Journal, lines: Iterable[BvnRecord], now: int) -> Iterator[dict[str, Any]]:
    lines = list(lines)
    shown = [line.request for line in lines if line.request is not None and _lawful(line, now)]
    confirmed = [record.subject for record in shown if record.state is BvnState.CONFIRMED]
    stored = journal.answers.latest(Operation.BVN_FINISH.value, confirmed)
    for line in lines:
        if line.request is None or not _lawful(line, now):
            word = line.why or NoAnswer.REFUSED.value
            yield _row(line, word)
        else:
            answer = stored.get(line.request.subject)
            yield {**_asked(line, line.request), **_details(journal, line.request, answer)}


def _lawful(line: BvnRecord, now: int) -> bool:
    return not line.why and line.request is not None and now < line.request.consent_ends_at


def _row(line: BvnRecord, state: str) -> dict[str, Any]:
    return {
        "customer_id": line.customer_id,
        "bvn": None if line.request is None else line.request.held.bvn,
        "batch": line.batch,
        "state": state,
        "explained": EXPLAINED[state],
        "cost": from_micro(0 if line.request is None else line.request.cost_micro),
    }


def _asked(line: BvnRecord, request: BvnRequest) -> dict[str, Any]:
    doubt = None if request.doubt is None else request.doubt.value
    return {
        **_row(line, request.state.value),
        "in_doubt": doubt,
        "explained": EXPLAINED[doubt or request.state.value],
        "masked_contact": request.held.masked_contact,
        "attempts": request.attempts,
        "requested_at": request.at,
        "settled_at": request.settled_at,
        "consent_reference": request.consent_reference,
        "otp_link": line.link if request.is_open else None,
        "run_id": request.finish_run_id or request.run_id,
    }


def _details(journal: Journal, request: BvnRequest, stored: StoredAnswer | None) -> dict[str, Any]:
    """Return the service's record of a confirmed customer, and what of it agrees."""
    if request.state is not BvnState.CONFIRMED or stored is None:
        return {}
    check = Operation.BVN_FINISH
    answer = parse_answer(check, journal.answers.body(check.value, stored))
    found: dict[str, Any] = {"checked_at": stored.answered_at}
    if isinstance(answer, BvnDetails):
        found |= {f"bvn_{name}": getattr(answer, name) for name in _FIELDS}
        found[WATCHLISTED] = None if answer.watchlisted is None else int(answer.watchlisted)
        found["bvn_extra"] = answer.extra_json() if answer.extra else None
        if answer.accounts:
            found["bvn_accounts"] = [
                {name: getattr(account, name) for name in _ACCOUNT_FIELDS}
                for account in answer.accounts
            ]
    else:
        return found
    compared = compare(request.held, answer)
    return found | {
        "name_match": compared.name,
        "name_explained": compared.name_explained,
        "dob_match": compared.dob,
        "dob_explained": compared.dob_explained,
        "phone_match": compared.phone,
        "phone_explained": compared.phone_explained,
    }


def lines_of(journal: Journal, batches: Iterable[str]) -> list[BvnRecord]:
    """Return a line for the newest request of each customer of some batch names."""
    requests = BvnConsents.of(journal).of_batches(set(batches))
    return [
        BvnRecord(request.held.customer_id, request.batch, request=request) for request in requests
    ]


def write_changes(run: Run, moved: Transitions) -> dict[str, Any]:
    """Write `changes.parquet`, without identifiers; return the report's part."""
    name = run.journal.pseudonyms.customer
    rows = [
        {
            "customer": name(request.batch, request.held.customer_id).hex(),
            "batch": request.batch,
            "before": before or None,
            "after": after,
            "run_id": run.run_id,
        }
        for request, before, after in moved.rows
    ]
    table = pa.Table.from_pylist(rows, schema=_plain(CHANGES)).cast(CHANGES)
    run.folder.write_parquet(CHANGES_FILE, CHANGES, [table])
    kinds = {
        f"{before or 'none'} to {after}": number
        for (before, after), number in sorted(moved.moves.items())
    }
    return {"total": len(rows), "kinds": kinds}
