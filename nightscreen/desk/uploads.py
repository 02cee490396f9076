"""Files that were uploaded to the desk: sealed at rest, and gone when they are of no more use.

Digest, uploader and time stay; the file goes when its run completes, at once when its spending is
refused, after a day if it was never screened, after seven where its run can still be resumed.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import insert, or_, select, update

from nightscreen.config.parameters import USUAL_CHECKS, ScreenBatch
from nightscreen.files.private_files import make_private_folder, write_private
from nightscreen.files.sealed_file import RESUMABLE_DAYS, SUFFIX, UPLOADS, sealed_writer
from nightscreen.journal.engine import Turn, reading, recording
from nightscreen.journal.runs import RUNNING, upload_of
from nightscreen.journal.schema import uploads
from nightscreen.reading.mapping_file import Mapping, mapping_toml
from nightscreen.schemas.approvals import ApprovalDecision
from nightscreen.schemas.clock import DAY_MICROS
from nightscreen.schemas.naming import batch_name, contains_identifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import ColumnElement, Update

    from nightscreen.journal import Journal
    from nightscreen.journal.approvals import Approvals
    from nightscreen.journal.audit import Audit
    from nightscreen.journal.runs import RunRecord

LARGEST: Final = 100 * 1024 * 1024
NEVER_SCREENED_DAYS: Final = 1
HELD, GONE = "held", "gone"
TYPED: Final = "typed"
"""Choice of an upload that was made at the desk: of one customer, a part of a batch."""
_AS_CHOSEN: Final = (
    *("karma_identities", "karma_stop_at_first", "shadow"),
    *("merge_rows", "date_order", "policy", "freshness", "purpose", "max_spend"),
)
"""Choices that are parameters of the run by the same names."""
_ID = re.compile(r"[a-p]{32}")
_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
"""An id has letters alone: ten digits in a row would look like a customer's number."""


