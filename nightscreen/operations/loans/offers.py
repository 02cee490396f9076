"""Loan offers: one application link for each customer and product.

Offers are made from a finished, publishable run. In a portfolio run only rows with a request get
one, unless unsolicited offers are chosen. A row's decision is the newest valid one: a review is
valid for the evidence it was made on, and a later run may have decided differently.

An offer is saved in the journal before its call is sent, under a key that only one process can
write. A call whose answer was lost is never repeated automatically. `offers.parquet` and
`offers.csv`, ready for a mail merge, contain names, contacts, references and links; report, calls
and manifest contain none of them.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from nightscreen.client import wire
from nightscreen.client.response_parser import parse_answer
from nightscreen.client.response_rules import ChargeStatus
from nightscreen.files.outputs import MANIFEST, OFFERS_CSV, OFFERS_FILE, REPORT
from nightscreen.files.places import sha256_of
from nightscreen.journal.customers import Customers
from nightscreen.operations.person_run import (
    OutputTable,
    Recorded,
    RecordRun,
    ReportParts,
    single_call,
)
from nightscreen.report.anomaly_check import HELD, RELEASED
from nightscreen.results.decision_files import csv_bytes
from nightscreen.results.enriched import read_customers
from nightscreen.results.final_decision import current_reviews
from nightscreen.results.notices import contested
from nightscreen.results.wording import customer_name
from nightscreen.schemas.answers import LoanProducts, LoanStarted
from nightscreen.schemas.checks import Operation, Purpose, SubjectKind
from nightscreen.schemas.columns import NAME_FIELDS, REQUESTED
from nightscreen.schemas.decisions import LISTED_PART
from nightscreen.schemas.enriched import WORD
from nightscreen.schemas.errors import InputError, StoppedError
from nightscreen.schemas.offers import LinkState, Offer, OfferLoans, OfferState
from nightscreen.schemas.rows import INSTANT
from nightscreen.schemas.stops import COMPLETED, STOPPED, TEST_MODE
from nightscreen.values.addresses import judge_email
from nightscreen.values.phones import judge_phone

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.operations.person_run import CallEnd
    from nightscreen.values.issues import Validated

BLOCK_ROWS = 4096  # rows read at once: bounds memory
_READ = ("customer_id", *NAME_FIELDS, "email", "phone", "decision", *REQUESTED)


@dataclass(frozen=True, slots=True)
class OfferSource:
    """A screening run from which offers may be made."""

    run_id: str
    batch: str
    parts: tuple[Path, ...]  # its enriched rows, in order
    every_row: bool  # rows without a request get offers too: applications, or unsolicited offers


@dataclass(slots=True, kw_only=True)
class Offered(Recorded):
    """One row with a chosen decision; its state is an `OfferState`."""

    customer_id: str = field(repr=False)
    customer_name: str | None = field(repr=False)
    email: str | None = field(repr=False)
    phone: str | None = field(repr=False)
    decision: str
    decided_by: str  # `policy` or `review`
    source: OfferSource
    product_id: str
    # the customer's newest offer of the product
    record: Offer | None = field(default=None, repr=False)

    @property
    def problem(self) -> str | None:
        """Return why this session's call produced no link."""
        reading = None if self.task is None else self.task.reading
        return None if reading is None or reading.trouble is None else reading.trouble.value

    @property
    def link(self) -> Offer | None:
        """Return the customer's offer, if its reference and link are known."""
        linked = self.state in {OfferState.OFFERED, OfferState.ALREADY_OFFERED}
        return self.record if linked else None


