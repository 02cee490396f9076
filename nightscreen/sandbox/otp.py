"""One-time passwords of BVN consent: to whom they were sent, when they arrive, how long they last.

This is the customer's side of the two calls, in the sandbox's own time, which can be moved ahead.
`sandbox.operations` answers the calls; `people.otp_of` chooses the passwords.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from nightscreen.sandbox.people import contact_key, otp_of

EXPIRED_OTP: Final = "999999"  # the one-time password that is always too late
LIFETIME_S: Final = 600.0  # how long a one-time password is valid, in the sandbox's own seconds
LATE_S: Final = 900.0  # when a late one arrives, after it has expired


def registered_contact(contact: str, registered: tuple[str, ...]) -> str | None:
    """Find the registered contact that is meant, written out in any form or masked."""
    for known in registered:
        same = contact_key(contact) == contact_key(known)
        if same or contact in (masked_contact(known), masked_contact(contact_key(known))):
            return known
    return None


def masked_contact(contact: str) -> str:
    """Hide the middle of a phone number or of the name in an email address."""
    name, at, host = contact.partition("@")
    if at:
        return f"{name[:2]}{'*' * max(3, len(name) - 2)}@{host}"
    return f"{contact[:4]}{'*' * max(3, len(contact) - 7)}{contact[-3:]}"


@dataclass(slots=True)
class Sent:
    """One password on its way to a customer, or given by them."""

    otp: str  # six digits
    contact: str  # where it went, as it is registered
    number: int  # how many were sent to this customer so far, this one included
    sent_at: float  # the sandbox's own seconds
    delivery: str  # `prompt`, `late` or `never`
    wrong: int = 0  # wrong passwords entered since it was sent
    used: bool = False  # whether consent was given with it

    def state(self, now: float) -> str:
        """Return `used`, `expired`, `arrived` or `under_way`."""
        if self.used or now - self.sent_at >= LIFETIME_S:
            return "used" if self.used else "expired"
        return "arrived" if self.read(now) else "under_way"

    def read(self, now: float) -> str | None:
        """Read the password as the customer does; None where it has not arrived."""
        late = self.delivery == "late" and now - self.sent_at >= LATE_S
        return self.otp if late or self.delivery == "prompt" else None


class OtpOutbox:
    """The newest password of every customer: another one takes its place."""

    def __init__(self) -> None:
        self._sent: dict[str, Sent] = {}

    def send(self, bvn: str, contact: str, now: float, delivery: str) -> None:
        """Send a customer a new password; the previous one is no longer valid."""
        before = self._sent.pop(bvn, None)
        number = before.number + 1 if before else 1
        self._sent[bvn] = Sent(otp_of(bvn, number), contact, number, now, delivery)

    def give(self, bvn: str, otp: str, now: float) -> str:
        """Check a password that a customer supplies.

        Returns:
            `not_started`, `otp_expired`, `wrong_otp` or `consented`.
        """
        sent = self._sent.get(bvn)
        if sent is None or sent.used:
            return "not_started"
        if otp == EXPIRED_OTP or sent.state(now) == "expired":
            return "otp_expired"
        if otp != sent.otp or sent.delivery == "never":
            sent.wrong += 1
            return "wrong_otp"
        sent.used = True
        return "consented"

    def as_json(self, now: float, wanted: str | None = None) -> list[dict[str, Any]]:
        """Show what every customer holds, or one of them, in the order of sending."""
        return [
            {
                "bvn": bvn,
                "otp": sent.read(now),
                "contact": sent.contact,
                "state": sent.state(now),
                "delivery": sent.delivery,
                "number": sent.number,
                "age_s": round(now - sent.sent_at, 3),
                "wrong": sent.wrong,
            }
            for bvn, sent in self._sent.items()
            if wanted in (None, bvn)
        ]
