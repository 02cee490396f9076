"""The daily copy of the journal and the daily purge, as a schedule wants them.

How a copy is made is in `journal/copying.py`, what is due in `purging`.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.files.keys import read_passphrase
from nightscreen.files.private_files import make_private_folder
from nightscreen.journal import journal_of
from nightscreen.journal.copying import back_up
from nightscreen.privacy.purging import due, purge
from nightscreen.schemas.clock import LAGOS, Clock, system_clock, to_instant

if TYPE_CHECKING:
    from nightscreen.config.settings import Settings

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def back_up_dated(
    settings: Settings,
    folder: str,
    *,
    keep: int,
    passphrase_file: str = "",
    clock: Clock = system_clock,
) -> dict[str, Any]:
    """Copy the journal into `folder/DAY`, the day of Lagos, and remove the oldest copies.

    Nothing is removed unless the new copy is whole; what is not named as a day is left alone.

    Raises:
        SettingsError: the passphrase cannot be read.
        OutputError: there is a copy of today, or the folder cannot be written.
        JournalError: the journal cannot be read.
    """
    passphrase = read_passphrase(Path(passphrase_file) if passphrase_file else None)
    place = make_private_folder(Path(folder), ours=False)
    day = f"{to_instant(clock()).astimezone(LAGOS):%Y-%m-%d}"
    with journal_of(settings, clock=clock) as journal:
        back_up(journal, place / day, passphrase=passphrase)
    copies = sorted(each for each in place.iterdir() if _DAY.fullmatch(each.name))
    for old in copies[:-keep]:
        shutil.rmtree(old)
    return {
        "copy": day,
        "key": "sealed" if passphrase else "absent",
        "removed": len(copies[:-keep]),
    }


def purge_due_now(settings: Settings) -> dict[str, Any]:
    """Purge by the periods of the settings; return the numbers alone."""
    with journal_of(settings) as journal:
        done = purge(journal, due(journal, settings.retention))
    return {"removed_files": done["removed_files"], "log_emptied": done["log_emptied"]}
