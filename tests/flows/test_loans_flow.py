"""Offers and loans in a real engine: the whole way twice, and nobody's data kept there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from nightscreen.config.parameters import ScreenBatch
from nightscreen.files.heartbeat import read_vitals
from nightscreen.flows.offer_loans import offer_loans
from nightscreen.flows.screen_batch import screen_batch
from nightscreen.flows.track_loans import track_loans
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.offers import OfferLoans, TrackLoans
from tests.flows.engine_in_a_test import until
from tests.flows.test_what_prefect_keeps import leaks
from tests.screening import World
from tests.steps.offers_in_a_test import PRODUCT, borrower

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.sandbox.process import SandboxProcess
    from tests.flows.engine_in_a_test import Engine

pytestmark = [pytest.mark.engine, pytest.mark.long]

NUMBER = 24
PERSONAL = ("customer_name", "email", "phone", "reference", "url")


def starts(sandbox: SandboxProcess) -> int:
    """Return how many links were asked for."""
    return int(sandbox.totals()["totals"]["by_operation"]["loan_start"]["requests"])


async def test_offered_and_followed_in_the_engine(
    engine: Engine, sandbox: SandboxProcess, at_home: Path
) -> None:
    """Flows by hand against a server: one link each, followed to the end, nobody in the engine."""
    sandbox.post("/_sandbox/latency", {"kind": "none"})
    people = World(at_home).write([borrower(number) for number in range(1, NUMBER + 1)])
    out = str(at_home / "out")
    screened: Any = await screen_batch(ScreenBatch(input=str(people), output=out))
    approved = screened["decisions"]["approve"]
    asked = OfferLoans(
        run_dir=str(at_home / "out" / screened["run_id"]), product=PRODUCT, output=out
    )
    with pytest.raises(UsageError, match="no such active product"):
        await offer_loans(asked.model_copy(update={"product": "LP9999"}))
    first: Any = await offer_loans(asked)
    again: Any = await offer_loans(asked)
    assert (first["offers"]["offered"], again["offers"]["already_offered"]) == (approved, approved)
    assert starts(sandbox) == approved
    stood = []
    for day in (0, 6, 130):
        sandbox.post("/_sandbox/world", {"day": day})
        followed: Any = await track_loans(TrackLoans(output=out))
        stood.append(followed["statuses"])
    assert stood[0] == {"PENDING": approved}
    assert stood[-1]["SETTLED"] > approved // 3
    for report in (first, followed):
        signs = read_vitals(at_home / "home", report["run_id"])
        assert signs is not None
        assert (signs["flow"], signs["phase"]) == (report["flow"], "writing")
        tagged = {"flow_runs": {"tags": {"all_": [report["run_id"], "nightscreen", "completed"]}}}
        assert len(engine.post("/flow_runs/filter", tagged)) == 1
    rows = pq.read_table(at_home / "out" / first["run_id"] / "offers.parquet").to_pylist()
    marked = {str(row[name]) for row in rows for name in PERSONAL}
    until(lambda: leaks(engine.home, {followed["run_id"]}), "the logs of the last run")
    assert leaks(engine.home, marked) == set()
