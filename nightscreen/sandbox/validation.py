"""Area B, validation: the six priced operations, their input and what they find.

This module reads requests and chooses answers. Keys, money and faults are the
pipeline's; the records come from the people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nightscreen.sandbox import people, test_identifiers
from nightscreen.sandbox.otp import drawn_delivery, masked_contact, registered_contact
from nightscreen.sandbox.people import ACCOUNT_DIGITS, BANK_CODE_DIGITS, BVN_DIGITS, is_digits
from nightscreen.sandbox.request_pipeline import Answer, Operation, Subject
from nightscreen.sandbox.seeded_random import SeededRandom

if TYPE_CHECKING:
    from nightscreen.sandbox.state import Sandbox

BAD_BVN: Final = "Enter a valid BVN number."
_NO_RECORD: Final = Answer("not_found", "BVN record not found", miss="404_error")
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


def _text(body: dict[str, object], name: str) -> tuple[str, bool, str]:
    """Take a field as text; returns it, whether it is missing, and a refusal if it is not text."""
    value = body.get(name)
    if value is None or value == "":
        return "", True, ""
    if not isinstance(value, str):
        return "", False, f"{name} must be a string"
    return value, False, ""


def _read_bvn(path: dict[str, str], _body: dict[str, object]) -> Subject:
    bvn = path["bvn"]
    refusal = "" if is_digits(bvn, BVN_DIGITS) else BAD_BVN
    return Subject(bvn, {"bvn": bvn}, refusal=refusal, special=test_identifiers.by_bvn(bvn))


def _read_bvn_with(path: dict[str, str], body: dict[str, object], name: str) -> Subject:
    subject = _read_bvn(path, body)
    subject.fields[name], subject.missing, wrong = _text(body, name)
    subject.refusal = subject.refusal or wrong
    return subject


def _read_karma(path: dict[str, str], _body: dict[str, object]) -> Subject:
    identity = path["identity"]
    return Subject(identity, special=test_identifiers.by_karma_identity(identity))


def _karma(sandbox: Sandbox, subject: Subject) -> Answer:
    """Look an identity up in the blacklist; what is of no known kind is a miss like any other."""
    record = sandbox.planted.karma(subject.identity, sandbox.day)
    if record:
        return Answer("listed", "Successful", record)
    text = "Identity not found in karma ecosystem"
    return Answer("clear", text, miss=sandbox.manners.karma_miss, meta=False)


def _ecosystem(sandbox: Sandbox, subject: Subject) -> Answer:
    """Look a BVN up in the borrower history."""
    bvn = subject.identity
    record = sandbox.planted.history(bvn, sandbox.day)
    if record:
        return Answer("found", "Successful", record)
    return Answer("not_found", f"{bvn} not found in ecosystem", miss="404_error")


def _read_bank_account(_path: dict[str, str], body: dict[str, object]) -> Subject:
    number, no_number, wrong_number = _text(body, "account_number")
    code, no_code, wrong_code = _text(body, "bank_code")
    refusal = wrong_number or wrong_code
    if not refusal and not is_digits(number, ACCOUNT_DIGITS):
        refusal = "Enter a valid account number."
    if not refusal and not is_digits(code, BANK_CODE_DIGITS):
        refusal = "Enter a valid bank code."
    return Subject(
        f"{code}-{number}" if code or number else "",
        {"account_number": number, "bank_code": code},
        missing=no_number or no_code,
        refusal=refusal,
        special=None if refusal else test_identifiers.by_account(number),
    )


def _bank_account(sandbox: Sandbox, subject: Subject) -> Answer:
    """Look up who holds an account."""
    code, number = subject.fields["bank_code"], subject.fields["account_number"]
    masked = sandbox.manners.masked_bvn
    record = sandbox.planted.account(code, number, sandbox.day, masked=masked)
    if record:
        return Answer("found", "Successful", record)
    return Answer("not_found", "Invalid account number", miss="500_error")


def _read_selfie(path: dict[str, str], body: dict[str, object]) -> Subject:
    subject = _read_bvn_with(path, body, "image")
    image = subject.fields["image"]
    if image and not subject.refusal and not image.startswith(("http://", "https://")):
        subject.refusal, subject.no_address = "Enter a valid image url.", True
    return subject


def _selfie(_sandbox: Sandbox, subject: Subject) -> Answer:
    """Compare a photograph with the BVN record."""
    record = people.selfie_of(subject.identity, subject.fields["image"])
    if record is None:
        return _NO_RECORD
    return Answer("match" if record["match"] else "no_match", "Successful", record)


def _bvn_start(sandbox: Sandbox, subject: Subject) -> Answer:
    """Send the one-time password, to a registered contact only."""
    bvn, special = subject.identity, subject.special
    if special and not special.bvn_known:
        return _NO_RECORD
    registered = people.contacts_of(bvn, sandbox.planted.person(bvn))
    contact = registered_contact(subject.fields["contact"], registered)
    if contact is None:
        return _wrong_contact(sandbox, registered)
    mixed = special is None and sandbox.manners.otp_delivery == "mixed"
    delivery = drawn_delivery(bvn) if mixed else (special and special.otp) or "prompt"
    if delivery == "unreachable":
        text = "Unable to send OTP to the contact of this BVN"
        return Answer("unreachable", text, http_status=400)
    sandbox.otps.send(bvn, contact, sandbox.now(), delivery)
    return Answer("otp_sent", _OTP_SENT, masked_contact(contact), status="otp")


def _wrong_contact(sandbox: Sandbox, registered: tuple[str, ...]) -> Answer:
    """Refuse a contact and show the right ones masked; the form was never recorded."""
    masked = [masked_contact(contact) for contact in registered]
    text = "The contact is not registered with this BVN"
    if sandbox.manners.wrong_contact == "400_data":
        return Answer("wrong_contact", text, masked, http_status=400)
    text = f"{text}. Registered contacts: {', '.join(masked)}"
    return Answer("wrong_contact", text, http_status=400)


def _bvn_finish(sandbox: Sandbox, subject: Subject) -> Answer:
    """Check the one-time password and return the record, in one of its three shapes."""
    bvn, person = subject.identity, sandbox.planted.person(subject.identity)
    word = sandbox.otps.give(bvn, subject.fields["otp"], sandbox.now())
    if word in _OTP_REFUSALS:
        return Answer(word, _OTP_REFUSALS[word], http_status=400)
    shape = (subject.special and subject.special.finish) or sandbox.manners.bvn_finish
    if shape == "mixed":
        shape = SeededRandom("finish shape", bvn).pick(("details", "accounts", "together"))
    if shape == "accounts":
        return Answer("consented", "Successful", people.bvn_accounts(bvn, person))
    details = people.bvn_details(bvn, person)
    if shape == "together":
        details["accounts"] = people.bvn_accounts(bvn, person)
    return Answer("consented", "Successful", details)


KARMA: Final = Operation(
    "karma",
    *(_read_karma, _karma),
    lambda: Answer("listed", "Successful", people.karma_record(_SAMPLE_DOMAIN, "domain")),
)
ECOSYSTEM: Final = Operation(
    "ecosystem",
    *(_read_bvn, _ecosystem),
    lambda: Answer("found", "Successful", people.ecosystem_of(_SAMPLE.bvn)),
)
BANK_ACCOUNT: Final = Operation(
    "bank_account",
    *(_read_bank_account, _bank_account),
    lambda: Answer("found", "Successful", people.account_of("058", _SAMPLE.account_number)),
)
SELFIE: Final = Operation(
    "selfie",
    *(_read_selfie, _selfie),
    lambda: Answer("match", "Successful", people.selfie_of(_SAMPLE.bvn, _SAMPLE_IMAGE)),
)
BVN_START: Final = Operation(
    "bvn_start",
    lambda path, body: _read_bvn_with(path, body, "contact"),
    _bvn_start,
    lambda: Answer("otp_sent", _OTP_SENT, masked_contact(_SAMPLE.phone), status="otp"),
)
BVN_FINISH: Final = Operation(
    "bvn_finish",
    lambda path, body: _read_bvn_with(path, body, "otp"),
    _bvn_finish,
    lambda: Answer("consented", "Successful", people.bvn_details(_SAMPLE.bvn)),
)

ROUTES: Final = {
    "/v2/verification/bvn/{bvn:path}/accounts": {"POST": BVN_START, "PUT": BVN_FINISH},
    "/v2/verification/bvn/{bvn:path}/selfies": {"POST": SELFIE},
    "/v2/verification/bankaccount/bvn": {"POST": BANK_ACCOUNT},
    "/v2/verification/karma/{identity:path}": {"GET": KARMA},
    "/v2/verification/ecosystem/{bvn:path}": {"GET": ECOSYSTEM},
}
"""Paths of area B, and the operation behind each method."""
