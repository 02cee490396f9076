"""What people decided: reviews of customers, releases of held runs, and the policies' own text.

Reviewer and note are sealed. Whether a row of a returned list is sound is judged in
`steps/results/reviews.py`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import func, insert, select, update

from nightscreen.schemas.decisions import Review
from nightscreen.schemas.policy import PolicyApproval
from nightscreen.storage.journal.customer_tables import (
    ensure,
    erasures,
    policies,
    policy_approvals,
    releases,
    reviews,
)
from nightscreen.storage.journal.engine import reading, writing
from nightscreen.storage.journal.tables import runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Engine, Row

    from nightscreen.storage.clock import Clock
    from nightscreen.storage.journal import Journal
    from nightscreen.storage.sealing import Sealer


class ReviewMark(NamedTuple):
    """What a review says, without who says it and why."""

    review_id: int
    customer: bytes
    decision: str
    evidence: bytes
    until: int


@dataclass(frozen=True, slots=True)
class Reviews:
    """Writes and reads reviews, releases and policies."""

    _engine: Engine = field(repr=False)
    _sealer: Sealer = field(repr=False)
    _clock: Clock = field(repr=False)

    @classmethod
    def of(cls, journal: Journal) -> Reviews:
        """Return the reviews of an open journal."""
        ensure(journal.engine)
        return cls(journal.engine, journal.sealer, journal.clock)

    def active(self, batch: str, at: int) -> dict[bytes, Review]:
        """Return the latest review of each customer of a batch name that has not ended."""
        query = (
            select(reviews)
            .where(reviews.c.batch == batch, reviews.c.until > at)
            .order_by(reviews.c.reviewed_at, reviews.c.review_id)
        )
        with reading(self._engine) as connection:
            return {bytes(row.customer): self._read(row) for row in connection.execute(query)}

    def since(self, review_id: int, at: int) -> list[ReviewMark]:
        """Return the reviews after one by its number that have not ended, oldest first."""
        query = (
            select(*(reviews.c[name] for name in ReviewMark._fields))
            .where(reviews.c.review_id > review_id, reviews.c.until > at)
            .order_by(reviews.c.review_id)
        )
        with reading(self._engine) as connection:
            return [
                ReviewMark(row[0], bytes(row[1]), row[2], bytes(row[3]), row[4])
                for row in connection.execute(query)
            ]

    def stamp(self, flow: str) -> tuple[int, ...]:
        """Return numbers that change whenever what is published of a flow's runs may change."""
        ended = runs.c.finished_at
        others = (
            select(func.count()).select_from(table).scalar_subquery()
            for table in (releases, erasures)
        )
        query = select(
            func.count(), func.count(ended), func.coalesce(func.max(ended), 0), *others
        ).where(runs.c.flow == flow)
        with reading(self._engine) as connection:
            return tuple(connection.execute(query).one())

    def of_customer(self, customer: bytes) -> list[Review]:
        """Return every review of a customer, oldest first."""
        query = (
            select(reviews)
            .where(reviews.c.customer == customer)
            .order_by(reviews.c.reviewed_at, reviews.c.review_id)
        )
        with reading(self._engine) as connection:
            return [self._read(row) for row in connection.execute(query)]

    def of_batch(self, batch: str) -> list[Review]:
        """Return every review of a batch name's customers, oldest first."""
        query = (
            select(reviews)
            .where(reviews.c.batch == batch)
            .order_by(reviews.c.reviewed_at, reviews.c.review_id)
        )
        with reading(self._engine) as connection:
            return [self._read(row) for row in connection.execute(query)]

    def add(self, batch: str, found: Sequence[Review]) -> None:
        """Write reviews down, all of them or, on any trouble, none."""
        now = self._clock()
        rows = [
            {
                "customer": each.customer,
                "batch": batch,
                "run_id": each.run_id,
                "listed": each.listed,
                "decision": each.decision,
                "reviewed_at": each.reviewed_at,
                "until": each.until,
                "imported_at": now,
                "evidence": each.evidence,
                "sealed": self._sealer.seal(
                    json.dumps([each.reviewer, each.note]).encode(), review_context(each.customer)
                ),
            }
            for each in found
        ]
        if rows:
            with writing(self._engine) as connection:
                connection.execute(insert(reviews), rows)

    def _read(self, row: Row[Any]) -> Review:
        customer = bytes(row.customer)
        reviewer, note = json.loads(self._sealer.open(bytes(row.sealed), review_context(customer)))
        return Review(
            customer=customer,
            run_id=row.run_id,
            listed=row.listed,
            decision=row.decision,
            reviewer=reviewer,
            note=note,
            reviewed_at=row.reviewed_at,
            until=row.until,
            evidence=bytes(row.evidence),
            imported_at=row.imported_at,
        )

    def release(self, run_id: str, reason: str, report: Mapping[str, Any]) -> None:
        """Note that a held run was released, with its report as it is now."""
        with writing(self._engine) as connection:
            row = {"run_id": run_id, "released_at": self._clock(), "reason": reason}
            connection.execute(insert(releases), row)
            connection.execute(
                update(runs).where(runs.c.run_id == run_id).values(report=json.dumps(report))
            )

    def keep_policy(self, policy: str, text: str) -> None:
        """Keep a policy's JSON under its `name@digest`, unless it is kept already."""
        known = select(policies.c.policy).where(policies.c.policy == policy)
        with reading(self._engine) as connection:
            if connection.execute(known).first() is not None:
                return
        with writing(self._engine) as connection:
            if connection.execute(known).first() is None:
                row = {"policy": policy, "text": text, "kept_at": self._clock()}
                connection.execute(insert(policies), row)

    def approve_policy(self, given: PolicyApproval) -> None:
        """Write down that a policy was approved; earlier approvals of it stay."""
        with writing(self._engine) as connection:
            connection.execute(insert(policy_approvals), given.model_dump())

    def policy_approval(self, policy: str, at: int) -> PolicyApproval | None:
        """Return the newest approval of a policy that is in force at an instant, or None."""
        query = (
            select(policy_approvals)
            .where(policy_approvals.c.policy == policy, policy_approvals.c.in_force_from <= at)
            .order_by(policy_approvals.c.approval_id.desc())
            .limit(1)
        )
        with reading(self._engine) as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else PolicyApproval.model_validate(dict(row))

    def policy_text(self, policy: str) -> str | None:
        """Return the JSON of a policy by its `name@digest`; None where it was not kept."""
        query = select(policies.c.text).where(policies.c.policy == policy)
        with reading(self._engine) as connection:
            return connection.execute(query).scalar()


def review_context(customer: bytes) -> bytes:
    """Return what a sealed review is bound to."""
    return b"review\x1f" + customer
