"""Read stored bodies again after the table of response rules was corrected, at no cost.

A body that can be read now becomes an ordinary answer with its original date; the next run uses it
if it is still fresh.
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
"""A placeholder for the second identifier of a check, which reading an answer does not use."""


@dataclass(slots=True)
class Reread:
    """The result for one check's stored bodies."""

    kept: int = 0  # bodies that could not be read before
    # those that can be read now, by outcome
    answers: Counter[str] = field(default_factory=Counter)
    left_cost_micro: int = 0  # the cost of those that still cannot be read

    @property
    def read(self) -> int:
        """Return how many can be read now."""
        return sum(self.answers.values())


def reread(journal: Journal, rules: ResponseRules) -> dict[str, Reread]:
    """Read every stored body again; return the results by check.

    Only answers to the checks of a screening are read: the effect of a BVN consent or a loan offer
    depends on more than its answer.

    Raises:
        JournalError: the journal cannot be read or written; what was read before stays saved.
    """
    classifier = Classifier(rules)
    results: dict[str, Reread] = {}
    for block in journal.answers.unread():
        read = []
        for each in block:
            result = results.setdefault(each.check, Reread())
            result.kept += 1
            reading = classifier.read(_request(each), Exchange(each.status, each.body))
            is_check = each.check in CHECKS
            if (
                is_check
                and reading.verdict is ChargeStatus.ANSWERED
                and reading.outcome is not None
            ):
                result.answers[reading.outcome.value] += 1
                read.append((each, reading.outcome, reading.cost_micro))
            else:
                result.left_cost_micro += each.cost_micro or 0
        journal.answers.settle(read)
    return results


def _request(each: OpenedAnswer) -> Request:
    """Return the request of an answer, with the parts that reading needs."""
    if each.check in CHECKS:
        kind = IdentityKind(each.kind)
        return lookup_request(Lookup(each.check, kind, each.asked, _ANY_OTHER))
    return Request(each.check, "GET", "", None, asked=each.asked)
