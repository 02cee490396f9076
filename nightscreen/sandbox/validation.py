"""Area B, validation: the six priced operations, their input and what they find.

This module reads requests and chooses answers. Keys, money and faults are the
pipeline's; the records come from the people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, Field

from nightscreen.sandbox import people, test_identifiers
from nightscreen.sandbox.auth import by_key
from nightscreen.sandbox.otp import drawn_delivery, masked_contact, registered_contact
from nightscreen.sandbox.people import ACCOUNT_DIGITS, BANK_CODE_DIGITS, BVN_DIGITS, is_digits
from nightscreen.sandbox.request_pipeline import Answer, Operation, Subject
from nightscreen.sandbox.seeded_random import SeededRandom

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.sandbox.state import Sandbox

    Body = dict[str, object]

BAD_BVN: Final = "Enter a valid BVN number."
_NO_RECORD: Final = Answer.error("not_found", "BVN record not found", 404)
_OTP_SENT: Final = "Please provide OTP sent to contact"
_OTP_REFUSALS: Final = {
    "not_started": "Please call initialize",
    "otp_expired": "OTP has expired",
    "wrong_otp": "Wrong OTP entered",
}
_SAMPLE: Final = test_identifiers.by_word("listed")
_SAMPLE_DOMAIN: Final = "0zspgifzbo.ga"
"""The identity of the sample karma record, whatever was asked."""
_SAMPLE_IMAGE: Final = "https://images.example/sample.jpg"


class ContactBody(BaseModel):
    """Where to send the one-time password of BVN consent."""

    contact: str = Field(description="registered phone or email, in any form, or masked")


class OtpBody(BaseModel):
    """The one-time password that the customer supplied."""

    otp: str = Field(description="six digits, as text")


class ImageBody(BaseModel):
    """A photograph to compare with the BVN record."""

    image: str = Field(description="a web address that anyone can open")


class BankAccountBody(BaseModel):
    """An account to look up."""

    account_number: str = Field(description="10 digits")
    bank_code: str = Field(description="3 digits, of the central bank")


def _read_karma(_sandbox: Sandbox, subject: Subject, _body: Body) -> None:
    subject.identity = identity = subject.fields["identity"]
    subject.row = test_identifiers.by_karma_identity(identity)


def _read_bvn(_sandbox: Sandbox, subject: Subject, _body: Body) -> None:
    subject.identity = bvn = subject.fields["bvn"]
    subject.row = test_identifiers.by_bvn(bvn)
    if not is_digits(bvn, BVN_DIGITS):
        subject.refusal = BAD_BVN
    if subject.missing:
        subject.hangs = "missing_field"


def _read_selfie(sandbox: Sandbox, subject: Subject, body: Body) -> None:
    _read_bvn(sandbox, subject, body)
    is_address = subject.fields["image"].startswith(("http://", "https://"))
    if not (is_address or subject.missing or subject.refusal):
        subject.hangs = "malformed"


def _read_bank_account(_sandbox: Sandbox, subject: Subject, _body: Body) -> None:
    number, code = subject.fields["account_number"], subject.fields["bank_code"]
    subject.identity = f"{code}-{number}" if code or number else ""
    if subject.missing:
        subject.hangs = "missing_field"
    elif not subject.refusal and not is_digits(number, ACCOUNT_DIGITS):
        subject.refusal = "Enter a valid account number."
    elif not subject.refusal and not is_digits(code, BANK_CODE_DIGITS):
        subject.refusal = "Enter a valid bank code."
    elif not subject.refusal:
        subject.row = test_identifiers.by_account(number)


def _karma(sandbox: Sandbox, subject: Subject) -> Answer:
    """Look an identity up in the blacklist; what is of no known kind is a miss like any other."""
    record = sandbox.planted.karma(subject.identity, sandbox.day)
    if record:
        return Answer("listed", "Successful", record)
    status = sandbox.manners.karma_miss.partition("_")[2]
    text = "Identity not found in karma ecosystem"
    return Answer("clear", text, status=status, http_status=404, meta=False)


def _ecosystem(sandbox: Sandbox, subject: Subject) -> Answer:
    """Look a BVN up in the borrower history."""
    record = sandbox.planted.history(subject.identity, sandbox.day)
    if record:
        return Answer("found", "Successful", record)
    return Answer.error("not_found", f"{subject.identity} not found in ecosystem", 404)


def _bank_account(sandbox: Sandbox, subject: Subject) -> Answer:
    """Look up who holds an account."""
    code, number = subject.fields["bank_code"], subject.fields["account_number"]
    masked = sandbox.manners.masked_bvn
    record = sandbox.planted.account(code, number, sandbox.day, masked=masked)
    if record:
        return Answer("found", "Successful", record)
    return Answer.error("not_found", "Invalid account number", 500)


def _selfie(_sandbox: Sandbox, subject: Subject) -> Answer:
    """Compare a photograph with the BVN record."""
    record = people.selfie_of(subject.identity, subject.fields["image"])
    if record is None:
        return _NO_RECORD
    return Answer("match" if record["match"] else "no_match", "Successful", record)


def _bvn_start(sandbox: Sandbox, subject: Subject) -> Answer:
    """Send the one-time password, to a registered contact only."""
    bvn, row = subject.identity, subject.row
    if row and not row.bvn_known:
        return _NO_RECORD
    registered = people.contacts_of(bvn, sandbox.planted.person(bvn))
    contact = registered_contact(subject.fields["contact"], registered)
    if contact is None:  # the form of this refusal was never recorded
        masked = [masked_contact(known) for known in registered]
        text = "The contact is not registered with this BVN"
        if sandbox.manners.wrong_contact == "400_data":
            return Answer.error("wrong_contact", text, data=masked)
        return Answer.error("wrong_contact", f"{text}. Registered contacts: {', '.join(masked)}")
    mixed = row is None and sandbox.manners.otp_delivery == "mixed"
    delivery = drawn_delivery(bvn) if mixed else (row and row.otp) or "prompt"
    if delivery == "unreachable":
        return Answer.error("unreachable", "Unable to send OTP to the contact of this BVN")
    sandbox.otps.send(bvn, contact, sandbox.now(), delivery)
    return Answer("otp_sent", _OTP_SENT, masked_contact(contact), status="otp")


def _bvn_finish(sandbox: Sandbox, subject: Subject) -> Answer:
    """Check the one-time password and return the record, in one of its three shapes."""
    bvn, person = subject.identity, sandbox.planted.person(subject.identity)
    word = sandbox.otps.give(bvn, subject.fields["otp"], sandbox.now())
    if word in _OTP_REFUSALS:
        return Answer.error(word, _OTP_REFUSALS[word])
    shape: str = (subject.row and subject.row.finish) or sandbox.manners.bvn_finish
    if shape == "mixed":
        shape = SeededRandom("finish shape", bvn).pick(("details", "accounts", "together"))
    if shape == "accounts":
        return Answer("consented", "Successful", people.bvn_accounts(bvn, person))
    details = people.bvn_details(bvn, person)
    if shape == "together":
        details["accounts"] = people.bvn_accounts(bvn, person)
    return Answer("consented", "Successful", details)


def _told(word: str, make: Callable[[], object]) -> Callable[[], Answer]:
    return lambda: Answer(word, "Successful", make())


_BVN: Final = "/v2/verification/bvn/{bvn:path}"
OPERATIONS: Final = (
    Operation(
        *("karma", "GET", "/v2/verification/karma/{identity:path}"),
        *(by_key, _read_karma, _karma),
        _told("listed", lambda: people.karma_record(_SAMPLE_DOMAIN, "domain")),
    ),
    Operation(
        *("ecosystem", "GET", "/v2/verification/ecosystem/{bvn:path}"),
        *(by_key, _read_bvn, _ecosystem),
        _told("found", lambda: people.ecosystem_of(_SAMPLE.bvn)),
    ),
    Operation(
        *("bank_account", "POST", "/v2/verification/bankaccount/bvn"),
        *(by_key, _read_bank_account, _bank_account),
        _told("found", lambda: people.account_of("058", _SAMPLE.account_number)),
        BankAccountBody,
    ),
    Operation(
        *("selfie", "POST", f"{_BVN}/selfies"),
        *(by_key, _read_selfie, _selfie),
        _told("match", lambda: people.selfie_of(_SAMPLE.bvn, _SAMPLE_IMAGE)),
        ImageBody,
    ),
    Operation(
        *("bvn_start", "POST", f"{_BVN}/accounts"),
        *(by_key, _read_bvn, _bvn_start),
        lambda: Answer("otp_sent", _OTP_SENT, masked_contact(_SAMPLE.phone), status="otp"),
        ContactBody,
    ),
    Operation(
        *("bvn_finish", "PUT", f"{_BVN}/accounts"),
        *(by_key, _read_bvn, _bvn_finish),
        _told("consented", lambda: people.bvn_details(_SAMPLE.bvn)),
        OtpBody,
    ),
)
"""The operations of area B."""
