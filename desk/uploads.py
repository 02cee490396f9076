"""Files that were brought to the desk: sealed at rest, and gone when they are of no more use.

Digest, uploader and time stay; the file goes when its run completes, at once when its spending is
refused, after a day if it was never screened, after seven where its run can still be resumed.
"""

from __future__ import annotations

import json
import re
import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nightscreen.desk.audit import UPLOADS
from nightscreen.schemas.approvals import ApprovalDecision
from nightscreen.schemas.parameters import ScreenBatch, batch_name, contains_identifier
from nightscreen.schemas.rows import KNOWN_COLUMNS
from nightscreen.storage.clock import DAY_MICROS
from nightscreen.storage.files import make_private_folder, write_private
from nightscreen.storage.journal.runs import RUNNING
from nightscreen.storage.sealed_file import SUFFIX, SealedWriter, sealed_writer

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

    from nightscreen.desk.seat import Seat
    from nightscreen.storage.journal.runs import RunRecord

LARGEST: Final = 100 * 1024 * 1024
NEVER_SCREENED_DAYS: Final = 1
RESUMABLE_DAYS: Final = 7
HELD, GONE = "held", "gone"
CARRIED, LEFT_OUT = "", "-"
_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Upload:
    """One file that was brought.

    Attributes:
        name: as the browser gave it, or a plain one where that names somebody.
        choices: what was chosen for it: purpose, checks, cap, policy, headings, the last quote.
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
        upload_id = secrets.token_hex(16)
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

    def of_run(self, run_id: str) -> Upload | None:
        """Return the upload that a run screens; None where its file came another way."""
        rows = self.seat.accounts.rows("SELECT * FROM uploads WHERE run_id = ?", run_id)
        return _upload(rows[0]) if rows else None

    def choose(self, upload: Upload, choices: dict[str, Any]) -> Upload:
        """Keep what was chosen for an upload, and what its headings mean as a mapping file."""
        merged = {**upload.choices, **choices}
        with self.seat.accounts.transaction() as connection:
            connection.execute(
                "UPDATE uploads SET choices = ? WHERE id = ?",
                (json.dumps(merged), upload.upload_id),
            )
        headings, understood = merged.get("headings") or {}, merged.get("understood") or {}
        if any(known != understood.get(heading, "") for heading, known in headings.items()):
            text = mapping_text(headings, understood)
            write_private(self.mapping(upload.upload_id), text.encode())
        else:
            self.mapping(upload.upload_id).unlink(missing_ok=True)
        found = self.find(upload.upload_id)
        assert found is not None  # noqa: S101 - nothing removes the row of an upload
        return found

    def parameters(self, upload: Upload) -> ScreenBatch:
        """Return what an upload is screened with."""
        chosen = upload.choices
        mapping = self.mapping(upload.upload_id)
        given = {
            "input": str(self.path(upload.upload_id)),
            "batch": chosen.get("batch") or name_of_batch(upload.name),
            "output": str(self.seat.output),
            "purpose": chosen.get("purpose", "portfolio"),
            "checks": chosen.get("checks") or ["bank_account", "karma", "ecosystem"],
            "max_spend": chosen.get("max_spend", ""),
            "policy": chosen.get("policy", ""),
            "mapping": str(mapping) if mapping.exists() else "",
            "freshness": chosen.get("freshness", []),
            **{name: chosen[name] for name in ("karma_identities",) if chosen.get(name)},
        }
        return ScreenBatch.model_validate(given)

    def run_of(self, upload: Upload) -> RunRecord | None:
        """Return the run that screens an upload, noting it once it is there."""
        runs = self.seat.journal.runs
        if upload.run_id:
            return runs.find(upload.run_id)
        path = str(self.path(upload.upload_id))
        found = next(
            (run for run in runs.newest(limit=100) if run.parameters.get("input") == path), None
        )
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
        return len(over)

    def remove(self, upload: Upload) -> None:
        """Remove a file; digest, uploader and time stay."""
        self.path(upload.upload_id).unlink(missing_ok=True)
        self.mapping(upload.upload_id).unlink(missing_ok=True)
        with self.seat.accounts.transaction() as connection:
            connection.execute(
                "UPDATE uploads SET state = ? WHERE id = ?", (GONE, upload.upload_id)
            )

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
    """Return a file's bare name; one that seems to name somebody becomes `file`."""
    bare = "".join(c for c in name.replace("\\", "/").rpartition("/")[2] if c.isprintable())[:120]
    if not bare or contains_identifier(bare):
        return "file" + (bare[bare.rfind(".") :][:8] if "." in bare else "")
    return bare


def name_of_batch(name: str) -> str:
    """Return the batch name of a file's name."""
    from pathlib import PurePath  # noqa: PLC0415 - of use here alone

    return batch_name(PurePath(name))[:80]  # type: ignore[arg-type]  # a name, no file is looked at


def mapping_text(headings: dict[str, str], understood: dict[str, str]) -> str:
    """Return a mapping file that says what each heading means.

    Args:
        headings: the column each heading was given, `CARRIED` or `LEFT_OUT`.
        understood: what each heading was taken for by itself.
    """
    wanted: dict[str, list[str]] = {}
    for heading, known in headings.items():
        if known in KNOWN_COLUMNS:
            wanted.setdefault(known, []).append(heading)
    for known in understood.values():
        if known:
            wanted.setdefault(known, [])
    dropped = [heading for heading, known in headings.items() if known == LEFT_OUT]
    lines = [f"drop = {json.dumps(dropped, ensure_ascii=False)}", "", "[columns]"]
    lines += [f"{known} = {json.dumps(each, ensure_ascii=False)}" for known, each in wanted.items()]
    return "\n".join(lines) + "\n"
