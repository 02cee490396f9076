"""A run: what every flow has open, from its opening to its close.

One life for all flows. `begin_run` writes the run down before anything is sent, `Run.withdraw`
forgets one that came to nothing, `Run.close` gives back what was opened. What only screening has is
`screening_run.ScreeningRun`; how calls are made is `calling.caller`.
"""

from __future__ import annotations

import gc
import secrets
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from datetime import datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.calling.progress import CheckProgress, SpendingAlert
from nightscreen.calling.silence import Silence
from nightscreen.calling.stops import RULES, Objection, Stops
from nightscreen.calling.wallet import Wallet
from nightscreen.client.prices import PRICES, load_prices
from nightscreen.client.response_rules import load_response_rules
from nightscreen.config.declarations import Declarations
from nightscreen.files.places import is_url, withdraw
from nightscreen.files.run_folder import RunFolder
from nightscreen.files.workspace import sweep_workspaces
from nightscreen.journal import Journal, journal_of
from nightscreen.policy.declarations import read_declarations
from nightscreen.schemas.calls import CallState, Caps
from nightscreen.schemas.clock import LAGOS, Clock, system_clock, to_instant, to_micros
from nightscreen.schemas.errors import InputError, ServiceAddressError, SettingsError
from nightscreen.schemas.money import to_micro
from nightscreen.schemas.naming import new_run_id
from nightscreen.schemas.prices import max_cost, price_limit
from nightscreen.schemas.stops import ADDRESS, REFUSALS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nightscreen.client.response_rules import ResponseRules
    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.config.settings import Settings
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.api_runs import ApiRunParameters
    from nightscreen.schemas.quote import Quote

_COLLECTED_EVERY = 50_000
"""Objects made before the collector looks for cycles: blocks of rows are lists of thousands, and
at Python's own 700 a tenth of a night goes into walking them, a third of what a worker does."""
_NOT_ACTED_ON = frozenset({CallState.NOT_SENT.value, CallState.NOT_CHARGED.value})
_NOT_KEPT = frozenset({"run", "yes", "quote_only"})
_PATHS = frozenset({"input", "mapping", "policy", "shadow", "run_dir", "output"})


@dataclass(slots=True, kw_only=True)
class Run:
    """One run of any flow, under way.

    Attributes:
        flow: its flow as the journal has it, such as `pull_transactions`.
        batch: what its nights are compared by.
        purpose: what its calls are made for, as the journal has it.
        stops: what stops it.
        wallet: what is known of the prepaid balance.
        started_at: when it was first begun.
        is_new: it was begun now, not resumed.
        response_rules: what a response of the service means.
        declared: what the lender declares, for the account of the calls.
        quote: what it may cost; None until that is worked out.
        spent_before_micro: what earlier sessions of it had spent when it was quoted.
        on_close: gives back what the run has open.
    """

    run_id: str
    flow: str
    batch: str
    purpose: str
    parameters: ScreenBatch | ApiRunParameters
    settings: Settings
    journal: Journal
    folder: RunFolder
    stops: Stops
    wallet: Wallet
    caps: Caps
    started_at: int
    is_new: bool
    response_rules: ResponseRules
    declared: Declarations = field(default_factory=Declarations)
    input_digest: str = ""
    quote: Quote | None = None
    spent_before_micro: int = 0
    on_close: ExitStack = field(default_factory=ExitStack)

    @property
    def clock(self) -> Clock:
        """Return what gives the present instant."""
        return self.journal.clock

    @property
    def progress(self) -> dict[str, CheckProgress]:
        """Return the numbers of each check or operation that it asks."""
        return self.stops.progress

    @property
    def operations(self) -> tuple[str, ...]:
        """Return the checks or operations that its calls are counted under."""
        return tuple(self.progress)

    @property
    def rows_read(self) -> int | None:
        """Return how many rows it has read, None where its flow counts none."""
        return None

    @property
    def only_quotes(self) -> bool:
        """Return whether the run ends with its quote, and leaves nothing."""
        return only_quotes(self.parameters)

    @property
    def came_to_nothing(self) -> bool:
        """Return whether no call of it, in whatever session, can have been acted on."""
        calls = (row for rows in self.journal.runs.calls(self.run_id) for row in rows)
        return all(row.state in _NOT_ACTED_ON for row in calls)

    def refuse_wrong_address(self) -> None:
        """Say so where nothing of the service was found at its address.

        A run that is resumed ends by its stop, with a report: it is there already.

        Raises:
            ServiceAddressError: the address answers, but not as the service does.
        """
        stops = self.stops
        nothing_came = stops.answered == 0 and self.came_to_nothing
        if self.is_new and stops.reason == ADDRESS and nothing_came:
            raise ServiceAddressError(
                f"{REFUSALS['address']} ({self.settings.base_url}); nothing was spent"
            )

    def withdraw(self) -> None:
        """Leave nothing of a new run that came to nothing."""
        if self.is_new and self.came_to_nothing:
            self.journal.runs.withdraw(self.run_id)
            withdraw(self.folder.path)

    def close(self) -> None:
        """Give back what the run has open, the journal last."""
        self.on_close.close()

    def shared(self) -> dict[str, Any]:
        """Return what a flow's own kind of run is made of beside its own fields."""
        return {each.name: getattr(self, each.name) for each in fields(Run)}


