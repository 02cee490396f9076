"""Files uploaded to the desk: sealed at rest, and removed when no longer needed.

Digest, uploader and time are kept as long as approvals. The file is removed when its run completes,
at once when its spending is refused, after a day if it was never screened, and after seven days if
its run can still be resumed.
"""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from nightscreen.config.parameters import USUAL_CHECKS, ScreenBatch
from nightscreen.files.private_files import make_private_folder, write_private
from nightscreen.files.sealed_file import RESUMABLE_DAYS, SUFFIX, seal_file
from nightscreen.journal.approvals import Approvals, upload_of_run
from nightscreen.journal.audit import Audit
from nightscreen.journal.records import Records
from nightscreen.journal.runs import RUNNING, upload_of
from nightscreen.reading.mapping_file import Mapping, mapping_toml
from nightscreen.schemas.approvals import ApprovalDecision
from nightscreen.schemas.clock import DAY_MICROS
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.naming import batch_name, contains_identifier
from nightscreen.schemas.uploads import FIXES, GONE, HELD, UPLOADS, Upload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord

LARGEST: Final = 100 * 1024 * 1024
NEVER_SCREENED_DAYS: Final = 1
TYPED: Final = "typed"
"""Choice of an upload that was made at the desk: of one customer, a part of a batch."""
_AS_BEFORE: Final = (
    *("karma_identities", "karma_stop_at_first", "shadow"),
    *("merge_rows", "policy", "freshness"),
)
_AS_CHOSEN: Final = (*_AS_BEFORE, "purpose", "date_order", "max_spend")
"""Choices that are parameters of the run by the same names; the first of them are those that rows
have which are screened once more."""
_MISTAKES: Final = {
    "max_spend": "Most to spend: write naira such as 250000 or 99.50.",
    "checks": "Checks: choose at least one.",
}


