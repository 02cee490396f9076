"""Publishing: changes and the decision list of a run, and what of them the journal keeps.

`publish` writes the files once the enriched rows are there; `keep` puts the customers' states into
the journal once report and manifest are written, and before the run counts as finished. Between the
two a run may die: resumed it reports the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nightscreen.files.memory_tuning import trim_memory
from nightscreen.files.outputs import (
    CHANGES_FILE,
    DECISIONS_CSV,
    DECISIONS_WORKBOOK,
    QUARANTINE,
    RINGS_FILE,
    SHADOW_FILE,
    enriched_parts,
)
from nightscreen.files.quarantine import quarantined
from nightscreen.journal.customers import Customers
from nightscreen.journal.identifier_history import Sightings
from nightscreen.journal.reviews import Reviews
from nightscreen.planning.shared_identifiers import keep_sightings
from nightscreen.results.changes import ChangeSet, keep_states, unreached_checks, write_changes
from nightscreen.results.decision_list import ListCounts, write_decisions
from nightscreen.results.wording import team_sentences
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.files.run_folder import RunFolder
    from nightscreen.files.workspace import Workspace
    from nightscreen.journal import Journal
    from nightscreen.schemas.contests import Review
    from nightscreen.schemas.policy import Policy


@dataclass(frozen=True, slots=True)
class RunOutputs:
    """What a run reported."""

    run_id: str
    batch: str
    compared: ChangeSet  # changes, and what the list says of each row
    listed: ListCounts  # what is on the list
    _journal: Journal = field(repr=False)
    _workspace: Workspace = field(repr=False)

    def keep(self) -> None:
        """Put the customers' new states and what they were seen with into the journal."""
        journal, workspace = self._journal, self._workspace
        keep_states(self.compared, journal, workspace, run_id=self.run_id, batch=self.batch)
        trim_memory()
        commit = Customers.of(journal).commit_of(self.run_id)
        if commit is not None:
            keep_sightings(workspace, Sightings.of(journal), batch=self.batch, at=commit.last_at)


def publish(
    folder: RunFolder,
    *,
    run_id: str,
    batch: str,
    journal: Journal,
    workspace: Workspace,
    policy: Policy,
    purpose: str,
    checks: Mapping[str, Mapping[str, int]],
    about: Sequence[tuple[str, str]] = (),
    whole: bool = True,
    proposes: bool = False,
) -> RunOutputs:
    """Write `changes.parquet`, `decisions.csv` and `decisions.xlsx`; keep the policy's text.

    The workspace must be there until `keep`. `checks` is the report's part on them: what was left
    open is no change. Where the run does not have the whole batch, but rows that were fixed and fed
    back, nobody is gone. Where it proposes, a decline waits for a person to confirm it.
    """
    reviews = Reviews.of(journal)
    reviews.keep_policy(policy.label, policy.model_dump_json())
    at = journal.clock()
    parts = enriched_parts(folder.path)
    compared = write_changes(
        folder,
        parts,
        journal,
        workspace,
        run_id=run_id,
        batch=batch,
        at=at,
        unreached=unreached_checks(checks),
        reviewed=_reviewed(reviews.active(batch, at)),
        whole=whole,
    )
    trim_memory()
    listed = write_decisions(
        folder,
        parts,
        run_id=run_id,
        reasons=team_sentences(policy, purpose),
        scratch=workspace.folder,
        carried=tuple(policy.carried_kinds),
        compared=compared,
        problems=quarantined(folder.path / QUARANTINE),
        about=[("Batch", batch), ("Policy", policy.label), *about],
        proposes=proposes,
    )
    trim_memory()
    return RunOutputs(run_id, batch, compared, listed, journal, workspace)


def _reviewed(found: Mapping[bytes, Review]) -> dict[bytes, bytes]:
    """Return the digest of the evidence that each decision of a person rests on."""
    return {
        customer: review.evidence
        for customer, review in found.items()
        if review.decision != Decision.REVIEW.value
    }


def withdraw(folder: RunFolder) -> None:
    """Remove what an earlier attempt of a run reported, where it is in test mode now."""
    for name in (CHANGES_FILE, DECISIONS_CSV, DECISIONS_WORKBOOK, RINGS_FILE, SHADOW_FILE):
        (folder.path / name).unlink(missing_ok=True)
        folder.rows.pop(name, None)
