"""The registry of checks: those of this package, and those of other packages.

Other code loops over `CHECKS`. A package adds a check by an entry point in the group
`nightscreen.checks` that names its declaration. The module of a check imports `declaration`, never
this module.
"""

from __future__ import annotations

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
from nightscreen.schemas.shipped import DATA, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from importlib.metadata import EntryPoint

GROUP = "nightscreen.checks"


def load_checks(added: Iterable[EntryPoint]) -> dict[str, Declaration]:
    """Return every check by its name: this package's in their order, then the others by name.

    Args:
        added: the entry points of other packages.

    Raises:
        SettingsError: one of them cannot be loaded, is not a declaration, or has the name of
            another check; the message names the package.
    """
    checks = {each.name: each for each in (BANK_ACCOUNT, KARMA, ECOSYSTEM, SELFIE)}
    for point in sorted(added, key=lambda each: each.name):
        package = point.dist.name if point.dist else point.value
        refused = f"the check {point.name} of the package {package} cannot be used"
        try:
            declared = point.load()
        except Exception as error:  # the package's module may raise anything when it is imported
            raise SettingsError(f"{refused}: {error}; correct or uninstall the package") from error
        if not isinstance(declared, Declaration):
            raise SettingsError(f"{refused}: {point.value} is no Declaration")
        if declared.name != point.name:
            raise SettingsError(f"{refused}: its declaration is named {declared.name}")
        if declared.name in checks:
            raise SettingsError(f"{refused}: another check has its name; rename it")
        if conflict := _name_conflict(declared):
            raise SettingsError(f"{refused}: {conflict}")
        checks[declared.name] = declared
    return checks


def _name_conflict(declared: Declaration) -> str:
    """Return why a package's check would conflict with other columns; empty if it does not.

    An input column that begins with the check's name would be renamed `input_…`.
    """
    own = f"{declared.name}_"
    foreign = [each.name for each in declared.columns if not each.name.startswith(own)]
    if foreign:
        return f"its column {foreign[0]} must begin with {own}"
    rows = read_rows(DATA / "headings.csv")
    known = (row["heading"] for row in rows if row["use"] == CUSTOMERS.headings)
    headings = [*KNOWN_COLUMNS, *known]
    for heading in headings:
        if re.sub(r"[^a-z0-9]+", "_", heading.casefold()).startswith(own):
            return f"lenders have a column {heading}, which begins as its columns do; rename it"
    return ""


CHECKS: Mapping[str, Declaration] = load_checks(entry_points(group=GROUP))
"""Every check's declaration, in the order of the output."""

ANSWERED = tuple(dict.fromkeys(word for check in CHECKS.values() for word in check.answered))
"""The statuses of rows that have an answer, of all checks."""
