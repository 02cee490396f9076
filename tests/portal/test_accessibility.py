"""Every page is one that a screen reader, a keyboard and tired eyes can use."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import pytest
from jinja2 import Environment, FileSystemLoader

from nightscreen.client.aggregator import Scope
from nightscreen.operations.bvn.links import LinkWord
from nightscreen.operations.consents.links import Refusal
from nightscreen.portal.pages import TEMPLATES, Pages, contact_link, style
from tests.portal.visiting import LIST

KINDS = re.findall(
    r'^  "(\w+)": \(', (TEMPLATES / "trouble.html.j2").read_text("utf-8"), re.MULTILINE
)
PAGES: dict[str, dict[str, Any]] = {
    "front": {},
    "start": {"scopes": [LIST], "mark": "m", "screen": "screen.example"},
    "done": {"granted": [LIST], "missing": []},
    "otp": {"contact": None, "attempts_left": 3, "digits": 6, "fault": "", "mark": "m"},
    "otp_done": {},
}
WRONG_OTP = {**PAGES["otp"], "fault": "wrong_otp", "attempts_left": 1}
TEXT = {"ink", "soft", "brand", "good", "bad"}
ENOUGH, ENOUGH_FOR_EDGES = 4.5, 3.0


@dataclass
class Outline(HTMLParser):
    """What a page is made of."""

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    title: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of an element."""
        self.tags.append((tag, dict(attrs)))
        self._in_title = tag == "title"

    def handle_endtag(self, tag: str) -> None:
        """Leave the title."""
        self._in_title = self._in_title and tag != "title"

    def handle_data(self, data: str) -> None:
        """Read the title."""
        self.title += data if self._in_title else ""

    def all(self, *names: str) -> list[dict[str, str | None]]:
        """Return the attributes of elements."""
        return [attributes for tag, attributes in self.tags if tag in names]


def outline(text: str) -> Outline:
    """Return what a page is made of."""
    found = Outline()
    found.feed(text)
    return found


@pytest.fixture
def pages() -> Pages:
    """Pages in a lender's name."""
    return Pages("Ade & Sons <Credit>", "0700 123 4567")


def every_page(pages: Pages) -> list[str]:
    """Return every page there is, troubles and faults included."""
    made = [pages.page(name, **told) for name, told in PAGES.items()]
    made.append(pages.page("otp", **WRONG_OTP))
    made += [pages.trouble(kind, 400, again) for kind in KINDS for again in ("", "/consent/x.y")]
    return [bytes(each.body).decode() for each in made]


def test_every_page_has_language_landmarks_and_one_heading(pages: Pages) -> None:
    """A title of its own, headings without a gap, no script, nothing from elsewhere."""
    texts = every_page(pages)
    assert len(texts) == len(PAGES) + 1 + 2 * len(KINDS)
    for text in texts:
        page = outline(text)
        assert page.all("html")[0]["lang"] == "en"
        assert [len(page.all(name)) for name in ("header", "main", "footer", "h1", "title")] == [
            1
        ] * 5
        assert page.title.strip().endswith("· Ade & Sons <Credit>")
        assert "<Credit>" not in text
        assert not page.all("script", "iframe", "img", "h3")
        assert all("style" not in attributes for _, attributes in page.tags)
        assert not [name for _, each in page.tags for name in each if name.startswith("on")]
        links = [each["href"] or "" for each in page.all("a", "link")]
        assert all(link.startswith(("/", "#", "tel:")) for link in links)
        assert all(each.get("aria-hidden") == "true" for each in page.all("svg"))
        viewport = next(each for each in page.all("meta") if each.get("name") == "viewport")
        assert "maximum-scale" not in (viewport["content"] or "")


