"""Read a command's settings from the environment and `.env`, and open its journal.

`config.settings` defines each setting; checks of files are in `preflight`. Messages name settings,
never their values.
"""

from __future__ import annotations

import difflib
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dotenv import dotenv_values

from nightscreen.config.settings import PREFIX, read_settings, setting_names
from nightscreen.schemas.errors import InputError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal


DOTENV = Path(".env")
_TYPO_SIMILARITY = 0.85  # at least this similar to a setting, an unknown name counts as a typo


def settings_of_command() -> Settings:
    """Read the settings for a command; a misspelt name is an error.

    Raises:
        SettingsError: a setting is wrong; the text names it and what to do, never its value.
    """
    refuse_misspelt([*os.environ, *_names_in_dotenv()])
    return read_settings()


def refuse_misspelt(names: list[str]) -> None:
    """Refuse misspelt settings; warn of other unknown names with the prefix.

    Raises:
        SettingsError: a name is a misspelt setting.
    """
    known = setting_names()
    groups = {name.rpartition("__")[0] for name in known if "__" in name}
    groups |= {group.rpartition("__")[0] for group in groups if "__" in group}
    for name in names:
        upper = name.upper()
        if not upper.startswith(PREFIX) or upper in known or upper in groups:
            continue
        near = difflib.get_close_matches(upper, known, n=1, cutoff=_TYPO_SIMILARITY)
        if near:
            raise SettingsError(f"{name} is no setting; did you mean {near[0]}?")
        sys.stderr.write(
            f"nightscreen: {name} is no setting and does nothing; see .env.example for all there "
            "are\n"
        )


def _names_in_dotenv() -> list[str]:
    if not DOTENV.is_file():
        return []
    try:
        return list(dotenv_values(DOTENV, encoding="utf-8", interpolate=False))
    except (OSError, UnicodeDecodeError):
        raise SettingsError(
            f"{DOTENV.absolute()} cannot be read: save it as UTF-8 text that you may read, one "
            "NAME=value a line"
        ) from None


def require_consent(settings: Settings) -> None:
    """Refuse to continue without the settings that a consent needs.

    Raises:
        SettingsError: a setting is missing; the text names the first and what to write there.
    """
    needed = {
        "CONSENT_URL": (settings.consent_url, "the address of the service's consent screen"),
        "CLIENT_ID": (settings.client_id, "your client id, from the service's console"),
        "REDIRECT_URI": (settings.redirect_uri, "the redirect address you registered there"),
    }
    for name, (value, what) in needed.items():
        if not value:
            raise SettingsError(f"NIGHTSCREEN_{name} is not set: write {what} into .env")


@contextmanager
def opened_journal(settings: Settings | None = None) -> Iterator[Journal]:
    """Open the journal of the settings; a command that has read them passes them on.

    Raises:
        InputError: there is none yet.
        JournalError: HOME remembers one that is not there.
    """
    from nightscreen.journal import journal_of
    from nightscreen.journal.opening import journal_exists, refuse_vanished

    settings = settings or settings_of_command()
    if not journal_exists(settings.home, settings.journal_url):
        refuse_vanished(settings.home)
        raise InputError(
            f"there is no journal under {settings.home} yet; it is made by the first run, or set "
            "NIGHTSCREEN_HOME to where it is"
        )
    with journal_of(settings) as journal:
        yield journal
