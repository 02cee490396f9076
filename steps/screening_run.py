"""The line: what one run has open, and the stations up to the quote, called on it.

A run's resources are opened here once and handed to the stations as plain values: the journal, the
sealed workspace, the output folder. Asking is in `calling`, the last stations in `finalize`; the
engine's tasks only call these.
"""

from __future__ import annotations

import gc
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from nightscreen.client.network import Network
from nightscreen.client.prices import PRICES, load_prices
from nightscreen.client.resolving import Resolver, resolve_host, resolver_for
from nightscreen.client.response_rules import load_response_rules
from nightscreen.schemas.calls import Caps
from nightscreen.schemas.checks import Check
from nightscreen.schemas.declarations import Declarations
from nightscreen.schemas.errors import InputError, PolicyError, SettingsError
from nightscreen.schemas.money import to_micro
from nightscreen.schemas.plan import LookupStatus, Plan
from nightscreen.schemas.prices import max_cost, price_limit
from nightscreen.schemas.rows import CUSTOMER
from nightscreen.schemas.settings import Settings, cash_flow_age, max_ages, overridden
from nightscreen.steps.control import UNREADABLE_AFTER, CheckProgress, Control, SpendingAlert
from nightscreen.steps.detectors import Silence
from nightscreen.steps.intake import Intake
from nightscreen.steps.planning.eligibility import slots_of
from nightscreen.steps.planning.freshness import Freshness
from nightscreen.steps.planning.lookup_table import LookupRanking, NeededPieces
from nightscreen.steps.planning.plan import Planner, Wanted, plan_batch
from nightscreen.steps.planning.price import quote as make_quote
from nightscreen.steps.planning.price import (
    rank,
    seen_rates,
    worst_costs,
)
from nightscreen.steps.planning.rings import RINGS, find_rings, no_rings
from nightscreen.steps.planning.run_parameters import Resolved, resolve
from nightscreen.steps.planning.shared_identifiers import (
    COUNTED,
    PLACEHOLDERS,
    Earlier,
    Shared,
    count_shared,
)
from nightscreen.steps.policy.declarations import read_declarations
from nightscreen.steps.policy.loading import load_policy
from nightscreen.steps.policy.versions import approval_of, policy_in_force
from nightscreen.steps.results.evidence import AccountJudge, Evidence
from nightscreen.steps.values.customer_ids import CustomerNumbers
from nightscreen.steps.values.images import ImageJudge
from nightscreen.steps.values.merge_rows import merge_rows, status_name
from nightscreen.storage.clock import LAGOS, Clock, system_clock, to_instant, to_micros
from nightscreen.storage.filesystem import is_url
from nightscreen.storage.journal import Journal, journal_of
from nightscreen.storage.journal.identifier_history import Sightings
from nightscreen.storage.mapping import Mapping, read_mapping
from nightscreen.storage.memory_tuning import trim_memory, tune_allocator
from nightscreen.storage.outputs import QUARANTINE, RunFolder
from nightscreen.storage.publishing import withdraw
from nightscreen.storage.quarantine import ProblemsWriter, QuarantineWriter, append_problems
from nightscreen.storage.sealed_file import input_in_clear
from nightscreen.storage.tables import open_source
from nightscreen.storage.workspace import Workspace, sweep_workspaces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from nightscreen.client.response_rules import ResponseRules
    from nightscreen.schemas.api_runs import ApiRunParameters
    from nightscreen.schemas.checks import Asked
    from nightscreen.schemas.parameters import ScreenBatch
    from nightscreen.schemas.policy import Policy, PolicyApproval
    from nightscreen.schemas.quote import Quote
    from nightscreen.schemas.rows import Problem, SourceColumn
    from nightscreen.steps.planning.short_circuit import Chains
    from nightscreen.storage.tables import TableSource

CHUNK_ROWS = 16_384
"""Rows at a time: what a chunk costs whatever its size weighs more the smaller chunks are."""
PROBLEMS = "problems.csv"
FLOW = "screen_batch"
_COLLECTED_EVERY = 50_000
"""Objects made before the collector looks for cycles: blocks of rows are lists of thousands, and
at Python's own 700 a tenth of a night goes into walking them."""


