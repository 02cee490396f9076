"""Photographs in a night: what a bad address costs, and what the scores mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightscreen.config.settings import read_settings
from nightscreen.sandbox.test_identifiers import by_word
from nightscreen.schemas.clock import system_clock
from nightscreen.schemas.errors import SettingsError
from tests.screening import CONSENT, World, csv_rows, customer

DAY = 24 * 3600 * 1_000_000


def photographed(number: int, url: str = "", **changes: str) -> dict[str, str]:
    url = url or f"https://img.example/{number}.jpg"
    return customer(number, image_url=url, **CONSENT, **changes)


BAD = {
    "http://img.example/a.jpg": "image_not_https",
    "https://me:hush@img.example/a.jpg": "image_credentials",
    "https://192.168.0.9/a.jpg": "image_host",
    "https://nas/a.jpg": "image_host",
}


def test_a_bad_image_costs_only_the_selfie(world: World) -> None:
    """The check is invalid with a hint, the row goes on, and nothing of it reaches the service.

    The same holds of a person of whom the service has no BVN record, and of who did not consent.
    """
    good, nobody = photographed(1), photographed(2, bvn=by_word("nobody").bvn)
    silent = {**good, **dict.fromkeys(CONSENT, ""), "customer_id": "C3"}
    bad = [photographed(4 + number, url) for number, url in enumerate(BAD)]
    night = world.screen([good, nobody, silent, *bad], checks=["karma", "selfie"])
    compared, *others = night.column("selfie_status")
    assert compared in {"match", "no_match", "unsure"}
    assert others == ["failed", "refused", *["invalid"] * len(BAD)]
    assert night.column("selfie_similarity")[2] is None
    assert set(night.column("karma_status")) <= {"clear", "listed"}
    assert night.report["state"] == "completed"
    problems = csv_rows(night.folder / "problems.csv")
    told = [row for row in problems if row["column"] == "image_url"]
    assert {int(row["line"]): row["code"] for row in told} == {
        5 + number: code for number, code in enumerate(BAD.values())
    }
    assert all(row["hint"] and row["action"] == "invalid" for row in told)
    assert night.column("image_url")[3:] == list(BAD)
    report = night.report["checks"]["selfie"]
    assert report["rows_invalid"] == len(BAD)
    assert (report["lookups"], report["distinct"]) == (2, 2)
    text = (night.folder / "problems.csv").read_text(encoding="utf-8")
    assert "192.168.0.9" not in text
    assert "hush" not in text


def test_an_image_is_asked_about_once_a_year_and_scored_by_the_lenders_thresholds(
    tmp_path: Path,
) -> None:
    """The same image is fresh for a year less four hours; another one is asked about at once.

    An answer at hand is not shown to who did not consent. From the upper threshold it is a match,
    below the lower one none, between the two unsure.
    """
    now = system_clock()
    clock = {"now": now}
    world = World(tmp_path, clock=lambda: clock["now"])
    lasting = {"consent_expires_at": "2099-01-01"}
    rows = [photographed(number, **lasting) for number in range(1, 16)]
    scores = world.screen(rows, checks=["selfie"]).column("selfie_similarity")
    known = sorted(score for score in scores if score is not None)
    low, high = known[len(known) // 3], known[2 * len(known) // 3]
    world.settings = {"selfie_match_at": high, "selfie_no_match_below": low}
    clock["now"] = now + 364 * DAY
    other = photographed(2, "https://img.example/new.jpg", **lasting, customer_id="C16")
    silent = {**rows[0], **dict.fromkeys(CONSENT, ""), "customer_id": "C17"}
    night = world.screen([*rows, other, silent], checks=["selfie"])
    assert night.column("selfie_source")[:16] == ["reused"] * 15 + ["asked"]
    assert night.column("selfie_status")[16] == "refused"
    for score, status in zip(scores, night.column("selfie_status")[:15], strict=True):
        if score is not None:
            assert status == ("match" if score >= high else "no_match" if score < low else "unsure")
    assert {"match", "no_match", "unsure"} <= set(night.column("selfie_status")[:15])
    clock["now"] = now + 366 * DAY
    last = world.screen(rows[:1], checks=["selfie"])
    assert last.column("selfie_source") == ["asked"]
    assert len(world.calls("selfie")) == 15 + 1 + 1


@pytest.mark.parametrize(
    ("given_", "named"),
    [
        ({"selfie_match_at": 60}, "SELFIE_NO_MATCH_BELOW: is 70, above SELFIE_MATCH_AT"),
        ({"selfie_no_match_below": 95}, "SELFIE_NO_MATCH_BELOW: is 95, above SELFIE_MATCH_AT"),
        ({"selfie_match_at": 0.9, "selfie_no_match_below": 0.5}, "write 90, not 0.9"),
        ({"selfie_match_at": 101}, "SELFIE_MATCH_AT"),
    ],
)
def test_thresholds_that_cannot_be_meant_are_told(given_: dict[str, float], named: str) -> None:
    """Overlapping thresholds and shares are refused by the variable's name; they may meet."""
    assert read_settings(selfie_match_at=80, selfie_no_match_below=80).selfie_match_at == 80
    with pytest.raises(SettingsError, match=named):
        read_settings(**given_)
