"""Area B, validation: the six priced operations, their input and what they find.

This module parses requests and chooses answers. The pipeline handles keys, money and faults;
`people` makes the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nightscreen.sandbox import people, test_identifiers
from nightscreen.sandbox.otp import masked_contact, registered_contact
from nightscreen.sandbox.people import ACCOUNT_DIGITS, BANK_CODE_DIGITS, BVN_DIGITS, is_digits
from nightscreen.sandbox.request_pipeline import Operation, by_key, texts
from nightscreen.sandbox.wire import Answer

if TYPE_CHECKING:
    from nightscreen.sandbox.people import Record
    from nightscreen.sandbox.request_pipeline import Call

_FORMS: Final = {
    "bvn": (BVN_DIGITS, "Enter a valid BVN number."),
    "account_number": (ACCOUNT_DIGITS, "Enter a valid account number."),
    "bank_code": (BANK_CODE_DIGITS, "Enter a valid bank code."),
}
"""How many digits a field has, and what the service says where it has not."""
_OTP_REFUSALS: Final = {
    "not_started": "Please call initialize",
    "otp_expired": "OTP has expired",
    "wrong_otp": "Wrong OTP entered",
}
_SAMPLE: Final = test_identifiers.by_word("listed")
_SAMPLE_DOMAIN: Final = "0zspgifzbo.ga"
"""The identity of the sample karma record, whatever was asked."""


_CONTACT: Final = texts("ContactBody", contact="registered phone or email, in any form, or masked")
_OTP: Final = texts("OtpBody", otp="six digits, as text")
_IMAGE: Final = texts("ImageBody", image="a web address that anyone can open")
_ACCOUNT: Final = texts(
    "BankAccountBody", account_number="10 digits", bank_code="3 digits, of the central bank"
)


def _read(call: Call) -> None:
    """Record what is asked about, and refuse a malformed value."""
    given = call.fields
    for name, (digits, text) in _FORMS.items():
        if name in given and not is_digits(given[name], digits):
            if name == "bvn":
                call.refusal = text  # the path goes before the body
            else:
                call.refuse(text)
    if call.missing:
        call.hangs = "missing_field"
    elif not given.get("image", "http://").startswith(("http://", "https://")):
        call.hangs = "" if call.refusal else "malformed"
    if "account_number" in given:
        place = (given["bank_code"], given["account_number"])
        call.identity = "-".join(place) if any(place) else ""
        call.row = None if call.refusal else test_identifiers.by_account(place[1])
    else:
        call.identity = given.get("identity") or given["bvn"]
        call.row = test_identifiers.by_karma_identity(call.identity)


def _karma(call: Call) -> Answer:
    """Look an identity up in the blacklist; what is of no known kind is a miss like any other."""
    record = call.sandbox.planted.karma(call.identity, call.sandbox.day)
    if record:
        return _found("listed", record)
    status = call.sandbox.manners.karma_miss.partition("_")[2]
    text = "Identity not found in karma ecosystem"
    return Answer("clear", text, status=status, http_status=404, metered=False)


def _ecosystem(call: Call) -> Answer:
    """Look a BVN up in the borrower history."""
    record = call.sandbox.planted.history(call.identity, call.sandbox.day)
    if record:
        return _found("found", record)
    return Answer.error("not_found", f"{call.identity} not found in ecosystem", 404)


def _bank_account(call: Call) -> Answer:
    """Look up who holds an account."""
    place, sandbox = (call.fields["bank_code"], call.fields["account_number"]), call.sandbox
    record = sandbox.planted.account(*place, sandbox.day, masked=sandbox.manners.masked_bvn)
    if record:
        return _found("found", record)
    return Answer.error("not_found", "Invalid account number", 500)


def _selfie(call: Call) -> Answer:
    """Compare a photograph with the BVN record."""
    record = people.selfie_of(call.identity, call.fields["image"])
    if record is None:
        return _no_record()
    return _found("match" if record["match"] else "no_match", record)


def _bvn_start(call: Call) -> Answer:
    """Send the one-time password, to a registered contact only."""
    bvn, sandbox = call.identity, call.sandbox
    row = test_identifiers.by_bvn(bvn)
    if row and not row.bvn_known:
        return _no_record()
    registered = sandbox.planted.person(bvn).contacts
    contact = registered_contact(call.fields["contact"], registered)
    if contact is None:  # the form of this refusal was never recorded
        masked = [masked_contact(known) for known in registered]
        text = "The contact is not registered with this BVN"
        if sandbox.manners.wrong_contact == "400_data":
            return Answer.error("wrong_contact", text, data=masked)
        return Answer.error("wrong_contact", f"{text}. Registered contacts: {', '.join(masked)}")
    delivery = (row and row.otp) or "prompt"
    if delivery == "unreachable":
        return Answer.error("unreachable", "Unable to send OTP to the contact of this BVN")
    sandbox.otps.send(bvn, contact, sandbox.now(), delivery)
    return _sent(contact)


def _sent(contact: str) -> Answer:
    text, masked = "Please provide OTP sent to contact", masked_contact(contact)
    return Answer("otp_sent", text, masked, status="otp")


def _bvn_finish(call: Call) -> Answer:
    """Check the one-time password and return the record, in one of its three shapes."""
    bvn, sandbox = call.identity, call.sandbox
    word = sandbox.otps.give(bvn, call.fields["otp"], sandbox.now())
    if word in _OTP_REFUSALS:
        return Answer.error(word, _OTP_REFUSALS[word])
    person = sandbox.planted.person(bvn)
    row = test_identifiers.by_bvn(bvn)
    shape: str = (row and row.finish) or sandbox.manners.bvn_finish
    if shape == "accounts":
        return Answer("consented", "Successful", people.bvn_accounts(bvn, person))
    details = people.bvn_details(bvn, person)
    if shape == "together":
        details["accounts"] = people.bvn_accounts(bvn, person)
    return _found("consented", details)


def _no_record() -> Answer:
    return Answer.error("not_found", "BVN record not found", 404)


def _found(word: str, record: Record | None) -> Answer:
    return Answer(word, "Successful", record)


_BVN: Final = "bvn/{bvn:path}"
OPERATIONS: Final = tuple(
    Operation(name, method, f"/v2/verification/{path}", by_key, _read, work, sample, body)
    for name, method, path, work, sample, body in (
        (
            *("karma", "GET", "karma/{identity:path}", _karma),
            lambda: _found("listed", people.karma_record(_SAMPLE_DOMAIN, "domain")),
            None,
        ),
        (
            *("ecosystem", "GET", "ecosystem/{bvn:path}", _ecosystem),
            lambda: _found("found", people.ecosystem_of(_SAMPLE.bvn)),
            None,
        ),
        (
            *("bank_account", "POST", "bankaccount/bvn", _bank_account),
            lambda: _found("found", people.account_of("058", _SAMPLE.account_number)),
            _ACCOUNT,
        ),
        (
            *("selfie", "POST", f"{_BVN}/selfies", _selfie),
            lambda: _found(
                "match", people.selfie_of(_SAMPLE.bvn, "https://images.example/sample.jpg")
            ),
            _IMAGE,
        ),
        (
            *("bvn_start", "POST", f"{_BVN}/accounts", _bvn_start),
            lambda: _sent(_SAMPLE.phone),
            _CONTACT,
        ),
        (
            *("bvn_finish", "PUT", f"{_BVN}/accounts", _bvn_finish),
            lambda: _found("consented", people.bvn_details(_SAMPLE.bvn)),
            _OTP,
        ),
    )
)
"""The operations of area B."""
