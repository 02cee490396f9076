"""The desk for everyone, in Chromium: names, contrast, keyboard, a phone's width, dark, paper."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.chromium import chromium
from tests.desk.furnished import CHIEF, furnished, opened, places

pytestmark = [pytest.mark.browser, pytest.mark.long]
CHECKS = Path(__file__).with_name("looks.js").read_text("utf-8")
AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
"""Used where somebody installed it beside: npm install --no-save axe-core."""
SERIOUS = "async () => (await axe.run(document, {resultTypes: ['violations']})).violations.filter(each => ['serious', 'critical'].includes(each.impact)).map(each => `${each.id}: ${each.nodes[0].html}`)"  # noqa: E501 - one expression
STUMBLES = """<h3 id="a">x</h3>
<button></button>
<input id="a">
<p style="color: #999">pale</p>
<table><tr><td><input style="width: 3em" value="22999000001"></td></tr></table>"""
"""A page with a finding in each line, so that the checks are known to find them."""
STOPS = """() => {
  const node = document.activeElement;
  if (node === document.body) return null;
  const style = getComputedStyle(node);
  return [node.tagName, node.getBoundingClientRect().top + scrollY, style.outlineStyle];
}"""


def test_desk_is_for_everyone(tmp_path: Path) -> None:
    """No page has a finding, wide and at 360 pixels, light and dark; keys and paper will do."""
    with furnished(tmp_path) as office, chromium() as browser:
        addresses = places(office)
        found: dict[str, list[str]] = {}
        for looks in ("light", "dark"):
            for width in (1360, 360):
                page = opened(office, browser, CHIEF, width=width, looks=looks)
                for name, address in addresses.items():
                    page.goto(office.origin + address)
                    findings: list[str] = page.evaluate(CHECKS)
                    assert isinstance(findings, list)
                    if AXE.exists():
                        page.evaluate(AXE.read_text("utf-8"))
                        findings += page.evaluate(SERIOUS)
                    if findings:
                        found[f"{name}, {width} wide, {looks}"] = findings
        assert found == {}
        page = opened(office, browser, CHIEF, width=1360)
        page.set_content(STUMBLES)
        assert len(page.evaluate(CHECKS)) >= len(STUMBLES.splitlines())
        _keys_alone(page, office.origin, office.waiting)
        page.goto(office.origin + addresses["customer"])
        page.emulate_media(media="print")
        assert not page.locator("header.top").is_visible()
        assert not page.get_by_role("button", name="Save review").is_visible()
        assert page.get_by_role("region", name="What was decided").is_visible()


def _keys_alone(page: Page, origin: str, run_id: str) -> None:
    """Go through Approvals by Tab: everything is reached from top to bottom, each stop is seen."""
    page.goto(f"{origin}/approvals")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    stops = []
    page.keyboard.press("Tab")
    while stop := page.evaluate(STOPS):
        stops.append(stop)
        page.keyboard.press("Tab")
        assert len(stops) < 50
    assert [name for name, _, _ in stops] == ["INPUT", "TEXTAREA", "BUTTON", "BUTTON"]
    assert [top for _, top, _ in stops] == sorted(top for _, top, _ in stops)
    assert {outline for _, _, outline in stops} == {"solid"}
    page.get_by_label("Most to spend").focus()
    page.keyboard.type("100")
    page.keyboard.press("Tab")
    page.keyboard.type("half")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{run_id}")
