"""The portal in a real browser, through the real consent screen: link, decision, way back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from nightscreen.journal import open_journal
from nightscreen.journal.consents import Consents
from nightscreen.operations.consent_links import ConsentLinks
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.schemas.consented import GrantState
from tests.browser.chromium import chromium
from tests.cli.command import serving, surroundings
from tests.services import free_port

pytestmark = pytest.mark.browser
SCOPES = ("transaction:list", "profile:view")
PHONE: ViewportSize = {"width": 360, "height": 740}


@contextmanager
def served(folder: Path, sandbox: SandboxProcess) -> Iterator[str]:
    """Run `nightscreen portal` as a user does, and stop it in good order; give its address."""
    origin = f"http://127.0.0.1:{free_port()}"
    env = surroundings(
        folder,
        NIGHTSCREEN_BASE_URL=sandbox.url,
        NIGHTSCREEN_API_KEY=sandbox.api_key,
        NIGHTSCREEN_CONSENT_URL=sandbox.url,
        NIGHTSCREEN_CLIENT_ID="sandbox-client",
        NIGHTSCREEN_REDIRECT_URI=f"{origin}/back/from-consent",
        NIGHTSCREEN_PORTAL_NAME="Palmwine Credit",
        NIGHTSCREEN_HOME=str(folder / "home"),
    )
    with serving("portal", cwd=folder, env=env) as says:
        assert says() == f"portal listening on {origin} for {origin}"
        yield origin


def heading(page: Page, text: str) -> None:
    """Expect a page by its heading; nothing of it sticks out on a telephone."""
    expect(page.get_by_role("heading", level=1)).to_have_text(text)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), text


def test_a_customer_allows_it_on_a_telephone(tmp_path: Path) -> None:
    """From link to grant; the address bar is clean, the back button harmless, nothing complains."""
    with open_journal(tmp_path / "home") as journal:
        token = ConsentLinks(journal).make("CUST-1", SCOPES).token
    with (
        SandboxProcess() as sandbox,
        served(tmp_path, sandbox) as origin,
        chromium() as browser,
    ):
        page = browser.new_context(viewport=PHONE).new_page()
        complaints: list[str] = []
        backs: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text))
        page.on("request", lambda sent: backs.append(sent.url) if "/back/" in sent.url else None)
        page.goto(f"{origin}/consent/{token}")
        heading(page, "Palmwine Credit asks for your bank data")
        page.get_by_role("button", name="Go on to sign in").click()
        page.wait_for_url("**/data-share?**")
        page.get_by_label("Signed in as").fill("ada@customers.example")
        page.get_by_role("button", name="Allow").click()
        page.wait_for_url(re.compile(r"/consent/told$"))
        heading(page, "Thank you, that is done")
        page.goto(backs[-1])
        heading(page, "This answer has reached us already")
        page.goto(f"{origin}/consent/{token}")
        heading(page, "This link has been used")
    meant = "Failed to load resource: the server responded with a status of"
    assert [each for each in complaints if not each.startswith(meant)] == []
    with open_journal(tmp_path / "home") as journal:
        (grant,) = Consents(journal).grants(GrantState.LIVE)
    assert (grant.customer_id, grant.scopes) == ("CUST-1", SCOPES)
