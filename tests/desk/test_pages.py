"""The pages an analyst works on: runs, decisions, a customer; what each role sees of them."""

from __future__ import annotations

import io
import json
import re
import shutil
from datetime import datetime, timedelta
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import openpyxl
import pyarrow.parquet as pq
import pytest

from nightscreen.desk.pages import lagos, naira
from nightscreen.files.sealed_file import unsealed
from nightscreen.journal.audit import AuditQuery
from nightscreen.journal.records import Records
from nightscreen.journal.runs import RunRecord
from nightscreen.ops.vitals import write_vitals
from nightscreen.reading.open_file import open_source
from nightscreen.results import reviews
from nightscreen.results.enriched import find_row
from nightscreen.runs.screening import quote_batch
from nightscreen.schemas.clock import LAGOS, MICROS
from nightscreen.schemas.contests import CustomerAction, SentNotice
from tests.begun import begin_run
from tests.desk.conftest import borrowers
from tests.desk.office import Office
from tests.ops.signs import signs_in_a_test
from tests.screening import World, customer, days_ago

ROW = re.compile(r'<tr><th scope="row"><a href="/customers/([^"?]+)')


def of_before(bank: Office) -> str:
    """Have a run of before a check was installed, with a shadow policy whose file is gone."""
    run, folder = bank.night, shutil.copytree(bank.night.folder, bank.folder / "of-before")
    for part in folder.rglob("part-*.parquet"):
        table = pq.read_table(part)
        later = [name for name in table.column_names if name.startswith("selfie_")]
        assert later
        pq.write_table(table.drop_columns(later), part)
    choices = {"shadow": "gone.toml", "karma_stop_at_first": True, "merge_rows": True}
    given = {"folder": str(folder), "parameters": {**run.parameters, **choices}}
    begin_run(bank.journal, "of-before", batch=run.batch, **given)
    bank.journal.runs.finish(
        "of-before", state=run.state, stop_reason=None, report=run.report or {}
    )
    return "of-before"


def listed(page: str) -> list[str]:
    return ROW.findall(page)


def facet(page: str, name: str) -> dict[str, int]:
    """Return a facet's values and rows."""
    part = page.partition(f'id="f-{name}"')[2].partition("</ul>")[0]
    found = re.findall(r">([^<>]+) <span>([\d,]+)</span>", part)
    return {value: int(rows.replace(",", "")) for value, rows in found}


def test_runs_are_listed_newest_first_by_how_they_stand(office: Office) -> None:
    """To the first of them; list, page and Tonight tell a hung run and one that waits apart."""
    for number in range(103):
        begin_run(office.journal, f"run-{number:03d}", batch="portfolio")
    browser, found = office.browser("analyst"), list[str]()
    page = browser.get("/runs").text
    while older := re.search(r'href="(/runs\?page=\d+)">older', page):
        found += re.findall(r'href="/runs/(run-\d+)"', page)
        page = browser.get(older[1]).text
    found += re.findall(r'href="/runs/(run-\d+)"', page)
    assert found == [f"run-{number:03d}" for number in reversed(range(103))]
    assert "101 to 103 of 103" in page
    for silent_s, waits, state in ((0, None, "running"), (600, None, "hung")):
        at = office.clock() - silent_s * MICROS
        signs = signs_in_a_test(run_id="run-102", flow="screen_batch", at=at)
        write_vitals(office.settings.home, "run-102", {**signs, "waiting_for": waits})
        for path in ("/", "/runs", "/runs/run-102"):
            assert f'<span class="word {state}">{state}' in browser.get(path).text, path
    signs = signs_in_a_test(run_id="run-102", flow="screen_batch", at=office.clock())
    since = office.clock()
    resting = {"waiting_for": "the wallet to be topped up", "waiting_since": since}
    resting["next_try_at"] = since + 90 * 60 * MICROS
    write_vitals(office.settings.home, "run-102", {**signs, **resting})
    for path in ("/", "/runs"):
        page = browser.get(path).text
        assert '<span class="word waiting">waits for the wallet to be topped up' in page, path
    again = lagos(since + 90 * 60 * MICROS, "%H:%M")
    assert f"tries again by itself at {again}" in browser.get("/").text


