"""The page of a report: true to its numbers, for every reader and every kind of night."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING

import pytest

from nightscreen.report.page import report_page
from tests.steps.reports_in_a_test import IDENTIFIERS, Nights, batch, odd_nights, read

if TYPE_CHECKING:
    from tests.screening import Night


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Night]:
    """Return nights of every kind by name."""
    both = Nights.begin(tmp_path_factory.mktemp("nights"))
    found = {"first": both.first(), "second": both.second()}
    return {**found, **dict(odd_nights(tmp_path_factory.mktemp("odd")))}


@pytest.fixture(scope="module")
def pages(nights: dict[str, Night]) -> dict[str, str]:
    """Return the page of each night; a run resumed has written over its first one."""
    return {name: report_page(night.report) for name, night in nights.items()}


def test_the_verdict_says_rows_and_whether_to_publish(pages: dict[str, str]) -> None:
    """Each kind of night has its own first line."""
    verdicts = {
        "first": (
            "Complete: 30 customers checked, 12 of them without credit history; publishable: yes."
        ),
        "second": (
            "Complete: 30 customers checked, 12 of them without credit history; publishable: yes."
        ),
        "test mode": "Test mode: not one row was screened; publishable: no.",
        "all refused": "Nothing screened: no row could be screened, 3 of 3 are in quarantine",
        "nothing answered": "Nothing answered: 0 of 5 due rows answered; publishable: no.",
        "nothing due": "Nothing due: none of 3 rows has an answer due; publishable: yes.",
        "no exposure, one check": ("Complete: 5 customers checked, 5 undecided; publishable: yes."),
        "resumed": (
            "Complete: 5 customers checked, 2 of them without credit history; publishable: yes."
        ),
        "all reused": (
            "Complete: 5 customers checked, 2 of them without credit history; publishable: yes."
        ),
    }
    for name, verdict in verdicts.items():
        assert verdict in pages[name], name
    assert "Partial: " in pages["stopped"]
    assert "It stopped early: the spending cap was reached." in pages["stopped"]


def test_the_first_screen_says_what_is_new(nights: dict[str, Night], pages: dict[str, str]) -> None:
    """Three customers were listed between the nights; the tile and the report say so in naira."""
    news = nights["second"].report["news"]["new_listings"]
    rows = [row for row in nights["second"].rows if row["karma_status"] == "listed"]
    assert news["rows"] == 3
    known = {row["customer_id"] for row in nights["first"].rows if row["karma_status"] == "listed"}
    fresh = [row for row in rows if row["customer_id"] not in known]
    assert news["exposure"] == f"{sum(row['exposure'] for row in fresh):.2f}"
    claimed = sum(row["karma_amount_in_contention"] for row in fresh)
    assert news["in_contention"] == f"{claimed:.2f}"
    text = read(pages["second"]).text
    at = text.index("New blacklist listings")
    assert text[at + 2] == "3 customers"


def test_no_identifier_and_no_request(pages: dict[str, str]) -> None:
    """Nothing of any row stands on a page, and nothing on it points outside."""
    rows = batch()
    values = {row.get(name, "") for row in rows for name in IDENTIFIERS}
    words = {word.casefold() for value in values if len(value) > 2 for word in [value]}
    for name, html in pages.items():
        plain = {
            word.casefold() for text in read(html).text for word in re.split(r"[\s,.;:]+", text)
        }
        assert not words & plain, name
        page = read(html)
        tags = {tag for tag, _ in page.elements}
        assert not tags & {"script", "link", "img", "iframe", "object", "image", "form"}
        for _, attributes in page.elements:
            for attribute, value in attributes.items():
                assert not attribute.startswith("on")
                assert "//" not in (value or ""), attribute


def test_a_screen_reader_finds_its_way(pages: dict[str, str]) -> None:
    """Headings in order, tables with captions and scopes; bars are silent beside their numbers."""
    for name, html in pages.items():
        page = read(html)
        levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
        assert len(page.all("caption")) == len(page.all("table"))
        assert all(each.get("scope") in {"row", "col"} for each in page.all("th"))
        ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
        assert len(ids) == len(set(ids)), name
        drawn = [each for each in page.all("div") if each.get("class") in {"track", "plot"}]
        assert all(each["aria-hidden"] == "true" for each in drawn)
        assert len(page.all("figcaption")) == len(page.all("figure"))


def test_the_same_report_gives_the_same_bytes(nights: dict[str, Night]) -> None:
    """Nothing of the moment, the machine or earlier drawings is in a page."""
    for night in (nights["first"], nights["resumed"]):
        report = json.loads((night.folder / "report.json").read_text("utf-8"))
        written = (night.folder / "report.html").read_text("utf-8")
        assert report_page(report) == written == report_page(report)


def test_held_and_released_nights_say_why(nights: dict[str, Night]) -> None:
    """Who looks at the page sees why it was held, and who let it go with which reason."""
    report = {**nights["first"].report, "publishable": False, "held": ["Karma: all alike"]}
    assert "publishable: no, held back." in report_page(report)
    assert "Held back: Karma: all alike." in report_page(report)
    released = {"at": "2026-11-20T01:30:00.000Z", "reason": "A <new> branch"}
    page = report_page({**report, "publishable": True, "released": released})
    assert "publishable: yes, released after it was held back." in page
    assert "Released on Fri 20 Nov 2026, 02:30: A &lt;new&gt; branch" in page


def test_drift_is_told_with_its_sign(nights: dict[str, Night]) -> None:
    """Money that is gone and money that came are told apart, with the moment in Lagos."""
    report = nights["first"].report
    since = {"drift_since": "2026-11-20T23:30:00.000Z"}
    gone = {**report, "balance": {**report["balance"], "drift": "45.00", **since}}
    page = report_page(gone)
    assert "fell by ₦45.00 more than the calls explain" in page
    assert "first seen on Sat 21 Nov 2026, 00:30" in page
    came = {**report, "balance": {**report["balance"], "drift": "-45.00", "drift_since": None}}
    assert "₦45.00 was added to the wallet during the run." in report_page(came)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_can_be_told_apart_from_their_ground(pages: dict[str, str]) -> None:
    """Text has a contrast of 4.5 at least, bars of 3 to page and track, by day and by night."""
    looks = [
        dict(re.findall(r"--(\w+): (#\w{6})", block))
        for block in re.findall(r":root \{(.*?)\}", pages["first"], flags=re.DOTALL)
    ]
    assert len(looks) == 2
    for look in looks:
        for text in ("ink", "soft", "good", "warn", "bad", "plain"):
            assert _contrast(look[text], look["paper"]) >= 4.5, text
            assert _contrast(look[text], look["card"]) >= 4.5, text
        for bar in ("good", "warn", "bad", "plain", "other"):
            assert _contrast(look[bar], look["paper"]) >= 3, bar
            assert _contrast(look[bar], look["quiet"]) >= 3, bar


def test_amounts_on_the_page_are_those_of_the_report(
    nights: dict[str, Night], pages: dict[str, str]
) -> None:
    """What was spent, by check and in all, stands there as people write it."""
    for name in ("first", "second", "stopped", "resumed"):
        report = nights[name].report
        amounts = [report["cost"]["total"], *(each["cost"] for each in report["checks"].values())]
        for amount in amounts:
            assert f"₦{float(amount):,.2f}" in pages[name]
    assert "₦4,999,999,999,999,999.95" in json.dumps(pages["huge"], ensure_ascii=False)


def test_test_mode_is_said_loudly(pages: dict[str, str]) -> None:
    """In the title, in a banner of its own look, and among the things to look at."""
    page = read(pages["test mode"])
    assert any("loud" in (each.get("class") or "") for each in page.all("div"))
    assert sum("Test mode" in text for text in page.text) >= 3
    assert not any("loud" in (each.get("class") or "") for each in read(pages["first"]).all("div"))
