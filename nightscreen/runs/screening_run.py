"""A screening run: its own attributes, and its stations up to the quote.

`calling` makes the calls, `finalize` has the last stations.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nightscreen.calling.run import Run, known_prices
from nightscreen.checks.registry import CHECKS
from nightscreen.config.parameters import SCREEN_FLOW, ScreenBatch
from nightscreen.config.settings import Settings, cash_flow_age, max_ages, overridden
from nightscreen.files.frame import Frame
from nightscreen.files.memory_tuning import trim_memory, tune_allocator
from nightscreen.files.outputs import PROBLEMS
from nightscreen.files.quarantine import append_problems
from nightscreen.files.sealed_file import Workspace, unsealed_input
from nightscreen.journal.lookups import NewLookup
from nightscreen.planning.customers import gather_customers, planning_queries
from nightscreen.planning.eligibility import slots_of
from nightscreen.planning.freshness import Freshness, is_closed
from nightscreen.planning.lookup_table import NeededPieces
from nightscreen.planning.plan import Planner, Wanted
from nightscreen.planning.price import quote as make_quote
from nightscreen.planning.price import rank
from nightscreen.planning.shared_identifiers import (
    COUNTED,
    PLACEHOLDERS,
    Earlier,
    count_shared,
    signals,
)
from nightscreen.policy.load import load_policy
from nightscreen.policy.versions import approval_of, policy_in_force
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.merge_rows import merges_rows
from nightscreen.reading.open_file import file_digest, open_source
from nightscreen.runs.run import (
    begin_run,
    completed,
    find_earlier,
    open_journal,
    require_same_input,
    require_service,
    run_id_for,
)
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.checks import DEFAULT_KARMA_IDENTITIES, IdentityKind, Purpose
from nightscreen.schemas.clock import Clock, system_clock, to_instant
from nightscreen.schemas.errors import InputError, JournalError, PolicyError
from nightscreen.schemas.naming import batch_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    import pyarrow as pa
    from numpy.typing import NDArray

    from nightscreen.journal import Journal
    from nightscreen.journal.lookups import LookupRun
    from nightscreen.journal.runs import RunRecord
    from nightscreen.planning.lookup_table import Chains, LookupRanking
    from nightscreen.reading.open_file import TableSource
    from nightscreen.schemas.contests import PolicyVersion
    from nightscreen.schemas.plan import CheckCounts, Quote
    from nightscreen.schemas.policy import Policy


_CONVERTED_AT_ONCE = 20_000
"""Lookups that are Python values at a time, of those that are in memory to be ranked."""


@dataclass(slots=True, kw_only=True)
class ScreeningRun(Run):
    """One screening run. Its stations fill in the attributes from top to bottom."""

    parameters: ScreenBatch
    wanted: Wanted
    source: TableSource  # the unencrypted file, with the meaning of its columns
    workspace: Workspace
    freshness: Freshness
    policy: Policy
    chunks: int = 0  # number of row chunks in the workspace
    shadow: Policy | None = None  # a second policy, tried on the same rows
    policy_approval: PolicyVersion | None = None  # None if nobody has approved the policy
    # if rows are merged, `chunks` have one row for each of the `customers`, and the workspace also
    # has `input_chunks` chunks of the input's own rows
    input_chunks: int = 0
    customers: int = 0
    rows_read: int = 0  # rows of the file; `rows_quarantined` of them were refused
    rows_quarantined: int = 0
    # the order in which each column's numeric dates were read
    date_orders: dict[str, str] = field(default_factory=dict)
    # what the rows need, by check; filled by the plan
    counts: dict[str, CheckCounts] = field(default_factory=dict)
    needed: NeededPieces = field(init=False)  # the needed lookups, sealed
    # the figures to rank and price them by, until that is done; `order` is their rank
    ranked: LookupRanking | None = None
    order: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    lookups: LookupRun | None = None  # their table in the journal, once they are priced
    # karma's lookups for each row, if it stops at the first listing
    chains: Chains | None = None
    # lookups that are not asked again yet: they may have been charged too often
    closed: dict[str, set[bytes]] = field(default_factory=dict)
    # lookups whose latest answer could not be read
    unread: dict[str, set[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.needed = NeededPieces(self.workspace)

    def rows(self) -> dict[str, int]:
        """Return the rows read, screened and refused; if merged, also the customers."""
        return {
            "read": self.rows_read,
            "screened": self.rows_read - self.rows_quarantined,
            "quarantined": self.rows_quarantined,
            **({"customers": self.customers} if self.parameters.merge_rows else {}),
        }


def open_screening(
    parameters: ScreenBatch,
    settings: Settings,
    *,
    clock: Clock = system_clock,
) -> ScreeningRun:
    """Open everything a screening run needs and save the run; nothing is sent or spent.

    Raises:
        UsageError: settings, parameters or input are wrong, in one line that says what to do.
        JournalError: the journal cannot be used.
    """
    require_service(settings, quote_only=parameters.quote_only)
    tune_allocator()
    with ExitStack() as opened:
        journal = open_journal(settings, opened, clock)
        run = _open(parameters, settings, journal, opened)
        run.on_close = opened.pop_all()
        return run


def _open(
    given: ScreenBatch, settings: Settings, journal: Journal, opened: ExitStack
) -> ScreeningRun:
    ready, now = prepare(given, settings, journal, opened), journal.clock()
    input_digest = file_digest(ready.source.path)
    require_same_input(ready.earlier, input_digest)
    parameters, wanted, earlier = ready.parameters, ready.wanted, ready.earlier
    if earlier is None and given.date_order:  # also applies to the batch's next runs
        journal.runs.keep_date_order(ready.batch, given.date_order)
    open_as = f"{wanted.run_id}@{journal.holders.name}"
    workspace = Workspace.of(settings.home, open_as, journal.sealer)
    opened.callback(workspace.clear)
    run = begin_run(
        ScreeningRun,
        journal,
        opened,
        parameters,
        settings,
        run_id=wanted.run_id,
        flow=SCREEN_FLOW,
        batch=ready.batch,
        purpose=wanted.purpose.value,
        operations=wanted.checks,
        input_digest=input_digest,
        earlier=earlier,
        wanted=wanted,
        source=ready.source,
        workspace=workspace,
        freshness=Freshness(
            max_ages(wanted.purpose, ready.ages),
            now,
            journal.answers.position(),
            cash_flow_age(wanted.purpose, ready.ages),
        ),
        policy=ready.policy,
        policy_approval=ready.policy_approval,
        shadow=ready.shadow,
    )
    if run.only_quotes:
        return run
    opened.callback(_leave_nothing, journal, run.run_id)
    if earlier is None and not parameters.policy:
        # a resumed run uses the policy in force at its start, so a new one must too
        at = run.started_at
        run.policy, run.policy_approval = _policy_in_force(parameters, settings, journal, at)
    return run


def _leave_nothing(journal: Journal, run_id: str) -> None:
    """Delete the run's temporary rows; if the journal is unreachable, the next run does."""
    with suppress(JournalError):
        journal.lookups.clear(run_id)
        journal.askers.clear(run_id)