@dataclass(slots=True)
class ScreeningRun:
    """One run under way. Stations fill it from top to bottom.

    Attributes:
        input: the file in clear; `input_name` is the name it was given under.
        columns: the input's columns as understood.
        chunks: number of row chunks in the workspace.
        shadow: a second policy, tried beside the one in force.
        policy_approval: of the policy in force; None where nobody has approved it.
        declared: what the lender declares: lawful bases, and whether the policy decides alone.
        merging: the rows of one customer id are one customer, and a chunk's rows are customers;
            `input_chunks` chunks of the input's own rows lie beside them.
        rows_read: rows of the file; `rows_quarantined` of them were refused.
        plan: what the rows need.
        needed: the needed lookups, sealed.
        ranked: what ranks them; `order` their numbers in rank; `worst` their worst costs in
            micro-naira; `standing` what became of each (`schemas.plan.LookupStatus`), `listed`
            which of them brought a listing.
        chains: what karma is to ask about each row, where it stops at the first listing.
        resolve: looks up the host of an image address.
        collected: the collector's thresholds as they were before the run.
        held: the input in clear, where what was given is sealed.
    """

    run_id: str
    parameters: ScreenBatch
    settings: Settings
    wanted: Wanted
    batch: str
    input: Path
    input_name: str
    input_digest: str
    mapping: Mapping | None
    journal: Journal
    workspace: Workspace
    folder: RunFolder
    control: Control
    clock: Clock
    started_at: int
    freshness: Freshness
    caps: Caps
    policy: Policy
    manners: ResponseRules
    is_new: bool
    fed_back: bool
    columns: tuple[SourceColumn, ...] = ()
    chunks: int = 0
    shadow: Policy | None = None
    policy_approval: PolicyApproval | None = None
    declared: Declarations = field(default_factory=Declarations)
    merging: bool = False
    input_chunks: int = 0
    customers: int = 0
    rows_read: int = 0
    rows_quarantined: int = 0
    plan: Plan | None = None
    quote: Quote | None = None
    spent_before_micro: int = 0
    needed: NeededPieces = field(init=False)
    ranked: LookupRanking = field(default_factory=lambda: LookupRanking.joined(()))
    order: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    worst: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    standing: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    listed: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    chains: Chains | None = None
    resolve: Resolver = resolve_host
    collected: tuple[int, int, int] = field(default_factory=gc.get_threshold)
    held: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.needed = NeededPieces(self.workspace)

    @property
    def flow(self) -> str:
        """Return the flow it is a run of, as the journal has it."""
        return FLOW

    @property
    def only_quotes(self) -> bool:
        """Return whether the run ends with its quote, and leaves nothing."""
        return self.parameters.quote_only

    def withdraw(self) -> None:
        """Leave nothing of a new run that came to nothing before anything can have been spent."""
        if self.is_new and self.journal.money.of_run(self.run_id).bound_micro == 0:
            self.journal.runs.withdraw(self.run_id)
            withdraw(self.folder.path)

    def close(self) -> None:
        """Remove what lay between the stations, and give back the journal."""
        gc.unfreeze()
        gc.set_threshold(*self.collected)
        self.workspace.clear()
        self.held.close()
        if self.parameters.quote_only:
            shutil.rmtree(self.folder.path, ignore_errors=True)
        self.journal.close()


def open_line(
    parameters: ScreenBatch,
    settings: Settings,
    *,
    clock: Clock = system_clock,
    resolve: Resolver | None = None,
) -> ScreeningRun:
    """Open everything a run needs and write the run down; nothing is sent, nothing spent.

    Args:
        parameters: what to screen.
        settings: where and how.
        clock: the present instant.
        resolve: looks up the host of an image address.

    Raises:
        UsageError: settings, parameters or input are wrong, in one line that says what to do.
        JournalError: the journal cannot be used.
    """
    require_service(settings, quote_only=parameters.quote_only)
    tune_allocator()
    journal = journal_of(settings, clock=clock)
    journal.be_patient(settings.outage_give_up)
    collected = gc.get_threshold()
    gc.set_threshold(_COLLECTED_EVERY, *collected[1:])
    try:
        line = _open(parameters, settings, journal, clock)
    except BaseException:
        gc.set_threshold(*collected)
        journal.close()
        raise
    line.resolve = resolve or resolver_for(Network.of(settings))
    line.collected = collected
    gc.freeze()  # what is loaded by now is there to the end: the collector need not walk it
    return line


