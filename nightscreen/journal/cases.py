"""Cases that people work on, their reviews, and the text of policies.

A case is a record of its customer (`schemas/cases.py`), opened by a published run
(`runs/open_cases.py`) and closed when the customer is decided (`results/reviews.py`). The desk
lists the open ones (`desk/rows.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nightscreen.journal.database import Turn, blocks
from nightscreen.journal.records import Records
from nightscreen.journal.schema import put_meta, read_meta, records
from nightscreen.journal.storage import Part
from nightscreen.schemas.cases import FREE, OpenCase, Share
from nightscreen.schemas.contests import ENDED, WAITS, Review
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


_MADE = records.c.state == ""
"""Reviews that are in force: not overrides that wait for a second person, or waited."""
_POLICY = "policy {}"
"""Name in `meta` of the text of a policy."""


class Reviews(Part):
    """Writes and reads reviews and policies."""

    @property
    def _records(self) -> Records[Review]:
        return Records(self.journal, Review)

    def active(self, batch: str, at: int, among: Collection[bytes] = ()) -> dict[bytes, Review]:
        """Return the latest review of each customer of a batch that has not ended.

        If `among` names customers, only their reviews are returned.
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
        """Return every review of a batch's customers, oldest first."""
        return _in_order(self._records.all(state="", batch=batch))

    def add(self, found: Sequence[Review]) -> None:
        """Save reviews, all of them or, on any error, none."""
        now = self._clock()
        self._records.add([each.model_copy(update={"at": now}) for each in found])

    def propose(self, found: Sequence[Review]) -> None:
        """Save overrides that wait for a second person; earlier waiting ones end."""
        for each in found:
            self.end_waiting(each.customer)
        waiting = [each.model_copy(update={"state": WAITS, "at": self._clock()}) for each in found]
        self._records.add(waiting)

    def waiting(self, customer: bytes | None = None) -> list[Review]:
        """Return the overrides that wait for a second person, oldest first."""
        if customer is None:
            return self._records.all(state=WAITS)
        return [e for e in self._records.of_customers([customer]) if e.state == WAITS]

    def end(self, waiting: Review) -> bool:
        """End an override that waits; return whether it still waited."""
        ended = waiting.model_copy(update={"state": ENDED})
        return self._records.replace(ended, waiting, self._clock())

    def end_waiting(self, customer: bytes) -> None:
        """End all waiting overrides of a customer, because of another decision."""
        for each in self.waiting(customer):
            self.end(each)

    def keep_policy(self, policy: str, text: str) -> None:
        """Save a policy's JSON under its `name@digest`, unless it is saved already."""
        with self._database.writing() as connection:
            name = _POLICY.format(policy)
            if not read_meta(connection, name):
                put_meta(connection, name, text)

    def policy_text(self, policy: str) -> str | None:
        """Return the JSON of a policy by its `name@digest`; None if it was not saved."""
        name = _POLICY.format(policy)
        with self._database.reading() as connection:
            return read_meta(connection, name).get(name)


def _in_order(found: list[Review]) -> list[Review]:
    return sorted(found, key=lambda each: each.reviewed_at)


# --- open cases ---


WAITS_FOR: Final = ("customer", "reporter")
IN_TURN: Final = "in turn"
SHARED_BY: Final = ("branch", "officer", "reason", IN_TURN)


class Cases(Part):
    """Reads and writes the holders of cases, and shares."""

    @property
    def _kept(self) -> Records[OpenCase]:
        return Records(self.journal, OpenCase)

    # --- cases ---

    def find(self, key: bytes) -> OpenCase | None:
        """Return the open case of a customer, by pseudonym, or None."""
        return self._kept.find(key.hex())

    def take(
        self,
        batch: str,
        customer_id: str,
        user: str,
        *,
        until: int | None = None,
        waits_for: str = "",
        back: bool = False,
    ) -> None:
        """Assign a case to a user, waiting until an instant if given.

        With `back`, free it for everybody instead, even if a share assigned it.

        Raises:
            InputError: another user has it, or it is closed.
        """
        key = self.journal.pseudonyms.customer(batch, customer_id).hex()
        now = self._clock()
        with self._database.recording(Turn.DESK) as connection:
            case = next(iter(self._kept.read(connection, records.c.key == key)), None)
            if case is None:
                raise InputError(
                    "This case is closed: somebody reviewed the customer, or nobody must."
                )
            if case.holder not in {user, "", None}:
                raise InputError(f"{case.holder} has this case.")
            since = case.held_at if case.holder else now
            held = {"holder": "" if back else user, "held_at": since, "waits_until": until}
            after = case.model_copy(update={**held, "waits_for": waits_for})
            self._kept.update(connection, [after], now)

    def free(self, keys: Collection[bytes]) -> None:
        """Free cases, by pseudonym, that a review leaves open."""
        for block in blocks([key.hex() for key in keys]):
            with self._database.recording(Turn.DESK) as connection:
                found = self._kept.read(connection, records.c.key.in_(block))
                freed = [each.model_copy(update=FREE) for each in found if each.holder]
                self._kept.update(connection, freed, self._clock())

    def settle(self, keys: Collection[bytes]) -> None:
        """Close cases, by pseudonym."""
        self._kept.drop([key.hex() for key in keys])

    # --- shares ---

    def shares(self) -> list[Share]:
        """Return the shares of free cases; the first that matches a case applies."""
        return sorted(self._shares.all(), key=lambda each: each.facet == IN_TURN)

    @property
    def _shares(self) -> Records[Share]:
        return Records(self.journal, Share)

    def share(self, facet: str, value: str, users: Sequence[str], by: str) -> None:
        """Assign free cases, present and future, to users, in turn if there are several."""
        now = self._clock()
        key, given = f"{facet}:{value}", tuple(users)
        made = Share(key=key, facet=facet, value=value, users=given, by=by, at=now)
        self._shares.merge([made], lambda _, new: new, now)

    def end_share(self, key: str) -> Share | None:
        """End a share, which frees its cases unless they were taken; return it."""
        found = self._shares.find(key)
        self._shares.drop([key])
        return found

    def hand_over(self, user: str, to: str) -> int:
        """Transfer a user's cases and shares to another; return how many cases were taken ones."""
        now = self._clock()
        with self._database.recording(Turn.DESK) as connection:
            mine = [each for each in self._shares.read(connection) if user in each.users]
            for each in mine:
                users = tuple(to if name == user else name for name in each.users)
                self._shares.update(connection, [each.model_copy(update={"users": users})], now)
            taken = self._kept.read(connection, records.c.state == user)
            given = [each.model_copy(update={"holder": to, "held_at": now}) for each in taken]
            self._kept.update(connection, given, now)
        return len(taken)
