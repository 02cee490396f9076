"""Witnesses: a single odd answer never ends a night, whatever it is and whenever it comes.

A record about another person is not a listing; the same one for several people ends the run.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.client.fakes import Canned
from tests.money.service_in_memory import Bureau
from tests.money.test_stops import honest
from tests.screening import Night, csv_rows

ROWS = 40
HTML = b"<html><body>Request blocked</body></html>"
ODD: dict[str, Canned] = {
    "302": Canned(302, b""),
    "401": Canned(401, {"status": "error", "message": "Invalid Authorization"}),
    "500 about a price": Canned(
        500, {"status": "error", "message": "could not find a matching price definition"}
    ),
    "404 of a proxy": Canned(404, b"<html>nothing here</html>"),
    "403 of a firewall": Canned(403, HTML),
    "402": Canned(402, {"status": "error", "message": "Insufficient balance"}),
    "200 and nothing": Canned(200, {}),
}
"""The first comes at the opening, the second at karma's first lookup, the third at the closing."""
KINDS = ("bvn", "phone", "email")
"""Kinds of karma identities, which are columns of the batch."""


def failed(report: dict[str, Any]) -> int:
    return sum(int(part["failed"]) for part in report["checks"].values())


def test_one_odd_answer_of_each_kind_is_that_lookups_failure(tmp_path: Path) -> None:
    """Whatever answer one lookup gets, and whenever, all other lookups are asked and saved."""
    rehearsal, bureau = Bureau(tmp_path / "before", rows=ROWS), Bureau(tmp_path, rows=ROWS)
    rehearsal.folder.mkdir()
    rehearsal.night()
    calls = [entry[:2] for entry in rehearsal.service.ledger]
    first_of_karma = next(call for call in calls if call[0] == "karma")
    middle = calls[len(calls) // 3 :: len(calls) // 9]
    poisoned = dict(zip([calls[0], first_of_karma, calls[-1], *middle], ODD.values(), strict=False))
    assert len(poisoned) == len(ODD)
    bureau.service.before = lambda operation, identity, _: poisoned.get((operation, identity))
    night = bureau.night()
    report = night.report
    assert (report["state"], report["stop_reason"]) == ("completed", None)
    assert failed(report) == len(ODD)
    assert sum(part["pending"] for part in report["checks"].values()) == 0
    troubles = set(pq.read_table(night.folder / "calls.parquet")["trouble"].to_pylist())
    assert troubles == {None, "address", "auth", "balance", "unpriced", "test_mode"}
    honest(report, bureau)


def test_one_customer_with_several_identifiers_is_one_witness(tmp_path: Path) -> None:
    """A customer with odd answers to all lookups does not end a night, even as the first."""
    bureau, identities = Bureau(tmp_path, rows=ROWS), set[str]()
    rows = csv_rows(Path(bureau.batch()))

    def before(_: str, identity: str, number: int) -> Canned | None:
        if number == 0:
            theirs = next(row for row in rows if identity in row.values())
            identities.update(theirs[column] for column in KINDS)
            identities.add(f"+234{theirs['phone'][-10:]}")  # as it is sent, whatever the form
        return ODD["404 of a proxy"] if identity in identities else None

    bureau.service.before = before
    report = bureau.night(checks=("karma",), karma_identities=KINDS).report
    assert (report["state"], report["stop_reason"]) == ("completed", None)
    assert failed(report) == len(KINDS)
    honest(report, bureau)


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
