"""People planted by tests: they replace the made-up ones until the next reset.

The control surface plants them; everything else comes from `people` as before.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nightscreen.sandbox import people
from nightscreen.sandbox.lives import life_of
from nightscreen.sandbox.people import Account, Person, contact_key, person_of_bvn
from nightscreen.sandbox.transactions import Owner, person_of_customer

if TYPE_CHECKING:
    from nightscreen.sandbox.lives import Life
    from nightscreen.sandbox.people import Record


@dataclass(slots=True)
class Planted:
    """What was planted, by the identifier it is looked up with; None if nothing is found."""

    people: dict[str, Person] = field(default_factory=dict)
    # BVN of who holds an account, by bank code and number
    holders: dict[tuple[str, str], str | None] = field(default_factory=dict)
    listings: dict[str, Record | None] = field(default_factory=dict)
    histories: dict[str, Record | None] = field(default_factory=dict)
    customers: dict[str, Owner] = field(default_factory=dict)

    def person(self, bvn: str) -> Person:
        """Return the person of a BVN."""
        return self.people.get(bvn) or person_of_bvn(bvn)

    def plant_person(self, bvn: str, fields: dict[str, Any]) -> Person:
        """Give the bearer of a BVN other fields; the rest stays as made up."""
        if "phone" in fields:
            fields["phone"] = contact_key(fields["phone"])
        person = self.people[bvn] = replace(self.person(bvn), **fields)
        if {"bank_code", "account_number"} & set(fields):
            self.holders[person.account] = bvn
        return person

    def plant_life(self, customer: str, bvn: str | None, life: Life | None) -> Owner:
        """Say who signs in under a username, and how they live."""
        known = self.owner(customer)
        owner = Owner(self.person(bvn) if bvn else known.person, life or known.life)
        self.customers[customer] = owner
        return owner

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
        return people.karma_of(identity, day=day) if people.identity_kind(identity) else None

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
