"""Approvals of spending: requests with their quotes, and decisions with amount, person and time.

A run that needs an approval saves a request and ends, so that no process has to wait. Each request,
and each decision that replaces another, is a separate record: none is overwritten. A decision is
made by command, at the terminal or at the desk, and is used when the run is resumed.
`planning/price.py` decides which runs need one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from nightscreen.journal.actor import SPENDING
from nightscreen.journal.audit import RUN_RESUMED, Audit
from nightscreen.journal.records import Records
from nightscreen.journal.runs import RUNNING, Runs, upload_of
from nightscreen.journal.schema import records, runs
from nightscreen.journal.storage import Part
from nightscreen.schemas.approvals import Approval, ApprovalDecision, ApprovalState
from nightscreen.schemas.clock import span_micros
from nightscreen.schemas.errors import InputError, NotAllowedError
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.stops import StopReason
from nightscreen.schemas.uploads import Upload

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from sqlalchemy import Connection, Select

    from nightscreen.journal.actor import Actor
    from nightscreen.journal.runs import RunRecord
    from nightscreen.journal.storage import Storage

_STOPPED, _COMPLETED = "stopped", "completed"


class Approvals(Part):
    """Writes and reads approvals."""

    @property
    def _records(self) -> Records[Approval]:
        return Records(self.journal, Approval)

    def ask(self, run_id: str, **asked: Any) -> Approval:  # noqa: ANN401 - as `Approval` has it
        """Save a run's request for approval; it replaces an earlier request of the run."""
        with self._database.writing() as connection:
            key = Approval.next_key(run_id, self._of_run(connection, run_id))
            found = Approval(key=key, run_id=run_id, at=self._clock(), **asked)
            self._records.insert(connection, [found])
        return found

    def decide(
        self,
        actor: Actor,
        run_id: str,
        decision: ApprovalDecision,
        *,
        note: str = "",
        max_spend_micro: int | None = None,
        seen: str | None = None,
    ) -> Approval:
        """Approve or refuse the spending of a waiting run.

        A decision may be replaced until the run uses it, and again after the run has stopped.

        Args:
            actor: who decides.
            run_id: the run.
            decision: the decision.
            note: the reason.
            max_spend_micro: what the whole run may spend; by default the requested amount.
            seen: key of the record that the approver saw; None if they only named the run.

        Raises:
            NotAllowedError: the actor may not approve, or asked for it and another user can decide.
            InputError: the run never asked, is spending on its approval, is completed, or another
                record has replaced the one that was seen.
        """
        actor.require(self.journal, SPENDING)
        asked, run = self.newest(run_id), Runs(self.journal).find(run_id)
        if asked is not None and run is not None and self.is_own(actor, asked, run):
            raise NotAllowedError(
                "You asked for this yourself; somebody else must approve it.",
                needs="a second person",
            )
        with self._database.writing() as connection:
            every = self._of_run(connection, run_id)
            if not every:
                raise InputError(
                    f"run {run_id} does not wait for approval: nightscreen runs list shows the "
                    "runs that do"
                )
            found = every[-1]
            if seen is not None and (seen != found.key or found.decision is not None):
                raise InputError(
                    f"the request of run {run_id} has changed since it was shown: look at it again"
                )
            query = select(runs.c.state).where(runs.c.run_id == run_id)
            state = connection.execute(query).scalar()
            if state == _COMPLETED:
                raise InputError(f"run {run_id} is completed: there is nothing left to decide")
            if state == RUNNING and found.used_at is not None:
                raise InputError(
                    f"run {run_id} was approved by {found.decided_by} and spends already: stop the "
                    "run where it must not go on, or ask nightscreen doctor if it seems dead"
                )
            cap = found.offered_micro if max_spend_micro is None else max_spend_micro
            at = self._clock()
            decided: dict[str, Any] = {
                "decision": decision,
                "decided_by": actor.name,
                "decided_at": at,
                "max_spend_micro": cap if decision is ApprovalDecision.APPROVED else None,
                "note": note,
                "used_at": None,
            }
            if found.decision is not None:  # the earlier decision stays, as a record of its own
                decided["key"] = Approval.next_key(run_id, every)
            done = found.model_copy(update=decided)
            save = self._records.update if done.key == found.key else self._records.insert
            save(connection, [done], at)
        granted = naira_text(done.max_spend_micro)
        actor.note(self.journal, f"spending {decision}", run_id=run_id, max_spend=granted)
        return done

    def is_own(self, actor: Actor, asked: Approval, run: RunRecord) -> bool:
        """Return whether the actor asked for a run's spending, and another user can decide.

        The person who uploaded its file asked for it, and the person who last resumed the run. If
        the file was not uploaded, the person or deployment that started the run asked for it.
        """
        if actor.alone:
            return False
        uploaded = upload_of_run(self.journal, run)
        last = Audit(self.journal).last_user(run.run_id, RUN_RESUMED, until=asked.at)
        return actor.is_one_of([asked.asked_by if uploaded is None else uploaded.user, last or ""])

    def use(self, run_id: str, *, valid: timedelta, cap_micro: int | None) -> Approval | None:
        """Return the approval that a run may spend on, and record its use; None if there is none.

        An approval unused for longer than `valid` (APPROVAL_TIMEOUT) is void. It does not cover a
        run without a cap, or with a cap above the approved amount.
        """
        with self._database.writing() as connection:
            found = next(reversed(self._of_run(connection, run_id)), None)
            now, period = self._clock(), span_micros(valid)
            if found is None or found.state(now, valid_micros=period) != ApprovalState.APPROVED:
                return None
            if cap_micro is None or cap_micro > (found.max_spend_micro or 0):
                return None
            if found.used_at is None:
                found = found.model_copy(update={"used_at": now})
                self._records.update(connection, [found], now)
            return found

    def newest(self, run_id: str) -> Approval | None:
        """Return a run's newest request, with its decision; None if none, or without the key."""
        return self.newest_of([run_id]).get(run_id)

    def newest_of(self, run_ids: Sequence[str]) -> dict[str, Approval]:
        """Return the newest request of each run that has one; none of all without the key."""
        if self.journal.key_trouble is not None or not run_ids:
            return {}
        return self._newest_in(run_ids)

    def _newest_in(self, run_ids: Sequence[str] | Select[tuple[str]]) -> dict[str, Approval]:
        found = self._records.select(records.c.run_id.in_(run_ids))
        return {each.run_id: each for each in sorted(found, key=lambda each: each.number)}

    def state_of(self, run: RunRecord, *, valid: timedelta) -> ApprovalState | None:
        """Return the state of the approval that a run stopped for; None for other runs."""
        if run.stop_reason != StopReason.APPROVAL:
            return None
        found = self.newest(run.run_id)
        if found is None:
            return None
        return found.state(self._clock(), valid_micros=span_micros(valid))

    def of_run(self, run_id: str) -> list[Approval]:
        """Return every request and decision of a run, oldest first."""
        with self._database.reading() as connection:
            return self._of_run(connection, run_id)

    def _of_run(self, connection: Connection, run_id: str) -> list[Approval]:
        found = self._records.read(connection, records.c.run_id == run_id)
        return sorted(found, key=lambda each: each.number)

    def waiting(self) -> list[Approval]:
        """Return undecided requests, oldest first, one for each run that stopped for approval.

        A run that was resumed without a decision, with `--yes`, no longer waits.
        """
        stopped = select(runs.c.run_id).where(
            runs.c.state == _STOPPED, runs.c.stop_reason == StopReason.APPROVAL.value
        )
        newest = self._newest_in(stopped).values()
        waiting = (each for each in newest if each.decision is None)
        return sorted(waiting, key=lambda each: each.at)


def upload_of_run(journal: Storage, run: RunRecord) -> Upload | None:
    """Return the upload that a run screens; None if its file was not uploaded."""
    kept = Records(journal, Upload)
    return kept.find(upload_of(journal.home, run)) or next(iter(kept.of_run(run.run_id)), None)