def test_run_leads_with_decisions_in_naira_and_gives_its_own_files_alone(bank: Office) -> None:
    """Each decision is a link to its list; the report stands inside under its own policy."""
    run = bank.night.run_id
    browser = bank.browser("analyst")
    page = browser.get(f"/runs/{run}").text
    assert f"<h1>{run}</h1>" in page
    report = bank.night.report
    assert report is not None
    for word, number in report["decisions"].items():
        amount = naira(report["exposure"][f"decision_{word}"])
        assert re.search(rf'decision={word}">.*?<b>{number}</b><span>{re.escape(amount)}<', page)
    assert page.index('decision=approve"') < page.index('id="files"')
    for name in ("decisions.csv", "report.json", "enriched/part-00000.parquet"):
        assert f'<a href="/runs/{run}/files/{name}">{name}</a>' in page
    inside = browser.get(f"/runs/{run}/report")
    assert "sandbox" in inside.headers["content-security-policy"]
    assert "script-src" not in inside.headers["content-security-policy"]
    assert f'href="/runs/{run}/files/decisions.xlsx" target="_blank"' in inside.text
    assert browser.get(f"/runs/{run}/files/decisions.csv").text.startswith('"customer_id",')
    assert "file exported" in bank.actions()
    for name in ("../report.json", "..%2f..%2fhome%2fdata.key", "%2fetc%2fpasswd", "enriched"):
        assert browser.get(f"/runs/{run}/files/{name}").status_code == 404, name
    for path in ("/runs/none", "/runs/none/decisions", "/runs/none/report", "/customers/NOBODY"):
        answer = browser.get(path)
        assert (answer.status_code, 'role="alert"' in answer.text) == (404, True), path
    without = bank.browser("privacy")
    assert "<iframe" not in without.get(f"/runs/{run}").text
    assert without.get("/runs/none/report").status_code == 403, "the right is asked first"


def test_list_is_counted_narrowed_sorted_searched_and_paged(bank: Office) -> None:
    """A facet's number is what its choice leaves; odd filters are values and nothing else."""
    browser, at = bank.browser("analyst"), f"/runs/{bank.night.run_id}/decisions"
    page = browser.get(at).text
    decided, branches = facet(page, "decision"), facet(page, "branch")
    assert (sum(decided.values()), sum(facet(page, "officer").values())) == (60, 60)
    assert branches == {"Lagos": 20, "Kano": 20, "Ibadan": 20}
    kano = browser.get(f"{at}?branch=Kano").text
    assert (len(listed(kano)), facet(kano, "branch")) == (20, branches)
    both = browser.get(f"{at}?branch=Kano&branch=Lagos&decision=approve").text
    assert set(facet(both, "decision")) == set(decided)
    lagos = facet(browser.get(f"{at}?branch=Lagos").text, "decision")
    assert len(listed(both)) == lagos["Approve"] + facet(kano, "decision")["Approve"]
    assert (listed(page)[0], len(listed(page))) == ("C60", 40)
    second = listed(browser.get(f"{at}?page=1").text)
    assert (len(second), set(second) & set(listed(page))) == (20, set())
    by_id = listed(browser.get(f"{at}?sort=customer").text)
    assert by_id == sorted(by_id)
    found = listed(browser.get(f"{at}?search=c5&sort=customer").text)
    assert found == ["C5", *(f"C5{digit}" for digit in range(10))]
    for query in (
        "decision=' OR 1=1 --",
        "branch='); DROP TABLE run; --",
        "reason=x'] || (SELECT 1)",
        "sort=customer_id;DROP TABLE run",
        "search=%25",
        "page=-1",
    ):
        assert browser.get(f"{at}?{query}").status_code == 200
    assert sum(facet(browser.get(at).text, "decision").values()) == 60