def only_quotes(parameters: ScreenBatch | ApiRunParameters) -> bool:
    """Return whether a run of these parameters ends with its quote, and leaves nothing."""
    return bool(getattr(parameters, "quote_only", False))


# --- opening ---


def open_api_run(
    parameters: ApiRunParameters,
    settings: Settings,
    *,
    flow: str,
    batch: str,
    operation: str,
    input_digest: str = "",
    clock: Clock = system_clock,
) -> Run:
    """Open a run beside screening and write it down; nothing is sent.

    Raises:
        UsageError: settings or parameters are wrong, in one line that says what to do.
        JournalError: the journal cannot be used.
    """
    require_service(settings, quote_only=only_quotes(parameters))
    with ExitStack() as opened:
        collect_seldom(opened)
        journal = open_journal(settings, opened, clock)
        earlier = find_earlier(journal, parameters.run, flow)
        if input_digest:
            require_same_input(earlier, input_digest)
        run = begin_run(
            journal,
            opened,
            parameters,
            settings,
            run_id=run_id_for(journal, earlier),
            flow=flow,
            batch=batch,
            purpose=flow,
            operations=(operation,),
            input_digest=input_digest,
            earlier=earlier,
        )
        run.on_close = opened.pop_all()
        return run


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


def open_journal(settings: Settings, opened: ExitStack, clock: Clock) -> Journal:
    """Open the journal as a run keeps it: its closing is left with `opened`."""
    journal = journal_of(settings, clock=clock)
    opened.callback(journal.close)
    journal.be_patient(settings.outage_give_up)
    return journal


def collect_seldom(opened: ExitStack) -> None:
    """Have the collector look for cycles seldom, until what is opened closes.

    What is loaded by now is there to the end, so that it need not be walked at all.
    """
    before = gc.get_threshold()
    opened.callback(gc.set_threshold, *before)
    opened.callback(gc.unfreeze)
    gc.set_threshold(_COLLECTED_EVERY, *before[1:])
    gc.freeze()


def find_earlier(journal: Journal, run_id: str, flow: str) -> RunRecord | None:
    """Return the run that is resumed; None where a new one is begun.

    Raises:
        InputError: there is no such run of the flow, or it is under way elsewhere.
    """
    if not run_id:
        return None
    earlier = journal.runs.find(run_id)
    if earlier is None or earlier.flow != flow:
        raise InputError(
            f"there is no run {run_id} of {flow} in this journal; "
            "see the runs there are with: nightscreen runs list"
        )
    if journal.runs.held_elsewhere(run_id) or journal.askers.asks_elsewhere(run_id):
        raise InputError(
            f"run {run_id} is still under way in another process; wait for it or stop it"
        )
    return earlier


def require_same_input(earlier: RunRecord | None, digest: str) -> None:
    """Refuse to resume a run with a file that is not the one it was begun with."""
    if earlier is not None and earlier.input_digest != digest:
        raise InputError(
            f"what is given is not the input of run {earlier.run_id}: it differs; give what it was "
            "begun with, or start a new run"
        )


def run_id_for(journal: Journal, earlier: RunRecord | None) -> str:
    """Return the id of the run that is resumed, or a new one."""
    if earlier is not None:
        return earlier.run_id
    return new_run_id(to_instant(journal.clock()).astimezone(LAGOS), secrets.token_hex(3))


