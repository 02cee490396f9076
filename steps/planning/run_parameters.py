"""What a run is asked to do, made whole: from its parameters and from the run that is resumed.

Opening what a run needs belongs to `line`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nightscreen.schemas.checks import DEFAULT_KARMA_IDENTITIES, Check, IdentityKind, Purpose
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.parameters import ScreenBatch, new_run_id
from nightscreen.steps.planning.plan import Wanted
from nightscreen.steps.values.file_names import batch_of, without_names
from nightscreen.storage.clock import LAGOS, to_instant
from nightscreen.storage.filesystem import is_url

if TYPE_CHECKING:
    from nightscreen.storage.journal import Journal
    from nightscreen.storage.journal.runs import RunRecord


@dataclass(frozen=True, slots=True)
class Resolved:
    """Parameters made whole: with those of the run that is resumed, and checked."""

    parameters: ScreenBatch
    earlier: RunRecord | None
    wanted: Wanted
    batch: str
    input: Path


def resolve(parameters: ScreenBatch, journal: Journal) -> Resolved:
    """Fill in what a resumed run already knows, and what follows from the purpose.

    Raises:
        InputError: no input, or no such run to resume.
    """
    earlier = None
    if parameters.run:
        earlier = journal.runs.find(parameters.run)
        if earlier is None:
            raise InputError(
                f"there is no run {parameters.run} in this journal; "
                "see the runs there are with: nightscreen runs list"
            )
        if journal.runs.held_elsewhere(parameters.run):
            raise InputError(
                f"run {parameters.run} is still under way in another process; "
                "wait for it or stop it"
            )
        parameters = _with_earlier(parameters, earlier)
    parameters = without_names(parameters, journal.home)
    if not parameters.input:
        raise InputError("no input file was given; name a CSV, XLSX, Parquet or JSON Lines file")
    purpose = Purpose(parameters.purpose)
    kinds = tuple(IdentityKind(kind) for kind in dict.fromkeys(parameters.karma_identities))
    checks = tuple(Check(each) for each in dict.fromkeys(parameters.checks))
    path = Path(parameters.input)
    at = to_instant(journal.clock())
    run_id = parameters.run or new_run_id(at.astimezone(LAGOS), secrets.token_hex(3))
    wanted = Wanted(
        checks,
        kinds or DEFAULT_KARMA_IDENTITIES[purpose],
        purpose,
        run_id,
        stop_at_first=parameters.karma_stop_at_first,
    )
    batch = parameters.batch or batch_of(path)
    return Resolved(parameters, earlier, wanted, earlier.batch if earlier else batch, path)


def _with_earlier(parameters: ScreenBatch, earlier: RunRecord) -> ScreenBatch:
    """Take over what the earlier run was asked for; a new input, cap or deadline replaces its."""
    kept = {**earlier.parameters, "run": earlier.run_id, "quote_only": parameters.quote_only}
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
    return ScreenBatch.model_validate(kept)