def test_customer_shows_evidence_until_its_consent_ends(bank: Office) -> None:
    """A card a check, the BVN nowhere; a year after consent the history's card shows nothing."""
    page = bank.browser("analyst").get("/customers/C59").text
    assert "<h1>C59</h1>" in page
    assert "BVN ending 0059" in page
    assert "22000000059" not in page
    for name in ("Karma blacklist", "Bank account", "Credit history"):
        assert f'aria-label="{name}"' in page
    assert '<option value="">Choose' in page
    assert "no consent" not in card(page)
    bank.clock.forward(days=400)
    later = card(bank.browser("analyst", name="later").get("/customers/C59").text)
    assert "no consent" in later
    assert "ended on" in later
    assert "<dl>" not in later
    before = bank.browser("analyst", name="of before").get(f"/customers/C59?run={of_before(bank)}")
    assert (before.status_code, 'aria-label="Karma blacklist"' in before.text) == (200, True)
    assert 'aria-label="Selfie' not in before.text


def card(page: str) -> str:
    """Return the card of the credit history."""
    return page.partition('aria-label="Credit history"')[2].partition("</section>")[0]


def test_one_check_is_asked_again_under_its_price_and_cap(bank: Office) -> None:
    """The price comes first; then one customer is screened under it, with consent alone.

    One call is made though its answer is fresh; the rest of the batch is not told as gone. The
    run's other choices stand in nobody's way: one customer is neither compared nor merged.
    """
    browser, run = bank.browser("analyst", name="Ada"), of_before(bank)
    path = "/customers/C1/again"
    priced = browser.post(path, run=run, check="karma")
    assert priced.status_code == 200, priced.text
    price = re.search(r'name="price" value="([^"]+)"', priced.text)
    assert price
    assert ">Ask for ₦10</button>" in priced.text
    unconsented = browser.post("/customers/C2/again", run=run, check="ecosystem")
    assert (unconsented.status_code, "consent does not hold" in unconsented.text) == (400, True)
    contest = bank.settings.contest.model_copy(update={"ask_again_cap": Decimal(5)})
    bank.context.settings = bank.settings.model_copy(update={"contest": contest})
    capped = browser.post(path, run=run, check="karma")
    assert (capped.status_code, "more than asking again may cost" in capped.text) == (400, True)
    bank.context.settings = bank.settings
    assert bank.starts.started == []
    assert list((bank.folder / "home" / "desk").glob("*.sealed")) == []
    asked = browser.post(path, run=run, check="karma", price=price[1], do="ask")
    assert asked.status_code == 303, asked.text
    (started,) = bank.starts.started
    assert (started.max_spend, started.batch) == (price[1], "portfolio")
    assert "karma.clear=0" in started.freshness
    kept = (started.shadow, started.karma_stop_at_first, started.merge_rows)
    assert kept == ("", False, False)
    with unsealed(Path(started.input), bank.journal.sealer) as clear:
        assert open_source(clear).header.fed_back
    assert quote_batch(started, bank.settings)["calls"] == 1
    assert bank.context.audit.find(AuditQuery(customer_id="C1", action="asked again"))
    old = find_row(bank.night, "C1")
    assert old is not None
    again = World(bank.folder).screen(**started.model_dump(include=started.model_fields_set))
    (row,) = again.rows
    assert {name: row[name] for name in borrowers(1)[0]} == {
        name: old[name] for name in borrowers(1)[0]
    }
    attempts = {name: each["attempts"] for name, each in again.report["checks"].items()}
    assert {name for name, number in attempts.items() if number} == {"karma"}
    assert (attempts["karma"], again.report["changes"]["gone"]) == (1, 0)
    manifest = json.loads((again.folder / "manifest.json").read_text("utf-8"))
    assert manifest["input"]["name"] == Path(started.input).name


