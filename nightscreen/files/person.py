"""The names by which records say who did something."""

from __future__ import annotations

import getpass
import os
import unicodedata

_ACCOUNT = " (account "


def user_name() -> str:
    """Return who runs this process, as the machine knows them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"user {os.getuid()}"


def named_by_account(name: str) -> str:
    """Return who does something by a command: the machine's account, beside who is named."""
    name, account = " ".join(name.split()), user_name()
    return account if same_person(name, account) or not name else f"{name}{_ACCOUNT}{account})"


def same_person(one: str, other: str) -> bool:
    """Tell whether two recorded names are of one person, however they are written.

    The machine's account beside a name is held against names that stand alone.
    """
    (name, account), (second, by) = _parts(one), _parts(other)
    beside = bool(account) != bool(by)
    return name == second or (beside and ((account or by) == (second if account else name)))


def _parts(recorded: str) -> tuple[str, str]:
    """Return who is named and the account beside it, to compare; no account where none stands."""
    text = " ".join(unicodedata.normalize("NFKC", recorded).casefold().split())
    name, between, account = text.rpartition(_ACCOUNT)
    return (name, account.removesuffix(")")) if between else (text, "")
