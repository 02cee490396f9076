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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import insert, or_, select, update

from nightscreen.config.parameters import USUAL_CHECKS, ScreenBatch
from nightscreen.files.private_files import make_private_folder, write_private
from nightscreen.files.sealed_file import (
    RESUMABLE_DAYS,
    SUFFIX,
    UPLOADS,
    SealedWriter,
    sealed_writer,
)
from nightscreen.journal.runs import RUNNING, upload_of
from nightscreen.journal.schema import uploads
from nightscreen.reading.mapping_file import Mapping, mapping_toml
from nightscreen.schemas.approvals import ApprovalDecision
from nightscreen.schemas.clock import DAY_MICROS
from nightscreen.schemas.columns import KNOWN_COLUMNS
from nightscreen.schemas.naming import batch_name, contains_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import ColumnElement, Row, Update

    from nightscreen.config.settings import Settings
    from nightscreen.desk.accounts import Accounts
    from nightscreen.journal import Journal
    from nightscreen.journal.approvals import Approvals
    from nightscreen.journal.audit import Audit
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
        started_at: since when its run is started; None where it is not.
    """

    upload_id: str
    user: str
    at: int
    name: str
    digest: str
    size: int
    state: str
    run_id: str
    started_at: int | None
    choices: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Uploads:
    """Keeps uploads of a desk."""

    journal: Journal
    settings: Settings
    accounts: Accounts
    audit: Audit
    approvals: Approvals
    output: Path

    @property
    def folder(self) -> Path:
        """Return where they lie."""
        return self.settings.home.absolute() / UPLOADS

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
        with sealed_writer(self.path(upload_id), self.journal.sealer) as writer:
            yield upload_id, writer
        shown = plain_name(name)
        row = {
            "upload_id": upload_id,
            "user": user,
            "at": self.journal.clock(),
            "name": shown,
            "digest": writer.digest,
            "size": writer.size,
            "state": HELD,
            "run_id": "",
            "choices": json.dumps(choices),
        }
        with self.accounts.transaction() as connection:
            connection.execute(insert(uploads), row)
        self.audit.write(user, "file brought", digest=writer.digest, name=shown)

    def find(self, upload_id: str) -> Upload | None:
        """Return an upload, or None."""
        if not _ID.fullmatch(upload_id):
            return None
        return next(iter(self._read(uploads.c.upload_id == upload_id)), None)

    def _read(self, which: ColumnElement[bool]) -> list[Upload]:
        rows = self.accounts.rows(select(uploads).where(which).order_by(uploads.c.at))
        return [_upload(row) for row in rows]

    def of_run(self, run: RunRecord | None) -> Upload | None:
        """Return the upload that a run screens; None where its file came another way."""
        if run is None:
            return None
        upload = upload_of(self.settings.home, run)
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
        approval = self.approvals.newest(run.run_id)
        refused = approval is not None and approval.decision is ApprovalDecision.REFUSED
        return not refused and run.state != "test_mode"

    def choose(self, upload: Upload, choices: dict[str, Any]) -> Upload:
        """Keep what was chosen for an upload, and what its headings mean as a mapping file."""
        with self.accounts.transaction() as connection:
            kept = select(uploads.c.choices).where(uploads.c.upload_id == upload.upload_id)
            merged = {**json.loads(connection.execute(kept).scalar_one()), **choices}
            connection.execute(_of(upload).values(choices=json.dumps(merged)))
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
        return replace(upload, choices=merged)

    def claim(self, upload: Upload) -> bool:
        """Tell whether the caller is the one who starts the run of an upload, and note when."""
        with self.accounts.transaction() as connection:
            free = _of(upload).where(uploads.c.started_at.is_(None))
            claimed = connection.execute(free.values(started_at=self.journal.clock()))
        return claimed.rowcount == 1

    def give_back(self, upload: Upload) -> None:
        """Let somebody start the run of an upload after all: it was claimed, and did not start."""
        with self.accounts.transaction() as connection:
            connection.execute(_of(upload).values(started_at=None))

    def parameters(self, upload: Upload) -> ScreenBatch:
        """Return what an upload is screened with."""
        chosen = upload.choices
        mapping = self.mapping(upload.upload_id)
        given = {
            "input": str(self.path(upload.upload_id)),
            "batch": chosen.get("batch") or batch_name(Path(upload.name))[:80],
            "output": str(self.output),
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
        runs = self.journal.runs
        if upload.run_id:
            return runs.find(upload.run_id)
        home = self.settings.home
        newest = runs.newest(limit=100)
        found = next((run for run in newest if upload_of(home, run) == upload.upload_id), None)
        if found is not None:
            with self.accounts.transaction() as connection:
                connection.execute(_of(upload).values(run_id=found.run_id))
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
        self.path(upload.upload_id).unlink(missing_ok=True)
        self.mapping(upload.upload_id).unlink(missing_ok=True)
        with self.accounts.transaction() as connection:
            connection.execute(_of(upload).values(state=GONE))

    def _drop_left(self) -> None:
        """Remove files whose upload was cut short, or that a desk elsewhere has done with."""
        before = time.time() - NEVER_SCREENED_DAYS * 86_400
        for path in self.folder.glob(f"*{SUFFIX}"):
            upload = self.find(path.stem)
            if path.stat().st_mtime < before if upload is None else upload.state == GONE:
                path.unlink(missing_ok=True)
                path.with_suffix(".toml").unlink(missing_ok=True)

    def _is_over(self, upload: Upload) -> bool:
        age = self.journal.clock() - upload.at
        run = self.run_of(upload)
        if run is None:
            return age > NEVER_SCREENED_DAYS * DAY_MICROS
        if run.state in {"completed", "test_mode"}:
            return True
        if run.state == RUNNING:
            return False
        approval = self.approvals.newest(run.run_id)
        if approval is not None and approval.decision is ApprovalDecision.REFUSED:
            return True
        return self.journal.clock() - (run.finished_at or upload.at) > RESUMABLE_DAYS * DAY_MICROS


def _of(upload: Upload) -> Update:
    return update(uploads).where(uploads.c.upload_id == upload.upload_id)


def _upload(row: Row[Any]) -> Upload:
    return Upload(
        row.upload_id,
        row.user,
        row.at,
        row.name,
        row.digest,
        row.size,
        row.state,
        row.run_id,
        row.started_at,
        json.loads(row.choices),
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
