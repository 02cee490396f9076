"""Offering: one link for each customer and product, whatever folder, run or process asks for it.

An offer is written into the journal before its call may be sent, under a key that only one process
can write; what a process left behind is learnt from the journal of calls. A call whose answer was
lost is never made again by machine. Who may be offered anything is decided in `offer_source`; the
files and the report are `offer_report`'s.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.calling.caller import ASKED_AGAIN
from nightscreen.calling.run import known_prices
from nightscreen.client import loans
from nightscreen.client.classify import ChargeStatus
from nightscreen.journal import journal_of
from nightscreen.journal.loan_offers import LoanOffers
from nightscreen.journal.opening import journal_exists
from nightscreen.operations.loans.offer_links import bring_up_to_date, linked
from nightscreen.operations.loans.offer_source import candidates, read_source
from nightscreen.operations.loans.products import fetch_products, unknown_product
from nightscreen.runs.run import open_api_run
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.checks import Operation, SubjectKind
from nightscreen.schemas.clock import system_clock
from nightscreen.schemas.errors import InputError, UsageError
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.offers import (
    OFFER_BATCH,
    OFFER_FLOW,
    HeldOffer,
    LinkState,
    Offer,
    OfferLoans,
    OfferWord,
)
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.run import Run
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.operations.loans.offer_source import Candidate, OfferSource
    from nightscreen.schemas.clock import Clock
    from nightscreen.schemas.loans import LoanProduct

BLOCK = 64
"""Offers written down at a time before they are sent: what a crash can leave to be learnt."""

WAIT_S = 0.5
_START = Operation.LOAN_START
_NOT_KEPT = frozenset({"run", "deadline", "max_spend"})


@dataclass(slots=True)
class Row:
    """One candidate, and what became of it in this run."""

    candidate: Candidate = field(repr=False)
    word: OfferWord = OfferWord.PENDING
    offer: Offer | None = field(default=None, repr=False)
    problem: str | None = None


@dataclass(slots=True)
class Offering:
    """A run of offers under way.

    Attributes:
        rows_read: rows of the screening run in all.
        rows: those with a chosen decision, in their order.
        product: the product offered, once it was found on the list.
        made: new links so far.
        ended: calls of each operation by how they came out.
    """

    run: Run
    parameters: OfferLoans
    source: OfferSource
    rows_read: int
    rows: list[Row]
    store: LoanOffers
    product: LoanProduct | None = None
    made: int = 0
    ended: dict[Operation, Counter[LookupStatus]] = field(
        default_factory=lambda: {
            Operation.LOAN_PRODUCTS: Counter(),
            Operation.LOAN_START: Counter(),
        }
    )

    def counts(self) -> dict[str, int]:
        """Return how many rows have which state."""
        words = Counter(row.word for row in self.rows)
        return {word.value: words[word] for word in OfferWord}


# --- opening ---


def remembered(
    parameters: OfferLoans, settings: Settings, *, clock: Clock = system_clock
) -> OfferLoans:
    """Return parameters with paths that hold from any folder, those of a resumed run filled in.

    Raises:
        InputError: no folder or product was given, and no earlier run has one.
    """
    values = {name: getattr(parameters, name) for name in parameters.model_fields_set}
    if parameters.run and journal_exists(settings.home, settings.journal_url):
        with _journal(settings, clock) as journal:
            earlier = journal.runs.find(parameters.run)
        if earlier is not None and earlier.flow == OFFER_FLOW:
            kept = {k: v for k, v in earlier.parameters.items() if k not in _NOT_KEPT}
            values = {**kept, **values}
    found = OfferLoans.model_validate(values)
    if not found.run_dir:
        raise InputError("name the folder of a finished screening run, such as out/RUN_ID")
    if not found.product:
        raise InputError("name the product with --product; see: nightscreen loans products")
    paths = {name: str(Path(getattr(found, name)).absolute()) for name in ("run_dir", "output")}
    return found.model_copy(update=paths)


def _journal(settings: Settings, clock: Clock) -> Journal:
    return journal_of(settings, clock=clock)


def open_offering(
    parameters: OfferLoans, settings: Settings, *, clock: Clock = system_clock
) -> Run:
    """Look at the screening run's folder and open a run of offers; nothing is sent.

    Raises:
        UsageError: the folder, the settings or the parameters are wrong.
        JournalError: the journal cannot be used.
    """
    given = remembered(parameters, settings, clock=clock)
    source = read_source(given)
    return open_api_run(
        given,
        settings,
        flow=OFFER_FLOW,
        batch=OFFER_BATCH,
        operation=_START,
        input_digest=f"run:{source.run_id} product:{given.product}",
        clock=clock,
    )


def take_rows(run: Run) -> Offering:
    """Read the rows with a chosen decision, and learn what earlier runs left behind.

    Raises:
        InputError: the run's files were changed.
    """
    parameters = run.parameters
    assert isinstance(parameters, OfferLoans)  # noqa: S101 - opened by `open_offering`
    source = read_source(parameters)
    found, rows_read = candidates(run.journal, source, parameters.decisions)
    bring_up_to_date(run.journal, run_id=run.run_id)
    rows = rows_for(run.journal, found, parameters, run_id=run.run_id)
    offering = Offering(run, parameters, source, rows_read, rows, LoanOffers.of(run.journal))
    wanted = sum(1 for row in rows if row.word is OfferWord.PENDING)
    run.progress[_START].wanted = min(wanted, parameters.most or wanted) + 1
    return offering


def rows_for(
    journal: Journal, found: Sequence[Candidate], parameters: OfferLoans, *, run_id: str = ""
) -> list[Row]:
    """Return candidates as they are before anything is sent."""
    rows = [Row(candidate, _word_before(candidate, parameters)) for candidate in found]
    _look_up(LoanOffers.of(journal), parameters.product, rows, run_id)
    return rows


def _word_before(candidate: Candidate, parameters: OfferLoans) -> OfferWord:
    """Return what is clear of a row before anything is known of offers."""
    if candidate.superseded:
        return OfferWord.SUPERSEDED
    if candidate.contested:
        return OfferWord.CONTESTED
    if candidate.unrequested:
        return OfferWord.NO_REQUEST
    if parameters.prefill and not _contacts(candidate, parameters):
        return OfferWord.NO_CONTACT
    return OfferWord.PENDING


def _contacts(candidate: Candidate, parameters: OfferLoans) -> dict[str, str]:
    """Return what is sent to the service about a customer."""
    given = {"email": candidate.email, "phone": candidate.phone}
    return {name: text for name in parameters.prefill if (text := given[name])}


def look_up(offering: Offering, rows: Sequence[Row]) -> list[Row]:
    """Update rows from the journal; return those another process is making."""
    return _look_up(offering.store, offering.parameters.product, rows, offering.run.run_id)


def _look_up(store: LoanOffers, product_id: str, rows: Sequence[Row], run_id: str) -> list[Row]:
    never = (OfferWord.SUPERSEDED, OfferWord.CONTESTED, OfferWord.NO_REQUEST)
    asked = [row for row in rows if row.word not in never]
    known = store.newest([row.candidate.customer for row in asked], product_id)
    others: list[Row] = []
    for row in asked:
        row.offer = known.get(row.candidate.customer)
        if row.offer is None or row.offer.renewed:
            continue
        if row.offer.state is LinkState.OFFERED:
            is_ours = row.offer.run_id == run_id
            row.word = OfferWord.OFFERED if is_ours else OfferWord.ALREADY_OFFERED
        elif row.offer.state is LinkState.IN_DOUBT:
            row.word = OfferWord.IN_DOUBT
        else:
            others.append(row)
    return others


async def check_product(offering: Offering, session: Caller) -> bool:
    """Find the product on the list; False where the run goes no further.

    Raises:
        UsageError: the list does not have it; nothing is left of the run.
    """
    run, wanted = offering.run, offering.parameters.product
    if offering.product is not None:
        return True
    listed, task = await fetch_products(session)
    offering.ended[Operation.LOAN_PRODUCTS][task.status] += 1
    if listed is None:
        if run.stops.reason is None:
            run.stops.stop(StopReason.OUTAGE)
        return False
    offering.product = next(
        (product for product in listed.products if product.product_id == wanted), None
    )
    if offering.product is not None:
        return True
    await asyncio.to_thread(_withdraw_if_new, run)
    raise UsageError(unknown_product(listed))


def _withdraw_if_new(run: Run) -> None:
    """Leave nothing of a new run that has asked for the list of products and no more."""
    if run.is_new:
        run.journal.runs.withdraw(run.run_id)
        shutil.rmtree(run.folder.path, ignore_errors=True)
    else:
        report = run.journal.runs.find(run.run_id)
        kept = (report.report if report is not None else None) or {}
        run.journal.runs.finish(run.run_id, state="stopped", stop_reason="failures", report=kept)


def find_out_rest(offering: Offering) -> None:
    """Learn what became of rows that the run was cut off from; no call is under way any more."""
    bring_up_to_date(offering.run.journal, run_id=offering.run.run_id)
    look_up(offering, [row for row in offering.rows if row.word is OfferWord.PENDING])


# --- making links ---


async def make_links(offering: Offering, session: Caller) -> int:
    """Make a link for each row that has none; return how many were made.

    Rows that another process is making wait for it: it may yet give them back.
    """
    left = [row for row in offering.rows if row.word is OfferWord.PENDING]
    while left and _may_go_on(offering):
        later: list[Row] = []
        while left and _may_go_on(offering):
            size = _room(offering)
            block, left = left[:size], left[size:]
            later += await _make_block(offering, session, block)
        left = later
        if left and _room(offering) and session.waits_for(_who_makes(left)):
            await asyncio.sleep(WAIT_S)
            await asyncio.to_thread(bring_up_to_date, offering.run.journal)
    return offering.made


def _who_makes(rows: Sequence[Row]) -> str:
    """Return in words which runs make the links of rows."""
    runs = sorted({row.offer.run_id for row in rows if row.offer is not None})
    return (
        f"links that other runs make ({', '.join(runs)})" if runs else "links under way elsewhere"
    )


def make_again(offering: Offering) -> None:
    """Let customers whose call failed or was not made have a link; one in doubt gets no other."""
    for row in offering.rows:
        if row.word is OfferWord.FAILED:
            row.word, row.problem = OfferWord.PENDING, None
    progress = offering.run.progress[_START]
    for ended in offering.ended.values():
        progress.take_back(reference for reference in ended.elements() if reference in ASKED_AGAIN)
        for status in ASKED_AGAIN:
            del ended[status]


def _room(offering: Offering) -> int:
    """Return how many links may be made in the next block."""
    most = offering.parameters.most
    return BLOCK if most is None else min(BLOCK, most - offering.made)


def _may_go_on(offering: Offering) -> bool:
    run = offering.run
    at = asyncio.get_running_loop().time()
    return run.stops.may_send(_START, run.clock(), at) and _room(offering) > 0


async def _make_block(offering: Offering, session: Caller, rows: Sequence[Row]) -> list[Row]:
    """Write a block down, send it, and note what came; return the rows others are making."""
    claimed, others = await asyncio.to_thread(_claim, offering, rows)
    tasks = await session.make([_task(offering, session, row) for row in claimed])
    for task in tasks:
        offering.ended[_START][task.status] += 1
    await asyncio.to_thread(_note, offering, list(zip(claimed, tasks, strict=True)))
    return others


def _claim(offering: Offering, rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Record offers before they may be sent; return ours, and those other processes are making."""
    for row in rows:
        row.offer = None
    others = look_up(offering, rows)
    waiting = {id(row) for row in others}
    free = [row for row in rows if row.word is OfferWord.PENDING and id(row) not in waiting]
    now = offering.run.clock()
    for row in free:
        row.offer = _new_offer(offering, row, now)
    claimed = offering.store.claim(row.offer for row in free if row.offer is not None)
    own_rows = [row for row in free if row.offer is not None and row.offer.offer_id in claimed]
    taken = [row for row in free if row.offer is None or row.offer.offer_id not in claimed]
    return own_rows, [*others, *taken]


