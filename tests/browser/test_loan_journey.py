"""The way of an offer in a real browser: from its link through the form to a running loan."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from playwright.sync_api import expect

from nightscreen.sandbox.process import SandboxProcess
from tests.browser.chromium import chromium
from tests.steps.offers_in_a_test import Lender, borrower

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
T = TypeVar("T")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def sandbox() -> Iterator[SandboxProcess]:
    """The service, and the form behind its links."""
    with SandboxProcess(api_key="sandbox-key") as sandbox:
        yield sandbox


def apart(work: Callable[[], T]) -> T:
    """Do something in a thread of its own: the browser's loop runs in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


def picture(page: Page, name: str) -> None:
    """Keep a picture where somebody wants to look at it; nothing may stick out."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    folder = os.environ.get("LOAN_PICTURES", "")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def heading(page: Page, text: str) -> None:
    """Expect a page by its heading."""
    expect(page.get_by_role("heading", level=1)).to_have_text(text)


def test_from_the_link_to_a_running_loan(
    browser: Browser, sandbox: SandboxProcess, tmp_path: Path
) -> None:
    """The contact is there already; what the customer asks for is what the lender sees running."""
    lender = Lender(tmp_path, url=sandbox.url)
    row = apart(lambda: lender.offer(lender.screen([borrower(1)]))).offers["C1"]
    assert row["url"].startswith(sandbox.url)
    with browser.new_context(viewport={"width": 390, "height": 844}) as context:
        page = context.new_page()
        page.goto(row["url"])
        heading(page, "Apply: Salary advance")
        expect(page.get_by_text("For c1@mail.example.com")).to_be_visible()
        page.get_by_label("Amount").fill("50000")
        page.locator("select").select_option(index=1)
        page.get_by_role("checkbox").check()
        picture(page, "form")
        page.locator("form button").last.click()
        heading(page, "We have your application")
        picture(page, "applied")
        assert apart(lender.track).loans[row["reference"]]["status"] == "PENDING"
        sandbox.post("/_sandbox/world", {"day": 1})
        found = apart(lender.track)
        page.goto(row["url"])
        heading(page, "Your loan is running")
        picture(page, "running")
    loan = found.loans[row["reference"]]
    assert (loan["status"], str(loan["amount_disbursed"])) == ("RUNNING", "50000.00")
    moved = [each for each in found.changes if each["field"] == "status"]
    assert [(each["old"], each["new"]) for each in moved] == [("PENDING", "RUNNING")]