def require_service(settings: Settings, *, quote_only: bool) -> None:
    """Refuse to go on without an address and a key, unless nothing would be sent."""
    if quote_only:
        return
    if not settings.base_url:
        raise SettingsError(
            "NIGHTSCREEN_BASE_URL is not set: write the service's address into .env, or try "
            "nightscreen demo, which needs none"
        )
    if not settings.api_key.get_secret_value():
        raise SettingsError(
            "NIGHTSCREEN_API_KEY is not set: write the key the service issued to you into .env"
        )


def _open(
    parameters: ScreenBatch, settings: Settings, journal: Journal, clock: Clock
) -> ScreeningRun:
    resolved = resolve(parameters, journal, settings.approval_timeout)
    held = ExitStack()
    path, digest = _input_of(resolved, journal, held)
    given = resolved.parameters.mapping
    mapping = read_mapping(Path(given)) if given else None
    if resolved.earlier is None:
        resolved = _filled_in(resolved, settings, mapping)
    parameters, wanted = resolved.parameters, resolved.wanted
    earlier = resolved.earlier
    begun_at = journal.clock() if earlier is None else earlier.started_at
    policy, approval = _policy_in_force(parameters, settings, journal, begun_at)
    declared = read_declarations(settings)
    shadow = load_policy(Path(parameters.shadow)) if parameters.shadow else None
    manners = load_response_rules(settings.own_table("manners"))
    load_prices(settings.own_table("prices"))  # a mistake in it is reported before anything is read
    source = open_source(path, mapping=mapping)
    now = clock()
    deadline_instant(parameters.deadline, now)  # a mistake in it leaves nothing behind
    open_as = f"{wanted.run_id}@{journal.holders.name}"
    if parameters.quote_only:
        folder = RunFolder.make(settings.home / "quotes", open_as)
    else:
        folder = RunFolder.at(parameters.output, wanted.run_id, settings.home)
    journal.calls.recover()
    sweep_workspaces(settings.home, journal.holders.alive)
    caps = caps_of(parameters, settings)
    begun = not parameters.quote_only
    started_at = _begin(journal, resolved, digest, folder, caps) if begun else now
    if (
        begun and earlier is None and not parameters.policy
    ):  # as it is resumed: by what is in force at this very instant
        policy, approval = _policy_in_force(parameters, settings, journal, started_at)
    control = open_control(
        parameters, settings, journal, run_id=wanted.run_id, caps=caps, checks=wanted.checks
    )
    return ScreeningRun(
        run_id=wanted.run_id,
        parameters=parameters,
        settings=settings,
        wanted=wanted,
        batch=resolved.batch,
        input=path,
        input_name=resolved.input.name,
        held=held,
        input_digest=digest,
        mapping=mapping,
        journal=journal,
        workspace=Workspace.of(settings.home, open_as, journal.sealer),
        folder=folder,
        control=control,
        clock=clock,
        started_at=started_at,
        freshness=_freshness(parameters, settings, wanted, journal, now),
        caps=caps,
        policy=policy,
        manners=manners,
        is_new=resolved.earlier is None,
        fed_back=source.header.fed_back,
        columns=source.header.columns,
        merging=parameters.merge_rows,
        shadow=shadow,
        policy_approval=approval,
        declared=declared,
    )


def _input_of(resolved: Resolved, journal: Journal, held: ExitStack) -> tuple[Path, str]:
    """Return the input in clear, for as long as it is held, and its digest.

    Raises:
        InputError: it is not the file that the run was begun with.
    """
    path = held.enter_context(input_in_clear(resolved.input, journal.sealer))
    return path, resolved.digest_of_input(path)


