"""The complete parameters of a run: from its own parameters and from the run that is resumed.

Opening what a run needs belongs to `screening_run`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nightscreen.checks.registry import CHECKS
from nightscreen.config.parameters import SCREEN_FLOW, ScreenBatch
from nightscreen.files.places import is_url
from nightscreen.journal.approvals import Approvals
from nightscreen.planning.plan import Wanted
from nightscreen.runs.run import find_earlier, run_id_for
from nightscreen.schemas.approvals import ApprovalState
from nightscreen.schemas.checks import DEFAULT_KARMA_IDENTITIES, IdentityKind, Purpose
from nightscreen.schemas.clock import LAGOS, span_micros, to_instant
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.naming import batch_name

if TYPE_CHECKING:
    from datetime import timedelta

    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.approvals import Approval


@dataclass(frozen=True, slots=True)
class Resolved:
    """Parameters made whole: with those of the run that is resumed, and checked."""

    parameters: ScreenBatch
    earlier: RunRecord | None
    wanted: Wanted
    batch: str
    input: Path


def resolve(parameters: ScreenBatch, journal: Journal, approval_timeout: timedelta) -> Resolved:
    """Fill in what a resumed run already knows, and what follows from the purpose.

    Args:
        parameters: what was given.
        journal: knows the runs and their approvals.
        approval_timeout: how old an approval may be that no run has used yet.

    Raises:
        InputError: no input, no such run to resume, or its spending was refused.
    """
    earlier = find_earlier(journal, parameters.run, SCREEN_FLOW)
    if earlier is not None:
        approval = None if parameters.quote_only else _approval(journal, earlier, approval_timeout)
        parameters = _with_earlier(parameters, earlier, approval)
    if not parameters.input:
        raise InputError("no input file was given; name a CSV, XLSX or Parquet file")
    purpose = Purpose(parameters.purpose)
    kinds = tuple(IdentityKind(kind) for kind in dict.fromkeys(parameters.karma_identities))
    checks = tuple(dict.fromkeys(parameters.checks))
    path = Path(parameters.input)
    wanted = Wanted(
        checks,
        kinds or DEFAULT_KARMA_IDENTITIES[purpose],
        purpose,
        run_id_for(journal, earlier),
        stop_at_first=parameters.karma_stop_at_first,
    )
    batch = parameters.batch or batch_name(path)
    return Resolved(parameters, earlier, wanted, earlier.batch if earlier else batch, path)


def _approval(journal: Journal, run: RunRecord, timeout: timedelta) -> Approval | None:
    """Return the approval that a run may be resumed under, None where there is none.

    Raises:
        InputError: its spending was refused, and nobody has approved it since.
    """
    found = Approvals(journal).newest(run.run_id)
    if found is None:
        return None
    state = found.state(journal.clock(), valid_micros=span_micros(timeout))
    if state is ApprovalState.REFUSED:
        at = to_instant(found.decided_at or 0).astimezone(LAGOS)
        raise InputError(
            f"the spending of run {run.run_id} was refused by {found.decided_by} on "
            f"{at:%Y-%m-%d %H:%M} in Lagos, so that it asks nothing; to let it go on all the same: "
            f"nightscreen approve {run.run_id}"
        )
    return found if state is ApprovalState.APPROVED else None


def _with_earlier(
    parameters: ScreenBatch, earlier: RunRecord, approval: Approval | None
) -> ScreenBatch:
    """Take over what the earlier run was asked for; a new input, cap or deadline replaces its.

    The amount that an approver allows is its cap.
    """
    kept = {**earlier.parameters, "run": earlier.run_id, "quote_only": parameters.quote_only}
    if approval is not None:
        kept["max_spend"] = naira_text(approval.max_spend_micro)
    if not is_url(kept["output"]):
        kept["output"] = str(Path(earlier.folder).parent)
    for name in ("input", "max_spend", "deadline", "yes"):
        given = getattr(parameters, name)
        if given:
            kept[name] = given
    if "workers" in parameters.model_fields_set:
        kept["workers"] = parameters.workers
    if "deadline" not in parameters.model_fields_set:
        kept["deadline"] = ""
    gone = [name for name in kept.get("checks", ()) if name not in CHECKS]
    if gone:
        raise InputError(
            f"run {earlier.run_id} asked {', '.join(gone)}, which is installed no longer: install "
            "the package of that check to resume the run"
        )
    return ScreenBatch.model_validate(kept)
