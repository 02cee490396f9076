"""The portal in a real browser, through the real consent screen: link, decision, way back."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.sync_api import ViewportSize, expect

from nightscreen.config.settings import read_settings
from nightscreen.journal import open_journal
from nightscreen.operations.bvn.links import link_for
from nightscreen.operations.bvn.states import requests_of
from nightscreen.sandbox.process import SandboxProcess
from tests.browser.chromium import chromium
from tests.portal.browsing import Served, served
from tests.steps.bvn_in_a_test import BvnWorld, asked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, Page

    from nightscreen.config.settings import Settings

pytestmark = pytest.mark.browser
CUSTOMER = "CUST-7700155-OBI"
GO_ON = "Go on to sign in"
DONE = "Thank you, that is done"
PHONE: ViewportSize = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    """The service and its consent screen."""
    with SandboxProcess() as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def portal(sandbox: SandboxProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A portal that listens."""
    with served(tmp_path_factory.mktemp("portal"), sandbox) as portal:
        yield portal


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One customer's browser, without history."""
    with browser.new_context(viewport=PHONE) as context:
        yield context


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page of which every complaint of the browser fails the test."""
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text))
    yield page
    meant = "Failed to load resource: the server responded with a status of"
    assert [each for each in complaints if not each.startswith(meant)] == []


def heading(page: Page, text: str) -> None:
    """Expect a page by its heading; nothing of it sticks out on a telephone."""
    expect(page.get_by_role("heading", level=1)).to_have_text(text)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), text


def to_screen(page: Page, link: str) -> None:
    """Open a link and go on to the consent screen."""
    page.goto(link)
    page.get_by_role("button", name=GO_ON).click()
    page.wait_for_url("**/data-share?**")


def decide(page: Page, decision: str, customer: str = "ada@customers.example") -> str:
    """Decide on the consent screen; return the address the browser was sent back to."""
    backs: list[str] = []
    page.on("request", lambda sent: backs.append(sent.url) if "/back/" in sent.url else None)
    page.get_by_label("Signed in as").fill(customer)
    page.get_by_role("button", name=decision).click()
    page.wait_for_url(re.compile(r"/consent/told$|/back/"))
    return backs[-1]


def test_allow(portal: Served, page: Page) -> None:
    """From link to grant; the address bar is clean, and the back button harmless."""
    link = portal.link(CUSTOMER, "transaction:list", "profile:view")
    page.goto(link)
    heading(page, "Palmwine Credit asks for your bank data")
    to_screen(page, link)
    back = decide(page, "Allow")
    heading(page, DONE)
    assert page.url == f"{portal.origin}/consent/told"
    page.goto(back)
    heading(page, "This answer has reached us already")
    page.goto(link)
    heading(page, "This link has been used")
    assert portal.granted(CUSTOMER) == [("transaction:list", "profile:view")]


def asked_for_bvn(portal: Served, sandbox: SandboxProcess) -> tuple[str, str]:
    """Have a customer sent a password; return their link and the password."""
    env = portal.env
    settings = {
        "base_url": sandbox.url,
        "consent_url": env["NIGHTSCREEN_CONSENT_URL"],
        "redirect_uri": env["NIGHTSCREEN_REDIRECT_URI"],
    }
    row = asked(7)

    class Town(BvnWorld):
        """A world whose service is the sandbox that listens."""

        def read_settings(self) -> Settings:
            """Return its settings."""
            return read_settings(api_key=sandbox.api_key, home=self.folder / "home", **settings)

        def transport(self) -> httpx.AsyncBaseTransport:
            """Return what carries the calls over a socket."""
            return httpx.AsyncHTTPTransport()

    town = Town(portal.folder)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(town.request, [row]).result()
    with open_journal(portal.folder / "home") as journal:
        (request,) = requests_of(journal).all(batch="customers")
        link = link_for(journal, town.read_settings(), request)
    (otp,) = (each["otp"] for each in sandbox.get(f"/_sandbox/otps?bvn={row['bvn']}")["otps"])
    return link, str(otp)


def test_one_time_password(portal: Served, page: Page, sandbox: SandboxProcess) -> None:
    """A mistake is told beside the field and linked to it; the right code confirms."""
    link, otp = asked_for_bvn(portal, sandbox)
    assert link.startswith(f"{portal.origin}/otp/")
    page.goto(link)
    heading(page, "Enter the code you were sent")
    field = page.get_by_label("Code from the message")
    field.fill("12")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The code has 6 digits")
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-describedby", "otp-hint otp-error")
    expect(field).to_have_value("")
    page.get_by_role("alert").get_by_role("link").click()
    expect(field).to_be_focused()
    field.fill(otp)
    page.get_by_role("button", name="Confirm").click()
    heading(page, "Thank you, your BVN is confirmed")
    assert otp not in page.url
