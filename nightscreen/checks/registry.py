"""The checks there are: those of this package, and those of others' packages.

Everything else loops over `CHECKS`. Another package adds a check by an entry point of the group
`nightscreen.checks` that names its declaration; a module of a check imports `declaration`, never
this one.
"""

from __future__ import annotations

import csv
import re
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from nightscreen.checks.bank_account import BANK_ACCOUNT
from nightscreen.checks.declaration import Declaration
from nightscreen.checks.ecosystem import ECOSYSTEM
from nightscreen.checks.karma import KARMA
from nightscreen.checks.selfie import SELFIE
from nightscreen.schemas.columns import CUSTOMERS, KNOWN_COLUMNS
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.shipped import DATA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from importlib.metadata import EntryPoint

GROUP = "nightscreen.checks"


def load_checks(added: Iterable[EntryPoint]) -> dict[str, Declaration]:
    """Return every check by its name: this package's in their order, then the others by name.

    Args:
        added: the entry points of other packages.

    Raises:
        SettingsError: one of them cannot be loaded, is no declaration, or takes the name of
            another check; it names the package.
    """
    found = {each.name: each for each in (BANK_ACCOUNT, KARMA, ECOSYSTEM, SELFIE)}
    for point in sorted(added, key=lambda each: each.name):
        package = point.dist.name if point.dist else point.value
        refused = f"the check {point.name} of the package {package} cannot be used"
        try:
            declared = point.load()
        except Exception as error:  # whatever another's module raises when it is imported
            raise SettingsError(f"{refused}: {error}; correct or uninstall the package") from error
        if not isinstance(declared, Declaration):
            raise SettingsError(f"{refused}: {point.value} is no Declaration")
        if declared.name != point.name:
            raise SettingsError(f"{refused}: its declaration is named {declared.name}")
        if declared.name in found:
            raise SettingsError(f"{refused}: another check has its name; rename it")
        if trap := _trap(declared):
            raise SettingsError(f"{refused}: {trap}")
        found[declared.name] = declared
    return found


def _trap(declared: Declaration) -> str:
    """Return why the columns of another package's check would be mixed up; empty where not.

    A column of an input file that begins as the check's columns do is renamed `input_…`.
    """
    own = f"{declared.name}_"
    strange = [each.name for each in declared.columns if not each.name.startswith(own)]
    if strange:
        return f"its column {strange[0]} must begin with {own}"
    with (DATA / "headings.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    headings = [*KNOWN_COLUMNS, *(row[1] for row in rows if row[0] == CUSTOMERS.headings)]
    for heading in headings:
        if re.sub(r"[^a-z0-9]+", "_", heading.casefold()).startswith(own):
            return f"lenders have a column {heading}, which begins as its columns do; rename it"
    return ""


CHECKS: Mapping[str, Declaration] = load_checks(entry_points(group=GROUP))
"""Every check's declaration, in the order of the output."""

ANSWERED = tuple(dict.fromkeys(word for check in CHECKS.values() for word in check.answered))
"""Every word of a status that rests on an answer, of all checks."""
