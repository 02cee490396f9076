"""The screening run that offers rest on: its folder looked at, and its rows with their decisions.

Only a finished run that may be published is taken, and of a portfolio run only rows with a request,
unless unsolicited offers are chosen on purpose. A row's decision is the newest valid one: a review
is valid for the evidence it was made on, and a later run may have decided differently. `offers`
decides who gets which offer.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from nightscreen.files.outputs import MANIFEST, REPORT
from nightscreen.journal.customers import Customers
from nightscreen.journal.reviews import Reviews
from nightscreen.report.anomaly_check import HELD, RELEASED
from nightscreen.results.customer_rows import read_customers
from nightscreen.results.notices import contested
from nightscreen.results.tracked_state import rests_on
from nightscreen.results.wording import customer_name
from nightscreen.schemas.checks import Purpose
from nightscreen.schemas.columns import REQUESTED
from nightscreen.schemas.decisions import LISTED_PART
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.offers import OfferWord
from nightscreen.schemas.stops import COMPLETED, STOPPED, TEST_MODE
from nightscreen.values.addresses import judge_email
from nightscreen.values.phones import judge_phone

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from nightscreen.journal import Journal
    from nightscreen.schemas.contests import Review
    from nightscreen.schemas.decisions import KnownCustomer
    from nightscreen.schemas.offers import OfferLoans
    from nightscreen.values.issues import Validated

BLOCK_ROWS = 4096
_READ = (
    "customer_id",
    "first_name",
    "middle_name",
    "last_name",
    "full_name",
    "email",
    "phone",
    "decision",
    *REQUESTED,
)


@dataclass(frozen=True, slots=True)
class OfferSource:
    """A screening run that may be offered from."""

    run_id: str
    batch: str
    parts: tuple[Path, ...]  # its enriched rows, in order
    # rows without a request get offers too: they are applications, or the lender has chosen
    # unsolicited offers
    every_row: bool


@dataclass(slots=True)
class Candidate:
    """One row with a chosen decision, and what becomes of it."""

    customer: bytes
    customer_id: str = field(repr=False)
    customer_name: str | None = field(repr=False)
    email: str | None = field(repr=False)
    phone: str | None = field(repr=False)
    decision: str = ""
    decided_by: str = "policy"  # `policy` or `review`
    # why nothing is offered, whatever was before; `PENDING` where something may be
    word: OfferWord = OfferWord.PENDING


def read_source(parameters: OfferLoans) -> OfferSource:
    """Read the folder of the run to offer from.

    Raises:
        InputError: it is no folder of a finished screening run, must not be published, or nobody in
            it asked for a loan.
    """
    folder = Path(parameters.run_dir)
    report = _document(folder / REPORT)
    if report is None:
        raise InputError(f"{folder} is no folder of a finished run: it has no {REPORT}")
    run_id, state = str(report.get("run_id", "")), report.get("state")
    if "flow" in report:
        raise InputError(
            f"run {run_id} is a run of {report['flow']}, not of screening; name a folder that "
            "nightscreen screen has written"
        )
    if state == TEST_MODE:
        raise InputError(
            f"run {run_id} met the service in test mode: nothing of it may be used; screen again "
            "with a live key"
        )
    manifest = _document(folder / MANIFEST)
    if manifest is None:
        raise InputError(
            f"run {run_id} is not finished: it has no {MANIFEST}; resume it with: "
            f"nightscreen screen --run {run_id}"
        )
    _refuse_unpublishable(run_id, report, include_stopped=parameters.include_stopped)
    parts = tuple(_parts(folder, run_id, manifest))
    every_row = parameters.unsolicited or report.get("purpose") == Purpose.ORIGINATION.value
    if not every_row and not any(map(_has_request, parts)):
        raise InputError(
            f"run {run_id} is no run of applications (--purpose origination), and no row of it has "
            f"a request ({', '.join(REQUESTED)}): credit that nobody asked for is restricted, see "
            "docs/loans.md. If counsel has agreed to it, use --unsolicited"
        )
    return OfferSource(run_id, str(manifest["batch"]), parts, every_row)


def _has_request(part: Path) -> bool:
    with pq.ParquetFile(part) as file:
        requested = [name for name in REQUESTED if name in file.schema_arrow.names]
        batches = file.iter_batches(BLOCK_ROWS, columns=requested) if requested else ()
        return any(column.null_count < len(column) for batch in batches for column in batch.columns)


def _document(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise InputError(f"{path} cannot be read; restore the run's folder") from None
    return found if isinstance(found, dict) else None


def _refuse_unpublishable(run_id: str, report: Mapping[str, Any], *, include_stopped: bool) -> None:
    if report.get(HELD) and not report.get(RELEASED):
        raise InputError(
            f"run {run_id} is held, since its night was not plausible; look at its report, then "
            f"release it with: nightscreen runs release {run_id} --reason WHY"
        )
    state = report.get("state")
    if state == STOPPED and not include_stopped:
        raise InputError(
            f"run {run_id} was stopped ({report.get('stop_reason')}); go on with: nightscreen "
            f"screen --run {run_id}, or offer what it has decided with --include-stopped"
        )
    if state not in {COMPLETED, STOPPED}:
        raise InputError(f"run {run_id} did not complete; screen again")


def _parts(folder: Path, run_id: str, manifest: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the enriched parts that the manifest lists, checked against it."""
    listed = {n: f for n, f in manifest["files"].items() if n.startswith("enriched/")}
    if not listed:
        raise InputError(f"the rows of run {run_id} were purged; screen again, then offer")
    for name in sorted(listed):
        path = folder / name
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            raise InputError(f"{path} is missing or cannot be read; restore it") from None
        if digest != listed[name]["sha256"]:
            raise InputError(f"{path} is not as the run has left it; restore it from a copy")
        yield path


