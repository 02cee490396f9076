"""Comments and attachments on a case: who may, which files, how given back, when they go."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any

import httpx
import pytest

from nightscreen.desk.customer import LARGEST_ATTACHMENT
from nightscreen.journal.audit import AuditQuery
from nightscreen.journal.erasure import Erasures
from nightscreen.journal.records import Records
from nightscreen.journal.schema import ErasedPseudonyms
from nightscreen.privacy.explaining import explain
from nightscreen.privacy.lookup_subject import lookup_subject
from nightscreen.privacy.subject_access import access_page, gather
from nightscreen.schemas.cases import CaseAttachment, CaseComment
from nightscreen.schemas.errors import JournalBusyError
from tests.desk.office import Browser, Office

NAMED = "clearance <b>.pdf"
LETTER = b"%PDF-1.7\nThe loan was settled in May.\n%%EOF"
AT = "/customers/C3"
KEPT = re.compile(rf'href="({AT}/attachments/[^"]+)">([^<]+)<')


def comment(
    browser: Browser, text: str, file: tuple[str, bytes] | None = None, at: str = AT
) -> httpx.Response:
    files: dict[str, Any] = {"attached": file or ("", b"")}
    return browser.ask("POST", f"{at}/comment", data={"comment": text}, files=files)


def kept(bank: Office) -> tuple[int, int]:
    """Return how many comments and attachments the journal has."""
    kinds = (CaseComment, CaseAttachment)
    comments, attachments = (len(Records(bank.journal, kind).all()) for kind in kinds)
    return comments, attachments


def test_attachment_is_kept_sealed_and_given_back_to_be_saved_alone(bank: Office) -> None:
    """Whatever its name says, it bears the ending of its bytes; no browser shows or guesses it.

    Subject access has the words and the file; an erasure takes both.
    """
    ada = bank.browser("analyst", name="Ada")
    assert comment(ada, "Called; she brings a letter.").status_code == 303
    comment(ada, "The letter.", ("../clearance <b>.html", LETTER))
    page = bank.browser("auditor", name="Bem").get(AT).text
    assert "<blockquote>Called; she brings a letter.</blockquote><p class" in page
    assert "Add comment" not in page
    ((address, name),) = KEPT.findall(page)
    assert unescape(name) == NAMED
    given = ada.get(address)
    assert given.content == LETTER
    assert given.headers["content-disposition"].startswith("attachment; ")
    assert given.headers["x-content-type-options"] == "nosniff"
    assert given.headers["content-type"] == "application/pdf"
    for file in (bank.folder / "home").rglob("*"):
        assert not file.is_file() or b"settled in May" not in file.read_bytes(), file
    seen = {"comment added", "attachment taken out"}
    assert seen <= {
        each["action"] for each in bank.context.audit.find(AuditQuery(customer_id="C3"))
    }
    comment(ada, "Another's", at="/customers/C4")
    journal = bank.journal
    (person,) = lookup_subject(journal, "C3")
    held = gather(journal, [person], bank.settings.retention)
    (_, said), (file,) = held["comments"], held["attachments"]
    assert (said["text"], said["by"], said["file_name"]) == ("The letter.", "Ada", NAMED)
    content = b64encode(LETTER).decode()
    assert file["content"] == content
    assert f"data:application/pdf;base64,{content}" in access_page(held)
    document = explain(journal, person)
    assert [each["text"] for each in document["comments"]][1:] == ["The letter."]
    Erasures(journal).erase(ErasedPseudonyms(customers=[person.pseudonym]))
    assert kept(bank) == (1, 0)


def test_comments_are_seen_by_branch_and_right(bank: Office) -> None:
    """Not by who sees other branches or no customers, and a key opens nobody else's file.

    A page with a picture's name, a file over 5 MB, a blank are refused; what was typed stays.
    """
    ada = bank.browser("analyst", name="Ada")
    large = LETTER.ljust(LARGEST_ATTACHMENT + 1)
    for file in (("a.png", b"<html><script>"), ("a.pdf", b" %PDF-"), ("a.pdf", large)):
        refused = comment(ada, "See this", file)
        assert refused.status_code == 400
        assert ">See this</textarea>" in refused.text
    assert comment(ada, "Big", ("a.pdf", large * 2)).status_code == 413
    assert comment(ada, " \n ", ("a.pdf", LETTER)).status_code == 400
    assert kept(bank) == (0, 0)
    comment(ada, "The letter.", ("letter.pdf", LETTER))
    ((address, _),) = KEPT.findall(ada.get(AT).text)
    assert ada.get(address.replace("/C3/", "/C4/")).status_code == 404
    assert ada.get(f"{AT}/attachments/none").status_code == 404
    elsewhere = bank.browser("analyst", name="Kano")
    bank.context.accounts.set("Kano", branches=("Kano",))
    for browser in (elsewhere, bank.browser("administrator")):
        assert browser.get(AT).status_code == 403
        assert browser.get(address).status_code == 403
        assert comment(browser, "Mine").status_code == 403
    assert kept(bank) == (1, 1)


def test_comment_waits_once_for_a_busy_journal(
    bank: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The customer's page, which records who looks, is not shown again: it would wait, too."""
    ada = bank.browser("analyst", name="Ada")
    ada.get(AT)
    waits: list[object] = []

    @contextmanager
    def locked(*given: object, **_: object) -> Iterator[None]:
        waits.append(given)
        raise JournalBusyError("locked by another process")
        yield

    for name in ("writing", "recording"):
        monkeypatch.setattr(bank.journal.database, name, locked)
    answer = comment(ada, "Called; she brings a letter.")
    assert answer.status_code == 503
    assert "The journal is busy, and nothing was saved." in answer.text
    assert len(waits) == 1
