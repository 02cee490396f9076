"""The report in a real browser: quiet, whole on a phone, readable by night and on paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from nightscreen.report.format import CAUSES, STATUSES
from nightscreen.report.page import report_page
from tests.browser.chromium import chromium
from tests.nights.standard import StandardNights

pytestmark = pytest.mark.browser

NIGHTS = ("plain", "capped", "loan-book", "test-mode")

LOOKS: dict[str, dict[str, Any]] = {
    "phone": {"viewport": {"width": 360, "height": 740}},
    "tablet": {"viewport": {"width": 768, "height": 1024}},
    "dark": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"},
}
CHECKS = (Path(__file__).parents[1] / "desk" / "looks.js").read_text("utf-8")
_LUMINANCE = """
element => {
  const numbers = getComputedStyle(element).%s.match(/[\\d.]+/g).slice(0, 3).map(Number);
  return numbers.reduce((sum, each) => sum + each, 0) / 765;
}
"""


@pytest.fixture(scope="module")
def reports(
    standard_nights: StandardNights, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Return the pages of standard nights, and one with long words and large amounts."""
    documents = {name: standard_nights.get(name).night.report for name in NIGHTS}
    documents["long words"] = long_words(documents["plain"])
    pages = tmp_path_factory.mktemp("pages")
    for name, report in documents.items():
        (pages / f"{name}.html").write_text(report_page(report), encoding="utf-8")
    return {name: pages / f"{name}.html" for name in documents}


def long_words(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report with every cause, refusal and status there is, and with large amounts."""
    weight = {"rows": 63_000, "exposure": "98765432109876.50", "unknown_rows": 41_000}
    causes = {**weight, "causes": dict.fromkeys(CAUSES, weight)}
    large = {"cost": "4567890.00", "saved_by_reuse": "3456789.00", "troubles": {"cut": 12_345}}
    answers = dict.fromkeys((*STATUSES, "mismatch", "verified"), 63_000)
    checks = {
        name: {**part, **large, "answers": answers} for name, part in report["checks"].items()
    }
    cost = {**report["cost"], "total": "13703670.00", "cap": "98765432.10"}
    codes = dict.fromkeys(("customer_id_is_account", "customer_id_repeated", "broken"), 63_000)
    return {
        **report,
        "checks": checks,
        "cost": {**cost, "quoted": {"low": "0.00", "expected": "9e6", "high": "14703670.00"}},
        "exposure": {**report["exposure"], "total": "987654321098765.00", "not_screened": causes},
        "findings": {"quarantined": codes, "values": []},
        "notices": [
            "the balance is low: at this month's spending it lasts 2 more nights; top it up"
        ],
    }


@pytest.fixture(scope="module")
def browser(reports: dict[str, Path]) -> Iterator[Browser]:
    """Give a browser that the tests share, once the nights are over: it has a loop of its own."""
    with chromium() as found:
        yield found


def opened(browser: Browser, path: Path, look: str) -> tuple[Page, list[str]]:
    page = browser.new_context(**LOOKS[look]).new_page()
    noise: list[str] = []
    page.on("request", lambda request: noise.append(request.url))
    page.on("console", lambda message: noise.append(message.text))
    page.on("pageerror", lambda error: noise.append(str(error)))
    page.goto(path.as_uri())
    return page, [each for each in noise if each != path.as_uri()]


@pytest.mark.parametrize("look", LOOKS)
def test_every_report_is_quiet_and_for_everyone(
    browser: Browser, reports: dict[str, Path], look: str
) -> None:
    """No request, no complaint, no scrolling sideways; names, order and contrast are right."""
    for name, path in reports.items():
        page, noise = opened(browser, path, look)
        assert noise == [], name
        assert page.evaluate(CHECKS) == [], name
        out = page.evaluate(
            "[...document.querySelectorAll('main *:not(svg *)')]"
            ".filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"
        )
        assert out == 0, name
        page.context.close()


def test_no_text_of_a_table_leaves_it(browser: Browser, reports: dict[str, Path]) -> None:
    """Labels and numbers stay within their table, and do not run into each other."""
    for name, path in reports.items():
        page, _ = opened(browser, path, "phone")
        assert page.locator("tbody th span").count() >= 2, name
        crossing = page.evaluate(
            """
            [...document.querySelectorAll('table')].flatMap(table => {
              const frame = table.getBoundingClientRect();
              const texts = [...table.querySelectorAll('tbody th span, td')].map(cell => {
                const range = document.createRange();
                range.selectNodeContents(cell);
                return range.getBoundingClientRect();
              }).filter(text => text.width);
              const out = texts.filter(t => t.left < frame.left - 2 || t.right > frame.right + 2);
              const over = texts.filter((a, i) => texts.some((b, j) => i < j
                && a.left < b.right - 1 && b.left < a.right - 1
                && a.top < b.bottom - 3 && b.top < a.bottom - 3));
              return [...out, ...over].map(() => table.caption.innerText);
            })
            """
        )
        assert crossing == [], name
        page.context.close()


def test_the_page_is_dark_by_night_and_light_on_paper(
    browser: Browser, reports: dict[str, Path]
) -> None:
    """Ground and text change places in the dark; paper stays light for who reads in the dark."""
    ground, ink = (_LUMINANCE % name for name in ("backgroundColor", "color"))
    page, _ = opened(browser, reports["plain"], "dark")
    body = page.locator("body")
    assert body.evaluate(ground) < 0.2
    assert body.evaluate(ink) > 0.8
    bar = page.locator(".track").first
    assert bar.evaluate(_LUMINANCE % "backgroundColor") < 0.4
    page.emulate_media(media="print", color_scheme="dark")
    assert body.evaluate(ink) < 0.2
    assert body.evaluate(ground) > 0.8
    assert bar.evaluate(_LUMINANCE % "backgroundColor") > 0.8
    assert page.locator("nav").is_hidden()
    assert len(page.pdf(prefer_css_page_size=True)) > 10_000
    page.context.close()