def read_source(parameters: OfferLoans) -> OfferSource:
    """Read the folder of the run from which to make offers.

    Raises:
        InputError: it is no folder of a finished screening run, must not be published, or none of
            its customers requested a loan.
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
        document = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise InputError(f"{path} cannot be read; restore the run's folder") from None
    return document if isinstance(document, dict) else None


def _why_not(run_id: str, report: Mapping[str, Any], *, is_finished: bool) -> str:
    """Return why no offers may be made from a run, and what to do; empty if they may."""
    state = report.get("state")
    if "flow" in report:
        return (
            f"is a run of {report['flow']}, not of screening; name a folder that nightscreen "
            "screen has written"
        )
    if state == TEST_MODE:
        return (
            "met the service in test mode: its results may not be used; screen again with a live "
            "key"
        )
    if not is_finished or state == STOPPED:
        stopped = f"was stopped ({report.get('stop_reason')})"
        unfinished = f"is not finished: it has no {MANIFEST}"
        why = stopped if is_finished else unfinished
        return f"{why}; resume it with: nightscreen screen --run {run_id}"
    if report.get(HELD) and not report.get(RELEASED):
        return (
            "is held, since its results were not plausible; look at its report, then release it "
            f"with: nightscreen runs release {run_id} --reason WHY"
        )
    return "" if state == COMPLETED else "did not complete; screen again"


def _parts(folder: Path, run_id: str, manifest: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the enriched parts listed in the manifest, their digests checked."""
    listed = {n: f for n, f in manifest["files"].items() if n.startswith("enriched/")}
    if not listed:
        raise InputError(f"the rows of run {run_id} were purged; screen again, then offer")
    for name in sorted(listed):
        path = folder / name
        try:
            digest = sha256_of(path)
        except OSError:
            raise InputError(f"{path} is missing or cannot be read; restore it") from None
        if digest != listed[name]["sha256"]:
            raise InputError(f"{path} is not as the run has left it; restore it from a copy")
        yield path


def candidates(
    journal: Journal, source: OfferSource, parameters: OfferLoans
) -> tuple[list[Offered], int]:
    """Return the rows with a chosen decision, in order, and the number of all rows.

    A row's state is `PENDING`, or why no offer is made to it regardless of earlier offers.
    """
    names, chosen = journal.pseudonyms, frozenset(parameters.decisions)
    reviews = current_reviews(journal, source.batch)
    disputed = contested(journal, source.batch)
    offers: list[Offered] = []
    number_of_rows = 0
    for customers in read_customers(source.parts, _READ, BLOCK_ROWS):
        number_of_rows += customers.num_rows
        rows = {
            names.customer(source.batch, row["customer_id"]): row for row in customers.to_pylist()
        }
        selected = {
            each: row for each, row in rows.items() if row["decision"] in chosen or each in reviews
        }
        known = Customers(journal).known(list(selected))
        for each, row in selected.items():
            own = decision = str(row["decision"])
            by = "policy"  # the newest decision counts, by policy or review
            part = known[each].state.get(LISTED_PART) if each in known else None
            if (review := reviews.get(each)) is not None:
                decision, by = review.decision, "review"
            elif part is not None and part.run_id != source.run_id:
                decision = str(part.values["decision"])
            if own not in chosen and (decision not in chosen or by != "review"):
                continue
            requested = any(row.get(name) is not None for name in REQUESTED)
            state = OfferState.PENDING if source.every_row or requested else OfferState.NO_REQUEST
            if each in disputed:
                state = OfferState.CONTESTED
            if decision not in chosen:
                state = OfferState.SUPERSEDED
            email = _well_formed(row.get("email"), judge_email)
            phone = _well_formed(row.get("phone"), judge_phone)
            prefilled = [{"email": email, "phone": phone}[name] for name in parameters.prefill]
            if state == OfferState.PENDING and prefilled and not any(prefilled):
                state = OfferState.NO_CONTACT
            offered = Offered(
                customer=names.customers_anywhere([row["customer_id"]]),
                customer_id=row["customer_id"],
                customer_name=customer_name(row),
                email=email,
                phone=phone,
                decision=decision,
                decided_by=by,
                state=state,
                source=source,
                product_id=parameters.product,
            )
            offers.append(offered)
    return offers, number_of_rows


def _well_formed(text: str | None, judge: Callable[[str], Validated[str]]) -> str | None:
    """Return a contact in the service's format; None if it is absent or malformed."""
    if not text:
        return None
    verdict = judge(text)
    malformed = any(issue.flaw for issue in verdict.issues)
    return None if malformed else verdict.value


_EXCLUDED = frozenset({OfferState.SUPERSEDED, OfferState.NO_REQUEST, OfferState.CONTESTED})
"""States of rows to which no offer is made, regardless of earlier offers."""


# --- the run ---