def _filled_in(resolved: Resolved, settings: Settings, mapping: Mapping | None) -> Resolved:
    """Return what a new run is asked, with what settings and mapping file say of it."""
    parameters = resolved.parameters
    merging = parameters.merge_rows or settings.merge_rows or bool(mapping and mapping.merge_rows)
    parameters = parameters.model_copy(update={"merge_rows": merging})
    if not parameters.shadow and settings.shadow is not None:
        parameters = parameters.model_copy(update={"shadow": str(settings.shadow)})
    return replace(resolved, parameters=parameters)


def _freshness(
    parameters: ScreenBatch, settings: Settings, wanted: Wanted, journal: Journal, now: int
) -> Freshness:
    ages = overridden(settings.freshness, parameters.freshness)
    return Freshness(
        max_ages(wanted.purpose, ages),
        now,
        journal.answers.position(),
        cash_flow_age(wanted.purpose, ages),
    )


def _policy_in_force(
    parameters: ScreenBatch, settings: Settings, journal: Journal, begun_at: int
) -> tuple[Policy, PolicyApproval | None]:
    """Return the policy of a run and who approved it; a resumed run keeps the one it began with.

    Raises:
        PolicyError: it cannot be read, or nobody has approved it where that is required.
    """
    if parameters.policy:
        policy = load_policy(Path(parameters.policy))
    else:
        policy = policy_in_force(journal, begun_at)
    approval = approval_of(journal, policy.label, journal.clock())
    if approval is None and settings.require_approved_policy and not parameters.quote_only:
        raise PolicyError(
            f"nobody has approved the policy {policy.label}, or it is not in force yet: let it be "
            "approved with: nightscreen policy approve FILE --by NAME, or on the desk's page Policy"
        )
    return policy, approval


def open_control(
    parameters: ScreenBatch | ApiRunParameters,
    settings: Settings,
    journal: Journal,
    *,
    run_id: str,
    caps: Caps,
    checks: Iterable[Asked],
) -> Control:
    """Return what stops a run of any flow: deadline, caps, floor, patience, what is known before.

    Raises:
        InputError: the deadline cannot be read.
    """
    control = Control(
        tolerated_failure_pct=settings.tolerated_failure_pct,
        deadline_at=deadline_instant(parameters.deadline, journal.clock()),
        balance_floor_micro=_optional_micro(settings.balance_floor),
        silence=Silence(settings.outage_give_up.total_seconds()),
        watches=cap_watches(journal, run_id, caps),
        progress={check: CheckProgress() for check in checks},
        price_limits=dict(caps.price_limits),
        price_list=price_list_of(settings),
    )
    note_unreadable(control, journal)
    return control


def note_unreadable(control: Control, journal: Journal) -> None:
    """Take note of how many answers in a row could not be read before: the first more decides."""
    for check in control.progress:
        control.unreadable_run[check] = journal.answers.unreadable_run(
            check.value, UNREADABLE_AFTER - 1
        )


def _begin(journal: Journal, resolved: Resolved, digest: str, folder: RunFolder, caps: Caps) -> int:
    """Write the run down and return when it was first begun."""
    run = journal.runs.begin(
        resolved.wanted.run_id,
        flow=FLOW,
        batch=resolved.batch,
        purpose=resolved.wanted.purpose.value,
        input_digest=digest,
        folder=str(folder.path.absolute()),
        cap_micro=caps.run_micro,
        parameters=lasting(resolved.parameters),
    )
    return run.started_at


def lasting(parameters: ScreenBatch) -> dict[str, Any]:
    """Return parameters as a run is remembered by: with paths that hold from any folder."""
    kept = parameters.model_dump(exclude={"run", "yes", "quote_only"})
    for name in ("input", "mapping", "policy", "shadow", "output"):
        if kept[name] and not is_url(kept[name]):
            kept[name] = str(Path(kept[name]).absolute())
    return kept


