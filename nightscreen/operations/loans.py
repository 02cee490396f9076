"""Loans of the service: products, offers of them, and what became of each.

An offer is one application link for each customer and product, made from a finished, publishable
run. In a portfolio run only rows with a request get one, unless unsolicited offers are chosen. A
row's decision is the newest valid one: a review is valid for the evidence it was made on, and a
later run may have decided differently. An offer is saved in the journal before its call is sent,
under a key that only one process can write. A call whose answer was lost is never repeated
automatically. `offers.parquet` and `offers.csv`, ready for a mail merge, contain names, contacts,
references and links; report, calls and manifest contain none of them.

Tracking asks the service about every open reference, and reports each change once. A loan has ended
if its status is one of `CLOSED_STATUSES`; a loan with any other status, even an unknown one, is
tracked. An offer stores each view that showed a change with the run that reports it, so that two
concurrent runs never report the same change. The next run reports what a dead run saw.
`loans.parquet` has the `customer_id`, since the lender must know whose loan it is;
`changes.parquet` has pseudonyms and references; the report has numbers and statuses only.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from nightscreen.client import wire
from nightscreen.client.response_parser import parse_answer
from nightscreen.client.response_rules import ChargeStatus, FailureReason
from nightscreen.files.outputs import (
    CHANGES_FILE,
    LOANS_FILE,
    MANIFEST,
    OFFERS_CSV,
    OFFERS_FILE,
    REPORT,
)
from nightscreen.files.places import sha256_of
from nightscreen.journal.customers import Customers
from nightscreen.journal.records import Records
from nightscreen.journal.runs import KILLED
from nightscreen.operations.person_run import (
    FAILED,
    PENDING,
    OutputTable,
    Person,
    PersonRun,
    RecordRun,
    ReportParts,
    single_call,
)
from nightscreen.report.anomaly_check import HELD, RELEASED
from nightscreen.results.decision_files import csv_bytes
from nightscreen.results.enriched import read_customers
from nightscreen.results.final_decision import current_reviews
from nightscreen.results.notices import contested
from nightscreen.results.outcomes import linked_offers
from nightscreen.results.wording import customer_name
from nightscreen.schemas.answers import LoanProducts, LoanStarted, LoanState
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.checks import Operation, Outcome, Purpose, SubjectKind
from nightscreen.schemas.columns import NAME_FIELDS, REQUESTED
from nightscreen.schemas.decisions import LISTED_PART
from nightscreen.schemas.enriched import WORD
from nightscreen.schemas.errors import InputError, StoppedError
from nightscreen.schemas.offers import (
    CLOSED_STATUSES,
    LinkState,
    LoanSnapshot,
    LoanView,
    Offer,
    OfferLoans,
    OfferState,
    TrackingState,
    TrackLoans,
)
from nightscreen.schemas.rows import INSTANT, NAIRA
from nightscreen.schemas.stops import COMPLETED, STOPPED, TEST_MODE
from nightscreen.values.addresses import judge_email
from nightscreen.values.phones import judge_phone

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.run import Run
    from nightscreen.client.classify import CallOutcome
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.operations.person_run import CallEnd
    from nightscreen.values.issues import Validated

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


# --- offers ---

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
class Offered(Person):
    """One row with a chosen decision; its state is an `OfferState`."""

    customer_id: str = field(repr=False)
    customer_name: str | None = field(repr=False)
    email: str | None = field(repr=False)
    phone: str | None = field(repr=False)
    contacts: dict[str, str] = field(repr=False)  # what is sent to the service
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
    tables = read_customers(parts, REQUESTED, BLOCK_ROWS)
    requests = (column for table in tables for column in table.columns)
    if not every_row and all(column.null_count == len(column) for column in requests):
        raise InputError(
            f"run {run_id} is no run of applications (--purpose origination), and no row of it has "
            f"a request ({', '.join(REQUESTED)}): credit that nobody asked for is restricted, see "
            "docs/loans.md. If counsel has agreed to it, use --unsolicited"
        )
    return OfferSource(run_id, str(manifest["batch"]), parts, every_row)


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
            email = _well_formed(row.get("email"), judge_email)
            phone = _well_formed(row.get("phone"), judge_phone)
            held = (("email", email), ("phone", phone))
            contacts: dict[str, str] = {
                name: text for name, text in held if text and name in parameters.prefill
            }
            has_request = any(row.get(name) is not None for name in REQUESTED)
            excluded = (  # the first that applies
                (OfferState.SUPERSEDED, decision not in chosen),
                (OfferState.CONTESTED, each in disputed),
                (OfferState.NO_REQUEST, not source.every_row and not has_request),
                (OfferState.NO_CONTACT, parameters.prefill and not contacts),
            )
            offered = Offered(
                customer=names.customers_anywhere([row["customer_id"]]),
                customer_id=row["customer_id"],
                customer_name=customer_name(row),
                email=email,
                phone=phone,
                contacts=contacts,
                decision=decision,
                decided_by=by,
                state=next((state for state, is_so in excluded if is_so), OfferState.PENDING),
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


# --- the run of offers ---


class LoanOffers(RecordRun[OfferLoans, Offered]):
    """Make an application link for each chosen customer of a finished run who has none."""

    flow, name, batch = "offer_loans", "loan-offers", "loan-offers"
    form = OfferLoans
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

    def intent(self, person: Offered) -> Offer:
        """Return a new offer; only one process can save its key."""
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
            **person.contacts,
        )

    def call(self, caller: Caller, person: Offered) -> LookupTask:
        """Return the call that makes a link."""
        email, phone = (person.contacts.get(name, "") for name in ("email", "phone"))
        request = wire.loan_start(self.parameters.product, email=email, phone_number=phone)
        return caller.task(request, kind=self.kind, subject=person.subject)

    async def ask_person(self, caller: Caller, person: Offered) -> bool:
        """Make a link; a product that the service does not have is a mistake in what was typed.

        Raises:
            InputError: the first answer of a new run said so; the other customers are not asked.
        """
        is_asked = await super().ask_person(caller, person)
        if (
            person.problem == FailureReason.NO_PRODUCT
            and self.run.is_new
            and [each for each in self.people if each.task] == [person]
        ):
            raise InputError(
                f"the service has no product {self.parameters.product}, and no offer was made; "
                "see: nightscreen loans products"
            )
        return is_asked

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
            "changes": {"links_made": counts[OfferState.OFFERED]},
        }
        return ReportParts({"offered": counts[OfferState.OFFERED]}, more)

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


_TEXT, _YES_OR_NO = pa.string(), pa.bool_()
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


# --- tracking ---

REFERENCE = "reference"
KNOWN, UNKNOWN = "known", "unknown"
_AMOUNTS, _FLAGS = ("loan_amount", "amount_disbursed", "paid"), ("can_request", "can_cancel")
_REPORTED = ("status", *_AMOUNTS, "reject_reason", "can_request")
_INITIAL = frozenset({None, "0.00", "true"})  # values not reported at the first view of a loan


@dataclass(slots=True, kw_only=True)
class Followed(Person):
    """One loan with a reference; its state is a `TrackingState`."""

    record: Offer = field(repr=False)

    @property
    def seen(self) -> LoanSnapshot:
        """Return the loan as last seen."""
        return self.record.seen or LoanSnapshot()

    @property
    def viewed(self) -> TrackingState:
        """Return the state of a loan that the service answered about."""
        return TrackingState.FOLLOWED if self.seen.known else TrackingState.UNKNOWN_REFERENCE


class LoanChange(NamedTuple):
    """One field of a loan that had changed when the loan was viewed."""

    view: LoanView
    offer: Offer
    name: str
    old: str | None
    new: str | None


class LoanTracking(PersonRun[TrackLoans, Followed]):
    """Ask about every open loan; report its state and what has changed."""

    flow, name, batch = "track_loans", "loans", "loan-tracking"
    form = TrackLoans
    operation, kind = Operation.LOAN_VIEW, SubjectKind.LOAN

    def __init__(self, run: Run, parameters: TrackLoans) -> None:
        super().__init__(run, parameters)
        self._offers = Records(run.journal, Offer)

    def load_people(self) -> list[Followed]:
        """Return every loan with a reference, with the views that dead runs did not report."""
        LoanOffers.recover_dead_calls(self.run.journal)
        offers, runs = linked_offers(self.run.journal), self.run.journal.runs
        others = {view.run_id for offer in offers for view in offer.history} - {self.run.run_id}
        dead = {each for each in others if (run := runs.find(each)) is None or run.state == KILLED}
        loans = []
        for offer in (self._take_over_views(each, dead) for each in offers):
            loan = Followed(subject=offer.loan or b"", record=offer)
            if (offer.followed_at or 0) >= self.run.started_at:  # by an earlier session
                loan.state = loan.viewed
            elif offer.closed_at is not None:
                loan.state = TrackingState.CLOSED
            loans.append(loan)
        self.rows_read = len(loans)
        return loans

    def _take_over_views(self, offer: Offer, dead: Collection[str]) -> Offer:
        """Assign an offer's views of dead runs to this run, which will report them."""
        history = tuple(
            replace(view, run_id=self.run.run_id) if view.run_id in dead else view
            for view in offer.history
        )
        if history == offer.history:
            return offer
        return self._save(offer, offer.model_copy(update={"history": history}))

    def _save(self, before: Offer, after: Offer) -> Offer:
        """Save a changed offer; return it, or another process's version if that was faster."""
        is_ours = self._offers.replace(after, before, self.run.clock())
        return after if is_ours else self._offers.find(before.key) or after

    async def ask_person(self, caller: Caller, person: Followed) -> bool:
        """Ask about a loan; another process may do the same, since a view changes nothing."""
        request = wire.loan_view(person.record.reference or "")
        task = caller.task(request, kind=self.kind, subject=person.subject)
        person.task = await caller.make_call(task)
        await asyncio.to_thread(self.save_result, person, person.task)
        return True

    def save_result(self, person: Followed, task: LookupTask) -> None:
        """Save a view of a loan, in its history if anything changed.

        If another process has viewed it meanwhile, that process reports the change.
        """
        before, now = person.record, self.run.clock()
        seen = _seen(before, task.reading)
        if seen is None:
            person.state = PENDING if task.status is LookupStatus.WAITING else FAILED
            return
        has_ended = seen.known and (seen.status or "").strip().upper() in CLOSED_STATUSES
        viewed: dict[str, Any] = {"followed_at": now, "closed_at": now if has_ended else None}
        if seen != before.seen:
            view = LoanView(now, self.run.run_id, seen, before.followed_at)
            viewed["history"] = (*before.history, view)
        person.record = self._save(before, before.model_copy(update=viewed))
        person.state = person.viewed

    def write(self) -> ReportParts:
        """Write the loans and their changes."""
        LOANS.write(self.run.folder, LOANS_FILE, self.people)
        changes = [
            LoanChange(view, each.record, *different)
            for each in self.people
            for view, before in zip(each.record.history, (None, *each.record.history), strict=False)
            if view.run_id == self.run.run_id
            for different in differences(None if before is None else before.now, view.now)
        ]
        changes.sort(key=lambda change: change.view.at)
        LOAN_CHANGES.write(self.run.folder, CHANGES_FILE, changes)
        counts = Counter(str(each.state) for each in self.people)
        unknown = counts[TrackingState.UNKNOWN_REFERENCE]
        if unknown:
            self.run.stops.notices.append(
                f"{unknown:,} references are not known to the service: ask its support, and see "
                f"state unknown_reference in {LOANS_FILE}"
            )
        statuses = Counter(each.seen.status for each in self.people if each.seen.status)
        return ReportParts(
            {"found": counts[TrackingState.FOLLOWED], "not_found": unknown},
            {
                "followed": {state.value: counts[state] for state in TrackingState},
                "statuses": dict(sorted(statuses.items())),
                "changes": _change_counts(changes),
            },
        )