def begin_run(
    journal: Journal,
    opened: ExitStack,
    parameters: ScreenBatch | ApiRunParameters,
    settings: Settings,
    *,
    run_id: str,
    flow: str,
    batch: str,
    purpose: str,
    operations: Iterable[str],
    input_digest: str,
    earlier: RunRecord | None,
) -> Run:
    """Write a run of any flow down, and return it with all that was opened for it.

    One that is only quoted is not written down, and its folder goes with it.

    Args:
        journal: where it is kept.
        opened: takes what is to be given back as the run is closed.
        parameters: what it is asked to do, made whole.
        settings: where and how.
        run_id: a new id, or that of the run that is resumed.
        flow: its flow as the journal has it.
        batch: what its nights are compared by.
        purpose: what its calls are made for.
        operations: the checks or operations its calls are counted under.
        input_digest: of its input, empty where it reads none.
        earlier: the run as it was begun, where it is resumed.

    Raises:
        UsageError: declarations, prices, response rules or the deadline are wrong.
        OutputError: the folder cannot be made.
    """
    declared = read_declarations(settings)
    rules = load_response_rules(settings.own_table("manners"))
    load_prices(settings.own_table("prices"))  # a mistake in it leaves nothing behind
    deadline_at = deadline_instant(parameters.deadline, journal.clock())  # nor does one in it
    caps = caps_of(parameters, settings)
    if only_quotes(parameters):
        folder = RunFolder.make(settings.home / "quotes", f"{run_id}@{journal.holders.name}")
        opened.callback(shutil.rmtree, folder.path, ignore_errors=True)
    else:
        folder = RunFolder.at(_output(parameters, earlier), run_id, settings.home)
    sweep_workspaces(settings.home, journal.holders.alive)
    journal.lookups.sweep()
    journal.calls.recover()
    started_at = journal.clock()
    if not only_quotes(parameters):
        record = journal.runs.begin(
            run_id,
            flow=flow,
            batch=batch,
            purpose=purpose,
            input_digest=input_digest,
            folder=str(folder.path.absolute()),
            cap_micro=caps.run_micro,
            parameters=lasting(parameters),
        )
        started_at = record.started_at
    try:
        folder.begin()
    except BaseException:
        if earlier is None:
            journal.runs.withdraw(run_id)
        raise
    stops = Stops(
        progress={check: CheckProgress() for check in operations},
        tolerated_failure_pct=settings.tolerated_failure_pct,
        price_list=price_list_of(settings),
        deadline_at=deadline_at,
        silence=Silence(settings.outage_give_up.total_seconds()),
        alerts=spending_alerts(journal, run_id, caps),
    )
    note_unreadable(stops, journal)
    floor_micro, limits = _optional_micro(settings.balance_floor), dict(caps.price_limits)
    return Run(
        run_id=run_id,
        flow=flow,
        batch=batch,
        purpose=purpose,
        parameters=parameters,
        settings=settings,
        journal=journal,
        folder=folder,
        stops=stops,
        wallet=Wallet(stops, floor_micro=floor_micro, price_limits=limits),
        caps=caps,
        started_at=started_at,
        is_new=earlier is None,
        response_rules=rules,
        declared=declared,
        input_digest=input_digest,
    )


def _output(parameters: ScreenBatch | ApiRunParameters, earlier: RunRecord | None) -> str:
    """Return where a run's folder goes: one that is resumed keeps its place."""
    if earlier is None or is_url(parameters.output):
        return parameters.output
    return str(Path(earlier.folder).parent)


def lasting(parameters: ScreenBatch | ApiRunParameters) -> dict[str, Any]:
    """Return parameters as a run is remembered by: with paths that hold from any folder."""
    kept = parameters.model_dump(exclude=set(_NOT_KEPT))
    for name in _PATHS & kept.keys():
        if kept[name] and not is_url(kept[name]):
            kept[name] = str(Path(kept[name]).absolute())
    return kept


def note_unreadable(stops: Stops, journal: Journal) -> None:
    """Take note of how many answers in a row could not be read before: the first more decides."""
    most = RULES[Objection.UNREADABLE].first - 1
    for check in stops.progress:
        number = journal.answers.unreadable_run(check, most)
        stops.evidence(check).counted(Objection.UNREADABLE, number)


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


# --- money ---


def _optional_micro(naira: Any) -> int | None:  # noqa: ANN401 - Decimal or None from the settings
    return None if naira is None else to_micro(naira)


def caps_of(parameters: ScreenBatch | ApiRunParameters, settings: Settings) -> Caps:
    """Return every limit on money and calls that binds a run."""
    per_day, listed = settings.max_per_day, listed_prices(settings)
    shares = settings.share_caps or getattr(parameters, "workers", 1) > 1
    return Caps(
        run_micro=_optional_micro(parameters.cap),
        day_micro=_optional_micro(settings.daily_spend_cap),
        month_micro=_optional_micro(settings.monthly_spend_cap),
        day_calls=tuple((check, most) for check, most in per_day.items() if most is not None),
        price_limits=tuple((name, price_limit(price)) for name, price in listed.items()),
        in_flight=tuple(settings.max_in_flight.items()) if shares else (),
    )


def spending_alerts(journal: Journal, run_id: str, caps: Caps) -> list[SpendingAlert]:
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


def money_left(run: Run) -> int | None:
    """Return micro-naira still free under every cap, or None where there is no cap."""
    money, caps = run.journal.money, run.caps
    rooms = [
        cap - spent().bound_micro
        for cap, spent in (
            (caps.run_micro, partial(money.of_run, run.run_id)),
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
    return load_prices(settings.own_table("prices"))


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