@dataclass(frozen=True, slots=True)
class Uploads:
    """Keeps uploads of a desk."""

    journal: Journal  # whose HOME they lie in, sealed under its key
    output: Path  # where their runs put results

    def path(self, upload_id: str) -> Path:
        """Return where an upload lies."""
        return self.journal.home.absolute() / UPLOADS / f"{upload_id}{SUFFIX}"

    def mapping(self, upload_id: str) -> Path:
        """Return where its run reads what its headings mean."""
        return self.path(upload_id).with_suffix(".toml")

    def keep(
        self, name: str, user: str, pieces: Iterable[bytes], choices: dict[str, Any]
    ) -> Upload:
        """Seal a file under a new id; nothing remains of an upload that is interrupted."""
        # letters alone: ten digits in a row would look like a customer's number
        upload_id = "".join(secrets.choice(ascii_lowercase) for _ in range(32))
        make_private_folder(self.path(upload_id).parent)
        digest, size = seal_file(self.path(upload_id), pieces, self.journal.sealer)
        kept = Upload(
            key=upload_id,
            user=user,
            at=self.journal.clock(),
            name=plain_name(name),
            batch=str(choices.get("batch") or ""),
            digest=digest,
            size=size,
            choices=choices,
        )
        self._records.add([kept])
        Audit(self.journal).write(user, "file uploaded", digest=kept.digest, name=kept.name)
        return kept

    @property
    def _records(self) -> Records[Upload]:
        return Records(self.journal, Upload)

    def find(self, upload_id: str) -> Upload | None:
        """Return an upload, or None."""
        return self._records.find(upload_id)

    def of_run(self, run: RunRecord | None) -> Upload | None:
        """Return the upload that a run screens; None where its file came another way."""
        return None if run is None else upload_of_run(self.journal, run)

    def is_part(self, run: RunRecord) -> bool:
        """Return whether a run is of rows typed at the desk, which are no night of their batch."""
        upload = self.of_run(run)
        return upload is not None and TYPED in upload.choices

    def fixing(self, run: RunRecord) -> list[Upload]:
        """Return the uploads that fix rows of a run, oldest first."""
        of_batch = self._records.all(batch=run.batch)
        return [each for each in of_batch if each.choices.get(FIXES) == run.run_id]

    def is_screened(self, upload: Upload) -> bool:
        """Return whether an upload's run has screened it, or may still do so."""
        if upload.started_at is None:
            return False
        run = self.run_of(upload)
        if run is None:
            return upload.state == HELD
        return not self._is_refused(run) and run.state != "test_mode"

    def _is_refused(self, run: RunRecord) -> bool:
        approval = Approvals(self.journal).newest(run.run_id)
        return approval is not None and approval.decision is ApprovalDecision.REFUSED

    def choose(self, upload: Upload, choices: dict[str, Any]) -> Upload:
        """Keep what was chosen for an upload, beside what was chosen before."""

        def chosen(kept: Upload) -> Upload:
            return kept.model_copy(update={"choices": {**kept.choices, **choices}})

        return self._records.change(upload.key, chosen, self.journal.clock()) or upload

    def _set(self, upload: Upload, **values: object) -> None:
        now = self.journal.clock()
        self._records.change(upload.key, lambda kept: kept.model_copy(update=values), now)

    @contextmanager
    def starting(self, upload: Upload) -> Iterator[bool]:
        """Return whether the caller is the one who starts the run of an upload.

        Somebody may start it after all where the caller could not.
        """
        now, before = self.journal.clock(), list[int | None]()

        def started(kept: Upload) -> Upload:
            before.append(kept.started_at)
            return kept.model_copy(update={"started_at": kept.started_at or now})

        self._records.change(upload.key, started, now)
        try:
            yield before == [None]
        except BaseException:
            self._set(upload, started_at=None)
            raise

    def parameters(self, upload: Upload) -> ScreenBatch:
        """Return what an upload is screened with; what its headings mean is written for its run."""
        chosen, file = upload.choices, self.mapping(upload.upload_id)
        mapping = chosen_mapping(upload)
        if mapping != Mapping():
            write_private(file, mapping_toml(mapping).encode())
        given = {
            "input": str(self.path(upload.upload_id)),
            "batch": chosen_batch(upload),
            "output": str(self.output),
            "checks": chosen.get("checks") or USUAL_CHECKS,
            "mapping": "" if mapping == Mapping() else str(file),
            **{name: chosen[name] for name in _AS_CHOSEN if chosen.get(name)},
        }
        return screen_parameters(given)

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
        """Remove files that are no longer needed; return how many.

        This includes interrupted uploads, and those that another desk has finished with.
        """
        over = [each for each in self._records.all(state=HELD) if self._is_over(each)]
        for upload in over:
            self.remove(upload)
        before = time.time() - NEVER_SCREENED_DAYS * 86_400
        for path in self.path("").parent.glob(f"*{SUFFIX}"):
            left = self.find(path.stem)
            if path.stat().st_mtime < before if left is None else left.state == GONE:
                self._unlink(path.stem)
        return len(over)

    @contextmanager
    def unless_started(self, upload: Upload) -> Iterator[None]:
        """Remove a file at the end, unless its run is started meanwhile."""
        try:
            yield
        finally:
            kept = self.find(upload.upload_id)
            if kept is not None and kept.started_at is None:
                self.remove(upload)

    def remove(self, upload: Upload) -> None:
        """Remove a file; digest, uploader and time stay."""
        self._unlink(upload.upload_id)
        self._set(upload, state=GONE)

    def _unlink(self, upload_id: str) -> None:
        self.path(upload_id).unlink(missing_ok=True)
        self.mapping(upload_id).unlink(missing_ok=True)

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


def screen_parameters(given: dict[str, Any]) -> ScreenBatch:
    """Return what a run is started with.

    Raises:
        InputError: a value is wrong; the message says what to choose or write.
    """
    try:
        return ScreenBatch.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        said = _MISTAKES.get(str(first["loc"][0]), f"{first['loc'][0]}: {first['msg']}")
        raise InputError(said) from None


def as_before(run: RunRecord) -> dict[str, Any]:
    """Return the choices by which rows are screened as a run screened them, a part of its batch."""
    same = {each: run.parameters[each] for each in _AS_BEFORE if run.parameters.get(each)}
    own = {"batch": run.batch, "purpose": run.purpose, "checks": run.parameters.get("checks")}
    return {**same, **own, TYPED: True}


def chosen_batch(upload: Upload) -> str:
    """Return the batch that an upload is screened as."""
    return upload.choices.get("batch") or batch_name(Path(upload.name))[:80]


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