def test_review_is_saved_and_the_next_customer_follows(
    bank: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A review stands in the journal under the reviewer's name, as one that came back in a list.

    Without a decision, or changing one without reason and note, nothing is saved or lost; a run
    that said the same once is no way round the right to override.
    """
    browser, run = bank.browser("analyst", name="Ada"), bank.night.run_id
    first, second = listed(browser.get(f"/runs/{run}/decisions?decision=decline").text)[:2]
    work = listed(browser.get(f"/runs/{run}/decisions?decision=review&decision=decline").text)
    page = browser.get(f"/customers/{first}?run={run}").text
    assert f'action="/customers/{work[work.index(first) + 1]}"' in page
    for decision, reason, note in (
        ("", "", "my long note"),
        ("approve", "", ""),
        ("approve", "", "my long note"),
        ("review", "Other, see the note", ""),
    ):
        fields = {"decision": decision, "reason": reason, "note": note}
        answer = browser.post(f"/customers/{first}/review", run=run, **fields)
        assert answer.status_code == 400
        assert not reason or f"<option selected>{reason}<" in answer.text
        assert f">{note}</textarea>" in answer.text
    assert bank.reviews(first) == []
    rewritten: list[str] = []
    monkeypatch.setattr(reviews, "rewrite_reviewed", lambda _, runs, __: rewritten.extend(runs))
    given = {"decision": "approve", "reason": "Settled since, proof seen"}
    saved = browser.post(f"/customers/{first}/review", run=run, **given, note="letter of 3 March")
    assert saved.status_code == 303, saved.text
    (stored,) = bank.reviews(first)
    assert (stored.reviewer, stored.decision) == ("Ada", "approve")
    assert stored.note == "Settled since, proof seen. letter of 3 March"
    assert bank.context.audit.find(AuditQuery(customer_id=first, action="review saved"))
    assert rewritten == [run], "what the customer is told follows the review"
    bank.context.accounts.change("Ada", [], {"override": False})
    older = bank.journal.runs.newest(limit=2)[1].run_id

    def approved(run: RunRecord, customer_id: str) -> dict[str, Any]:
        return {**(find_row(run, customer_id) or {}), "decision": "approve"}

    monkeypatch.setattr("nightscreen.desk.customer.find_row", approved)
    answer = browser.post(f"/customers/{second}/review", run=older, **given, note="seen")
    assert answer.status_code == 403


def test_list_is_searched_by_name_account_and_branch_and_taken_out(bank: Office) -> None:
    """Words of a name in any order, the last four digits of an account, how a branch begins.

    CSV and workbook hold the rows shown, and say whose they are; the audit has both.
    """
    browser, run = bank.browser("analyst", name="Ada"), bank.night
    row, at = find_row(run, "C7"), f"/runs/{run.run_id}/decisions"
    assert row is not None

    def found(search: str) -> list[str]:
        return listed(browser.get(f"{at}?{urlencode({'search': search})}").text)

    assert "C7" in found(f"{row['last_name'].upper()}  {row['first_name'][:3]}")
    assert found(f"{row['first_name']} Nobody") == []
    assert "C7" in found(row["account_number"][-4:])
    for digits in (row["account_number"][-3:], row["account_number"], row["bvn"]):
        assert "C7" not in found(digits)
    assert set(listed(browser.get(f"{at}?branch=Kano").text)) <= set(found("kan"))
    assert "C7" not in found("ibad")
    seen = bank.context.audit.find(AuditQuery(action="decisions seen"))[0]
    assert seen["detail"]["filter"] == "all customers; a search"
    text = browser.get(f"{at}.csv?branch=Kano").text
    lines = text.lstrip("\ufeff").splitlines()
    assert lines[0].startswith("customer_id,decision,why")
    assert sum(line.startswith("C") for line in lines[1:]) == 20
    assert "# exported by: Ada" in text
    assert "# filter: branch: Kano" in text
    book = openpyxl.load_workbook(io.BytesIO(browser.get(f"{at}.xlsx?branch=Kano").content))
    assert book["Decisions"].max_row == 21
    about = {row[0].value: row[1].value for row in book["About"].iter_rows()}
    assert about["exported by"] == "Ada"
    assert bank.actions().count("list exported") == 2


def test_any_column_of_the_file_narrows_a_list_by_a_link_that_is_shared(bank: Office) -> None:
    """In a run's list and over all batches; nothing that tells persons apart is offered."""
    ada, at = bank.browser("analyst", name="Ada"), f"/runs/{bank.night.run_id}/decisions"
    page = ada.get(at).text
    offered = re.findall(r'<option value="in\.([^"]+)">', page)
    assert {"bank_code", "Loan Officer", "exposure"} <= set(offered)
    assert not {"bvn", "account_number", "first_name", "customer_id"} & set(offered)
    assert facet(page, "in.Loan%20Officer") == {}
    for address in (at, "/decisions"):
        shown = facet(ada.get(f"{address}?by=in.Loan+Officer").text, "in.Loan%20Officer")
        assert shown == facet(ada.get(address).text, "officer")
        one, rows = shown.popitem()
        query = urlencode({"in.Loan Officer": one, "sort": "customer"})
        narrowed = ada.get(f"{address}?{query}").text
        assert facet(narrowed, "in.Loan%20Officer") == {one: rows, **shown}
        mine = sorted(set(re.findall(r'<a href="/customers/([^"?]+)', narrowed)))
        assert len(mine) == rows
        (link,) = re.findall(r'id="this-list" href="([^"]+)"', narrowed)
        stranger = bank.browser().get(unescape(link))
        to = parse_qs(urlsplit(stranger.headers["location"]).query)["to"][0]
        bem = bank.browser("analyst", name=f"Bem {len(address)}")
        assert sorted(set(re.findall(r'<a href="/customers/([^"?]+)', bem.get(to).text))) == mine
    seen = bank.context.audit.find(AuditQuery(action="work seen"))[0]
    assert seen["detail"]["filter"] == "all customers; by Loan Officer"
    nobody = bank.browser("analyst", name="Nobody")
    bank.context.accounts.change("Nobody", [], branches=["Nowhere"])
    assert nobody.get(f"/decisions?{query}").status_code == 200
    many = urlencode([(f"in.{name}", "x") for name in sorted(offered)])
    assert ada.get(f"{at}?{many}").status_code == 200
    text = ada.get(f"{at}.csv?{query}").text
    assert sum(line.startswith("C") for line in text.splitlines()) == 15
    assert f"# filter: Loan Officer: {one}" in text


def test_a_customer_is_marked_as_told_of_the_notice_that_was_shown(bank: Office) -> None:
    """How and by whom stand on the page and in the audit; of another notice nothing is written."""
    browser, run = bank.browser("analyst", name="Ada"), bank.night.run_id
    first = listed(browser.get(f"/runs/{run}/decisions?decision=decline").text)[0]
    key, path = bank.journal.pseudonyms.customer("portfolio", first), f"/customers/{first}"
    calling_in = {"customer": key, "batch": "portfolio", "run_id": run, "customer_id": first}
    action = CustomerAction(
        key="a-1", at=bank.clock(), **calling_in, action="loan called in", by="Chief"
    )
    Records(bank.journal, CustomerAction).add([action])
    shown = browser.get(f"{path}?run={run}").text
    (digest,) = re.findall(r'name="digest" value="([^"]+)"', shown)
    fields = {"run": run, "how": "text message"}
    stale = browser.post(f"{path}/told", digest="0" * 16, **fields)
    unknown = browser.post(f"{path}/told", digest=digest, run=run, how="pigeon")
    assert (stale.status_code, unknown.status_code) == (409, 400)
    store = Records(bank.journal, SentNotice)
    assert store.of_customers([key]) == []
    told, again = (browser.post(f"{path}/told", digest=digest, **fields) for _ in range(2))
    assert (told.status_code, again.status_code) == (303, 409)
    page = browser.get(told.headers["location"]).text
    assert page.count("Ada told the customer by text message on ") == 1
    (record,) = store.of_customers([key])
    assert (record.told_how, record.told_by, record.run_id) == ("text message", "Ada", run)
    assert bank.context.audit.find(AuditQuery(customer_id=first, action="notice told"))


def test_consent_that_does_not_hold_is_said_why(tmp_path: Path) -> None:
    """Not begun, or not to be read, is neither none nor one that ended; nothing is asked again."""
    consented = {"consent_reference": "CNS-1", "consented_at": days_ago(60)}
    rows = [
        customer(1, consent_reference="CNS-1", consented_at=days_ago(-32)),
        customer(2, **consented, consent_withdrawn_at="yes"),
        customer(3, **consented, consent_expires_at="sometime"),
    ]
    World(tmp_path).screen(rows, batch="book")
    with Office(tmp_path) as office:
        browser = office.browser("analyst")
        begins = f"{datetime.now(LAGOS) + timedelta(days=32):%d %B %Y}"
        assert f"Consent CNS-1 begins on {begins}" in browser.get("/customers/C1").text
        for path in ("/customers/C2", "/customers/C3"):
            page = browser.get(path).text
            assert "cannot be read" in card(page)
            assert "No consent is on record" not in page
            assert browser.post(f"{path}/again", check="ecosystem").status_code == 400
        assert office.starts.started == []
