"""People planted by tests: they replace the made-up ones until the next reset.

What may be planted and what becomes of it is here; everything else comes from `people` as before.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, Field, TypeAdapter, model_validator

from nightscreen.sandbox import people
from nightscreen.sandbox.faults import Setting, one_of
from nightscreen.sandbox.grants import LONGEST_NAME
from nightscreen.sandbox.lives import Life, life_of
from nightscreen.sandbox.people import (
    Account,
    AccountNumber,
    BankCode,
    Bvn,
    Person,
    Text,
    contact_key,
    person_of_bvn,
)
from nightscreen.sandbox.transactions import Owner, person_of_customer

if TYPE_CHECKING:
    from nightscreen.sandbox.people import Record


def _name(value: str) -> str:
    if not value or len(value) > LONGEST_NAME or not value.isprintable():
        raise ValueError(f"must have 1 to {LONGEST_NAME} printable characters")
    return value


# a field that no record has is refused: the made-up one would stay
ListingField = Annotated[str, one_of(people.karma_record("", "bvn"), "field of a listing")]
HistoryField = Annotated[
    str, one_of(people.ecosystem_of("22123456789", known=True) or (), "field of a history")
]
Customer = Annotated[Text, AfterValidator(str.strip), AfterValidator(_name)]


class PlantedAccount(Setting):
    """Whether an account is its person's, or nobody's."""

    bank_code: BankCode
    account_number: AccountNumber
    exists: bool = True


class PlantedListing(Setting):
    """An identity that is on the blacklist, or is not."""

    identity: Text
    listed: bool = True
    record: dict[ListingField, Any] = Field({}, description="fields as an answer has them")


class Planting(Setting):
    """What is planted together."""

    bvn: Bvn | None = None
    person: dict[str, Any] | None = Field(None, description="fields of a person")
    account: PlantedAccount | None = None
    listing: PlantedListing | None = None
    history: dict[HistoryField, Any] | None = None
    customer: Customer | None = None
    life: Life | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Refuse half of something."""
        given = self.model_fields_set
        if not given - {"bvn"}:
            raise ValueError(
                "name what to plant: person, account, listing, history, customer or life"
            )
        needs = [name for name in ("person", "history", "account") if name in given]
        if self.bvn is None and needs:
            raise ValueError(f"{needs[0]} needs the bvn of its person")
        if self.life and self.customer is None:
            raise ValueError("life needs the customer, the username of who lives it")
        return self


@dataclass(slots=True)
class Planted:
    """What was planted, by the identifier it is looked up with; None if nothing is found."""

    people: dict[str, Person] = field(default_factory=dict)
    # BVN of who holds an account, by bank code and number
    holders: dict[tuple[str, str], str | None] = field(default_factory=dict)
    listings: dict[str, Record | None] = field(default_factory=dict)
    histories: dict[str, Record | None] = field(default_factory=dict)
    customers: dict[str, Owner] = field(default_factory=dict)

    def plant(self, what: Planting, day: int) -> Record:
        """Plant what is said, and return it whole.

        Raises:
            pydantic.ValidationError: the person has a field that no person has; nothing is planted.
        """
        bvn, given, shown = what.bvn, what.model_fields_set, dict[str, object](bvn=what.bvn)
        if bvn and what.person is not None:
            fields = {name: value for name, value in what.person.items() if value is not None}
            shown["person"] = TypeAdapter(Person).dump_python(
                self._plant_person(bvn, fields), mode="json"
            )
        if bvn and what.account:
            place = Account(what.account.bank_code, what.account.account_number)
            self.holders[place] = bvn if what.account.exists else None
            shown["account"] = self.account(*place, day, masked=False)
        if bvn and "history" in given:
            self.histories[bvn] = what.history
            shown["history"] = self.history(bvn, day)
        if what.listing:
            identity = what.listing.identity
            made = people.karma_record(identity, people.identity_kind(identity) or "bvn")
            record = {**made, **what.listing.record} if what.listing.listed else None
            shown["listing"] = self.listings[identity] = record
        if what.customer:
            owner = self.owner(what.customer)
            owner = Owner(self.person(bvn) if bvn else owner.person, what.life or owner.life)
            self.customers[what.customer] = owner
            shown |= {"customer": what.customer, "life": asdict(owner.life)}
        return shown

    def _plant_person(self, bvn: str, fields: Record) -> Person:
        """Give the bearer of a BVN other fields; the rest stays as made up."""
        whole = {**asdict(self.person(bvn)), **fields, "bvn": bvn}
        whole["phone"] = contact_key(str(whole["phone"]))
        person = self.people[bvn] = TypeAdapter(Person).validate_python(whole)
        if {"bank_code", "account_number"} & set(fields):
            self.holders[person.account] = bvn
        return person

    def person(self, bvn: str) -> Person:
        """Return the person of a BVN."""
        return self.people.get(bvn) or person_of_bvn(bvn)

    def owner(self, customer: str) -> Owner:
        """Return who signs in under a username, and their life."""
        known = self.customers.get(customer)
        person = known.person if known else person_of_customer(customer)
        life = known.life if known else life_of(customer)
        return Owner(self.people.get(person.bvn, person), life)

    def karma(self, identity: str, day: int) -> Record | None:
        """Return what the blacklist holds on an identity; what is of no kind is not listed."""
        if identity in self.listings:
            return self.listings[identity]
        return people.karma_of(identity, day=day)

    def history(self, bvn: str, day: int) -> Record | None:
        """Return what the borrower history holds on a BVN."""
        fields = self.histories.get(bvn, {})
        if fields is None:
            return None
        known, person = bvn in self.histories, self.person(bvn)
        whole = people.ecosystem_of(bvn, day=day, person=person, known=known)
        return whole and {**whole, **fields}

    def account(self, code: str, number: str, day: int, *, masked: bool) -> Record | None:
        """Return what a bank account lookup answers."""
        place, holder = Account(code, number), people.holder_of(code, number, day=day)
        bvn = self.holders.get(place, holder.bvn if holder else None)
        return people.account_record(self.person(bvn), place, masked=masked) if bvn else None