def _optional_micro(naira: Any) -> int | None:  # noqa: ANN401 - Decimal or None from the settings
    return None if naira is None else to_micro(naira)


def caps_of(parameters: ScreenBatch | ApiRunParameters, settings: Settings) -> Caps:
    """Return every limit on money and calls that binds a run."""
    per_day, listed = settings.max_per_day.model_dump(), listed_prices(settings)
    return Caps(
        run_micro=_optional_micro(parameters.cap),
        day_micro=_optional_micro(settings.daily_spend_cap),
        month_micro=_optional_micro(settings.monthly_spend_cap),
        day_calls=tuple((check, most) for check, most in per_day.items() if most is not None),
        price_limits=tuple((name, price_limit(price)) for name, price in listed.items()),
    )


def cap_watches(journal: Journal, run_id: str, caps: Caps) -> list[SpendingAlert]:
    """Return each cap with what is already spent under it."""
    money = journal.money
    each = (
        ("run's", caps.run_micro, partial(money.of_run, run_id)),
        ("day's", caps.day_micro, money.today),
        ("month's", caps.month_micro, money.this_month),
    )
    return [
        SpendingAlert(name, cap, spent().spent_micro)
        for name, cap, spent in each
        if cap is not None
    ]


def deadline_instant(text: str, now: int) -> int | None:
    """Return a deadline as an instant: the next such time of day in Lagos, or an ISO instant.

    Raises:
        InputError: it is neither.
    """
    if not text:
        return None
    try:
        if "T" in text:
            instant = datetime.fromisoformat(text)
            aware = instant if instant.tzinfo else instant.replace(tzinfo=LAGOS)
            return to_micros(aware)
        local = to_instant(now).astimezone(LAGOS)
        today = datetime.combine(local.date(), time.fromisoformat(text), tzinfo=LAGOS)
    except ValueError:
        raise InputError(
            f"the deadline {text} cannot be read: write a time such as 06:00 (Lagos) or an instant "
            "such as 2026-03-01T06:00"
        ) from None
    return to_micros(today if today > local else today + timedelta(days=1))


def take_in(line: ScreeningRun) -> None:
    """Read the input into sealed chunks of rows; write quarantine and problems."""
    source = open_source(line.input, mapping=line.mapping)
    customers = _numbered(line, source) if line.merging else None
    intake = Intake(source.header, customers)
    merging = None if customers is None else RowsToMerge(line.workspace, customers)
    line.folder.begin()
    quarantine = QuarantineWriter(line.folder.path / QUARANTINE, source.header.columns)
    problems = ProblemsWriter(line.folder.path / PROBLEMS)
    found = 0
    line.chunks = line.rows_read = line.rows_quarantined = 0
    with quarantine, problems:
        for batch in source.batches(CHUNK_ROWS):
            result = intake.take(batch)
            quarantine.write(result.refused)
            problems.write(result.problems)
            found += len(result.problems)
            line.rows_read += result.read
            line.rows_quarantined += len(result.refused)
            if merging is not None:
                merging.add(result.rows)
            elif result.rows.num_rows:
                line.workspace.put(f"rows-{line.chunks:05d}", result.rows)
                line.chunks += 1
        if merging is not None:
            line.input_chunks = len(merging.spans)
            status = status_name(source.header.columns, source.header.loan_status)
            for merged, problems_of in merging.merged(line.customers, status):
                problems.write(problems_of)
                found += len(problems_of)
                line.workspace.put(f"rows-{line.chunks:05d}", merged)
                line.chunks += 1
    line.folder.rows[QUARANTINE] = line.rows_quarantined
    line.folder.rows[PROBLEMS] = found
    if line.rows_read == 0:
        raise InputError(f"{line.input_name} holds no rows below its header")


def _numbered(line: ScreeningRun, source: TableSource) -> CustomerNumbers:
    """Read the input once to number its customers, before their rows are taken in."""
    customers = CustomerNumbers()
    counting = Intake(source.header, customers)
    for batch in source.batches(CHUNK_ROWS):
        counting.take(batch)
    line.customers = customers.settle()
    return customers


