"""Signing a run's report: who read it, when, and whether it is still the report that was read."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

from nightscreen.journal.actor import SIGN
from nightscreen.journal.records import Records
from nightscreen.schemas.contests import Signature
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from nightscreen.journal import Journal
    from nightscreen.journal.actor import Actor
    from nightscreen.journal.runs import RunRecord


class Signed(NamedTuple):
    """A signature, and whether the report is the one that was signed."""

    signature: Signature
    is_current: bool


def sign_report(journal: Journal, actor: Actor, run_id: str, *, note: str = "") -> Signature:
    """Sign the report of a run as it stands.

    Raises:
        NotAllowedError: the actor may not sign.
        InputError: the run has no report yet, or the actor has signed it as it stands.
    """
    actor.require(journal, SIGN, run_id=run_id)
    run = journal.runs.find(run_id)
    if run is None or run.report is None:
        raise InputError("This run has no report yet; it can be signed once it has ended.")
    earlier = signatures_of(journal, run)
    if any(each.is_current and actor.is_one_of([each.signature.by]) for each in earlier):
        raise InputError("You have signed this report.")
    now = journal.clock()
    made = Signature(
        key=f"{run_id}:{now}",
        batch=run.batch,
        run_id=run_id,
        at=now,
        by=actor.name,
        note=note,
        report=_digest(run),
    )
    Records(journal, Signature).add([made])
    actor.note(journal, "report signed", run_id=run_id, report=made.report)
    return made


def signatures_of(journal: Journal, run: RunRecord) -> list[Signed]:
    """Return who signed a run's report, oldest first."""
    found = Records(journal, Signature).of_run(run.run_id)
    now = _digest(run) if found else ""
    return [Signed(each, each.report == now) for each in found]


def _digest(run: RunRecord) -> str:
    """Return the SHA-256 of a report, whatever the order of its fields."""
    return hashlib.sha256(json.dumps(run.report, sort_keys=True).encode()).hexdigest()
