"""What every answer bears, and what is not let through."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from nightscreen.journal.schema import records
from nightscreen.portal.app import DEPARTURES_A_MINUTE
from nightscreen.schemas.errors import SettingsError
from tests.portal.visiting import PORTAL, Town, Visitor, settings_in


async def test_only_the_form_of_a_link_may_lead_away(town: Town, visitor: Visitor) -> None:
    """To the consent screen, which may itself send the customer on to sign in.

    Cookies are out of reach of scripts, other sites and other hosts; departures, each of which
    leaves a row in the journal, are slowed.
    """
    app = httpx.ASGITransport(town.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=app, base_url=PORTAL) as client:
        usual = (await client.get("/")).headers
    assert usual["content-security-policy"].startswith("default-src 'none'; img-src 'self'; ")
    assert "form-action 'self'; " in usual["content-security-policy"]
    assert usual["strict-transport-security"].startswith("max-age=")
    token = town.link().token
    page = await visitor.open(token)
    policy = page.headers["content-security-policy"]
    assert "form-action 'self' https://screen.service.example https:;" in policy
    assert len(page.headers.get_list("content-security-policy")) == 1
    cookie = page.headers["set-cookie"]
    assert cookie.startswith("__Host-nightscreen=")
    for part in ("HttpOnly", "Secure", "SameSite=lax", "Path=/"):
        assert part in cookie
    assert "domain" not in cookie.lower()
    for _ in range(DEPARTURES_A_MINUTE):
        assert (await visitor.press(token)).status_code == 303
    assert (await visitor.press(token)).status_code == 429


async def test_fault_is_a_page_in_kind_words_and_a_line_without_a_person(
    town: Town, visitor: Visitor, capsys: pytest.CaptureFixture[str]
) -> None:
    token = town.link().token

    async def fails(*_: object) -> None:
        raise ValueError(f"customer {token}")

    whole, town.app.inner = town.app.inner, fails  # type: ignore[attr-defined]
    page = await visitor.open(token)
    assert (page.status_code, "Something is wrong on our side" in page.text) == (500, True)
    town.app.inner = whole  # type: ignore[attr-defined]
    with town.journal.database.writing() as connection:
        records.drop(connection)
    page = await visitor.open(token)
    assert (page.status_code, "Something is wrong on our side" in page.text) == (500, True)
    assert "content-security-policy" in page.headers
    said = capsys.readouterr().err
    assert "fault=ValueError" in said
    assert "fault=" in said.partition("fault=ValueError")[2]
    assert token not in said + page.text


WRONG: list[tuple[dict[str, str], str]] = [
    ({"portal_url": "https://x.example/path"}, "PORTAL_URL: must end after the host"),
    ({"portal_url": "http://x.example"}, "PORTAL_URL: must begin with https"),
    ({"portal_name": ""}, "PORTAL_NAME"),
]


def test_wrong_settings_are_told_by_name(tmp_path: Path) -> None:
    for changes, told in WRONG:
        with pytest.raises(SettingsError, match=told):
            settings_in(tmp_path, **changes)
    with pytest.raises(SettingsError, match="NIGHTSCREEN_REDIRECT_URI"):
        Town(tmp_path, changes={"redirect_uri": ""})  # nobody would know what to print in a link
