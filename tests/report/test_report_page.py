"""The page of a report and its summary: true to the numbers, for every reader and night."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import pytest

from nightscreen.report.format import naira
from nightscreen.report.page import report_page, summary_markdown, verdict
from tests.nights.standard import StandardNights
from tests.screening import Night

NIGHTS = ("plain", "capped", "killed", "loan-book", "test-mode")
IDENTIFIERS = ("bvn", "account_number", "phone", "email", "first_name", "last_name", "customer_id")


@dataclass
class Page(HTMLParser):
    """What stands on a page: elements in order with their attributes, and its text."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.text.append(" ".join(data.split()))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def read(html: str) -> Page:
    page = Page()
    page.feed(html)
    return page


@pytest.fixture(scope="module")
def nights(standard_nights: StandardNights) -> dict[str, Night]:
    return {name: standard_nights.get(name).night for name in NIGHTS}


@pytest.fixture(scope="module")
def pages(nights: dict[str, Night]) -> dict[str, str]:
    return {name: report_page(night.report) for name, night in nights.items()}


def test_the_verdict_says_rows_and_whether_to_publish(standard_nights: StandardNights) -> None:
    """Each kind of night has its own first line."""
    for name, word, publish in (
        ("capped", "Partial: ", "no"),
        ("test-mode", "Test mode: not one row was screened; ", "no"),
        ("plain", "Complete: ", "yes"),
        ("killed", "Complete: ", "yes"),
    ):
        page = report_page(standard_nights.get(name).night.report)
        assert re.search(rf"{word}[^<]*publishable: {publish}\.", page), name
        stopped = "It stopped early: the spending cap was reached."
        assert (stopped in page) is (name == "capped"), name
        loud = any("loud" in (each.get("class") or "") for each in read(page).all("div"))
        assert loud is (name == "test-mode"), name


def test_a_page_is_that_of_its_report(nights: dict[str, Night], pages: dict[str, str]) -> None:
    """What was spent stands there as people write it; nothing of the moment or the machine does."""
    for name in ("plain", "capped", "killed"):
        report = nights[name].report
        amounts = [report["cost"]["total"], *(each["cost"] for each in report["checks"].values())]
        assert not [each for each in amounts if f"₦{float(each):,.2f}" not in pages[name]], name
    for name in ("plain", "killed"):
        assert (nights[name].folder / "report.html").read_text("utf-8") == pages[name]
    assert {"Decline", "Review", "Approve"} <= set(read(pages["plain"]).text)
    assert "Decline means no further lending until cleared." in pages["plain"]


ODD: list[tuple[dict[str, Any], str]] = [
    (
        {"rows": {"read": 3, "screened": 0, "quarantined": 3}},
        "Nothing screened: no row could be screened, 3 of 3 are in quarantine",
    ),
    ({"coverage": {"due_rows": 0, "answered_rows": 0}}, "Nothing due: none of "),
    ({"coverage": {"due_rows": 5, "answered_rows": 4}}, "Complete, with gaps: 4 of 5 due rows"),
    (
        {"coverage": {"due_rows": 5, "answered_rows": 0}, "state": "stopped"},
        "Nothing answered: 0 of 5 due rows answered",
    ),
    ({"held": ["Karma: all alike"], "publishable": False}, "publishable: no, held back."),
    ({"released": {"reason": "x"}}, "publishable: yes, released after it was held back."),
]


def test_nights_that_went_otherwise_have_their_own_words(nights: dict[str, Night]) -> None:
    """Nobody screened, nothing due, gaps, nothing answered, held back and released."""
    report = nights["plain"].report
    for change, said in ODD:
        coverage = {**report["coverage"], **change.get("coverage", {})}
        assert said in verdict({**report, **change, "coverage": coverage}).line, said


def words(text: str) -> str:
    """Return the words of a text between spaces, free of whatever markup they stand in."""
    return " ".join(["", *re.findall(r"[^\W_]+", text.casefold()), ""])


def test_no_identifier_and_no_request(nights: dict[str, Night], pages: dict[str, str]) -> None:
    """No value of a row stands on a page or in the engine's summary; nothing points outside."""
    for name, html in pages.items():
        values = {str(row.get(column) or "") for row in nights[name].rows for column in IDENTIFIERS}
        page = read(html)
        shown = words(" ".join([*page.text, summary_markdown(nights[name].report, "out")]))
        sought = {words(value) for value in values if len(value) > 2}
        assert sought, name
        assert not [value for value in sought if value in shown], name
        tags = {tag for tag, _ in page.elements}
        assert not tags & {"script", "link", "img", "iframe", "object", "image", "form"}
        for _, attributes in page.elements:
            for attribute, value in attributes.items():
                assert not attribute.startswith("on")
                assert "//" not in (value or ""), attribute


def test_a_screen_reader_finds_its_way(pages: dict[str, str]) -> None:
    """Headings in order, tables with captions and scopes; bars are silent beside their numbers.

    No section has a heading alone.
    """
    for name, html in pages.items():
        page = read(html)
        assert not re.search(r"</h2>\s*</section>", html), name
        levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
        assert (levels[0], levels.count(1)) == (1, 1)
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
        assert len(page.all("caption")) == len(page.all("table"))
        assert all(each.get("scope") in {"row", "col"} for each in page.all("th"))
        ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
        assert len(ids) == len(set(ids)), name
        drawn = [each for each in page.all("div") if each.get("class") in {"track", "plot"}]
        assert all(each["aria-hidden"] == "true" for each in drawn)
        assert len(page.all("figcaption")) == len(page.all("figure"))


@pytest.fixture(scope="module")
def night(standard_nights: StandardNights) -> Night:
    return standard_nights.get("dirty").night


def test_the_summary_says_how_it_ended_what_it_cost_and_where_it_lies(night: Night) -> None:
    report = night.report
    said = summary_markdown(report, "/srv/out/run")
    assert said.startswith("# ! Complete")
    assert "Nobody has approved the policy default@" in said
    approval = {"policy_approval": {"approved_by": "Bem"}}
    signed = {**report, "provenance": {**report["provenance"], **approval}}
    assert summary_markdown(signed, "out").startswith("# ✓ Complete")
    assert naira(report["cost"]["total"]) in said
    assert naira(report["cost"]["quoted"]["expected"]) in said
    assert naira(report["balance"]["closing"]) in said
    assert naira(report["exposure"]["not_screened"]["exposure"]) in said
    assert "`/srv/out/run`" in said
    assert "`decisions.xlsx`" in said
    assert "quarantine.csv (" in said


def test_a_batch_name_cannot_become_markup(night: Night) -> None:
    said = summary_markdown({**night.report, "batch": "<b>[x](y)*"}, "out")
    assert r"\<b\>\[x\]\(y\)\*" in said
