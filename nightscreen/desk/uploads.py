"""Files that were brought to the desk: sealed at rest, and gone when they are of no more use.

Digest, uploader and time stay; the file goes when its run completes, at once when its spending is
refused, after a day if it was never screened, after seven where its run can still be resumed.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nightscreen.config.parameters import USUAL_CHECKS, ScreenBatch
from nightscreen.files.private_files import make_private_folder, write_private
from nightscreen.files.sealed_file import RESUMABLE_DAYS, SUFFIX, SealedWriter, sealed_writer
from nightscreen.journal.desk_file import UPLOADS, upload_of
from nightscreen.journal.runs import RUNNING
from nightscreen.reading.mapping_file import Mapping, mapping_toml
from nightscreen.schemas.approvals import ApprovalDecision
from nightscreen.schemas.clock import DAY_MICROS
from nightscreen.schemas.columns import KNOWN_COLUMNS
from nightscreen.schemas.naming import batch_name, contains_identifier

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from nightscreen.desk.seat import Seat
    from nightscreen.journal.runs import RunRecord

LARGEST: Final = 100 * 1024 * 1024
NEVER_SCREENED_DAYS: Final = 1
HELD, GONE = "held", "gone"
CARRIED, LEFT_OUT = "", "-"
TYPED: Final = "typed"
"""Choice of an upload that was made at the desk: of one customer, a part of a batch."""
_BY_THE_WAY: Final = (
    "karma_identities",
    "karma_stop_at_first",
    "shadow",
    "merge_rows",
    "date_order",
)
"""Choices no form offers: they are those of the run whose rows are screened again."""
_ID = re.compile(r"[a-p]{32}")
_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
"""An id has letters alone: ten digits in a row would look like a customer's number."""


