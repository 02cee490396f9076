"""Area B, validation: the six priced operations, their input and what they find.

Only the reading of requests and the choice of answers live here. Keys, money and faults are the
gate's; the records come from the people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nightscreen.sandbox import magic, people
from nightscreen.sandbox.accounts import ACCOUNT_DIGITS, BANK_CODE_DIGITS
from nightscreen.sandbox.borrowers import contact_key
from nightscreen.sandbox.draw import Draw
from nightscreen.sandbox.gate import Answer, Operation, Subject
from nightscreen.sandbox.lives import BVN_DIGITS, is_digits
from nightscreen.sandbox.passwords import drawn_delivery

if TYPE_CHECKING:
    from nightscreen.sandbox.state import Sandbox

BAD_BVN: Final = "Enter a valid BVN number."
_SAMPLE: Final = magic.by_word("listed")
_SAMPLE_DOMAIN: Final = "0zspgifzbo.ga"
"""Whom the sample karma record is about, whatever was asked."""
_SAMPLE_IMAGE: Final = "https://images.example/sample.jpg"
_OTP_REFUSALS: Final = {
    "not_started": "Please call initialize",
    "otp_expired": "OTP has expired",
    "wrong_otp": "Wrong OTP entered",
}


def _text(body: dict[str, object], name: str) -> tuple[str, str, str]:
    """Take a field as text; returns it, the field's name if missing, and a refusal if not text."""
    value = body.get(name)
    if value is None or value == "":
        return "", name, ""
    if not isinstance(value, str):
        return "", "", f"{name} must be a string"
    return value, "", ""


def _of_bvn(path: dict[str, str]) -> Subject:
    bvn = path["bvn"]
    refusal = "" if is_digits(bvn, BVN_DIGITS) else BAD_BVN
    return Subject(bvn, {"bvn": bvn}, refusal=refusal, special=magic.by_bvn(bvn))


def _of_bvn_with(path: dict[str, str], body: dict[str, object], name: str) -> Subject:
    subject = _of_bvn(path)
    subject.fields[name], subject.missing, wrong = _text(body, name)
    subject.refusal = subject.refusal or wrong
    return subject


@dataclass(frozen=True, slots=True)
class Karma:
    """GET /v2/verification/karma/:identity."""

    name: str = "karma"

    def read(self, path: dict[str, str], _body: dict[str, object]) -> Subject:
        """Take the identity from the path, any kind but an image."""
        identity = path["identity"]
        return Subject(identity, special=magic.by_karma_identity(identity))

    def answer(self, sandbox: Sandbox, subject: Subject) -> Answer:
        """Look the identity up in the blacklist."""
        manners = sandbox.manners
        known = people.identity_kind(subject.identity) is not None
        if not known and manners.karma_malformed == "400":
            return Answer("malformed", "Enter a valid identity.", http_status=400)
        record = people.karma_of(subject.identity, day=sandbox.day) if known else None
        if record is None:
            return Answer(
                "clear",
                "Identity not found in karma ecosystem",
                miss=manners.karma_miss,
                meta=manners.karma_miss_meta,
            )
        return Answer("listed", "Successful", record)

    def sample(self) -> Answer:
        """Return the record of test mode."""
        return Answer("listed", "Successful", people.karma_record(_SAMPLE_DOMAIN, "domain"))


@dataclass(frozen=True, slots=True)
class Ecosystem:
    """GET /v2/verification/ecosystem/:bvn."""

    name: str = "ecosystem"

    def read(self, path: dict[str, str], _body: dict[str, object]) -> Subject:
        """Take the BVN from the path."""
        return _of_bvn(path)

    def answer(self, sandbox: Sandbox, subject: Subject) -> Answer:
        """Look the BVN up in the borrower history."""
        manners = sandbox.manners
        record = people.ecosystem_of(
            subject.identity, day=sandbox.day, extras=manners.ecosystem_extras
        )
        if record is None:
            text = f"{subject.identity} not found in ecosystem"
            return Answer("not_found", text, miss=manners.ecosystem_miss)
        return Answer("found", "Successful", record)

    def sample(self) -> Answer:
        """Return the record of test mode."""
        return Answer("found", "Successful", people.ecosystem_of(_SAMPLE.bvn))


@dataclass(frozen=True, slots=True)
class BankAccount:
    """POST /v2/verification/bankaccount/bvn."""

    name: str = "bank_account"

    def read(self, _path: dict[str, str], body: dict[str, object]) -> Subject:
        """Take account number and bank code from the body."""
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
            special=None if refusal else magic.by_account(number),
        )

    def answer(self, sandbox: Sandbox, subject: Subject) -> Answer:
        """Look up who holds the account."""
        manners, given = sandbox.manners, subject.fields
        record = people.account_of(
            given["bank_code"],
            given["account_number"],
            day=sandbox.day,
            masked=manners.masked_bvn,
        )
        if record is None:
            return Answer("not_found", "Invalid account number", miss=manners.missing_account)
        return Answer("found", "Successful", record)

    def sample(self) -> Answer:
        """Return the record of test mode."""
        record = people.account_of(magic.BANK_CODE, _SAMPLE.account_number)
        return Answer("found", "Successful", record)