class RowsToMerge:
    """The input's own rows in the workspace, with the number of each one's customer."""

    def __init__(self, workspace: Workspace, customers: CustomerNumbers) -> None:
        self._workspace = workspace
        self._customers = customers
        self.spans: list[tuple[int, int]] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Put some rows aside."""
        if not rows.num_rows:
            return
        numbers = self._customers.numbers(rows["customer_id"].to_pylist())
        table = pa.Table.from_batches([rows]).append_column(CUSTOMER, pa.array(numbers))
        self._workspace.put(f"input-{len(self.spans):05d}", table)
        self.spans.append((int(numbers.min()), int(numbers.max())))

    def merged(
        self, customers: int, status: str | None
    ) -> Iterator[tuple[pa.Table, Sequence[Problem]]]:
        """Yield the customers, a chunk at a time, and what was found about them."""
        for start in range(0, customers, CHUNK_ROWS):
            end = start + CHUNK_ROWS
            pieces = []
            for place, (least, most) in enumerate(self.spans):
                if least < end and most >= start:
                    table = self._workspace.get(f"input-{place:05d}")
                    number = table[CUSTOMER].to_numpy()
                    pieces.append(table.filter(pa.array((number >= start) & (number < end))))
            yield merge_rows(pa.concat_tables(pieces), status)


def read_chunk(line: ScreeningRun, number: int) -> pa.Table:
    """Return a chunk of rows in one piece."""
    return line.workspace.get(f"rows-{number:05d}").combine_chunks()


def _put_signals(line: ScreeningRun, shared: Shared, chunks: range) -> None:
    """Write what rows share with others, and the rings they are in, into the workspace."""
    rings = None
    if line.settings.rings and chunks:
        whose = (_customers(line, number) for number in chunks)
        sightings = Sightings.of(line.journal)
        rings = find_rings(sightings, line.workspace, whose, most=line.settings.ring_hub)
        line.workspace.put(RINGS, rings.table)
        line.workspace.note(RINGS, {"customers": rings.table.num_rows})
    for number in chunks:
        table = shared.table(number)
        found = (
            no_rings(table.num_rows) if rings is None else rings.columns(_customers(line, number))
        )
        for name, column in found.items():
            table = table.append_column(name, column)
        line.workspace.put(f"signals-{number:05d}", table)


def _customers(line: ScreeningRun, number: int) -> bytes:
    """Return the pseudonyms of a chunk's customers, joined."""
    ids = read_chunk(line, number)["customer_id"].to_pylist()
    return line.journal.pseudonyms.customers_anywhere(each or "" for each in ids)


def make_plan(line: ScreeningRun) -> None:
    """Judge what each row needs; write row plans and needed lookups into the workspace."""
    trim_memory()
    now = line.freshness.at
    quoted = line.parameters.quote_only
    asked = {slot.kind for slot in slots_of(line.wanted.checks, line.wanted.karma_kinds)}
    shared = count_shared(
        (read_chunk(line, number) for number in range(line.chunks)),
        line.journal.pseudonyms,
        Earlier.of(Sightings.of(line.journal), run_id=line.run_id, batch=line.batch, at=now),
        workspace=None if quoted else line.workspace,
        aside=line.workspace,
        asked=asked,
        counted=asked.intersection(PLACEHOLDERS) if quoted else COUNTED,
    )
    _put_signals(line, shared, range(0 if quoted else line.chunks))
    shared_problems, shared = shared.problems(), shared.slimmed()
    planner = Planner(
        line.wanted,
        at=to_instant(now),
        freshness=line.freshness,
        pseudonyms=line.journal.pseudonyms,
        answers=line.journal.answers,
        workspace=line.workspace,
        placeholders=shared.placeholders,
        subjects=shared.subjects,
        images=_image_judge(line),
        whole=not quoted,
    )
    judge = AccountJudge(Evidence.of(line.journal, line.batch))
    line.needed, ranked = NeededPieces(line.workspace), []
    for piece in plan_batch(planner, line.chunks, partial(read_chunk, line), judge):
        line.needed.add(piece)
        ranked.append(LookupRanking.of(piece))
    line.needed.seal()
    shared.forget()
    line.ranked = LookupRanking.joined(ranked)
    line.plan = planner.result(now, len(line.ranked))
    if line.wanted.stop_at_first and Check.KARMA in line.wanted.checks:
        line.chains = planner.chains()
    problems = [*planner.problems, *shared_problems]
    if problems:
        append_problems(line.folder.path / PROBLEMS, problems)
        line.folder.rows[PROBLEMS] += len(problems)


