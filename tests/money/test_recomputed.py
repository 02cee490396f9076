"""A report against its own files: every figure that they tell is reckoned again by plain SQL."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from nightscreen.sandbox.batch import make_batch
from nightscreen.schemas.clock import to_instant
from tests.client.fakes import Canned
from tests.money.recomputed import leaves, recomputed
from tests.money.service_in_memory import Bureau, Service

if TYPE_CHECKING:
    from pathlib import Path

FROM_ELSEWHERE = (
    *("schema_version", "run_id", "batch", "purpose", "state", "stop_reason", "publishable"),
    *("started_at", "finished_at", "provenance", "notices", "spending", "timeline"),
    *(
        "held",
        "nights",
        "groups",
        "news",
        "overrides",
        "cost.quoted",
        "cost.cap",
        "cost.over_cap",
        "cost.disputed",
    ),
    *("cost.saved_by_", "cost.price_rises", "balance.drift", "balance.exact"),
    *("balance.explained_in_doubt", "balance.nights_left", "balance.last_known"),
    *("freshness.oldest", "freshness.at_", "files.enriched/", "files.quarantine.csv"),
    *("files.problems.csv", "files.report", "files.manifest", "customer_notices", "contests"),
)
"""Figures that rest on more than the folder: quotes, prices, the journal, other nights, words."""

OF_A_CHECK = ("saved_by_reuse", "saved_by_sharing", "asked_again", "identities")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Return folder and report of a calm night, a bad one, and one that asks again weeks later."""
    found = {}
    calm = Bureau(tmp_path_factory.mktemp("calm"))
    fill(calm)
    found["calm"] = folder_of(calm, calm.night().report)
    calm.loop.run_until_complete(asyncio.sleep(20 * 86_400))
    found["asked again"] = folder_of(calm, calm.night().report)
    bad = Bureau(
        tmp_path_factory.mktemp("bad"),
        Service(
            before=lambda _op, _id, number: Canned(503) if number % 7 == 3 else None,
            after=lambda _op, _id, number: (
                Canned(error=httpx.ReadTimeout("slow"))
                if number % 9 == 4
                else Canned(200, {"status": "success", "meta": {"cost": 10, "balance": 1}})
                if number % 31 == 5
                else None
            ),
        ),
        settings={"attempts": 2, "tolerated_failure_pct": 100},
    )
    fill(bad)
    found["bad"] = folder_of(bad, bad.night().report)
    return found


def fill(bureau: Bureau) -> None:
    """Write a batch of which a tenth is damaged."""
    today = to_instant(bureau.loop.micros()).date()
    make_batch(bureau.below / "in.csv", rows=150, seed=3, damage_pct=10, today=today)


def folder_of(bureau: Bureau, report: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """Return where a run lies, and its report."""
    return bureau.below / "out" / report["run_id"], report


@pytest.mark.parametrize("night", ["calm", "bad", "asked again"])
def test_the_files_bear_every_figure_out(
    reports: dict[str, tuple[Path, dict[str, Any]]], night: str
) -> None:
    """What the report says is what its Parquet, its list and its findings come to."""
    folder, report = reports[night]
    said = leaves(report)
    found = leaves(recomputed(folder, report["provenance"]["evidence_judged_at"]))
    if not report["balance"]["exact"]:  # at an end where calls overlapped, a balance is judged
        found = {at: value for at, value in found.items() if not at.startswith("balance.")}
    assert {at: (said.get(at), value) for at, value in found.items() if said.get(at) != value} == {}
    left = {at for at in said if at not in found and not told_elsewhere(at)}
    assert {
        at for at in left if not (at.startswith("balance.") or said[at] in (0, "0.00", None))
    } == set()


def told_elsewhere(at: str) -> bool:
    """Tell whether a figure rests on more than the folder."""
    of_check = at.startswith("checks.") and any(f".{name}" in at for name in OF_A_CHECK)
    return of_check or at.startswith(FROM_ELSEWHERE)


def test_the_nights_are_what_they_are_meant_to_be(
    reports: dict[str, tuple[Path, dict[str, Any]]],
) -> None:
    """The bad night has doubts, failures and unreadable answers, the last one reuses answers."""
    calm, bad, again = (reports[each][1] for each in ("calm", "bad", "asked again"))
    assert all(part["reused"] == 0 for part in calm["checks"].values())
    assert float(bad["cost"]["in_doubt_exposure"]) > 0
    assert sum(part["unreadable"] for part in bad["checks"].values()) > 0
    assert sum(part["retries"] for part in bad["checks"].values()) > 0
    assert sum(part["reused"] for part in again["checks"].values()) > 0
    assert sum(part["paid"] + part["free"] for part in again["checks"].values()) > 0
    assert len(again["nights"]) == 2
    assert again["groups"]["branch"]
