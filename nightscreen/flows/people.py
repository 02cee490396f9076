"""The flows that ask person by person: BVN consent, loan offers, loan tracking, pulls.

Each is `run_people` with one kind of `PersonRun` (`operations/person_run.py`), whose docstring
describes it in Prefect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from nightscreen.operations.bvn import BvnConfirmations, BvnRequests
from nightscreen.operations.loans import LoanOffers, LoanTracking
from nightscreen.operations.pull import AccountPull, TransactionPull
from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.tasks.engine_run import named, run_in_engine
from nightscreen.tasks.own_flow import flow

if TYPE_CHECKING:
    from nightscreen.operations.person_run import PersonRun
    from nightscreen.tasks.own_flow import OwnFlow

P = TypeVar("P", bound=ApiRunParameters)


def _flow(kind: type[PersonRun[P, Any]]) -> OwnFlow[[P], Any]:
    """Return the flow of a kind of run; its form in Prefect is made from the parameters' model."""

    async def run(parameters: P) -> Any:  # noqa: ANN401 - a report, or a Prefect state
        return await run_in_engine(kind, parameters)

    run.__name__ = run.__qualname__ = kind.flow  # the engine finds it in this module by its name
    run.__annotations__["parameters"] = kind.form
    name = kind.flow.replace("_", "-")
    return flow(name=name, flow_run_name=named(kind.name), description=kind.__doc__)(run)


request_bvns = _flow(BvnRequests)
confirm_bvns = _flow(BvnConfirmations)
offer_loans = _flow(LoanOffers)
track_loans = _flow(LoanTracking)
pull_transactions = _flow(TransactionPull)
pull_accounts = _flow(AccountPull)
