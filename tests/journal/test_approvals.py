"""Approvals as records of the journal: asked, decided, used."""

from __future__ import annotations

from datetime import timedelta

import pytest

from nightscreen.journal import Journal
from nightscreen.journal.actor import Actor
from nightscreen.journal.approvals import Approvals
from nightscreen.schemas.approvals import Approval, ApprovalDecision
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.errors import InputError
from tests.begun import begin_run

QUOTE = {"quoted": {"low": "0.00", "expected": "30.00", "high": "57.00"}, "lines": []}
TIMEOUT = timedelta(hours=2)


def ask(journal: Journal, run_id: str = "run-1", cap_micro: int | None = None) -> Approval:
    return Approvals(journal).ask(
        run_id,
        asked_by="analyst-1",
        reason="it is expected to cost N30",
        quote=QUOTE,
        ceiling_micro=57 * MICROS,
        cap_micro=cap_micro,
        deployment_id="deployment-1",
    )


def test_a_run_that_spends_or_is_done_is_not_decided_about(journal: Journal) -> None:
    """Once it has stopped again, more may be approved."""
    found = Approvals(journal)
    begin_run(journal, "run-1")
    ask(journal)
    found.decide(Actor("chief"), "run-1", ApprovalDecision.APPROVED)
    found.decide(Actor("chief"), "run-1", ApprovalDecision.APPROVED, max_spend_micro=60 * MICROS)
    assert found.use("run-1", valid=TIMEOUT, cap_micro=60 * MICROS) is not None
    assert found.use("run-1", valid=TIMEOUT, cap_micro=None) is None
    assert found.use("run-1", valid=TIMEOUT, cap_micro=61 * MICROS) is None
    with pytest.raises(InputError, match="spends already"):
        found.decide(Actor("other"), "run-1", ApprovalDecision.REFUSED)
    journal.runs.finish("run-1", state="stopped", stop_reason="budget", report={})
    more = found.decide(
        Actor("chief"), "run-1", ApprovalDecision.APPROVED, max_spend_micro=90 * MICROS
    )
    assert (more.used_at, more.max_spend_micro) == (None, 90 * MICROS)
    journal.runs.finish("run-1", state="completed", stop_reason=None, report={})
    with pytest.raises(InputError, match="nothing left to decide"):
        found.decide(Actor("other"), "run-1", ApprovalDecision.REFUSED)


def test_a_decision_on_what_has_changed_meanwhile_is_not_written(journal: Journal) -> None:
    """Of two approvers who look at one request, the second is asked to look again."""
    found = Approvals(journal)
    first = ask(journal)
    second = ask(journal)
    with pytest.raises(InputError, match="has changed"):
        found.decide(Actor("chief"), "run-1", ApprovalDecision.APPROVED, seen=first.key)
    found.decide(Actor("chief"), "run-1", ApprovalDecision.REFUSED, seen=second.key)
    with pytest.raises(InputError, match="has changed"):
        found.decide(Actor("other"), "run-1", ApprovalDecision.APPROVED, seen=second.key)
    assert found.newest("run-1").decision is ApprovalDecision.REFUSED  # type: ignore[union-attr]  # it was asked above
