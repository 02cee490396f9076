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
from typing import TYPE_CHECKING, Any, cast

import pyarrow.parquet as pq

from nightscreen.files.outputs import MANIFEST, REPORT
from nightscreen.journal.customers import Customers
from nightscreen.journal.reviews import Reviews
from nightscreen.operations.person_run import Recorded
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
    from collections.abc import Callable, Iterator, Mapping

    from nightscreen.journal import Journal
    from nightscreen.schemas.contests import Review
    from nightscreen.schemas.decisions import KnownCustomer
    from nightscreen.schemas.offers import Offer, OfferLoans
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


@dataclass(slots=True, kw_only=True)
class Offered(Recorded):
    """One row with a chosen decision; its word is an `OfferWord`."""

    customer_id: str = field(repr=False)
    customer_name: str | None = field(repr=False)
    email: str | None = field(repr=False)
    phone: str | None = field(repr=False)
    decision: str
    decided_by: str  # `policy` or `review`
    source: OfferSource
    product_id: str
    problem: str | None = None  # why a call of this session brought no link
    product_name: str | None = None  # as the list of products has it, or the offer

    @property
    def offer(self) -> Offer | None:
        """Return the customer's newest offer of the product; None where there is none."""
        return cast("Offer | None", self.record)

    @property
    def link(self) -> Offer | None:
        """Return the offer whose reference and link are known."""
        linked = self.word in {OfferWord.OFFERED, OfferWord.ALREADY_OFFERED}
        return self.offer if linked else None


def read_source(parameters: OfferLoans) -> OfferSource:
    """Read the folder of the run to offer from.

    Raises:
        InputError: it is no folder of a finished screening run, must not be published, or nobody in
            it asked for a loan.
    """
    folder = Path(parameters.run_dir)
    report, manifest = _document(folder / REPORT), _document(folder / MANIFEST)
    if report is None:
        raise InputError(f"{folder} is no folder of a finished run: it has no {REPORT}")
    run_id = str(report.get("run_id", ""))
    why = _why_not(run_id, report, is_finished=manifest is not None)
    if manifest is None or why:
        raise InputError(f"run {run_id} {why}")
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


def _why_not(run_id: str, report: Mapping[str, Any], *, is_finished: bool) -> str:
    """Return why nothing may be offered from a run, and what to do; empty where it may."""
    state = report.get("state")
    if "flow" in report:
        return (
            f"is a run of {report['flow']}, not of screening; name a folder that nightscreen "
            "screen has written"
        )
    if state == TEST_MODE:
        return (
            "met the service in test mode: nothing of it may be used; screen again with a live key"
        )
    if not is_finished or state == STOPPED:
        stopped = f"was stopped ({report.get('stop_reason')})"
        unfinished = f"is not finished: it has no {MANIFEST}"
        said = stopped if is_finished else unfinished
        return f"{said}; resume it with: nightscreen screen --run {run_id}"
    if report.get(HELD) and not report.get(RELEASED):
        return (
            "is held, since its night was not plausible; look at its report, then release it with: "
            f"nightscreen runs release {run_id} --reason WHY"
        )
    return "" if state == COMPLETED else "did not complete; screen again"


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
    journal: Journal, source: OfferSource, parameters: OfferLoans
) -> tuple[list[Offered], int]:
    """Return the rows with a chosen decision in their order, and how many rows there are in all.

    A row to which nothing is offered, whatever was before, has another word than `PENDING`.
    """
    names, wanted = journal.pseudonyms, frozenset(parameters.decisions)
    reviews = Reviews(journal).active(source.batch, journal.clock())
    disputed = contested(journal, source.batch)
    found: list[Offered] = []
    number = 0
    for customers in read_customers(source.parts, _READ, BLOCK_ROWS):
        number += customers.num_rows
        rows = {
            names.customer(source.batch, row["customer_id"]): row for row in customers.to_pylist()
        }
        asked = {
            each: row for each, row in rows.items() if row["decision"] in wanted or each in reviews
        }
        known = Customers(journal).known(list(asked))
        for each, row in asked.items():
            own = str(row["decision"])
            decision, by = _newest(own, reviews.get(each), known.get(each), source.run_id)
            if own not in wanted and (decision not in wanted or by != "review"):
                continue
            requested = any(row.get(name) is not None for name in REQUESTED)
            word = OfferWord.PENDING if source.every_row or requested else OfferWord.NO_REQUEST
            if each in disputed:
                word = OfferWord.CONTESTED
            if decision not in wanted:
                word = OfferWord.SUPERSEDED
            email = _sound(row.get("email"), judge_email)
            phone = _sound(row.get("phone"), judge_phone)
            filled_in = [{"email": email, "phone": phone}[name] for name in parameters.prefill]
            if word == OfferWord.PENDING and filled_in and not any(filled_in):
                word = OfferWord.NO_CONTACT
            row_found = Offered(
                customer=names.customers_anywhere([row["customer_id"]]),
                customer_id=row["customer_id"],
                customer_name=customer_name(row),
                email=email,
                phone=phone,
                decision=decision,
                decided_by=by,
                word=word,
                source=source,
                product_id=parameters.product,
            )
            found.append(row_found)
    return found, number


def _newest(
    own: str, review: Review | None, known: KnownCustomer | None, run_id: str
) -> tuple[str, str]:
    """Return the decision that holds now of a row that a run decided on, and whose it is."""
    if known is None:
        return own, "policy"
    if review is not None and rests_on(review, known):
        return review.decision, "review"
    part = known.state.get(LISTED_PART)
    if part is not None and part.run_id != run_id:
        return str(part.values["decision"]), "policy"
    return own, "policy"


def _sound(text: str | None, judge: Callable[[str], Validated[str]]) -> str | None:
    """Return a contact in the service's form; None if it is absent or malformed."""
    if not text:
        return None
    verdict = judge(text)
    malformed = any(issue.flaw for issue in verdict.issues)
    return None if malformed else verdict.value
