"""Real reports of small nights for tests of the page, and a reader of pages.

Nights run in this process against the sandbox; what is expected of a page stands in the tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from nightscreen.sandbox.people import karma_of
from nightscreen.sandbox.state import Opening, Sandbox
from nightscreen.schemas.clock import DAY_MICROS, system_clock
from tests.screening import CONSENT, World, customer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.screening import Night

LATER = 9  # days between the two nights: blacklist answers that say clear have grown old by then

IDENTIFIERS = ("bvn", "account_number", "phone", "email", "first_name", "last_name", "customer_id")


def listed_later(number: int) -> list[int]:
    """Return numbers of customers who are newly listed between the two nights."""
    people = (each for each in range(1, 20_000) if _turns(f"22{each:09d}"))
    return [next(people) for _ in range(number)]


def _turns(bvn: str) -> bool:
    return karma_of(bvn) is None and karma_of(bvn, day=LATER) is not None


def batch() -> list[dict[str, str]]:
    """Return thirty customers: some without consent, exposure or good BVN, three listed later."""
    rows = [customer(number, **CONSENT) for number in (*range(1, 28), *listed_later(3))]
    for row in rows[:4]:
        row.update(consent_reference="", consented_at="")
    rows[5]["exposure"] = ""
    rows[6]["bvn"] = "123"
    rows.append({"customer_id": "", "exposure": "5"})
    return rows


@dataclass
class Nights:
    """Two nights of one batch in a world whose clock can be moved."""

    world: World
    days: int = 0

    @classmethod
    def begin(cls, folder: Path) -> Nights:
        """Return nights in a folder of their own."""
        nights = cls(World(folder, settings={"monthly_spend_cap": "50000"}))
        nights.world.clock = lambda: system_clock() + nights.days * DAY_MICROS
        return nights

    def first(self) -> Night:
        """Screen the batch for the first time."""
        return self.world.screen(batch(), max_spend="20000")

    def second(self) -> Night:
        """Screen it again, days later."""
        self.days = self.world.sandbox.day = LATER
        return self.world.screen(batch(), max_spend="20000")


def odd_nights(folder: Path) -> Iterator[tuple[str, Night]]:
    """Yield nights that went otherwise than usual, by name."""
    few = [customer(number, **CONSENT) for number in range(1, 6)]

    def world(name: str, sandbox: Sandbox | None = None) -> World:
        place = folder / name
        place.mkdir()
        return World(place, sandbox or Sandbox(Opening()))

    yield "test mode", world("t", Sandbox(Opening(scenario="test-mode"))).screen(few)
    yield "all refused", world("r").screen([{"customer_id": "", "exposure": "5"}] * 3)
    yield "nothing answered", world("a", Sandbox(Opening(api_key="another"))).screen(few)
    phones = [{"customer_id": f"K{n}", "phone": f"0803000000{n}"} for n in range(3)]
    yield "nothing due", world("d").screen(phones, checks=["bank_account", "ecosystem"])
    bare = [{name: row[name] for name in ("customer_id", "bvn")} for row in few]
    yield "no exposure, one check", world("k").screen(bare, checks=["karma"])
    rich = [{**row, "exposure": "999999999999999.99"} for row in few]
    huge = world("h", Sandbox(Opening(balance="999999999999")))
    yield "huge", huge.screen(rich)
    again = world("s")
    stopped = again.screen(few, max_spend="60")
    yield "stopped", stopped
    yield "resumed", again.screen(run=stopped.report["run_id"], max_spend="5000")
    yield "all reused", again.screen(few)


@dataclass
class Page(HTMLParser):
    """What stands on a page: elements in order with their attributes, and its text."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Note text."""
        if data.strip():
            self.text.append(" ".join(data.split()))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of every element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]


def read(html: str) -> Page:
    """Read a page."""
    page = Page()
    page.feed(html)
    return page
