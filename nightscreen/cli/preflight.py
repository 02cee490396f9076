"""Checks before the engine starts.

A mistake is reported at once and costs nothing. A run is prepared as the flow does it, then put
away: a deployment starts the flow without this module.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from nightscreen.cli.output import say_open_dates
from nightscreen.config.settings import overridden
from nightscreen.files.places import is_url, try_to_write
from nightscreen.files.private_files import make_private_folder
from nightscreen.files.sealed_file import is_sealed
from nightscreen.journal import journal_of
from nightscreen.journal.keyset import decode_key
from nightscreen.journal.opening import journal_exists
from nightscreen.policy.load import load_policy
from nightscreen.reading.date_orders import DateOrders
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import file_digest, open_source
from nightscreen.runs.run import require_same_input, require_service
from nightscreen.runs.screening_run import NO_INPUT, prepare
from nightscreen.schemas.clock import deadline_instant, system_clock
from nightscreen.schemas.errors import InputError, OutputError, SettingsError

if TYPE_CHECKING:
    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.config.settings import Settings
    from nightscreen.runs.screening_run import Prepared


_PATHS = ("mapping", "policy")
_FIXED = (
    "batch",
    "purpose",
    "checks",
    "karma_identities",
    "karma_stop_at_first",
    "freshness",
    *_PATHS,
)
"""Parameters that a resumed run cannot change."""


def check_before_engine(parameters: ScreenBatch, settings: Settings) -> str:
    """Report any mistake that can be found without the engine and the service.

    Returns the folder or URL of the results; a resumed run keeps its own.

    Raises:
        UsageError: settings, parameters, input, mapping or output are wrong.
        JournalError: the journal cannot be used.
    """
    require_service(settings, quote_only=parameters.quote_only)
    now = system_clock()
    deadline = deadline_instant(parameters.deadline, now)
    if deadline is not None and deadline <= now:
        raise InputError(f"--deadline: {parameters.deadline} has passed; name a later instant")
    if not journal_exists(settings.home, settings.journal_url):
        _check_first_run(parameters, settings)
    if not parameters.run:
        _check_output(parameters.output)
    try:
        make_private_folder(settings.home)
    except OutputError as error:
        raise SettingsError(f"NIGHTSCREEN_HOME: {error}") from None
    with journal_of(settings) as journal, ExitStack() as opened:
        ready = prepare(parameters, settings, journal, opened)
        if ready.earlier is not None:
            _refuse_changes(parameters, ready)
            require_same_input(ready.earlier, file_digest(ready.source.path))
            _check_output(ready.parameters.output)
        elif not parameters.date_order:
            say_open_dates(DateOrders(ready.source))
    return ready.parameters.output


def _check_first_run(parameters: ScreenBatch, settings: Settings) -> None:
    """Check whatever needs no journal: a mistake leaves neither a journal nor a key behind."""
    if parameters.run:
        raise InputError(
            f"there is no run {parameters.run}: there is no journal under {settings.home} yet; set "
            "NIGHTSCREEN_HOME to where it is"
        )
    if not parameters.input:
        raise InputError(NO_INPUT)
    overridden({}, parameters.freshness)
    for policy in (parameters.policy, parameters.shadow, settings.shadow):
        if policy:
            load_policy(Path(policy))
    mapping = read_mapping(Path(parameters.mapping)) if parameters.mapping else None
    if not is_sealed(Path(parameters.input)):
        open_source(Path(parameters.input), mapping=mapping)
    if configured := settings.data_key.get_secret_value():
        decode_key(configured, "NIGHTSCREEN_DATA_KEY")


def _refuse_changes(given: ScreenBatch, ready: Prepared) -> None:
    """Refuse options that differ from those the resumed run was begun with.

    Raises:
        InputError: an option differs.
    """
    kinds = [kind.value for kind in ready.wanted.karma_kinds]
    begun_with = {**dict(ready.parameters), "batch": ready.batch, "karma_identities": kinds}
    for name in _FIXED:
        if name not in given.model_fields_set:
            continue
        current, original = getattr(given, name), begun_with[name]
        if name in _PATHS:
            current = str(Path(current).absolute())
        if current != original:
            shown = ",".join(original) if isinstance(original, list) else original or "none"
            begun = "without" if current is True else f"with {shown}, and goes on with it"
            raise InputError(
                f"--{name.replace('_', '-')}: run {given.run} was begun {begun}; leave the option "
                "out, or start a new run"
            )


def _check_output(given: str) -> None:
    """Try to write to the output folder or URL; folders made for the trial are removed again."""
    output = Path(given)
    missing = [folder for folder in (output, *output.parents) if not folder.exists()]
    try:
        if is_url(given):
            try_to_write(given)
            return
        if not output.is_dir():
            make_private_folder(output)
        with tempfile.TemporaryFile(dir=output):
            return
    except OutputError as error:
        raise OutputError(f"--output: {error}") from None
    except OSError as error:
        raise OutputError(
            f"--output: cannot write to the folder {output}: {error.strerror}; choose another, or "
            "change its permissions"
        ) from None
    finally:
        for folder in [] if is_url(given) else missing:
            if folder.is_dir():
                folder.rmdir()
