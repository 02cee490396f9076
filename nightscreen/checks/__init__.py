"""Each check in a module of its own that declares what there is to know of it.

Everything else loops over `CHECKS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.checks.bank_account import BANK_ACCOUNT
from nightscreen.checks.ecosystem import ECOSYSTEM
from nightscreen.checks.karma import KARMA
from nightscreen.checks.selfie import SELFIE
from nightscreen.schemas.checks import Check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.checks.declaration import Declaration

_DECLARED = {each.check: each for each in (BANK_ACCOUNT, KARMA, ECOSYSTEM, SELFIE)}
CHECKS: Mapping[Check, Declaration] = {check: _DECLARED[check] for check in Check}
"""Every check's declaration, in the order of the checks."""

__all__ = ["CHECKS"]
