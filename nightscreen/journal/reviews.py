"""What people decided: reviews of customers, and the text of the policies that decide.

Whether a row of a returned list is sound is judged in `results/reviews.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nightscreen.journal.engine import reading, writing
from nightscreen.journal.records import Records
from nightscreen.journal.schema import put_meta, read_meta, records
from nightscreen.schemas.contests import ENDED, WAITS, Review

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nightscreen.journal.storage import Storage


_MADE = records.c.state == ""
"""No override that waits for a second person, or did."""
_POLICY = "policy {}"
"""Name in `meta` of the text of a policy."""


@dataclass(frozen=True, slots=True)
class Reviews:
    """Writes and reads reviews and policies."""

    _journal: Storage = field(repr=False)

    @property
    def _records(self) -> Records[Review]:
        return Records(self._journal, Review)

    def active(self, batch: str, at: int, among: Collection[bytes] = ()) -> dict[bytes, Review]:
        """Return the latest review of each customer of a batch name that has not ended.

        Only of some customers, where any are named.
        """
        lately = self._records.select(
            _MADE,
            records.c.batch == batch,
            records.c.updated_at > at,
            *([records.c.customer.in_(among)] if among else ()),
        )
        return {each.customer: each for each in _in_order(lately) if each.until > at}

    def of_customer(self, customer: bytes) -> list[Review]:
        """Return every review of a customer, oldest first."""
        found = self._records.of_customers([customer])
        return _in_order([each for each in found if not each.state])

    def of_batch(self, batch: str) -> list[Review]:
        """Return every review of a batch name's customers, oldest first."""
        return _in_order(self._records.all(state="", batch=batch))

    def add(self, found: Sequence[Review]) -> None:
        """Write reviews down, all of them or, on any trouble, none."""
        now = self._journal.clock()
        self._records.add([each.model_copy(update={"at": now}) for each in found])

    def propose(self, found: Sequence[Review]) -> None:
        """Keep overrides until a second person confirms them; earlier ones end."""
        for each in found:
            self.end_waiting(each.customer)
        waiting = [
            each.model_copy(update={"state": WAITS, "at": self._journal.clock()}) for each in found
        ]
        self._records.add(waiting)

    def waiting(self, customer: bytes | None = None) -> list[Review]:
        """Return the overrides that wait for a second person, oldest first."""
        if customer is None:
            return self._records.all(state=WAITS)
        return [e for e in self._records.of_customers([customer]) if e.state == WAITS]

    def end(self, waiting: Review) -> bool:
        """End an override that waits; tell whether it still did."""
        ended = waiting.model_copy(update={"state": ENDED})
        return self._records.replace(ended, waiting, self._journal.clock())

    def end_waiting(self, customer: bytes) -> None:
        """End whatever waits about a customer: something else was decided."""
        for each in self.waiting(customer):
            self.end(each)

    def keep_policy(self, policy: str, text: str) -> None:
        """Keep a policy's JSON under its `name@digest`, unless it is kept already."""
        with writing(self._journal.engine) as connection:
            name = _POLICY.format(policy)
            if not read_meta(connection, name):
                put_meta(connection, name, text)

    def policy_text(self, policy: str) -> str | None:
        """Return the JSON of a policy by its `name@digest`; None where it was not kept."""
        name = _POLICY.format(policy)
        with reading(self._journal.engine) as connection:
            return read_meta(connection, name).get(name)


def _in_order(found: list[Review]) -> list[Review]:
    return sorted(found, key=lambda each: each.reviewed_at)