@dataclass(frozen=True, slots=True)
class Upload:
    """One file that was uploaded."""

    upload_id: str
    user: str
    at: int
    name: str  # as the browser gave it, or a plain one where that names somebody
    digest: str
    size: int
    state: str
    run_id: str
    started_at: int | None  # since when its run is started; None where it is not
    # what was chosen for it: purpose, checks, cap, policy, what its headings mean (a mapping), the
    # last quote
    choices: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Uploads:
    """Keeps uploads of a desk."""

    journal: Journal  # whose HOME they lie in, sealed under its key
    audit: Audit  # gets an entry for each
    approvals: Approvals  # say whose spending was refused
    output: Path  # where their runs put results

    def path(self, upload_id: str) -> Path:
        """Return where an upload lies."""
        return self.journal.home.absolute() / UPLOADS / f"{upload_id}{SUFFIX}"

    def mapping(self, upload_id: str) -> Path:
        """Return where the meaning of its headings lies."""
        return self.path(upload_id).with_suffix(".toml")

    def keep(
        self, name: str, user: str, pieces: Iterable[bytes], choices: dict[str, Any]
    ) -> Upload:
        """Seal a file under a new id; nothing stays of one that breaks off."""
        upload_id = secrets.token_hex(16).translate(_LETTERS)
        make_private_folder(self.path(upload_id).parent)
        with sealed_writer(self.path(upload_id), self.journal.sealer) as writer:
            for piece in pieces:
                writer.write(piece)
        row: dict[str, Any] = {
            "upload_id": upload_id,
            "user": user,
            "at": self.journal.clock(),
            "name": plain_name(name),
            "digest": writer.digest,
            "size": writer.size,
            "state": HELD,
            "run_id": "",
            "choices": json.dumps(choices),
        }
        with recording(self.journal.engine, Turn.DESK) as connection:
            connection.execute(insert(uploads), row)
        self.audit.write(user, "file uploaded", digest=writer.digest, name=row["name"])
        kept = Upload(**{**row, "started_at": None, "choices": choices})
        self._write_mapping(kept)
        return kept

    def find(self, upload_id: str) -> Upload | None:
        """Return an upload, or None."""
        if not _ID.fullmatch(upload_id):
            return None
        return next(iter(self._read(uploads.c.upload_id == upload_id)), None)

    def _read(self, which: ColumnElement[bool]) -> list[Upload]:
        with reading(self.journal.engine) as connection:
            rows = connection.execute(
                select(uploads).where(which).order_by(uploads.c.at)
            ).mappings()
            return [Upload(**{**row, "choices": json.loads(row["choices"])}) for row in rows]

    def of_run(self, run: RunRecord | None) -> Upload | None:
        """Return the upload that a run screens; None where its file came another way."""
        if run is None:
            return None
        upload = upload_of(self.journal.home, run)
        mine = or_(uploads.c.upload_id == upload, uploads.c.run_id == run.run_id)
        return next(iter(self._read(mine)), None)

    def chosen(self, name: str, *, value: str | bool) -> list[Upload]:
        """Return the uploads for which a choice has a value, oldest first."""
        likely = self._read(uploads.c.choices.contains(json.dumps(value), autoescape=True))
        return [each for each in likely if each.choices.get(name) == value]

    def is_screened(self, upload: Upload) -> bool:
        """Tell whether an upload's run has screened it, or may still do so."""
        if upload.started_at is None:
            return False
        run = self.run_of(upload)
        if run is None:
            return upload.state == HELD
        return not self._is_refused(run) and run.state != "test_mode"

    def _is_refused(self, run: RunRecord) -> bool:
        approval = self.approvals.newest(run.run_id)
        return approval is not None and approval.decision is ApprovalDecision.REFUSED

    def choose(self, upload: Upload, choices: dict[str, Any]) -> Upload:
        """Keep what was chosen for an upload, beside what was chosen before."""
        with recording(self.journal.engine, Turn.DESK) as connection:
            kept = select(uploads.c.choices).where(uploads.c.upload_id == upload.upload_id)
            merged = {**json.loads(connection.execute(kept).scalar_one()), **choices}
            connection.execute(_of(upload).values(choices=json.dumps(merged)))
        changed = replace(upload, choices=merged)
        self._write_mapping(changed)
        return changed

    def _write_mapping(self, upload: Upload) -> None:
        mapping, file = chosen_mapping(upload), self.mapping(upload.upload_id)
        if mapping == Mapping():
            file.unlink(missing_ok=True)
        else:
            write_private(file, mapping_toml(mapping).encode())

    @contextmanager
    def starting(self, upload: Upload) -> Iterator[bool]:
        """Tell whether the caller is the one who starts the run of an upload.

        Somebody may start it after all where the caller could not.
        """
        with recording(self.journal.engine, Turn.DESK) as connection:
            free = _of(upload).where(uploads.c.started_at.is_(None))
            claimed = connection.execute(free.values(started_at=self.journal.clock()))
        try:
            yield claimed.rowcount == 1
        except BaseException:
            self._set(upload, started_at=None)
            raise

    def _set(self, upload: Upload, **values: object) -> None:
        with recording(self.journal.engine, Turn.DESK) as connection:
            connection.execute(_of(upload).values(values))

    def parameters(self, upload: Upload) -> ScreenBatch:
        """Return what an upload is screened with."""
        chosen = upload.choices
        mapping = self.mapping(upload.upload_id)
        given = {
            "input": str(self.path(upload.upload_id)),
            "batch": chosen.get("batch") or batch_name(Path(upload.name))[:80],
            "output": str(self.output),
            "checks": chosen.get("checks") or USUAL_CHECKS,
            "mapping": str(mapping) if mapping.exists() else "",
            **{name: chosen[name] for name in _AS_CHOSEN if chosen.get(name)},
        }
        return ScreenBatch.model_validate(given)

    def run_of(self, upload: Upload) -> RunRecord | None:
        """Return the run that screens an upload, noting it once it is there."""
        runs, home = self.journal.runs, self.journal.home
        if upload.run_id:
            return runs.find(upload.run_id)
        newest = runs.newest(limit=100)
        found = next((run for run in newest if upload_of(home, run) == upload.upload_id), None)
        if found is not None:
            self._set(upload, run_id=found.run_id)
        return found

    def sweep(self) -> int:
        """Remove files that are of no more use; return how many."""
        over = [each for each in self._read(uploads.c.state == HELD) if self._is_over(each)]
        for upload in over:
            self.remove(upload)
        self._drop_left()
        return len(over)

    def remove(self, upload: Upload) -> None:
        """Remove a file; digest, uploader and time stay."""
        self._unlink(upload.upload_id)
        self._set(upload, state=GONE)

    def _unlink(self, upload_id: str) -> None:
        self.path(upload_id).unlink(missing_ok=True)
        self.mapping(upload_id).unlink(missing_ok=True)

    def _drop_left(self) -> None:
        """Remove files whose upload was cut short, or that a desk elsewhere has done with."""
        before = time.time() - NEVER_SCREENED_DAYS * 86_400
        for path in self.path("").parent.glob(f"*{SUFFIX}"):
            upload = self.find(path.stem)
            if path.stat().st_mtime < before if upload is None else upload.state == GONE:
                self._unlink(path.stem)

    def _is_over(self, upload: Upload) -> bool:
        age = self.journal.clock() - upload.at
        run = self.run_of(upload)
        if run is None:
            return age > NEVER_SCREENED_DAYS * DAY_MICROS
        if run.state in {"completed", "test_mode"}:
            return True
        if run.state == RUNNING:
            return False
        ended = run.finished_at or upload.at
        return self._is_refused(run) or self.journal.clock() - ended > RESUMABLE_DAYS * DAY_MICROS


def _of(upload: Upload) -> Update:
    return update(uploads).where(uploads.c.upload_id == upload.upload_id)


def chosen_mapping(upload: Upload) -> Mapping:
    """Return what was said of an upload's headings, sheet and dates."""
    return Mapping.model_validate(upload.choices.get("mapping") or {})


def plain_name(name: str) -> str:
    """Return a file's bare name; nobody's number or address is left in it."""
    bare = "".join(c for c in name.replace("\\", "/").rpartition("/")[2] if c.isprintable())[:120]
    if bare and not contains_identifier(bare):
        return bare
    path = Path(bare)
    return (batch_name(path) if bare else "file") + path.suffix[:8]
