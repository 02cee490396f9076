"""Approvals of spending: who asked and with which quote, who decided what, for how much, and when.

A run that needs one writes its request and ends, so that what waits is a row and no process. Each
request, and each decision that replaces another, is a row of its own: none is overwritten. The note
is sealed; nothing else here is about a customer. Who must ask is decided in
`planning/price.py`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    func,
    insert,
    select,
    update,
)

from nightscreen.journal.engine import reading, writing
from nightscreen.journal.runs import RUNNING
from nightscreen.journal.schema import NOTE, approvals, runs
from nightscreen.schemas.approvals import Approval, ApprovalDecision, ApprovalState
from nightscreen.schemas.clock import span_micros
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from sqlalchemy import Connection, Engine, Row

    from nightscreen.files.sealing import Sealer
    from nightscreen.journal.runs import RunRecord
    from nightscreen.journal.storage import Storage
    from nightscreen.schemas.clock import Clock

_STOPPED, _COMPLETED = "stopped", "completed"
_RUN_STATE = select(runs.c.state)


@dataclass(frozen=True, slots=True)
class Approvals:
    """Writes and reads approvals; without a sealer notes are not read, and nothing is decided."""

    _engine: Engine = field(repr=False)
    _sealer: Sealer | None = field(repr=False)
    _clock: Clock = field(repr=False)

    @classmethod
    def of(cls, journal: Storage) -> Approvals:
        """Return the approvals of an open journal."""
        return cls(journal.engine, journal.sealer, journal.clock)

    def ask(
        self,
        run_id: str,
        *,
        by: str,
        reason: str,
        quote: Mapping[str, Any],
        ceiling_micro: int,
        cap_micro: int | None,
        deployment_id: str | None = None,
    ) -> Approval:
        """Write down that a run waits for approval; an earlier request of the run is replaced."""
        asked = {
            "run_id": run_id,
            "asked_by": by,
            "asked_at": self._clock(),
            "reason": reason,
            "quote": json.dumps(quote),
            "ceiling_micro": ceiling_micro,
            "cap_micro": cap_micro,
            "deployment_id": deployment_id,
        }
        with writing(self._engine) as connection:
            connection.execute(insert(approvals), asked)
            return self._read(_newest(connection, run_id))

    def decide(
        self,
        run_id: str,
        decision: ApprovalDecision,
        *,
        by: str,
        note: str = "",
        max_spend_micro: int | None = None,
        seen: int | None = None,
    ) -> Approval:
        """Write down a decision on the newest request of a run.

        A decision may be replaced by another until the run spends on it, and again once the run
        has stopped.

        Args:
            run_id: the run.
            decision: what was decided.
            by: who decided.
            note: why.
            max_spend_micro: what the whole run may spend; what was offered where none is named.
            seen: the record that the approver looked at; None where they name the run alone.

        Raises:
            InputError: the run never asked, spends on its approval now, is completed, or another
                record has taken the place of the one that was seen.
        """
        with writing(self._engine) as connection:
            row = _newest_or_none(connection, run_id)
            if row is None:
                raise InputError(
                    f"run {run_id} does not wait for approval: nightscreen runs list shows the "
                    "runs that do"
                )
            found = self._read(row)
            if seen is not None and (seen != found.approval_id or found.decision is not None):
                raise InputError(
                    f"the request of run {run_id} has changed since it was shown: look at it again"
                )
            state = connection.execute(_RUN_STATE.where(runs.c.run_id == run_id)).scalar()
            if state == _COMPLETED:
                raise InputError(f"run {run_id} is completed: there is nothing left to decide")
            if state == RUNNING and found.used_at is not None:
                raise InputError(
                    f"run {run_id} was approved by {found.decided_by} and spends already: stop the "
                    "run where it must not go on, or ask nightscreen doctor if it seems dead"
                )
            approved = decision is ApprovalDecision.APPROVED
            cap = found.offered_micro if max_spend_micro is None else max_spend_micro
            decided = {
                "decision": decision.value,
                "decided_by": by,
                "decided_at": self._clock(),
                "max_spend_micro": cap if approved else None,
                "note": self._seal(note, run_id),
            }
            if found.decision is None:
                mine = approvals.c.approval_id == found.approval_id
                connection.execute(update(approvals).where(mine).values(decided))
            else:
                asked = {name: getattr(row, name) for name in _ASKED}
                connection.execute(insert(approvals), asked | decided)
            return self._read(_newest(connection, run_id))

    def use(self, run_id: str, *, valid: timedelta, cap_micro: int | None) -> Approval | None:
        """Return the approval that a run may spend on, and note that it does; None where none is.

        Args:
            run_id: the run.
            valid: how old an unused approval may be (APPROVAL_TIMEOUT).
            cap_micro: the run's cap; above what was approved, or without one, it is not covered.
        """
        with writing(self._engine) as connection:
            row = _newest_or_none(connection, run_id)
            if row is None:
                return None
            found, now = self._read(row), self._clock()
            if found.state(now, valid_micros=span_micros(valid)) is not ApprovalState.APPROVED:
                return None
            if cap_micro is None or cap_micro > (found.max_spend_micro or 0):
                return None
            if found.used_at is None:
                mine = approvals.c.approval_id == found.approval_id
                connection.execute(update(approvals).where(mine).values(used_at=now))
            return found

    def newest(self, run_id: str) -> Approval | None:
        """Return a run's newest request, with its decision; None where it never asked."""
        with reading(self._engine) as connection:
            row = _newest_or_none(connection, run_id)
        return None if row is None else self._read(row)

    def state_of(self, run: RunRecord, *, valid: timedelta) -> ApprovalState | None:
        """Return how the approval of a run stands that ended for want of it; None of any other."""
        if run.stop_reason != StopReason.APPROVAL:
            return None
        found = self.newest(run.run_id)
        if found is None:
            return None
        return found.state(self._clock(), valid_micros=span_micros(valid))

    def of_run(self, run_id: str) -> list[Approval]:
        """Return every request and decision of a run, oldest first."""
        query = (
            select(approvals).where(approvals.c.run_id == run_id).order_by(approvals.c.approval_id)
        )
        with reading(self._engine) as connection:
            return [self._read(row) for row in connection.execute(query)]

    def waiting(self) -> list[Approval]:
        """Return what nobody has decided yet, oldest first: one request a run that ended for it.

        A run that goes on without a decision, as `--yes` lets it, waits no more.
        """
        last = select(func.max(approvals.c.approval_id)).group_by(approvals.c.run_id)
        query = (
            select(approvals)
            .join(runs, runs.c.run_id == approvals.c.run_id)
            .where(
                approvals.c.approval_id.in_(last),
                approvals.c.decision.is_(None),
                runs.c.state == _STOPPED,
                runs.c.stop_reason == StopReason.APPROVAL.value,
            )
            .order_by(approvals.c.approval_id)
        )
        with reading(self._engine) as connection:
            return [self._read(row) for row in connection.execute(query)]

    def _seal(self, note: str, run_id: str) -> bytes:
        if self._sealer is None:
            raise ValueError("a decision is written by whoever has the data key")
        return self._sealer.seal(note.encode(), NOTE.context(run_id))

    def _read(self, row: Row[Any]) -> Approval:
        note = b""
        if row.note is not None and self._sealer is not None:
            note = self._sealer.open(bytes(row.note), NOTE.context(row.run_id))
        plain = {name: getattr(row, name) for name in (*_ASKED, *_DECIDED)}
        plain |= {
            "quote": json.loads(row.quote),
            "decision": None if row.decision is None else ApprovalDecision(row.decision),
        }
        return Approval(approval_id=row.approval_id, note=note.decode(), **plain)


_ASKED = (
    "run_id",
    "asked_by",
    "asked_at",
    "reason",
    "quote",
    "ceiling_micro",
    "cap_micro",
    "deployment_id",
)
_DECIDED = ("decision", "decided_by", "decided_at", "max_spend_micro", "used_at")


def _newest_or_none(connection: Connection, run_id: str) -> Row[Any] | None:
    query = (
        select(approvals)
        .where(approvals.c.run_id == run_id)
        .order_by(approvals.c.approval_id.desc())
        .limit(1)
    )
    return connection.execute(query).first()


def _newest(connection: Connection, run_id: str) -> Row[Any]:
    row = _newest_or_none(connection, run_id)
    assert row is not None  # noqa: S101 - written in the same transaction
    return row
