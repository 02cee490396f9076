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
from nightscreen.results.reviews import active_reviews, reviewed_evidence
from nightscreen.results.wording import team_sentences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.files.run_folder import RunFolder
    from nightscreen.files.workspace import Workspace
    from nightscreen.journal import Journal
    from nightscreen.schemas.policy import Policy


@dataclass(frozen=True, slots=True)
class RunOutputs:
    """What a run reported.

    Attributes:
        compared: changes, and what the list says of each row.
        listed: what is on the list.
    """

    run_id: str
    batch: str
    compared: ChangeSet
    listed: ListCounts
    _customers: Customers = field(repr=False)
    _workspace: Workspace = field(repr=False)
    _sightings: Sightings = field(repr=False)

    def keep(self) -> None:
        """Put the customers' new states and what they were seen with into the journal."""
        keep_states(
            self.compared,
            run_id=self.run_id,
            batch=self.batch,
            customers=self._customers,
            workspace=self._workspace,
        )
        trim_memory()
        commit = self._customers.commit_of(self.run_id)
        if commit is not None:
            keep_sightings(self._workspace, self._sightings, batch=self.batch, at=commit.last_at)


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

    Args:
        folder: the run's folder, its enriched parts written.
        run_id: the run.
        batch: its batch name.
        journal: the journal.
        workspace: the run's; it must be there until `keep`.
        policy: by which the rows were decided.
        purpose: what the run is for: rules may say other words to a borrower than to an applicant.
        checks: the report's part on checks: what was left open is no change.
        about: names and values for the head of the summary.
        whole: the run has the whole batch, not only rows that were fixed and fed back.
        proposes: a decline is a proposal, until a person has confirmed it.
    """
    customers, reviews = Customers.of(journal), Reviews.of(journal)
    reviews.keep_policy(policy.label, policy.model_dump_json())
    at = journal.clock()
    parts = enriched_parts(folder.path)
    compared = write_changes(
        folder,
        parts,
        run_id=run_id,
        batch=batch,
        customers=customers,
        pseudonyms=journal.pseudonyms,
        workspace=workspace,
        at=at,
        unreached=unreached_checks(checks),
        reviewed=reviewed_evidence(active_reviews(reviews, batch, at=at)),
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
    seen = Sightings.of(journal)
    return RunOutputs(run_id, batch, compared, listed, customers, workspace, seen)


def withdraw(folder: RunFolder) -> None:
    """Remove what an earlier attempt of a run reported, where it is in test mode now."""
    for name in (CHANGES_FILE, DECISIONS_CSV, DECISIONS_WORKBOOK, RINGS_FILE, SHADOW_FILE):
        (folder.path / name).unlink(missing_ok=True)
        folder.rows.pop(name, None)
