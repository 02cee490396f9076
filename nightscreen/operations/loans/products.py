"""The list of active products.

Everything of area C begins with it: what the list does not have is never offered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.client import loans
from nightscreen.client.classify import ChargeStatus
from nightscreen.client.response_parser import parse_answer
from nightscreen.operations.person_run import single_call
from nightscreen.schemas.checks import Operation, SubjectKind
from nightscreen.schemas.clock import system_clock
from nightscreen.schemas.errors import StoppedError
from nightscreen.schemas.loans import LoanProducts

if TYPE_CHECKING:
    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.stops import Stops
    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import Settings
    from nightscreen.schemas.clock import Clock


async def fetch_products(session: Caller) -> tuple[LoanProducts | None, LookupTask]:
    """Ask for the list of active products; None if it is missing."""
    run = session.run
    subject = run.journal.pseudonyms.subject(SubjectKind.PRODUCT.value, "list")
    task = await session.one(
        session.task(loans.products(), kind=SubjectKind.PRODUCT, subject=subject)
    )
    reading = task.reading
    if reading is None or reading.verdict is not ChargeStatus.ANSWERED:
        run.stops.conclude()
        return None, task
    found = parse_answer(Operation.LOAN_PRODUCTS, reading.body)
    return (found if isinstance(found, LoanProducts) else None), task


def unknown_product(listed: LoanProducts) -> str:
    """Say that a product is not on the list, and what is."""
    ids = ", ".join(str(product.product_id) for product in listed.products) or "none"
    return f"--product: the service lists no such active product; there are: {ids}"


async def list_products(
    settings: Settings,
    *,
    clock: Clock = system_clock,
    transport: Transport | None = None,
) -> LoanProducts:
    """Return the active products by themselves; the call is in the journal, a run is not.

    Raises:
        StoppedError: the list did not come, and why.
        UsageError: the settings are wrong, the address among them.
    """
    operation = Operation.LOAN_PRODUCTS
    async with single_call(settings, operation, clock=clock, transport=transport) as caller:
        listed, task = await fetch_products(caller)
    if listed is None:
        caller.run.refuse_wrong_address()
        raise StoppedError(_why(caller.run.stops, task))
    return listed


def _why(stops: Stops, task: LookupTask) -> str:
    refused = stops.refusals()
    if refused:
        return "; ".join(refused)
    _, reason = stops.ending()
    trouble = "" if task.reading is None or task.reading.trouble is None else task.reading.trouble
    return (
        f"the list of products did not come ({reason or trouble or 'no answer'}); try again later, "
        "and see: nightscreen doctor"
    )
