"""The flows that ask person by person: BVN consent, loan offers, loan tracking, pulls.

Each is `run_people` with one kind of `PersonRun` (`operations/person_run.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from nightscreen.operations.bvn import BvnConfirmations, BvnRequests
from nightscreen.operations.loans import LoanOffers, LoanTracking
from nightscreen.operations.pull import AccountPull, TransactionPull
from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
from nightscreen.schemas.consented import PullTransactions
from nightscreen.schemas.offers import OfferLoans, TrackLoans
from nightscreen.tasks.engine_run import named, run_in_engine
from nightscreen.tasks.own_flow import flow

if TYPE_CHECKING:
    from nightscreen.operations.person_run import PersonRun
    from nightscreen.tasks.own_flow import OwnFlow

P = TypeVar("P", bound=ApiRunParameters)


def _flow(kind: type[PersonRun[P, Any]], model: type[P], about: str) -> OwnFlow[[P], Any]:
    """Return the flow of a kind of run; its form in Prefect is made from `model`."""

    async def run(parameters: P) -> Any:  # noqa: ANN401 - a report, or a Prefect state
        return await run_in_engine(kind, parameters)

    run.__name__ = run.__qualname__ = kind.flow  # the engine finds it in this module by its name
    run.__annotations__["parameters"] = model
    name = kind.flow.replace("_", "-")
    return flow(name=name, flow_run_name=named(kind.name), description=about)(run)


request_bvns = _flow(
    BvnRequests,
    RequestBvns,
    "Have the service send a one-time password to every customer of a file not asked before.",
)
confirm_bvns = _flow(
    BvnConfirmations,
    ConfirmBvns,
    "Confirm BVNs with the passwords customers supplied; each confirmation is charged.",
)
offer_loans = _flow(
    LoanOffers,
    OfferLoans,
    "Make an application link for each chosen customer of a finished run who has none.",
)
track_loans = _flow(
    LoanTracking,
    TrackLoans,
    "Ask about every open loan; report its state and what has changed.",
)
pull_transactions = _flow(
    TransactionPull, PullTransactions, "Pull the transactions of every live grant."
)
pull_accounts = _flow(
    AccountPull,
    PullTransactions,
    "Pull the linked accounts of every live grant, and profiles where granted.",
)