def _new_offer(offering: Offering, row: Row, now: int) -> Offer:
    candidate, parameters = row.candidate, offering.parameters
    number = 1 if row.offer is None else row.offer.number + 1
    contacts = _contacts(candidate, parameters)
    product = offering.product
    return Offer(
        subject=_offer_id(offering.run.journal, candidate, parameters.product, number),
        customer=candidate.customer,
        batch=offering.source.batch,
        product_id=parameters.product,
        number=number,
        run_id=offering.run.run_id,
        source_run_id=offering.source.run_id,
        decision=candidate.decision,
        state=LinkState.STARTING,
        at=now,
        held=HeldOffer(
            customer_id=candidate.customer_id,
            product_name=None if product is None else product.name,
            email=contacts.get("email"),
            phone=contacts.get("phone"),
        ),
    )


def _offer_id(journal: Journal, candidate: Candidate, product_id: str, number: int) -> bytes:
    identity = f"{product_id}\x1f{number}\x1f{candidate.customer_id}"
    return journal.pseudonyms.subject("loan offer", identity)


def _task(offering: Offering, session: Caller, row: Row) -> LookupTask:
    assert row.offer is not None  # noqa: S101 - claimed in the lines above
    held = row.offer.held
    request = loans.initialize(
        offering.parameters.product, email=held.email or "", phone_number=held.phone or ""
    )
    return session.task(request, kind=SubjectKind.CUSTOMER, subject=row.offer.offer_id)


