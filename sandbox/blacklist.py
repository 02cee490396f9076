"""The blacklist (karma): what kind an identity is, and what is held against it.

How the answer travels lives in the routes; only the record itself is made here.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from nightscreen.sandbox import magic
from nightscreen.sandbox.draw import Draw
from nightscreen.sandbox.lives import FIRST_DAY

LISTED_SHARE: Final = {
    "bvn": 0.03,
    "phone": 0.012,
    "email": 0.008,
    "domain": 0.01,
    "nuban": 0.01,
}
NEWLY_LISTED_SHARE: Final = 0.06
CLEARED_SHARE: Final = 0.5
CHANGE_DAYS: Final = 30

_WORDS: Final = {
    "bvn": "BVN",
    "phone": "Phone",
    "email": "Email",
    "domain": "Domain",
    "nuban": "NUBAN",
}
_SIGN: Final = r"[A-Za-z0-9\u00a1-\uffff]"
_LABEL: Final = rf"{_SIGN}(?:[A-Za-z0-9\u00a1-\uffff-]{{0,61}}{_SIGN})?"
FORMS: Final = {
    "bvn": r"[0-9]{11}",
    "phone": r"\+234[0-9]{10}",
    "nuban": r"[0-9]{3}-[0-9]{10}",
    "email": r"[^@\x00-\x20\x7f]{1,64}@[^@\x00-\x20\x7f]{1,253}",
    "domain": rf"(?:{_LABEL}\.)+{_LABEL}",
}
"""The form of each kind of identity, in the order in which they are tried.

Written so that every reader of regular expressions takes them alike: the OpenAPI document has them.
"""

_COMPILED: Final = {kind: re.compile(form) for kind, form in FORMS.items()}
_REPORTERS: Final = (
    ("Blueridge Microfinance", "risk@blueridge.example"),
    ("Quickfund Lending", "collections@quickfund.example"),
    ("Palm Credit", "support@palmcredit.example"),
    ("Harbour Finance House", "fraud@harbour.example"),
    ("Savannah Loans", "recovery@savannah.example"),
)
_REASONS: Final = (
    None,
    "Written-off loan",
    "Applied under a false identity",
    "Loan not repaid after repeated reminders",
    "Fraudulent documents",
)


def identity_kind(identity: str) -> str | None:
    """Tell what an identity is by its form (service.md, "Identifier kinds accepted for lookup").

    Returns:
        `bvn`, `phone`, `nuban`, `email`, `domain`, or None for anything else. An image has no
        known transport and is none of these.
    """
    return next((kind for kind, form in _COMPILED.items() if form.fullmatch(identity)), None)


def karma_of(identity: str, *, day: int = 0) -> dict[str, object] | None:
    """Tell what the blacklist holds on an identity (service.md, "Karma (blacklist) record").

    Args:
        identity: a BVN, phone, NUBAN identifier, email address or domain name.
        day: day of the simulated world; on later days some are newly listed, some cleared.

    Returns:
        The `data` of the answer, or None where the identity is not listed.

    Raises:
        ValueError: the identity is of no kind that can be looked up.
    """
    kind = identity_kind(identity)
    if kind is None:
        raise ValueError("a karma identity is a BVN, phone, NUBAN, email address or domain")
    draw = Draw("karma", identity)
    special = magic.by_karma_identity(identity)
    listed = special.listed if special else _is_listed(draw, kind, day)
    return karma_record(identity, kind) if listed else None


def _is_listed(draw: Draw, kind: str, day: int) -> bool:
    share = draw.share()
    turning = draw.share()
    on_day = draw.between(1, CHANGE_DAYS)
    if share < LISTED_SHARE[kind]:
        return not (turning < CLEARED_SHARE and on_day <= day)
    return turning < NEWLY_LISTED_SHARE and on_day <= day


def karma_record(identity: str, kind: str) -> dict[str, object]:
    """Write the entry of an identity of a known kind, as if it were listed."""
    draw = Draw("karma record", identity)
    name, email = draw.pick(_REPORTERS)
    defaulted = FIRST_DAY - timedelta(days=draw.between(60, 2500))
    kobo = draw.pick((0, 0, 0, 50))
    return {
        "karma_identity": identity,
        "amount_in_contention": f"{draw.between(1, 900) * 1000 + draw.below(1000)}.{kobo:02d}",
        "reason": draw.pick(_REASONS),
        "default_date": defaulted.isoformat(),
        "karma_type": {"karma": draw.pick(("Loan default", "Fraud", "Identity theft", "Others"))},
        "karma_identity_type": {"identity_type": _WORDS[kind]},
        "reporting_entity": {"name": name, "email": email},
    }
