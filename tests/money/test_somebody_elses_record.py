"""A record about somebody else is no listing; the same one for different people ends the run."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from nightscreen.sandbox.people import karma_of
from tests.client.fakes import Canned
from tests.kill.drive import Driven
from tests.money.service_in_memory import Bureau
from tests.money.service_on_sockets import SocketService, Spoken, on_wire

ROWS = 40
SAMPLE = {
    "karma_identity": "0zspgifzbo.ga",
    "amount_in_contention": "0.00",
    "reason": None,
    "default_date": "2020-05-18",
    "karma_type": {"karma": "Others"},
    "karma_identity_type": {"identity_type": "Domain"},
    "reporting_entity": {"name": "A lender", "email": "support@lender.example"},
}


def answered(record: object, cost: int = 10) -> Canned:
    """Return a charged answer with a record."""
    meta = {"cost": cost, "balance": 999_000}
    body = {"status": "success", "message": "Successful", "data": record, "meta": meta}
    return Canned(200, body)


def statuses(driven: Driven) -> Counter[str]:
    """Count karma's statuses in the run's rows."""
    parts = sorted((driven.run.folder.path / "enriched").glob("part-*.parquet"))
    words: list[Any] = [
        row["karma_status"]
        for part in parts
        for row in pq.read_table(part, columns=["karma_status"]).to_pylist()
    ]
    return Counter(words)


def test_a_proxy_that_answers_every_karma_lookup_with_the_sample(tmp_path: Path) -> None:
    """The run is test mode from the second answer on, nobody is listed, nothing is published."""
    bureau = Bureau(tmp_path, rows=ROWS)
    bureau.service.before = lambda operation, *_: answered(SAMPLE) if operation == "karma" else None
    night = bureau.night()
    assert (night.report["state"], night.report["publishable"]) == ("test_mode", False)
    assert not (night.run.folder.path / "manifest.json").exists()
    assert set(statuses(night)) <= {"test_mode", "ineligible", "invalid"}
    assert night.report["checks"]["karma"]["attempts"] <= 4
    assert any("one and the same record" in notice for notice in night.report["notices"])


def test_each_answered_with_the_record_of_another(tmp_path: Path) -> None:
    """A service that mixes people up lists nobody, however many it charges for."""
    bureau = Bureau(tmp_path, rows=12)

    def mixed(operation: str, identity: str, _: int) -> Canned | None:
        other = str(int(identity) + 1) if operation == "karma" else ""
        record = {
            **SAMPLE,
            "karma_identity": other,
            "karma_identity_type": {"identity_type": "BVN"},
        }
        return answered(record) if operation == "karma" else None

    bureau.service.before = mixed
    night = bureau.night()
    assert night.report["state"] != "test_mode"
    assert statuses(night)["listed"] == 0


ONE_BY_ONE = {"max_in_flight": {"karma": 1}}


def test_a_night_over_sockets_in_which_each_listing_is_followed_by_a_miss(tmp_path: Path) -> None:
    """Everybody gets their own answer, however late the surplus, and each call is paid for once."""
    bureau = Bureau(tmp_path, rows=ROWS, settings=dict(ONE_BY_ONE))
    served = SocketService(bureau)
    miss = on_wire(Canned(404, {"status": "success", "message": "Identity not found in karma"}))

    async def with_surplus(spoken: Spoken) -> None:
        spoken.say(spoken.answer)
        if b"karma_identity" in spoken.answer:
            await asyncio.sleep(0.02)
            spoken.say(miss)

    served.say = with_surplus
    report = served.night(checks=["karma"])
    told = Bureau(tmp_path / "told", rows=ROWS, settings=dict(ONE_BY_ONE))
    told.below.mkdir()
    right = statuses(told.night(checks=["karma"]))
    assert statuses(report) == right
    assert right["listed"] > 0
    assert report.report["state"] == "completed"
    assert float(report.report["cost"]["total"]) == bureau.service.charged
    assert len(served.asked) == len(set(served.asked))


def test_a_night_in_which_one_miss_of_another_comes_before_a_customers_answer(
    tmp_path: Path,
) -> None:
    """It is taken back and asked again; the call it hid is named as in doubt, not forgotten."""
    bureau = Bureau(tmp_path, rows=ROWS)
    served = SocketService(bureau)
    miss = on_wire(Canned(404, {"status": "success", "message": "Identity not found in karma"}))
    mixed: list[str] = []

    async def mix_up(spoken: Spoken) -> None:
        if not mixed and b"karma_identity" in spoken.answer:
            mixed.append(spoken.identity)
            spoken.say(miss)
            await asyncio.sleep(0.002)
        spoken.say(spoken.answer)

    served.say = mix_up
    night = served.night(checks=["karma"])
    assert served.asked.count(("karma", mixed[0])) == 2
    asked = {identity for _, identity in served.asked}
    assert statuses(night)["listed"] == len([each for each in asked if karma_of(each) is not None])
    cost = night.report["cost"]
    assert (night.report["state"], cost["in_doubt_exposure"]) == ("completed", "10.00")
    assert float(cost["total"]) + 10 == bureau.service.charged