def _image_judge(line: ScreeningRun) -> ImageJudge | None:
    """Return what looks up hosts of images; a quote calls nobody, a name server neither."""
    patience_s = line.settings.resolve_images_s
    if patience_s == 0 or line.parameters.quote_only:
        return None
    witness = urlsplit(line.settings.base_url).hostname or ""
    return ImageJudge(line.resolve, patience_s, line.control.notices.append, witness)


def money_left(line: ScreeningRun) -> int | None:
    """Return micro-naira still free under every cap, or None where there is no cap."""
    money, caps = line.journal.money, line.caps
    rooms = [
        cap - spent().bound_micro
        for cap, spent in (
            (caps.run_micro, partial(money.of_run, line.run_id)),
            (caps.day_micro, money.today),
            (caps.month_micro, money.this_month),
        )
        if cap is not None
    ]
    return max(0, min(rooms)) if rooms else None


def listed_prices(settings: Settings) -> dict[str, int]:
    """Return the price list, by operation, in micro-naira.

    Raises:
        SettingsError: it cannot be read.
    """
    prices = load_prices(settings.own_table("prices"))
    return {operation.value: price for operation, price in prices.items()}


def price_list_of(settings: Settings) -> str:
    """Return the file of the price list, for who must correct it."""
    return str(settings.own_table("prices") or PRICES)


def known_prices(journal: Journal, settings: Settings) -> tuple[dict[str, int], dict[str, int]]:
    """Return the latest price and the most a call may cost, by operation, in micro-naira.

    Raises:
        SettingsError: the price list cannot be read.
    """
    seen, now = journal.money.prices(), journal.clock()
    latest, most = listed_prices(settings), {}
    for name, listed in latest.items():
        limit, price = price_limit(listed), seen.get(name)
        most[name] = max_cost(listed, price, limit_micro=limit, now=now)
        if price is not None and price.latest_micro <= limit:
            latest[name] = price.latest_micro
    return latest, most


def make_price(line: ScreeningRun) -> Quote:
    """Rank the needed lookups, and say what they may cost and how long they may take."""
    trim_memory()
    needed = line.ranked
    latest, worst = known_prices(line.journal, line.settings)
    line.worst = worst_costs(needed, worst)
    order = rank(needed, latest)
    line.standing = np.full(len(needed), LookupStatus.WAITING.value, dtype=np.int8)
    line.listed = np.zeros(len(needed), dtype=bool)
    if line.chains is not None:
        order = line.chains.in_order(order)
        line.standing[line.chains.spared()] = LookupStatus.SPARED.value
    line.order = order.astype(np.int32)
    del order
    waiting = line.standing == LookupStatus.WAITING.value
    for check in line.wanted.checks:
        wanted = int((waiting & needed.is_of(check.value)).sum())
        line.control.progress[check].wanted = wanted
    line.spent_before_micro = line.journal.money.of_run(line.run_id).spent_micro
    tallies = line.journal.runs.tallies()
    line.quote = make_quote(
        needed,
        prices_micro=latest,
        seen=seen_rates([tuple(row) for row in tallies]),
        seconds=line.journal.runs.seconds_per_answer(),
        max_in_flight=line.settings.max_in_flight,
        cap_micro=money_left(line),
        balance_micro=line.journal.runs.last_balance(),
        chains=line.chains,
        by_cap=not line.parameters.yes,
    )
    line.ranked = needed.slimmed()
    return line.quote