def _policy_in_force(
    parameters: ScreenBatch, settings: Settings, journal: Journal, begun_at: int
) -> tuple[Policy, PolicyVersion | None]:
    """Return the policy of a run and who approved it; a resumed run keeps the one it began with.

    Raises:
        PolicyError: it cannot be read, or it lacks a required approval.
    """
    if parameters.policy:
        policy = load_policy(Path(parameters.policy))
    else:
        policy = policy_in_force(journal, begun_at)
    approval = approval_of(journal, policy.label, journal.clock())
    if approval is None and settings.require_approved_policy and not parameters.quote_only:
        raise PolicyError(
            f"nobody has approved the policy {policy.label}: propose it with: nightscreen policy "
            "propose FILE --by NAME, and let somebody else approve it on the desk's page Policy, "
            "or without a desk with: nightscreen policy approve NAME@DIGEST --by NAME"
        )
    return policy, approval


def read_chunk(run: ScreeningRun, number: int) -> pa.Table:
    """Return a chunk of rows."""
    return run.workspace.get(f"rows-{number:05d}").combine_chunks()


def make_plan(run: ScreeningRun) -> None:
    """Judge what each row needs; write row plans and needed lookups into the workspace."""
    trim_memory()
    now = run.freshness.at
    only_quoted = run.parameters.quote_only
    slots = slots_of(run.wanted.checks, run.wanted.karma_kinds)
    asked = {slot.kind for slot in slots}
    counted = tuple(asked.intersection(PLACEHOLDERS)) if only_quoted else COUNTED
    kinds = [kind for kind in IdentityKind if kind in asked or kind in counted]
    read = partial(read_chunk, run)
    run.closed = {check: closed_lookups(run, check) for check in run.wanted.checks}
    with Frame(planning_queries(), run.workspace.folder / "frame") as frame:
        starts = gather_customers(
            frame,
            map(read, range(run.chunks)),
            run.journal.pseudonyms,
            kinds=kinds,
            slots=slots,
            at=to_instant(now),
            whose=bool(counted),
        )
        problems = count_shared(
            frame,
            Earlier.of(run.journal, run_id=run.run_id, batch=run.batch, at=now),
            workspace=None if only_quoted else run.workspace,
            counted=counted,
        )
        if not only_quoted:
            for number, shared in enumerate(signals(frame, starts)):
                run.workspace.put(f"signals-{number:05d}", shared)
        for column in ("line", "customer", *(kind for kind in kinds if kind not in asked)):
            frame.run("forget", column=column)
        planner = Planner(
            frame,
            run.wanted,
            starts,
            freshness=run.freshness,
            answers=run.journal.answers,
            workspace=run.workspace,
            whole=not only_quoted,
            closed=run.closed,
        )
        planner.settle()
        for piece in planner.needed(read):
            run.needed.add(piece)
        run.ranked = planner.ranking()
        run.counts = planner.counts
        run.unread = planner.unread
        if run.wanted.stop_at_first and "karma" in run.wanted.checks:
            run.chains = planner.chains(len(run.needed))
    if problems:
        append_problems(run.folder.path / PROBLEMS, problems)
        run.folder.rows[PROBLEMS] += len(problems)