class LoanOffers(RecordRun[OfferLoans, Offered]):
    """A run that makes application links."""

    flow, name, batch = "offer_loans", "loan-offers", "loan-offers"
    operation, kind = Operation.LOAN_START, SubjectKind.CUSTOMER
    model, under_way, first_alone = Offer, LinkState.STARTING.value, True
    _source: OfferSource  # the screening run

    @staticmethod
    def made_by(record: Offer) -> tuple[str, Operation]:
        """Return the run that makes the link."""
        return record.run_id, Operation.LOAN_START

    @staticmethod
    def after(journal: Journal, end: CallEnd | None, record: Offer) -> Offer | None:
        """Return an offer as changed by its call; None if no link can have been made."""
        if end is None or not (end.is_lost or end.is_answered):
            return None
        answer = None if end.is_lost else parse_answer(Operation.LOAN_START, end.body)
        if not isinstance(answer, LoanStarted) or not answer.reference:
            return record.model_copy(update={"state": LinkState.IN_DOUBT})
        made = {
            "state": LinkState.OFFERED,
            "offered_at": end.settled_at or journal.clock(),
            "loan": journal.pseudonyms.subject(SubjectKind.LOAN.value, answer.reference),
            "reference": answer.reference,
            "url": answer.url,
        }
        return record.model_copy(update=made)

    @classmethod
    def identify(cls, parameters: OfferLoans, settings: Settings) -> tuple[str, str]:  # noqa: ARG003 - as of every kind
        """Check the screening run's folder; a run is about one product and one screening run."""
        if not parameters.run_dir:
            raise InputError("name the folder of a finished screening run, such as out/RUN_ID")
        if not parameters.product:
            raise InputError("name the product with --product; see: nightscreen loans products")
        source = read_source(parameters)
        return cls.batch, f"run:{source.run_id} product:{parameters.product}"

    def load_people(self) -> list[Offered]:
        """Read the rows with a chosen decision.

        Raises:
            InputError: the run's files were changed.
        """
        self._source = read_source(self.parameters)
        offers, self.rows_read = candidates(self.run.journal, self._source, self.parameters)
        return offers

    def _contacts(self, person: Offered) -> dict[str, str]:
        """Return the customer's data to be sent to the service."""
        contacts = {"email": person.email, "phone": person.phone}
        return {name: text for name in self.parameters.prefill if (text := contacts[name])}

    def newest(self, customers: Collection[bytes]) -> dict[bytes, Offer]:
        """Return the newest offer of the product to each customer who has one."""
        product = self.parameters.product
        offers = self.records.of_customers(customers)
        return {each.customer: each for each in offers if each.product_id == product}

    def apply_record(self, person: Offered, record: Offer | None) -> None:
        """Set the customer's newest offer, and update the row's state from it.

        Another link is made only with `again`, and only if the last one is in doubt or its loan has
        ended: an open offer has its link.
        """
        if person.state in _EXCLUDED:
            return
        person.record = record
        is_ours = record is not None and record.run_id == self.run.run_id
        may_be_renewed = self.parameters.again and not is_ours
        is_due = record is None or (
            may_be_renewed and (record.state is LinkState.IN_DOUBT or record.closed_at is not None)
        )
        number = 1 if record is None else record.number + is_due
        identity = f"{self.parameters.product}\x1f{number}\x1f{person.customer_id}"
        person.subject = self.run.journal.pseudonyms.subject("loan offer", identity)
        if record is None or is_due:
            return
        if record.state is LinkState.OFFERED:
            person.state = OfferState.OFFERED if is_ours else OfferState.ALREADY_OFFERED
        elif record.state is LinkState.IN_DOUBT:
            person.state = OfferState.IN_DOUBT

    # --- asking ---

    @property
    def _made(self) -> int:
        """Return how many links the run has made."""
        return sum(row.state == OfferState.OFFERED for row in self.people)

    def pending_people(self) -> list[Offered]:
        """Return the customers without a link, limited to the number that may still be made."""
        waiting, most = super().pending_people(), self.parameters.most
        return waiting if most is None else waiting[: max(0, most - self._made)]

    def intent(self, person: Offered) -> Offer:
        """Return a new offer; only one process can save its key."""
        contacts = self._contacts(person)
        return Offer(
            subject=person.subject,
            customer=person.customer,
            batch=self._source.batch,
            product_id=self.parameters.product,
            number=1 if person.record is None else person.record.number + 1,
            run_id=self.run.run_id,
            source_run_id=self._source.run_id,
            decision=person.decision,
            state=LinkState.STARTING,
            at=self.run.clock(),
            customer_id=person.customer_id,
            email=contacts.get("email"),
            phone=contacts.get("phone"),
        )

    def call(self, caller: Caller, person: Offered) -> LookupTask:
        """Return the call that makes a link."""
        contacts = self._contacts(person)
        request = wire.loan_start(
            self.parameters.product,
            email=contacts.get("email", ""),
            phone_number=contacts.get("phone", ""),
        )
        return caller.task(request, kind=self.kind, subject=person.subject)

    # --- closing ---

    def write(self) -> ReportParts:
        """Write the offers as Parquet, and as CSV for spreadsheets.

        In the CSV the phone, `+234` and ten digits, is not escaped: messages are sent to it.
        """
        folder = self.run.folder
        offers = OFFERS.table(self.people)
        folder.write_parquet(OFFERS_FILE, OFFERS.schema, [offers])
        with folder.file(OFFERS_CSV, offers.num_rows) as partial_file:
            partial_file.write_bytes(csv_bytes(offers, headings=True, as_is=["phone"]))
        counts = self._counts()
        if doubtful := counts[OfferState.IN_DOUBT]:
            self.run.stops.notices.append(
                f"{doubtful:,} links are in doubt: the call was sent and its answer lost, so that "
                "a link may exist that is not known here; the call is not repeated automatically, "
                f"see state in_doubt in {OFFERS_CSV}; --again makes another link"
            )
        more = {
            **self._head(),
            "prefill": list(self.parameters.prefill),
            "offers": counts,
            "changes": {"links_made": self._made},
        }
        return ReportParts({"offered": self._made}, more)

    def _head(self) -> dict[str, Any]:
        """Return what the run is about."""
        source, parameters = self._source, self.parameters
        return {
            "source": {
                "run_id": source.run_id,
                "batch": source.batch,
                "decisions": list(parameters.decisions),
                "unsolicited": parameters.unsolicited,
            },
            "product": {"product_id": parameters.product},
        }

    def _counts(self) -> dict[str, int]:
        """Return the number of rows with a chosen decision, in all and by state."""
        states = Counter(str(row.state) for row in self.people)
        return {"chosen": len(self.people), **{each.value: states[each] for each in OfferState}}

    def quoted_more(self) -> dict[str, Any]:
        """Return how many links would be made."""
        return {**self._head(), "links": len(self.due()), "offers": self._counts()}


