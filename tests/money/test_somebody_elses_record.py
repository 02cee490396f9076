"""A record about another person is not a listing; the same one for several people ends the run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.client.fakes import Canned
from tests.money.service_in_memory import Bureau
from tests.screening import Night

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
    meta = {"cost": cost, "balance": 999_000}
    body = {"status": "success", "message": "Successful", "data": record, "meta": meta}
    return Canned(200, body)


def statuses(night: Night) -> Counter[str]:
    return Counter(night.column("karma_status"))


def test_a_proxy_that_answers_every_karma_lookup_with_the_sample(tmp_path: Path) -> None:
    """From the second answer on the run is in test mode; it lists nobody and is not published."""
    bureau = Bureau(tmp_path, rows=ROWS)
    bureau.service.before = lambda operation, *_: answered(SAMPLE) if operation == "karma" else None
    night = bureau.night()
    assert (night.report["state"], night.report["publishable"]) == ("test_mode", False)
    assert not (night.folder / "manifest.json").exists()
    assert set(statuses(night)) <= {"test_mode", "ineligible", "invalid"}
    assert night.report["checks"]["karma"]["attempts"] <= 4
    assert any("one and the same record" in notice for notice in night.report["notices"])


def test_each_answered_with_the_record_of_another(tmp_path: Path) -> None:
    """If the service confuses people, nobody is listed, however many lookups it charges."""
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
