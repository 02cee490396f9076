"""Open a run of any flow.

`begin_run` saves the run in the journal before anything is sent, and returns it (`calling.run`).
`screening_run.ScreeningRun` adds what only screening needs; `calling.caller` makes the calls.
"""

from __future__ import annotations

import secrets
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from nightscreen.calling.run import Run, listed_prices, only_quotes
from nightscreen.calling.stops import RULES, CheckProgress, Objection, Silence, Stops
from nightscreen.calling.wallet import Wallet
from nightscreen.client.network import checked_key, parse_address
from nightscreen.client.prices import PRICES, load_prices
from nightscreen.client.response_rules import load_response_rules
from nightscreen.config.declarations import read_declarations
from nightscreen.files.places import is_url
from nightscreen.files.run_folder import RunFolder
from nightscreen.files.sealed_file import sweep_workspaces
from nightscreen.journal import Journal, journal_of
from nightscreen.runs.approval import approved_cap
from nightscreen.schemas.calls import Caps
from nightscreen.schemas.clock import LAGOS, Clock, deadline_instant, system_clock, to_instant
from nightscreen.schemas.errors import InputError, SettingsError
from nightscreen.schemas.money import price_limit, to_micro
from nightscreen.schemas.naming import new_run_id
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.config.settings import Settings
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.api_runs import ApiRunParameters

_NOT_STORED = frozenset({"run", "yes", "quote_only"})
P = TypeVar("P", bound="ApiRunParameters")
Q = TypeVar("Q", bound="ScreenBatch | ApiRunParameters")
R = TypeVar("R", bound=Run)
_PATHS = frozenset({"input", "mapping", "policy", "shadow", "run_dir", "output"})


# --- opening ---


def open_api_run(
    given: P,
    settings: Settings,
    *,
    flow: str,
    operation: str,
    identify: Callable[[P], tuple[str, str]],
    clock: Clock = system_clock,
    is_recorded: bool = True,
) -> Run:
    """Open a run of a flow other than screening and save it; nothing is sent.

    A run for a single call is not saved (`is_recorded` off): its id ends in its process's name.
    `identify` returns the batch name and the input's digest, if any, of parameters that are
    completed from a resumed run.

    Raises:
        UsageError: settings or parameters are wrong, in one line that says what to do.
        JournalError: the journal cannot be used.
    """
    with ExitStack() as opened:
        ready = prepare_api_run(given, settings, opened, flow=flow, identify=identify, clock=clock)
        journal, earlier, parameters, batch, input_digest = ready
        run_id = run_id_for(journal, earlier)
        run = begin_run(
            Run,
            journal,
            opened,
            parameters,
            settings,
            run_id=run_id if is_recorded else f"{run_id}@{journal.holders.name}",
            flow=flow,
            batch=batch,
            purpose=flow,
            operations=(operation,),
            input_digest=input_digest,
            earlier=earlier,
            is_recorded=is_recorded,
        )
        run.on_close = opened.pop_all()
        return run


def prepare_api_run(
    given: P,
    settings: Settings,
    opened: ExitStack,
    *,
    flow: str,
    identify: Callable[[P], tuple[str, str]],
    clock: Clock = system_clock,
) -> tuple[Journal, RunRecord | None, P, str, str]:
    """Return what a run begins with; nothing is saved, and `opened` closes the journal.

    These are the journal, the run to resume, the complete parameters, the batch name and the
    input's digest.

    Raises:
        UsageError: settings, parameters or input are wrong, or the run's spending was refused.
        JournalError: the journal cannot be used.
    """
    require_service(settings, quote_only=only_quotes(given))
    identity = None if given.run else identify(given)  # a wrong input leaves no journal behind
    journal = open_journal(settings, opened, clock)
    earlier, parameters = find_earlier(journal, given.run, flow), given
    if earlier is not None:
        every = type(given).model_fields
        parameters = completed(given, earlier, journal, settings, changeable=every)
    batch, input_digest = identity or identify(parameters)
    if input_digest:
        require_same_input(earlier, input_digest)
    return journal, earlier, parameters, batch, input_digest


def completed(
    given: Q,
    earlier: RunRecord,
    journal: Journal,
    settings: Settings,
    *,
    changeable: Collection[str],
) -> Q:
    """Return parameters completed from those of the run to resume.

    The run keeps its place, and its cap or the approved one, unless another is given. Its old
    deadline is over and is not inherited.

    Raises:
        InputError: its spending was refused.
    """
    cap = {} if only_quotes(given) else approved_cap(journal, earlier, settings)
    merged = {**earlier.parameters, "deadline": "", **cap}
    for name in given.model_fields_set.intersection(changeable):
        if value := getattr(given, name):
            merged[name] = value
    if not is_url(merged["output"]):
        merged["output"] = str(Path(earlier.folder).parent)
    return cast("Q", type(given).model_validate(merged))


def require_service(settings: Settings, *, quote_only: bool) -> None:
    """Refuse a missing or malformed address or key, unless nothing would be sent.

    Raises:
        SettingsError: names the variable, without its value.
    """
    if quote_only:
        return
    if not settings.base_url:
        raise SettingsError(
            "NIGHTSCREEN_BASE_URL is not set: write the service's address into .env, or try "
            "nightscreen demo, which needs none"
        )
    try:
        parse_address(settings.base_url)
        checked_key(settings.api_key.get_secret_value())
    except SettingsError as error:
        raise SettingsError(f"NIGHTSCREEN_{error}") from None