@dataclass(frozen=True, slots=True)
class Upload:
    """One file that was brought.

    Attributes:
        name: as the browser gave it, or a plain one where that names somebody.
        choices: what was chosen for it: purpose, checks, cap, policy, headings or a mapping, the
            last quote.
    """

    upload_id: str
    user: str
    at: int
    name: str
    digest: str
    size: int
    state: str
    run_id: str
    choices: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Uploads:
    """Keeps uploads of a desk."""

    seat: Seat

    @property
    def folder(self) -> Path:
        """Return where they lie."""
        return self.seat.settings.home.absolute() / UPLOADS

    def path(self, upload_id: str) -> Path:
        """Return where an upload lies."""
        return self.folder / f"{upload_id}{SUFFIX}"

    def mapping(self, upload_id: str) -> Path:
        """Return where the meaning of its headings lies."""
        return self.folder / f"{upload_id}.toml"

    @contextmanager
    def receiving(
        self, name: str, user: str, choices: dict[str, Any]
    ) -> Iterator[tuple[str, SealedWriter]]:
        """Give an id and what seals a file under it; nothing stays of one that breaks off."""
        upload_id = secrets.token_hex(16).translate(_LETTERS)
        make_private_folder(self.folder)
        with sealed_writer(self.path(upload_id), self.seat.journal.sealer) as writer:
            yield upload_id, writer
        shown = plain_name(name)
        row = (
            *(upload_id, user, self.seat.clock(), shown, writer.digest, writer.size),
            *(HELD, json.dumps(choices), ""),
        )
        with self.seat.accounts.transaction() as connection:
            connection.execute("INSERT INTO uploads VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        self.seat.audit.write(user, "file brought", digest=writer.digest, name=shown)

    def find(self, upload_id: str) -> Upload | None:
        """Return an upload, or None."""
        if not _ID.fullmatch(upload_id):
            return None
        rows = self.seat.accounts.rows("SELECT * FROM uploads WHERE id = ?", upload_id)
        return _upload(rows[0]) if rows else None

    def of_run(self, run: RunRecord | None) -> Upload | None:
        """Return the upload that a run screens; None where its file came another way."""
        if run is None:
            return None
        rows = self.seat.accounts.rows(
            "SELECT * FROM uploads WHERE id = ? OR run_id = ?",
            upload_of(self.seat.settings.home, run),
            run.run_id,
        )
        return _upload(rows[0]) if rows else None

    def chosen(self, name: str, value: str | int) -> list[Upload]:
        """Return the uploads for which a choice has a value, oldest first."""
        rows = self.seat.accounts.rows(
            "SELECT * FROM uploads WHERE json_extract(choices, '$.' || ?) = ? ORDER BY at",
            name,
            value,
        )
        return [_upload(row) for row in rows]

    def is_screened(self, upload: Upload) -> bool:
        """Tell whether an upload's run has screened it, or may still do so."""
        if not upload.choices.get("started_at"):
            return False
        run = self.run_of(upload)
        if run is None:
            return upload.state == HELD
        approval = self.seat.approvals.newest(run.run_id)
        refused = approval is not None and approval.decision is ApprovalDecision.REFUSED
        return not refused and run.state != "test_mode"

    def choose(self, upload: Upload, choices: dict[str, Any]) -> Upload:
        """Keep what was chosen for an upload, and what its headings mean as a mapping file."""
        with self.seat.accounts.transaction() as connection:
            row = connection.execute(
                "SELECT choices FROM uploads WHERE id = ?", (upload.upload_id,)
            ).fetchone()
            merged = {**json.loads(row["choices"]), **choices}
            connection.execute(
                "UPDATE uploads SET choices = ? WHERE id = ?",
                (json.dumps(merged), upload.upload_id),
            )
        headings, understood = merged.get("headings") or {}, merged.get("understood") or {}
        if merged.get("mapping"):
            write_private(self.mapping(upload.upload_id), merged["mapping"].encode())
        else:
            corrected = any(known != understood.get(each, "") for each, known in headings.items())
            columns = mapping_of(headings, understood) if corrected else Mapping()
            sheet, order = merged.get("sheet") or None, merged.get("declared")
            found = columns.model_copy(update={"sheet": sheet, "date_order": order})
            if found == Mapping():
                self.mapping(upload.upload_id).unlink(missing_ok=True)
            else:
                write_private(self.mapping(upload.upload_id), mapping_toml(found).encode())
        kept = self.find(upload.upload_id)
        assert kept is not None  # noqa: S101 - nothing removes the row of an upload
        return kept

    def claim(self, upload: Upload) -> bool:
        """Tell whether the caller is the one who starts the run of an upload, and note when."""
        with self.seat.accounts.transaction() as connection:
            claimed = connection.execute(
                "UPDATE uploads SET choices = json_set(choices, '$.started_at', ?)"
                " WHERE id = ? AND json_extract(choices, '$.started_at') IS NULL",
                (self.seat.clock(), upload.upload_id),
            )
        return claimed.rowcount == 1

    def parameters(self, upload: Upload) -> ScreenBatch:
        """Return what an upload is screened with."""
        chosen = upload.choices
        mapping = self.mapping(upload.upload_id)
        given = {
            "input": str(self.path(upload.upload_id)),
            "batch": chosen.get("batch") or batch_name(Path(upload.name))[:80],
            "output": str(self.seat.output),
            "purpose": chosen.get("purpose", "portfolio"),
            "checks": chosen.get("checks") or USUAL_CHECKS,
            "max_spend": chosen.get("max_spend", ""),
            "policy": chosen.get("policy", ""),
            "mapping": str(mapping) if mapping.exists() else "",
            "freshness": chosen.get("freshness", []),
            **{name: chosen[name] for name in _BY_THE_WAY if chosen.get(name)},
        }
        return ScreenBatch.model_validate(given)

    def run_of(self, upload: Upload) -> RunRecord | None:
        """Return the run that screens an upload, noting it once it is there."""
        runs = self.seat.journal.runs
        if upload.run_id:
            return runs.find(upload.run_id)
        home = self.seat.settings.home
        newest = runs.newest(limit=100)
        found = next((run for run in newest if upload_of(home, run) == upload.upload_id), None)
        if found is not None:
            with self.seat.accounts.transaction() as connection:
                connection.execute(
                    "UPDATE uploads SET run_id = ? WHERE id = ?", (found.run_id, upload.upload_id)
                )
        return found

    def sweep(self) -> int:
        """Remove files that are of no more use; return how many."""
        held = self.seat.accounts.rows("SELECT * FROM uploads WHERE state = ?", HELD)
        over = [each for each in map(_upload, held) if self._is_over(each)]
        for upload in over:
            self.remove(upload)
        self._drop_unknown()
        return len(over)

    def remove(self, upload: Upload) -> None:
        """Remove a file; digest, uploader and time stay."""
        self.path(upload.upload_id).unlink(missing_ok=True)
        self.mapping(upload.upload_id).unlink(missing_ok=True)
        with self.seat.accounts.transaction() as connection:
            connection.execute(
                "UPDATE uploads SET state = ? WHERE id = ?", (GONE, upload.upload_id)
            )

    def _drop_unknown(self) -> None:
        """Remove files whose upload was cut short before it was written down."""
        before = time.time() - NEVER_SCREENED_DAYS * 86_400
        for path in self.folder.glob(f"*{SUFFIX}"):
            if path.stat().st_mtime < before and self.find(path.stem) is None:
                path.unlink(missing_ok=True)

    def _is_over(self, upload: Upload) -> bool:
        age = self.seat.clock() - upload.at
        run = self.run_of(upload)
        if run is None:
            return age > NEVER_SCREENED_DAYS * DAY_MICROS
        if run.state in {"completed", "test_mode"}:
            return True
        if run.state == RUNNING:
            return False
        approval = self.seat.approvals.newest(run.run_id)
        if approval is not None and approval.decision is ApprovalDecision.REFUSED:
            return True
        return self.seat.clock() - (run.finished_at or upload.at) > RESUMABLE_DAYS * DAY_MICROS


def _upload(row: sqlite3.Row) -> Upload:
    return Upload(
        row["id"],
        row["user"],
        row["at"],
        row["name"],
        row["digest"],
        row["bytes"],
        row["state"],
        row["run_id"],
        json.loads(row["choices"]),
    )


def plain_name(name: str) -> str:
    """Return a file's bare name; nobody's number or address is left in it."""
    bare = "".join(c for c in name.replace("\\", "/").rpartition("/")[2] if c.isprintable())[:120]
    if bare and not contains_identifier(bare):
        return bare
    path = Path(bare)
    return (batch_name(path) if bare else "file") + path.suffix[:8]


def mapping_of(headings: dict[str, str], understood: dict[str, str]) -> Mapping:
    """Return a mapping that says what each heading means.

    Args:
        headings: the column each heading was given, `CARRIED` or `LEFT_OUT`.
        understood: what each heading was taken for by itself.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    for heading, known in headings.items():
        if known in KNOWN_COLUMNS:
            wanted[known] = (*wanted.get(known, ()), heading)
    for known in understood.values():
        if known:
            wanted.setdefault(known, ())
    dropped = tuple(heading for heading, known in headings.items() if known == LEFT_OUT)
    return Mapping(columns=wanted, drop=dropped)