def _give_back(offering: Offering, rows: Sequence[Row]) -> None:
    offering.store.drop([row.offer for row in rows if row.offer is not None])
    for row in rows:
        row.offer = None


def _note(offering: Offering, made: Sequence[tuple[Row, LookupTask]]) -> None:
    """Write down what came of a block's calls."""
    journal, now = offering.run.journal, offering.run.clock()
    kept: list[Offer] = []
    unmade: list[Row] = []
    for row, task in made:
        assert row.offer is not None  # noqa: S101 - it was sent
        reading = task.reading
        if reading is not None and reading.verdict is ChargeStatus.ANSWERED:
            row.offer = linked(journal, row.offer, reading.body, now)
            kept.append(row.offer)
        elif task.status is LookupStatus.IN_DOUBT or (
            reading is not None and reading.verdict is ChargeStatus.IN_DOUBT
        ):
            row.offer = row.offer.model_copy(update={"state": LinkState.IN_DOUBT})
            kept.append(row.offer)
        else:
            failed = task.status is LookupStatus.FAILED
            row.word = OfferWord.FAILED if failed else OfferWord.PENDING
            unmade.append(row)
        row.problem = None if reading is None or reading.trouble is None else str(reading.trouble)
        if row.offer.state is LinkState.OFFERED:
            row.word = OfferWord.OFFERED
            offering.made += 1
        elif row.offer.state is LinkState.IN_DOUBT:
            row.word = OfferWord.IN_DOUBT
    offering.store.put(kept)
    _give_back(offering, unmade)


# --- before the calls ---


def quote_offers(
    parameters: OfferLoans, settings: Settings, *, clock: Clock = system_clock
) -> dict[str, Any]:
    """Return how many links a run would make, and at what known price; nothing is asked.

    Raises:
        UsageError: the folder, the settings or the parameters are wrong.
    """
    given = remembered(parameters, settings, clock=clock)
    source = read_source(given)
    with _journal(settings, clock) as journal:
        found, rows_read = candidates(journal, source, given.decisions)
        rows = rows_for(journal, found, given)
        words = Counter(row.word for row in rows)
        links = min(words[OfferWord.PENDING], given.most or len(rows))
        price_micro = known_prices(journal, settings)[1][_START.value]
    cost = naira_text(links * price_micro)
    return {
        "schema_version": 1,
        "run_id": None,
        "source": {"run_id": source.run_id, "batch": source.batch},
        "product": {"product_id": given.product},
        "quoted": {"low": naira_text(0), "expected": cost, "high": cost},
        "rows": {"read": rows_read, "screened": rows_read, "quarantined": 0},
        "links": links,
        "offers": {"chosen": len(rows), **{word.value: words[word] for word in OfferWord}},
    }