def closed_lookups(run: ScreeningRun, check: str) -> set[bytes]:
    """Return a check's lookups that are not asked until their calls in doubt are old enough."""
    recent = run.journal.answers.doubts(check, run.run_id, run.freshness.doubts_since(check))
    return {
        subject
        for subject, sent in recent.items()
        if is_closed(sent.attempts, sent.unread, run.settings.attempts)
    }


def make_price(run: ScreeningRun) -> Quote:
    """Rank the needed lookups, and quote their cost and duration."""
    trim_memory()
    needed = run.ranked
    if needed is None:
        raise ValueError("a run is planned before it is priced")
    latest, worst = known_prices(run.journal, run.settings)
    run.order = rank(needed, latest).astype(np.int32)
    states = np.full(len(needed), LookupStatus.WAITING.value, dtype=np.int8)
    if run.chains is not None:
        states = run.chains.states()
    for check in run.wanted.checks:
        to_ask = needed.is_of(check) & (states != LookupStatus.SPARED.value)
        run.progress[check].wanted = int(to_ask.sum())
    run.spent_before_micro = run.journal.money.of_run(run.run_id).spent_micro
    run.quote = make_quote(
        needed,
        prices_micro=latest,
        seen=run.journal.runs.charges_of_late(),
        seconds=run.journal.runs.seconds_per_answer(),
        max_in_flight=run.settings.max_in_flight,
        cap_micro=run.journal.money.left(run.run_id, run.caps),
        balance_micro=run.journal.runs.last_balance(),
        chains=run.chains,
    )
    run.ranked = None
    if not run.only_quotes:
        fill_lookups(run, worst, states)
        trim_memory()  # asking takes the longest
    return run.quote