_TEXT = pa.string()

OFFERS = OutputTable[Offered](
    customer_id=(_TEXT, lambda row: row.customer_id),
    customer_name=(_TEXT, lambda row: row.customer_name),
    email=(_TEXT, lambda row: row.email),
    phone=(_TEXT, lambda row: row.phone),
    product_id=(_TEXT, lambda row: row.product_id),
    state=(WORD, lambda row: str(row.state)),
    reference=(_TEXT, lambda row: row.link and row.link.reference),
    url=(_TEXT, lambda row: row.link and row.link.url),
    offered_at=(INSTANT, lambda row: row.link and row.link.offered_at),
    number=(pa.int32(), lambda row: row.record and row.record.number),
    decision=(WORD, lambda row: row.decision),
    decided_by=(WORD, lambda row: row.decided_by),
    problem=(WORD, lambda row: row.problem),
    batch=(WORD, lambda row: row.source.batch),
    screening_run_id=(WORD, lambda row: row.source.run_id),
    offer_run_id=(WORD, lambda row: row.record and row.record.run_id),
)


# --- products ---


async def list_products(settings: Settings) -> LoanProducts:
    """Return the active products; the call is in the journal but belongs to no run.

    Raises:
        StoppedError: no list was received; the text says why.
        UsageError: the settings are wrong, such as the service's address.
    """
    async with single_call(settings, Operation.LOAN_PRODUCTS) as caller:
        run, kind = caller.run, SubjectKind.PRODUCT
        subject = run.journal.pseudonyms.subject(kind.value, "list")
        task = await caller.make_call(caller.task(wire.loan_products(), kind=kind, subject=subject))
    reading, stops = task.reading, run.stops
    if reading is not None and reading.verdict is ChargeStatus.ANSWERED:
        products = parse_answer(Operation.LOAN_PRODUCTS, reading.body)
        if isinstance(products, LoanProducts):
            return products
    else:
        stops.conclude()
        run.refuse_wrong_address()
    why = stops.ending()[1] or (reading and reading.trouble) or "no answer"
    raise StoppedError(
        "; ".join(stops.refusals())
        or f"the list of products did not come ({why}); try again later, and see: nightscreen "
        "doctor"
    )