@dataclass(frozen=True, slots=True)
class Selfie:
    """POST /v2/verification/bvn/:bvn/selfies."""

    name: str = "selfie"

    def read(self, path: dict[str, str], body: dict[str, object]) -> Subject:
        """Take the BVN from the path and the address of the photograph from the body."""
        subject = _of_bvn_with(path, body, "image")
        image = subject.fields["image"]
        if image and not subject.refusal and not image.startswith(("http://", "https://")):
            subject.refusal, subject.no_address = "Enter a valid image url.", True
        return subject

    def answer(self, sandbox: Sandbox, subject: Subject) -> Answer:
        """Compare the photograph with the BVN record."""
        record = people.selfie_of(subject.identity, subject.fields["image"], day=sandbox.day)
        if record is None:
            return Answer("not_found", "BVN record not found", miss="404_error")
        word = "match" if record["match"] else "no_match"
        return Answer(word, "Successful", record)

    def sample(self) -> Answer:
        """Return the record of test mode."""
        record = people.selfie_of(_SAMPLE.bvn, _SAMPLE_IMAGE)
        return Answer("match", "Successful", record)


@dataclass(frozen=True, slots=True)
class BvnStart:
    """POST /v2/verification/bvn/:bvn/accounts, the first of the two calls of BVN consent."""

    name: str = "bvn_start"

    def read(self, path: dict[str, str], body: dict[str, object]) -> Subject:
        """Take the BVN from the path and the contact from the body."""
        return _of_bvn_with(path, body, "contact")

    def answer(self, sandbox: Sandbox, subject: Subject) -> Answer:
        """Send the one-time password: remember that it may now be given."""
        if subject.special and not subject.special.bvn_known:
            return Answer("not_found", "BVN record not found", miss="404_error")
        registered = people.contacts_of(subject.identity)
        contact = _registered(subject.fields["contact"], registered)
        if contact is None and sandbox.manners.wrong_contact != "accepted":
            return self._wrong_contact(sandbox, registered)
        delivery = self._delivery(sandbox, subject)
        if delivery == "unreachable":
            text = "Unable to send OTP to the contact of this BVN"
            return Answer("unreachable", text, http_status=400)
        contact = contact or registered[0]
        sandbox.otps.send(subject.identity, contact, sandbox.now(), delivery)
        contact = masked_contact(contact)
        return Answer("otp_sent", "Please provide OTP sent to contact", contact, status="otp")

    def _wrong_contact(self, sandbox: Sandbox, registered: tuple[str, ...]) -> Answer:
        """Refuse a contact and show the right ones masked; the form was never recorded."""
        code, _, place = sandbox.manners.wrong_contact.partition("_")
        masked = [masked_contact(one) for one in registered]
        text = "The contact is not registered with this BVN"
        if place == "data":
            return Answer("wrong_contact", text, masked, http_status=int(code))
        text = f"{text}. Registered contacts: {', '.join(masked)}"
        return Answer("wrong_contact", text, http_status=int(code))

    def _delivery(self, sandbox: Sandbox, subject: Subject) -> str:
        if subject.special and subject.special.otp:
            return subject.special.otp
        if subject.special or sandbox.manners.otp_delivery == "sure":
            return "prompt"
        return drawn_delivery(subject.identity)

    def sample(self) -> Answer:
        """Return the answer of test mode."""
        contact = masked_contact(_SAMPLE.phone)
        return Answer("otp_sent", "Please provide OTP sent to contact", contact, status="otp")


@dataclass(frozen=True, slots=True)
class BvnFinish:
    """PUT /v2/verification/bvn/:bvn/accounts, the second of the two calls of BVN consent."""

    name: str = "bvn_finish"

    def read(self, path: dict[str, str], body: dict[str, object]) -> Subject:
        """Take the BVN from the path and the one-time password from the body."""
        return _of_bvn_with(path, body, "otp")

    def answer(self, sandbox: Sandbox, subject: Subject) -> Answer:
        """Check the one-time password and return the record, in one of its two shapes."""
        bvn = subject.identity
        word = sandbox.otps.give(bvn, subject.fields["otp"], sandbox.otp_terms())
        if word in _OTP_REFUSALS:
            return Answer(word, _OTP_REFUSALS[word], http_status=400)
        shape = self._shape(sandbox, subject)
        if shape == "accounts":
            return Answer("consented", "Successful", people.bvn_accounts(bvn))
        details = people.bvn_details(bvn)
        if shape == "together":
            details["accounts"] = people.bvn_accounts(bvn)
        return Answer("consented", "Successful", details)

    def _shape(self, sandbox: Sandbox, subject: Subject) -> str:
        if subject.special and subject.special.finish:
            return subject.special.finish
        shape = sandbox.manners.bvn_finish
        if shape != "mixed":
            return shape
        return Draw("finish shape", subject.identity).pick(("details", "accounts", "together"))

    def sample(self) -> Answer:
        """Return the record of test mode."""
        return Answer("consented", "Successful", people.bvn_details(_SAMPLE.bvn))


def _registered(contact: str, registered: tuple[str, ...]) -> str | None:
    """Find the registered contact that is meant, written out in any form or masked."""
    for one in registered:
        same = contact_key(contact) == contact_key(one)
        if same or contact in (masked_contact(one), masked_contact(contact_key(one))):
            return one
    return None


def masked_contact(contact: str) -> str:
    """Hide the middle of a phone number or of the name in an email address."""
    name, at, host = contact.partition("@")
    if at:
        return f"{name[:2]}{'*' * max(3, len(name) - 2)}@{host}"
    return f"{contact[:4]}{'*' * max(3, len(contact) - 7)}{contact[-3:]}"


ROUTES: Final[dict[str, dict[str, Operation]]] = {
    "/v2/verification/bvn/{bvn:path}/accounts": {"POST": BvnStart(), "PUT": BvnFinish()},
    "/v2/verification/bvn/{bvn:path}/selfies": {"POST": Selfie()},
    "/v2/verification/bankaccount/bvn": {"POST": BankAccount()},
    "/v2/verification/karma/{identity:path}": {"GET": Karma()},
    "/v2/verification/ecosystem/{bvn:path}": {"GET": Ecosystem()},
}
"""Paths of area B, and the operation behind each method."""
