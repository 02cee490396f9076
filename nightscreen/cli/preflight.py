"""Checks before the engine starts.

A mistake is reported at once and costs nothing. The cheapest checks come first; nothing is written
to disk before all input has been checked. The flow repeats the checks it needs, because a
deployment starts it without this module.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from nightscreen.cli.output import say_open_dates
from nightscreen.config.settings import overridden
from nightscreen.files.keys import decode_key
from nightscreen.files.places import is_url, try_to_write
from nightscreen.files.private_files import make_private_folder
from nightscreen.files.sealed_file import is_sealed, unsealed_input
from nightscreen.journal import journal_of
from nightscreen.journal.opening import journal_exists
from nightscreen.policy.load import load_policy
from nightscreen.reading.date_orders import DateOrders
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import file_digest, open_source
from nightscreen.runs.run import require_same_input, require_service
from nightscreen.runs.screening_run import resolve
from nightscreen.schemas.clock import deadline_instant, system_clock
from nightscreen.schemas.errors import InputError, OutputError, SettingsError

if TYPE_CHECKING:
    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.config.settings import Settings


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


def check_before_engine(parameters: ScreenBatch, settings: Settings) -> None:
    """Report any mistake that can be found without the engine and the service.

    Raises:
        UsageError: settings, parameters, input, mapping or output are wrong.
        JournalError: the journal cannot be used.
    """
    if not parameters.quote_only:
        require_service(settings, quote_only=False)
    _check_choices(parameters)
    if parameters.input:
        if not is_sealed(Path(parameters.input)):  # else the journal's key is needed
            _check_input(Path(parameters.input), parameters)
    elif not parameters.run:
        raise InputError("no input file was given; name a CSV, XLSX or Parquet file")
    if configured := settings.data_key.get_secret_value():  # the journal checks its fingerprint
        decode_key(configured, "NIGHTSCREEN_DATA_KEY")
    _check_run(parameters, settings)
    _check_output(parameters.output)


def _check_choices(parameters: ScreenBatch) -> None:
    overridden({}, parameters.freshness)
    now = system_clock()
    deadline = deadline_instant(parameters.deadline, now)
    if deadline is not None and deadline <= now:
        raise InputError(f"--deadline: {parameters.deadline} has passed; name a later instant")
    for policy in filter(None, (parameters.policy, parameters.shadow)):
        load_policy(Path(policy))


def _check_input(path: Path, parameters: ScreenBatch) -> None:
    mapping = read_mapping(Path(parameters.mapping)) if parameters.mapping else None
    source = open_source(path, mapping=mapping)
    if not parameters.date_order and not parameters.run:
        say_open_dates(DateOrders(source))


def _check_run(parameters: ScreenBatch, settings: Settings) -> None:
    """Open the journal; compare the parameters with those of a run that is resumed."""
    if parameters.run and not journal_exists(settings.home, settings.journal_url):
        raise InputError(
            f"there is no run {parameters.run}: there is no journal under {settings.home} yet; set "
            "NIGHTSCREEN_HOME to where it is"
        )
    try:
        make_private_folder(settings.home)
    except OutputError as error:
        raise SettingsError(f"NIGHTSCREEN_HOME: {error}") from None
    with journal_of(settings) as journal:
        resolved = resolve(parameters, journal, settings.approval_timeout)
        if resolved.earlier is not None:
            begun_with = {
                "batch": resolved.batch,
                "karma_identities": [kind.value for kind in resolved.wanted.karma_kinds],
            }
            _refuse_changes(parameters, resolved.parameters.model_copy(update=begun_with))
        with unsealed_input(resolved.input, journal.sealer) as clear:
            if not parameters.input or is_sealed(resolved.input):
                _check_input(clear, resolved.parameters)
            if resolved.earlier is not None:
                require_same_input(resolved.earlier, file_digest(clear))


def _refuse_changes(given: ScreenBatch, begun_with: ScreenBatch) -> None:
    """Refuse options that differ from those the resumed run was begun with.

    Raises:
        InputError: an option differs.
    """
    for name in _FIXED:
        if name not in given.model_fields_set:
            continue
        current, original = getattr(given, name), getattr(begun_with, name)
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