def _seen(offer: Offer, reading: CallOutcome | None) -> LoanSnapshot | None:
    """Return the loan as an answer shows it; None without a usable answer."""
    if reading is None or reading.verdict is not ChargeStatus.ANSWERED:
        return None
    if reading.outcome is Outcome.NOT_FOUND:
        return replace(offer.seen or LoanSnapshot(), known=False)
    loan = parse_answer(Operation.LOAN_VIEW, reading.body)
    if not isinstance(loan, LoanState) or not loan.status:
        return None
    values = {name: getattr(loan, name) for name in ("status", "reject_reason", *_FLAGS)}
    for name in _AMOUNTS:
        amount = getattr(loan, name)
        values[name] = None if amount is None else round(amount, 2)  # to the kobo
    return LoanSnapshot(**values)


def _change_counts(changes: Sequence[LoanChange]) -> dict[str, Any]:
    names = Counter(change.name for change in changes)
    moves = Counter(
        f"{change.old or '(none)'} > {change.new}" for change in changes if change.name == "status"
    )
    return {
        "loans": len({change.offer.reference for change in changes}),
        **{name: names[name] for name in (*_REPORTED, REFERENCE)},
        "moves": dict(sorted(moves.items())),
    }


def differences(
    before: LoanSnapshot | None, current: LoanSnapshot
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield field, old and new value of each difference.

    At the first view, `before` is None and initial values are left out.
    """
    previous = before or LoanSnapshot()
    if previous.known != current.known:
        yield REFERENCE, *((KNOWN, UNKNOWN) if previous.known else (UNKNOWN, KNOWN))
    for name in _REPORTED:
        old, new = _as_text(getattr(previous, name)), _as_text(getattr(current, name))
        if old != new and not (before is None and new in _INITIAL):
            yield name, old, new


def _as_text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


_HISTORY = pa.list_(pa.struct([pa.field("status", _TEXT), pa.field("at", INSTANT)]))

LOANS = OutputTable[Followed](
    reference=(_TEXT, lambda loan: loan.record.reference),
    customer_id=(_TEXT, lambda loan: loan.record.customer_id),
    product_id=(WORD, lambda loan: loan.record.product_id),
    state=(WORD, lambda loan: str(loan.state)),
    status=(WORD, lambda loan: loan.seen.status),
    status_at=(
        INSTANT,
        lambda loan: loan.record.status_history[-1]["at"] if loan.record.status_history else None,
    ),
    **{name: (NAIRA, attrgetter(f"seen.{name}")) for name in _AMOUNTS},
    reject_reason=(_TEXT, lambda loan: loan.seen.reject_reason),
    can_request=(_YES_OR_NO, lambda loan: loan.seen.can_request),
    can_cancel=(_YES_OR_NO, lambda loan: loan.seen.can_cancel),
    offered_at=(INSTANT, lambda loan: loan.record.offered_at),
    asked_at=(INSTANT, lambda loan: loan.record.followed_at),
    closed_at=(INSTANT, lambda loan: loan.record.closed_at),
    history=(_HISTORY, lambda loan: loan.record.status_history),
    batch=(WORD, lambda loan: loan.record.batch),
    screening_run_id=(WORD, lambda loan: loan.record.source_run_id),
    offer_run_id=(WORD, lambda loan: loan.record.run_id),
)

LOAN_CHANGES = OutputTable[LoanChange](
    customer=(_TEXT, lambda change: change.offer.customer.hex()),
    reference=(_TEXT, lambda change: change.offer.reference),
    product_id=(WORD, lambda change: change.offer.product_id),
    field=(WORD, lambda change: change.name),
    old=(_TEXT, lambda change: change.old),
    new=(_TEXT, lambda change: change.new),
    previous_at=(INSTANT, lambda change: change.view.before_at),
    seen_at=(INSTANT, lambda change: change.view.at),
    batch=(WORD, lambda change: change.offer.batch),
    run_id=(WORD, lambda change: change.view.run_id),
)