def open_journal(settings: Settings, opened: ExitStack, clock: Clock) -> Journal:
    """Open the journal for a run; `opened` closes it."""
    journal = journal_of(settings, clock=clock)
    opened.callback(journal.close)
    journal.database.give_up_s = settings.outage_give_up.total_seconds()
    return journal


def find_earlier(journal: Journal, run_id: str, flow: str) -> RunRecord | None:
    """Return the run to resume; None for a new run.

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
    """Refuse to resume a run with another file than the one it began with."""
    if earlier is not None and earlier.input_digest != digest:
        raise InputError(
            f"what is given is not the input of run {earlier.run_id}: it differs; give what it was "
            "begun with, or start a new run"
        )


def run_id_for(journal: Journal, earlier: RunRecord | None) -> str:
    """Return the id of the run to resume, or a new id."""
    if earlier is not None:
        return earlier.run_id
    return new_run_id(to_instant(journal.clock()).astimezone(LAGOS), secrets.token_hex(3))


def begin_run(
    kind: type[R],
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
    is_recorded: bool = True,
    **own: Any,  # noqa: ANN401 - as the kind has it
) -> R:
    """Save a run of any flow, and return it with everything that was opened for it.

    A run that is only quoted, or made for a single call (`is_recorded` off), is not saved, and its
    folder is removed at the end. `opened` is closed with the run, `earlier` is the record of a
    resumed run, and `own` has the attributes that only this kind of run has. `Run` documents the
    others.

    Raises:
        UsageError: declarations, prices, response rules or the deadline are wrong.
        OutputError: the folder cannot be made.
    """
    declared = read_declarations(settings)
    rules = load_response_rules(settings.own_table("manners"))
    load_prices(settings.own_table("prices"))  # first: a mistake in it leaves nothing behind
    deadline_at = deadline_instant(parameters.deadline, journal.clock())  # for the same reason
    caps = caps_of(parameters, settings)
    is_recorded = is_recorded and not only_quotes(parameters)
    if not is_recorded:
        name = f"{run_id.partition('@')[0]}@{journal.holders.name}"
        folder = RunFolder.make(settings.home / "quotes", name)
        opened.callback(shutil.rmtree, folder.path, ignore_errors=True)
    else:
        folder = RunFolder.at(parameters.output, run_id, settings.home)
    sweep_workspaces(settings.home, journal.holders.alive)
    journal.lookups.sweep()
    journal.calls.recover()
    started_at = journal.clock()
    if is_recorded:
        record = journal.runs.begin(
            run_id,
            flow=flow,
            batch=batch,
            purpose=purpose,
            input_digest=input_digest,
            folder=str(folder.path.absolute()),
            cap_micro=caps.run_micro,
            parameters=stored_parameters(parameters),
        )
        started_at = record.started_at
    try:
        folder.begin()
    except BaseException:
        if earlier is None:
            journal.runs.discard(run_id)
        raise
    was_poor = earlier is not None and earlier.stop_reason == StopReason.BALANCE
    stops = stops_of(
        journal,
        settings,
        operations,
        tolerated_failure_pct=settings.tolerated_failure_pct,
        deadline_at=deadline_at,
        probes_wallet=was_poor,
    )
    floor_micro, limits = _optional_micro(settings.balance_floor), dict(caps.price_limits)
    return kind(
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
        **own,
    )


def stored_parameters(parameters: ScreenBatch | ApiRunParameters) -> dict[str, Any]:
    """Return parameters for the journal, with absolute paths."""
    stored = parameters.model_dump(exclude=set(_NOT_STORED))
    for name in _PATHS & stored.keys():
        if stored[name] and not is_url(stored[name]):
            stored[name] = str(Path(stored[name]).absolute())
    return stored


def stops_of(
    journal: Journal,
    settings: Settings,
    operations: Iterable[str],
    **more: Any,  # noqa: ANN401 - of `Stops`
) -> Stops:
    """Return the stops of a run for one of its processes.

    They start with the number of answers in a row that could not be read before this run.
    """
    stops = Stops(
        progress={check: CheckProgress() for check in operations},
        price_list=str(settings.own_table("prices") or PRICES),
        silence=Silence(settings.outage_give_up.total_seconds()),
        **more,
    )
    most = RULES[Objection.UNREADABLE].first - 1
    for check in stops.progress:
        number = journal.answers.unreadable_streak(check, most)
        stops.evidence(check).counted(Objection.UNREADABLE, number)
    return stops


# --- money ---


def _optional_micro(naira: Any) -> int | None:  # noqa: ANN401 - Decimal or None from the settings
    return None if naira is None else to_micro(naira)


def caps_of(parameters: ScreenBatch | ApiRunParameters, settings: Settings) -> Caps:
    """Return every limit on a run's money and calls."""
    per_day, prices = settings.max_per_day, listed_prices(settings)
    shares = settings.share_caps or getattr(parameters, "workers", 1) > 1
    return Caps(
        run_micro=_optional_micro(parameters.cap),
        day_micro=_optional_micro(settings.daily_spend_cap),
        month_micro=_optional_micro(settings.monthly_spend_cap),
        day_calls=tuple((check, most) for check, most in per_day.items() if most is not None),
        price_limits=tuple((name, price_limit(price)) for name, price in prices.items()),
        in_flight=tuple(settings.max_in_flight.items()) if shares else (),
    )