def candidates(
    journal: Journal, source: OfferSource, decisions: Collection[str]
) -> tuple[list[Candidate], int]:
    """Return the rows with a chosen decision in their order, and how many rows there are in all."""
    judge = _Judge(journal, source, decisions)
    rows = 0
    found: list[Candidate] = []
    for customers in read_customers(source.parts, _READ, BLOCK_ROWS):
        rows += customers.num_rows
        found += judge.block(customers.to_pylist())
    return found, rows


class _Judge:
    """Finds the newest decision that holds of each row."""

    def __init__(self, journal: Journal, source: OfferSource, decisions: Collection[str]) -> None:
        self._pseudonyms = journal.pseudonyms
        self._customers = Customers.of(journal)
        self._source = source
        self._wanted = frozenset(decisions)
        self._reviews = Reviews.of(journal).active(source.batch, journal.clock())
        self._contested = contested(journal, source.batch)

    def block(self, rows: Sequence[dict[str, Any]]) -> list[Candidate]:
        """Return the candidates among some rows."""
        batch = self._source.batch
        pseudonyms = [self._pseudonyms.customer(batch, row["customer_id"]) for row in rows]
        asked = [
            (row, pseudonym)
            for row, pseudonym in zip(rows, pseudonyms, strict=True)
            if row["decision"] in self._wanted or pseudonym in self._reviews
        ]
        known = self._customers.known([pseudonym for _, pseudonym in asked])
        found = [self._judge(row, pseudonym, known.get(pseudonym)) for row, pseudonym in asked]
        return [candidate for candidate in found if candidate is not None]

    def _judge(
        self, row: dict[str, Any], pseudonym: bytes, known: KnownCustomer | None
    ) -> Candidate | None:
        own = str(row["decision"])
        decision, decided_by = self._newest(own, self._reviews.get(pseudonym), known)
        if own not in self._wanted and decision not in self._wanted:
            return None
        if own not in self._wanted and decided_by != "review":
            return None
        asks = self._source.every_row or any(row.get(name) is not None for name in REQUESTED)
        word = OfferWord.PENDING if asks else OfferWord.NO_REQUEST
        if pseudonym in self._contested:
            word = OfferWord.CONTESTED
        if decision not in self._wanted:
            word = OfferWord.SUPERSEDED
        return Candidate(
            customer=self._pseudonyms.customers_anywhere([row["customer_id"]]),
            customer_id=row["customer_id"],
            customer_name=customer_name(row),
            email=_sound(row.get("email"), judge_email),
            phone=_sound(row.get("phone"), judge_phone),
            decision=decision,
            decided_by=decided_by,
            word=word,
        )

    def _newest(
        self, own: str, review: Review | None, known: KnownCustomer | None
    ) -> tuple[str, str]:
        """Return the decision that holds now, and whose it is."""
        if known is None:
            return own, "policy"
        if review is not None and rests_on(review, known):
            return review.decision, "review"
        part = known.state.get(LISTED_PART)
        if part is not None and part.run_id != self._source.run_id:
            return str(part.values["decision"]), "policy"
        return own, "policy"


def _sound(text: str | None, judge: Callable[[str], Validated[str]]) -> str | None:
    """Return a contact in the service's form; None if it is absent or malformed."""
    if not text:
        return None
    verdict = judge(text)
    malformed = any(issue.flaw for issue in verdict.issues)
    return None if malformed else verdict.value
