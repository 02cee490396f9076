"""Reading kept bodies again after the table of manners was corrected. Nothing is asked or paid.

An answer that can be read by now becomes an ordinary answer of its own time; the next run uses it
where it is still fresh. What the table says is `client`'s, what is kept `journal`'s.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nightscreen.checks.registry import CHECKS
from nightscreen.client.classify import Classifier
from nightscreen.client.response_rules import ChargeStatus, Exchange
from nightscreen.client.wire import lookup_request
from nightscreen.schemas.checks import IdentityKind, Lookup
from nightscreen.schemas.requests import Request

if TYPE_CHECKING:
    from nightscreen.client.response_rules import ResponseRules
    from nightscreen.journal import Journal
    from nightscreen.journal.answers import OpenedAnswer

_ANY_OTHER = "https://other.invalid/"
"""Stands for the second identifier of a check, which no reading of an answer looks at."""


@dataclass(slots=True)
class Reread:
    """What became of one check's kept bodies."""

    kept: int = 0  # bodies that could not be read before
    # those that can be read by now, by outcome
    answers: Counter[str] = field(default_factory=Counter)
    left_cost_micro: int = 0  # what those that still cannot be had cost

    @property
    def read(self) -> int:
        """Return how many can be read by now."""
        return sum(self.answers.values())


def reread(journal: Journal, rules: ResponseRules) -> dict[str, Reread]:
    """Read every kept body again; return what became of them, by check.

    Only answers to the checks of a screening are read: what a BVN consent or an offer came to hangs
    on more than its answer.

    Raises:
        JournalError: the journal cannot be read or written; what was read before is kept.
    """
    classifier = Classifier(rules)
    found: dict[str, Reread] = {}
    for block in journal.answers.unread():
        read = []
        for each in block:
            mine = found.setdefault(each.check, Reread())
            mine.kept += 1
            reading = classifier.read(_request(each), Exchange(each.status, each.body))
            is_check = each.check in CHECKS
            if (
                is_check
                and reading.verdict is ChargeStatus.ANSWERED
                and reading.outcome is not None
            ):
                mine.answers[reading.outcome.value] += 1
                read.append((each, reading.outcome, reading.cost_micro))
            else:
                mine.left_cost_micro += each.cost_micro or 0
        journal.answers.settle(read)
    return found


def _request(each: OpenedAnswer) -> Request:
    """Return the request that brought an answer, as far as reading it needs."""
    if each.check in CHECKS:
        kind = IdentityKind(each.kind)
        return lookup_request(Lookup(each.check, kind, each.asked, _ANY_OTHER))
    return Request(each.check, "GET", "", None, asked=each.asked)
