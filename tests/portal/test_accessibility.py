"""Every page is one that a screen reader, a keyboard and tired eyes can use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest
from jinja2 import Environment, FileSystemLoader

from nightscreen.client.wire import Scope
from nightscreen.journal import Journal
from nightscreen.operations.bvn import OtpLinkState
from nightscreen.operations.consent_links import Refusal
from nightscreen.portal.app import TEMPLATES, Portal, place_of
from tests.browser.chromium import chromium
from tests.portal.visiting import LIST, settings_in

KINDS = re.findall(
    r'^  "(\w+)": \(', (TEMPLATES / "trouble.html.j2").read_text("utf-8"), re.MULTILINE
)
OTP: dict[str, Any] = {"contact": None, "attempts_left": 3, "digits": 6, "fault": ""}
PAGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("front", {}),
    ("start", {"scopes": [LIST], "screen": "screen.example"}),
    ("done", {"granted": [LIST], "missing": []}),
    ("otp", OTP),
    ("otp", {**OTP, "fault": "wrong_otp", "attempts_left": 1}),
    ("otp_done", {}),
)
CHECKS = (Path(__file__).parents[1] / "desk" / "looks.js").read_text("utf-8")


def every_page() -> list[str]:
    """Return every page there is, troubles and faults included, in a lender's name."""
    settings = settings_in(
        Path("none"), portal_name="Ade & Sons <Credit>", portal_contact="0700 123 4567"
    )
    pages = Portal(cast("Journal", None), settings, place_of(settings))
    made = [pages.page(name, **told) for name, told in PAGES]
    made += [pages.error_page(kind, 400, again) for kind in KINDS for again in ("", "/consent/x.y")]
    return [bytes(each.body).decode() for each in made]


@pytest.mark.browser
def test_every_page_is_for_everyone() -> None:
    """Names, headings and contrast, light and dark, on a telephone; nothing from elsewhere."""
    with chromium() as browser:
        page = browser.new_context(viewport={"width": 360, "height": 740}).new_page()
        for text in every_page():
            page.set_content(text)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                assert page.evaluate(CHECKS) == [], text
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), text
            assert page.title().endswith("· Ade & Sons <Credit>")
            assert page.locator("script, iframe, img, [style]").count() == 0
            links = page.locator("a, link").evaluate_all(
                "all => all.map(e => e.getAttribute('href'))"
            )
            assert all(link.startswith(("/", "#", "tel:")) for link in links), links


def test_every_scope_and_every_way_to_fail_has_plain_words() -> None:
    """No customer is asked for a word with a colon; whatever the steps can say is reported."""
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True)
    module = environment.get_template("scopes.html.j2").module
    for scope in Scope:
        said = str(module.words(scope.value))  # type: ignore[attr-defined]
        assert said
        assert ":" not in said
    by_link = {f"link_{each}" for each in (Refusal.UNKNOWN, Refusal.USED, Refusal.EXPIRED)}
    by_state = {f"state_{each}" for each in Refusal if each not in ("tampered", "other_customer")}
    asking = {
        OtpLinkState.OPEN,
        OtpLinkState.WRONG_OTP,
        OtpLinkState.MALFORMED,
        OtpLinkState.CONFIRMED,
    }
    by_otp = {f"otp_{each}" for each in OtpLinkState if each not in asking}
    assert by_link | by_state | by_otp < set(KINDS)