def test_every_field_is_labelled_and_described(pages: Pages) -> None:
    """By elements that are there; the mistake is announced and linked to its field."""
    for text in every_page(pages):
        page = outline(text)
        ids = [each["id"] for _, each in page.tags if "id" in each]
        assert len(ids) == len(set(ids))
        labels = {each["for"] for each in page.all("label")}
        for entry in page.all("input"):
            if entry["type"] != "hidden":
                assert entry["id"] in labels
                assert set((entry["aria-describedby"] or "").split()) <= set(ids)
    wrong = bytes(pages.page("otp", **WRONG_OTP).body).decode()
    page = outline(wrong)
    assert page.title.startswith("Error: ")
    (summary,) = [each for each in page.all("div") if each.get("role") == "alert"]
    assert summary["aria-labelledby"] == "problems-title"
    assert "You can try once." in wrong


def colours(block: str) -> dict[str, str]:
    """Return the colours that a block of the style names."""
    return dict(re.findall(r"--([a-z]+):(#[0-9a-f]{3,6})", block))


def luminance(colour: str) -> float:
    """Return relative luminance (WCAG 2.2)."""
    digits = colour[1:] if len(colour) == 7 else "".join(each * 2 for each in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_colour_is_told_from_what_it_stands_on(scheme: str) -> None:
    """Text 4.5 to 1, edges of fields and the focus ring 3 to 1."""
    light, _, dark = style().partition("@media (prefers-color-scheme:dark)")
    used = colours(light) if scheme == "light" else colours(dark.partition("}}")[0])
    assert set(used) > TEXT
    pairs = [(text, ground) for text in ("ink", "soft", "brand") for ground in ("card", "page")]
    pairs += [("ink", "wash"), ("ink", "badwash"), ("bad", "badwash"), ("bad", "card")]
    pairs += [("good", "goodwash"), ("brand", "wash"), ("on", "brand"), ("good", "card")]
    for text, ground in pairs:
        assert contrast(used[text], used[ground]) >= ENOUGH, (text, ground)
    for edge, ground in (("edge", "card"), ("brand", "card"), ("brand", "page")):
        assert contrast(used[edge], used[ground]) >= ENOUGH_FOR_EDGES, (edge, ground)


def test_style_heeds_what_people_set() -> None:
    """Dark, still, narrow, forced colours; the focus is always seen."""
    text = style()
    for wish in ("prefers-color-scheme:dark", "prefers-reduced-motion", "forced-colors:active"):
        assert wish in text
    assert ":focus-visible{outline:3px" in text
    assert "outline:0" not in text
    assert "outline:none" not in text
    assert text.partition("prefers-reduced-motion")[0].count("transition") == 0


def test_every_scope_has_plain_words() -> None:
    """No customer is asked for a word with a colon."""
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True)
    module = environment.get_template("scopes.html.j2").module
    for scope in Scope:
        said = str(module.words(scope.value))  # type: ignore[attr-defined]
        assert said
        assert ":" not in said


def test_every_way_to_fail_has_a_page() -> None:
    """Whatever the steps can say is reported."""
    by_link = {f"link_{each}" for each in (Refusal.UNKNOWN, Refusal.USED, Refusal.EXPIRED)}
    by_state = {f"state_{each}" for each in Refusal if each not in ("tampered", "other_customer")}
    asking = {LinkWord.OPEN, LinkWord.WRONG_OTP, LinkWord.MALFORMED, LinkWord.CONFIRMED}
    by_otp = {f"otp_{each}" for each in LinkWord if each not in asking}
    assert by_link | by_state | by_otp < set(KINDS)


@pytest.mark.parametrize(
    ("contact", "link"),
    [
        ("help@lender.example", "mailto:help@lender.example"),
        ("0700 123 4567", "tel:07001234567"),
        ("+234 (0)700-1234567", "tel:+23407001234567"),
        ("our shop in Ikeja, weekdays", ""),
        ("javascript:alert(1)", ""),
    ],
)
def test_contact_leads_where_it_can(contact: str, link: str) -> None:
    """An email and a phone number can be pressed, a sentence cannot."""
    assert contact_link(contact) == link