def fill_lookups(run: ScreeningRun, worst_micro: dict[str, int], states: NDArray[np.int8]) -> None:
    """Write the needed lookups into the journal, in rank.

    `worst_micro` is the most a call may cost, by check; `states` has the first status of each
    lookup by its number: to be asked now, to be asked later if needed, or spared.
    """
    in_flight, checks = run.settings.max_in_flight, run.wanted.checks
    terms = {
        "checks": list(checks),
        "at": run.freshness.at,
        "since": run.freshness.since,
        "caps": asdict(run.caps),
        "deadline_at": run.stops.deadline_at,
        "floor_micro": run.wallet.floor_micro,
        "in_flight_micro": sum(in_flight[check] * worst_micro[check] for check in checks),
    }

    def ranked() -> Iterator[NewLookup]:
        for numbers, rows in run.needed.in_rank(run.order):
            for start in range(0, len(numbers), _CONVERTED_AT_ONCE):
                columns = rows.slice(start, _CONVERTED_AT_ONCE).to_pydict()
                yield from map(
                    NewLookup,
                    columns["check"],
                    columns["kind"],
                    columns["subject"],
                    [worst_micro[check] for check in columns["check"]],
                    columns["consent_reference"],
                    columns["consent_ends_at"],
                    states[numbers[start : start + _CONVERTED_AT_ONCE]].tolist(),
                    columns["identity"],
                    columns["together_with"],
                    columns["row"],
                )

    table = run.journal.lookups
    run.lookups = table.begin(run.run_id, len(run.order), terms)
    table.fill(run.lookups, ranked())


# --- its parameters ---

NO_INPUT = "no input file was given; name a CSV, XLSX or Parquet file"
_CHANGEABLE = {"input", "max_spend", "deadline", "workers", "run", "yes", "quote_only"}
"""What may be given anew for a run that is resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What a screening run begins with: parameters that are complete, and what they name, read."""

    parameters: ScreenBatch
    earlier: RunRecord | None
    wanted: Wanted
    batch: str
    source: TableSource  # the unencrypted file, with the meaning of its columns
    ages: dict[str, dict[str, timedelta]]  # how old answers may be, where the run or settings say
    policy: Policy
    policy_approval: PolicyVersion | None
    shadow: Policy | None


def prepare(
    given: ScreenBatch, settings: Settings, journal: Journal, opened: ExitStack
) -> Prepared:
    """Complete parameters from the run to resume, settings, mapping and earlier runs; read files.

    Nothing is saved. `opened` removes the input's unencrypted copy.

    Raises:
        InputError: no usable input, no such run to resume, or its spending was refused.
        UsageError: another parameter or setting is wrong.
    """
    parameters, earlier = given, find_earlier(journal, given.run, SCREEN_FLOW)
    if earlier is not None:
        lost = [name for name in earlier.parameters.get("checks", ()) if name not in CHECKS]
        if lost:
            raise InputError(
                f"run {earlier.run_id} asked {', '.join(lost)}, which is installed no longer: "
                "install the package of that check to resume the run"
            )
        parameters = completed(given, earlier, journal, settings, changeable=_CHANGEABLE)
    if not parameters.input:
        raise InputError(NO_INPUT)
    path = Path(parameters.input)
    batch = earlier.batch if earlier else parameters.batch or batch_name(path)
    mapping = read_mapping(Path(parameters.mapping)) if parameters.mapping else None
    clear = opened.enter_context(unsealed_input(path, journal.sealer))
    source = open_source(clear, mapping=mapping)
    if earlier is None:
        more = {
            "merge_rows": merges_rows(parameters, settings, mapping),
            "date_order": parameters.date_order or journal.runs.date_order(batch),
            "shadow": parameters.shadow or str(settings.shadow or ""),
        }
        parameters = parameters.model_copy(update=more)
    purpose = Purpose(parameters.purpose)
    kinds = tuple(IdentityKind(kind) for kind in dict.fromkeys(parameters.karma_identities))
    begun_at = journal.clock() if earlier is None else earlier.started_at
    policy, policy_approval = _policy_in_force(parameters, settings, journal, begun_at)
    return Prepared(
        parameters=parameters,
        earlier=earlier,
        wanted=Wanted(
            tuple(dict.fromkeys(parameters.checks)),
            kinds or DEFAULT_KARMA_IDENTITIES[purpose],
            purpose,
            run_id_for(journal, earlier),
            stop_at_first=parameters.karma_stop_at_first,
        ),
        batch=batch,
        source=source,
        ages=overridden(settings.freshness, parameters.freshness),
        policy=policy,
        policy_approval=policy_approval,
        shadow=load_policy(Path(parameters.shadow)) if parameters.shadow else None,
    )
