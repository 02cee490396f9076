"""Names of persons and machine accounts in records."""

from __future__ import annotations

import getpass
import os
import unicodedata

_ACCOUNT = " (account "


def user_name() -> str:
    """Return the machine account that runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"user {os.getuid()}"


def named_by_account(name: str) -> str:
    """Return a name for records of a command: the name given, with the machine's account."""
    name, account = " ".join(name.split()), user_name()
    return account if same_person(name, account) or not name else f"{name}{_ACCOUNT}{account})"


def same_person(one: str, other: str) -> bool:
    """Return whether two recorded names are of the same person, in any spelling.

    If only one of them has an account, this is compared with the other name too.
    """
    (name, account), (other_name, other_account) = _parts(one), _parts(other)
    if name == other_name:
        return True
    has_one_account = bool(account) != bool(other_account)
    return has_one_account and (account or other_account) == (other_name if account else name)


def _parts(recorded: str) -> tuple[str, str]:
    """Return the name and the account of a recorded name, normalised; the account may be empty."""
    text = " ".join(unicodedata.normalize("NFKC", recorded).casefold().split())
    name, between, account = text.rpartition(_ACCOUNT)
    return (name, account.removesuffix(")")) if between else (text, "")
