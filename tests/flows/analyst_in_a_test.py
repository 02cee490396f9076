"""An analyst at the Prefect UI: opens pages, fills in forms, presses buttons, reads what is there.

What is expected stands in the tests. Screenshots go into a folder, for whoever wants to look.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from playwright.sync_api import TimeoutError  # noqa: A004 - the browser's own

from tests.flows.engine_in_a_test import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Locator, Page

PATIENCE_MS = 240_000
GLANCE_MS = 8_000
_HEIGHTS = "Math.max(...[...document.querySelectorAll('*')].map(each => each.scrollHeight))"


@dataclass
class Analyst:
    """Sits before a page.

    Attributes:
        ui: address of the Prefect UI.
        album: where screenshots go.
    """

    page: Page
    ui: str
    album: Path
    _pictures: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.set_viewport_size({"width": 1300, "height": 1000})

    def sign_in(self, login: str) -> None:
        """Enter the login that the pages ask for."""
        self.page.goto(f"{self.ui}/deployments")
        field = self.page.locator("input[type=password]")
        field.fill(login)
        field.press("Enter")
        field.wait_for(state="hidden")

    def picture(self, name: str) -> None:
        """Take a picture of all there is on the page."""
        self._pictures += 1
        height = int(self.page.evaluate(_HEIGHTS))
        self.page.set_viewport_size({"width": 1300, "height": min(max(1000, height + 60), 4000)})
        self.page.wait_for_timeout(300)
        self.page.screenshot(path=self.album / f"{self._pictures:02}-{name}.png")
        self.page.set_viewport_size({"width": 1300, "height": 1000})

    def open_form(self, deployment: str) -> None:
        """Go to a deployment, and from there to the form of a run."""
        self.page.goto(f"{self.ui}/deployments")
        self.page.get_by_role("link", name=deployment, exact=True).first.click()
        self.page.get_by_role("button", name="Run", exact=True).click()
        self.page.get_by_text("Custom run").click()
        self.page.get_by_role("button", name="Submit").wait_for()
        self.page.get_by_text("Validate parameters").wait_for()

    def field(self, title: str) -> Locator:
        """Return the input of a field of the form, found by its words."""
        label = self.page.locator(".schema-form-property", has=self._words(title))
        return label.last.locator("textarea, input").first

    def _words(self, title: str) -> Locator:
        return self.page.get_by_text(re.compile(f"^{re.escape(title)}( \\(Optional\\))?$"))

    def switch(self, title: str) -> None:
        """Turn a switch of the form."""
        label = self.page.locator(".schema-form-property", has=self._words(title))
        label.last.get_by_role("switch").click()

    def titles(self) -> list[str]:
        """Return the words of the form's fields, from top to bottom."""
        shown = self.page.locator(".schema-form-property__label").all_inner_texts()
        return [each.removesuffix(" (Optional)") for each in shown]

    def submit(self) -> str:
        """Press the form's button; return what the server says where it takes it amiss."""
        with self.page.expect_response("**/create_flow_run") as answer:
            self.page.get_by_role("button", name="Submit").last.click()
        return "" if answer.value.ok else answer.value.text()

    def open_run(self, name: str, state: str) -> None:
        """Find a run in the list of runs by name, open it, and wait for its state."""
        link = self.page.get_by_role("link", name=name, exact=True).first
        self.page.goto(f"{self.ui}/runs")

        def opened() -> None:
            link.click(timeout=GLANCE_MS)
            self.page.wait_for_url("**/runs/flow-run/**", timeout=GLANCE_MS)

        self._reload_until(opened, f"the run {name} in the list")
        self.wait_for_state(state)

    def wait_for_state(self, state: str) -> None:
        """Wait until the page of a run shows a state."""
        badge = self.page.locator(".p-tag, .state-badge").get_by_text(state, exact=True).first
        self._reload_until(lambda: badge.wait_for(timeout=GLANCE_MS), f"the state {state}")

    def _reload_until(self, succeed: Callable[[], None], what: str) -> None:
        """Try something on the page, and load it afresh while it does not come about in time."""

        def succeeded() -> bool:
            try:
                succeed()
            except TimeoutError:
                self.page.reload()
                return False
            return True

        until(succeeded, f"{what} at {self.page.url}", PATIENCE_MS / 1000)

    def open_artifact(self, key: str) -> str:
        """Open an artifact of the run on the page; return what it says."""
        self.page.get_by_text("Artifacts", exact=True).first.click()
        self.page.locator(".artifact-card, .p-card", has_text=key).get_by_text(
            key, exact=True
        ).last.click()
        self.page.get_by_text("Show raw data").wait_for()
        self.picture(key)
        return self.page.locator("main, .artifact").first.inner_text()
