"""Nights of a batch for tests: enriched rows in, changes told, states kept in a real journal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from nightscreen.files.run_folder import RunFolder
from nightscreen.files.sealed_file import Workspace
from nightscreen.journal import open_journal
from nightscreen.journal.cases import Reviews
from nightscreen.journal.customers import Customers
from nightscreen.results.changes import Comparison
from nightscreen.schemas.contests import Review
from tests.begun import begin_run
from tests.results.enriched_in_a_test import ASKED_AT, write_part

BATCH = "borrowers"
SECOND = 1_000_000
DAY = 86_400 * SECOND
BEGUN_AT = int(ASKED_AT.timestamp()) * SECOND


@dataclass
class Nights:
    """A journal whose clock stands still until it is set, and the folders of its runs."""

    home: Path
    now: int = BEGUN_AT
    runs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.journal = open_journal(self.home / "home", clock=lambda: self.now)
        self.customers = Customers(self.journal)
        self.reviews = Reviews(self.journal)

    def folder(self, run_id: str) -> RunFolder:
        return RunFolder.make(self.home / "out", run_id)

    def compare(
        self,
        run_id: str,
        rows: Sequence[Mapping[str, Any]],
        *,
        unreached: Collection[str] = (),
        reviewed: Mapping[bytes, Review] | None = None,
    ) -> Comparison:
        """Write the rows of a night and tell its changes, without keeping anything."""
        folder = self.folder(run_id)
        begin_run(self.journal, run_id, batch=BATCH, folder=str(folder.path))
        found = Comparison(
            journal=self.journal,
            workspace=self.workspace(run_id),
            run_id=run_id,
            batch=BATCH,
            at=self.now,
            unreached=unreached,
            reviewed=reviewed or {},
        )
        found.write(folder, [write_part(folder.path, rows)])
        return found

    def night(self, run_id: str, *rows: Mapping[str, Any], **options: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - as `compare` takes them
        """Carry a night through and return the changes it told."""
        self.compare(run_id, rows, **options).save_states()
        self.journal.runs.finish(run_id, state="completed", stop_reason=None, report={})
        self.now += DAY
        return self.told(run_id)

    def workspace(self, run_id: str) -> Workspace:
        return Workspace.of(self.home / "home", run_id, self.journal.sealer)

    def told(self, run_id: str) -> list[dict[str, Any]]:
        path = self.folder(run_id).path / "changes.parquet"
        found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return found

    def pseudonym(self, customer_id: str) -> bytes:
        return self.journal.pseudonyms.customer(BATCH, customer_id)
