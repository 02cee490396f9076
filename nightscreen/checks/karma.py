"""Is the person on the karma blacklist? (specification, area B, karma)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from nightscreen.checks.declaration import Column, Compare, Days, Declaration, Kind, Shape, Tone
from nightscreen.schemas.answers import Day, Number, Record, Text
from nightscreen.schemas.checks import IdentityKind, Outcome
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.requests import VERIFICATION, Request, segment
from nightscreen.values.whose import names_the_same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.checks.declaration import Found, Limits, Row
    from nightscreen.schemas.checks import Lookup


class KarmaListing(Record):
    """One blacklist record (specification, karma record); nested objects are flattened."""

    named_by: ClassVar[str] = "karma_identity"

    karma_identity: Text = None
    amount_in_contention: Number = None
    reason: Text = None
    default_date: Day = None
    karma_type: Text = None
    identity_type: Text = None
    reporting_entity_name: Text = None
    reporting_entity_email: Text = None


@dataclass(frozen=True, slots=True)
class KarmaListings:
    """Several blacklist records in one answer; the specification shows one."""

    listings: tuple[KarmaListing, ...] = field(repr=False)


LISTINGS = "karma_listings"
_SHOWN = {
    "karma_type": Kind.TEXT,
    "identity_type": Kind.TEXT,
    "amount_in_contention": Kind.NAIRA,
    "default_date": Kind.DAY,
    "reason": Kind.TEXT,
    "reporting_entity_name": Kind.TEXT,
    "reporting_entity_email": Kind.TEXT,
}
"""The fields of a listing in a row, besides the kind of identity."""
LISTING: Shape = {"identity_kind": Kind.TEXT, **_SHOWN}

_OWN_FORMS = (
    (IdentityKind.EMAIL, re.compile(r".*@.*")),
    (IdentityKind.PHONE, re.compile(r"\+.*")),
    (IdentityKind.BVN, re.compile(r"[0-9]{11}")),
    (IdentityKind.NUBAN, re.compile(r"[0-9]{3}-[0-9]{10}")),
)
"""The formats of identities in requests (specification, identifier kinds); others are domains."""

_KIND_WORDS = {
    "bvn": IdentityKind.BVN,
    "bank verification": IdentityKind.BVN,
    "phone": IdentityKind.PHONE,
    "mobile": IdentityKind.PHONE,
    "mail": IdentityKind.EMAIL,
    "domain": IdentityKind.DOMAIN,
    "nuban": IdentityKind.NUBAN,
    "account": IdentityKind.NUBAN,
    "image": IdentityKind.IMAGE,
}
"""Parts of `identity_type` by kind: BVN, Phone, Email, Domain and NUBAN were recorded. A value
without any of these is not compared."""


def _request(lookup: Lookup) -> Request:
    """Build a blacklist lookup (specification, area B: `/karma/:identity`).

    Raises:
        UsageError: the identity is an image; the specification does not show how
            one is carried in the path (area B, rule 5).
    """
    if lookup.kind is IdentityKind.IMAGE:
        raise UsageError(
            "karma cannot be asked by image: the service does not say how one is sent; "
            "use bvn, phone, email, domain or nuban"
        )
    path = f"{VERIFICATION}/karma/{segment(lookup.identity)}"
    return Request("karma", "GET", path, None, asked=lookup.identity)


def _read(data: object) -> KarmaListing | KarmaListings | None:
    """Return one record, or several if the answer is a list; the specification shows one."""
    if isinstance(data, list):
        listings = (KarmaListing.read(_flat(item)) for item in data if isinstance(item, dict))
        found = tuple(listing for listing in listings if not listing.is_nameless())
        return KarmaListings(found) if found else None
    return KarmaListing.found_in(_flat(data) if isinstance(data, dict) else None)


def _flat(data: dict[str, Any]) -> dict[str, Any]:
    """Flatten the nested objects of a record (specification, karma record)."""
    flat = dict(data)
    for outer, inner, name in (
        ("karma_type", "karma", "karma_type"),
        ("karma_identity_type", "identity_type", "identity_type"),
    ):
        held = flat.pop(outer, None)
        flat[name] = held.get(inner) if isinstance(held, dict) else held
    entity = flat.pop("reporting_entity", None)
    if isinstance(entity, dict):
        flat["reporting_entity_name"] = entity.get("name")
        flat["reporting_entity_email"] = entity.get("email")
    else:
        flat["reporting_entity_name"] = entity
    return flat


def listings_of(answer: object) -> tuple[KarmaListing, ...]:
    """Return the listings of an answer: one, several, or none without a record."""
    if isinstance(answer, KarmaListings):
        return answer.listings
    return (answer,) if isinstance(answer, KarmaListing) else ()


def _is_another(asked: str, record: KarmaListing | KarmaListings) -> bool:
    """Compare identifiers and their kinds; one foreign listing makes the answer another's."""
    kind = next((kind for kind, form in _OWN_FORMS if form.fullmatch(asked)), IdentityKind.DOMAIN)
    for listing in listings_of(record):
        word = (listing.identity_type or "").casefold()
        named = next((found for part, found in _KIND_WORDS.items() if part in word), kind)
        if named is not kind or not names_the_same(kind, asked, listing.karma_identity):
            return True
    return False


def _judge(_row: Row, found: Sequence[Found], _limits: Limits) -> tuple[Any, ...]:
    """Return a row's status, listings, listed kinds (each once) and highest amount."""
    listings = [(kind, each) for kind, record in found for each in listings_of(record)]
    amounts = [_naira(each.amount_in_contention) for _, each in listings]
    return (
        "listed" if found else "clear",
        [_listing(kind, each) for kind, each in listings],
        list(dict.fromkeys(kind.value for kind, _ in listings)),
        max((amount for amount in amounts if amount is not None), default=None),
    )


def _listing(kind: IdentityKind, record: KarmaListing) -> dict[str, Any]:
    shown = {name: getattr(record, name) for name in _SHOWN}
    amount = _naira(record.amount_in_contention)
    return {"identity_kind": kind.value, **shown, "amount_in_contention": amount}


def _naira(amount: Decimal | None) -> Decimal | None:
    return None if amount is None else round(amount, 2)


def _hidden(_record: KarmaListing, _rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the email of the reporter's employee, and the unknown fields."""
    return ("reporting_entity_email", "extra")


KARMA = Declaration(
    name="karma",
    title="Karma blacklist",
    asked_by=(),
    needs_consent=False,
    request=_request,
    read=_read,
    is_another=_is_another,
    names_somebody=True,
    ages={Outcome.CLEAR: Days(7, 1), Outcome.LISTED: Days(30, 7)},
    naira=Decimal(10),
    max_in_flight=8,
    timeout_s=30,
    is_default=True,
    order=1,
    first_night_hits=0.05,
    first_night_seconds=1.0,
    statuses={"listed": Tone.BAD, "clear": Tone.GOOD},
    ranks=("clear", "listed"),
    columns=(
        Column(
            LISTINGS,
            [LISTING],
            "Every listing: by which identity, why, for how much, since when, reported by whom.",
            Compare.LISTING,
            unseen=("reporting_entity_email",),
        ),
        Column(
            "karma_listed_by",
            [Kind.TEXT],
            "Which of the identities asked about are listed.",
            Compare.LISTING,
        ),
        Column(
            "karma_amount_in_contention",
            Kind.NAIRA,
            "The highest amount of any listing, naira.",
            Compare.MORE_IS_WORSE,
        ),
    ),
    says={"clear": "No lender has listed this customer."},
    judge=_judge,
    hidden=_hidden,
)
