"""The pages an analyst works on: runs, decisions, a customer; what each role sees of them."""

from __future__ import annotations

import io
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openpyxl
import pytest

from nightscreen.desk import tonight
from nightscreen.files.heartbeat import write_vitals
from nightscreen.files.sealed_file import unsealed
from nightscreen.journal.records import Records
from nightscreen.privacy.contests import list_contests
from nightscreen.reading.open_file import open_source
from nightscreen.results import settle_case
from nightscreen.results.one_row import find_row
from nightscreen.runs.screening import quote_batch
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.contests import CustomerAction, ToldNotice
from tests.desk.conftest import borrowers
from tests.desk.office import Office
from tests.ops.signs import signs_in_a_test
from tests.screening import World

if TYPE_CHECKING:
    from nightscreen.journal.runs import RunRecord

ROW = re.compile(r'<tr><th scope="row"><a href="/customers/([^"?]+)')


def newest(bank: Office) -> str:
    """Return the id of the last run."""
    return bank.journal.runs.newest(limit=1)[0].run_id


def act_against(bank: Office, customer_id: str) -> None:
    """Record that a loan was called in, which its borrower must be told of."""
    journal = bank.journal
    key = journal.pseudonyms.customer("portfolio", customer_id)
    action = CustomerAction(
        key="a-1",
        customer=key,
        batch="portfolio",
        run_id=newest(bank),
        at=journal.clock(),
        customer_id=customer_id,
        action="loan called in",
        by="Chief",
    )
    Records.of(journal, CustomerAction).add([action])


def listed(page: str) -> list[str]:
    """Return the customers of a list."""
    return ROW.findall(page)


def facet(page: str, name: str) -> dict[str, int]:
    """Return a facet's values and rows."""
    part = page.partition(f'id="f-{name}"')[2].partition("</ul>")[0]
    found = re.findall(r">([^<>]+) <span>([\d,]+)</span>", part)
    return {value: int(rows.replace(",", "")) for value, rows in found}


def test_tonight_says_how_the_night_went_and_what_waits(bank: Office) -> None:
    """Rows to review, naira and nights stand on the front page, with links to them."""
    page = bank.browser("analyst").get("/").text
    assert "<h1>Tonight</h1>" in page
    assert "60 checked" in page
    assert f"/runs/{newest(bank)}/decisions?decision=decline" in page
    assert "Wallet lasts" in page
    assert "Spend" in page


def test_tonight_names_no_exposure_where_none_is_known(
    bank: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch without exposures has customers to review, and not 0 naira at risk."""
    browser = bank.browser("analyst")
    assert re.search(r"₦[^<]+ exposure, screened", browser.get("/").text)
    to_work_on = tonight._to_work_on
    monkeypatch.setattr(
        tonight,
        "_to_work_on",
        lambda visit, run: {**to_work_on(visit, run), "exposure": Decimal(0)},
    )
    page = browser.get("/").text
    assert "<span>screened" in page
    assert "₦0 exposure, screened" not in page


def test_page_names_its_entry_in_the_navigation(bank: Office) -> None:
    """The heading and the entry are one word, and the entry says that it is the present page."""
    browser = bank.browser("approver", "auditor", "administrator")
    for path, word in (("/", "Tonight"), ("/runs", "Runs"), ("/decisions", "Decisions")):
        page = browser.get(path).text
        assert f"<h1>{word}</h1>" in page
        assert f'<a href="{path}" aria-current="page">{word}' in page


def test_list_of_runs_tells_a_hung_run_from_a_living_one(bank: Office) -> None:
    """The list, the run's page and Tonight name the state that `nightscreen runs list` names."""
    bank.journal.runs.begin(
        "run-2",
        flow="screen_batch",
        batch="b",
        purpose="portfolio",
        input_digest="",
        folder=str(bank.folder / "out" / "run-2"),
        cap_micro=None,
        parameters={},
    )
    browser = bank.browser("analyst")
    for silent_s, state in ((0, "running"), (600, "hung")):
        at = bank.clock() - silent_s * MICROS
        signs = signs_in_a_test(run_id="run-2", flow="screen_batch", at=at)
        write_vitals(bank.folder / "home", "run-2", signs)
        for path in ("/", "/runs", "/runs/run-2"):
            assert f'<span class="word {state}">{state}' in browser.get(path).text, path


def test_run_shows_numbers_report_and_files(bank: Office) -> None:
    """Every file is a link of its name; the report stands inside the page under its own policy."""
    run = newest(bank)
    browser = bank.browser("analyst")
    page = browser.get(f"/runs/{run}").text
    assert f"<h1>{run}</h1>" in page
    for name in ("decisions.csv", "report.json", "enriched/part-00000.parquet"):
        assert f'<a href="/runs/{run}/files/{name}">{name}</a>' in page
    report = browser.get(f"/runs/{run}/report")
    assert "sandbox" in report.headers["content-security-policy"]
    assert "script-src" not in report.headers["content-security-policy"]
    assert f'href="/runs/{run}/files/decisions.xlsx" target="_blank"' in report.text
    assert 'href="decisions' not in report.text
    taken = browser.get(f"/runs/{run}/files/decisions.csv")
    assert taken.text.startswith('"customer_id",')
    assert "file exported" in bank.actions()


def test_files_with_identifiers_are_a_right_of_their_own(bank: Office) -> None:
    """An auditor reads the report; taking rows out is refused and written down."""
    run = newest(bank)
    browser = bank.browser("auditor")
    assert browser.get(f"/runs/{run}/files/report.json").status_code == 200
    assert browser.get(f"/runs/{run}/files/decisions.csv").status_code == 403
    assert browser.get(f"/runs/{run}/decisions.csv").status_code == 403
    refused = bank.context.audit.entries(action="refused")
    assert [each["detail"]["needs"] for each in refused] == ["export", "export"]


@pytest.mark.parametrize(
    "name",
    ["../report.json", "..%2f..%2fhome%2fdata.key", "%2fetc%2fpasswd", ".hidden", "enriched"],
)
def test_only_a_runs_own_files_are_given(bank: Office, name: str) -> None:
    """No path leads out of a run's folder."""
    answer = bank.browser("analyst").get(f"/runs/{newest(bank)}/files/{name}")
    assert answer.status_code == 404


def test_ids_of_no_run_and_no_customer_are_said_plainly(bank: Office) -> None:
    """A made-up id is 404 with what to do, on every page that takes one."""
    browser = bank.browser("analyst")
    for path in ("/runs/none", "/runs/none/decisions", "/runs/none/report", "/customers/NOBODY"):
        answer = browser.get(path)
        assert answer.status_code == 404
        assert 'role="alert"' in answer.text


def test_facets_count_narrow_and_add_up(bank: Office) -> None:
    """A facet's number is what its choice leaves; two values of one facet add up."""
    browser, run = bank.browser("analyst"), newest(bank)
    page = browser.get(f"/runs/{run}/decisions").text
    decided, branches = facet(page, "decision"), facet(page, "branch")
    assert sum(decided.values()) == 60
    assert branches == {"Lagos": 20, "Kano": 20, "Ibadan": 20}
    assert sum(facet(page, "officer").values()) == 60
    kano = browser.get(f"/runs/{run}/decisions?branch=Kano").text
    assert len(listed(kano)) == 20
    assert facet(kano, "branch") == branches
    assert sum(facet(kano, "decision").values()) == 20
    both = browser.get(f"/runs/{run}/decisions?branch=Kano&branch=Lagos&decision=approve").text
    assert set(facet(both, "decision")) == set(decided)
    approved = facet(browser.get(f"/runs/{run}/decisions?branch=Lagos").text, "decision")
    kanos = facet(kano, "decision")
    assert len(listed(both)) == approved["Approve"] + kanos["Approve"]


def test_list_is_sorted_searched_and_paged(bank: Office) -> None:
    """Worst exposure first; by customer where asked; a search finds the beginning of an id."""
    browser, run = bank.browser("analyst"), newest(bank)
    page = browser.get(f"/runs/{run}/decisions").text
    assert listed(page)[0] == "C60"
    assert len(listed(page)) == 50
    second = listed(browser.get(f"/runs/{run}/decisions?page=1").text)
    assert len(second) == 10
    assert not set(second) & set(listed(page))
    by_id = listed(browser.get(f"/runs/{run}/decisions?sort=customer").text)
    assert by_id == sorted(by_id)
    found = listed(browser.get(f"/runs/{run}/decisions?search=c5&sort=customer").text)
    assert found == ["C5", *(f"C5{digit}" for digit in range(10))]


@pytest.mark.parametrize(
    "query",
    [
        "decision=' OR 1=1 --",
        "branch='); DROP TABLE run; --",
        "reason=x'] || (SELECT 1)",
        "sort=customer_id;DROP TABLE run",
        "search=%25%00",
        *(
            pytest.param(f"page={number}", marks=pytest.mark.long)
            for number in ("-1", "99999999", "zzz")
        ),
    ],
)
def test_hostile_filters_are_values_and_nothing_else(bank: Office, query: str) -> None:
    """What is written into an address is compared, never run."""
    browser, run = bank.browser("analyst"), newest(bank)
    assert browser.get(f"/runs/{run}/decisions?{query}").status_code == 200
    assert sum(facet(browser.get(f"/runs/{run}/decisions").text, "decision").values()) == 60


def test_what_is_taken_out_bears_who_when_and_the_filter(bank: Office) -> None:
    """CSV and workbook hold the rows shown, and say whose they are; the audit has both."""
    browser, run = bank.browser("analyst", name="Ada"), newest(bank)
    text = browser.get(f"/runs/{run}/decisions.csv?branch=Kano").text
    lines = text.lstrip("\ufeff").splitlines()
    assert lines[0].startswith("customer_id,decision,why")
    assert sum(line.startswith("C") for line in lines[1:]) == 20
    assert "# exported by: Ada" in text
    assert "# filter: branch: Kano" in text
    book = openpyxl.load_workbook(
        io.BytesIO(browser.get(f"/runs/{run}/decisions.xlsx?branch=Kano").content)
    )
    assert book["Decisions"].max_row == 21
    about = {row[0].value: row[1].value for row in book["About"].iter_rows()}
    assert about["exported by"] == "Ada"
    assert bank.actions().count("list exported") == 2


def test_customer_shows_the_decision_and_each_piece_of_evidence(bank: Office) -> None:
    """Name, last digits, reasons in words, a card a check; the BVN itself stands nowhere."""
    page = bank.browser("analyst").get("/customers/C59").text
    assert "<h1>C59</h1>" in page
    assert "BVN ending 0059" in page
    assert "22000000059" not in page
    for card in ("Karma blacklist", "Bank account", "Credit history"):
        assert f'aria-label="{card}"' in page
    assert "Lagos" in page or "Kano" in page or "Ibadan" in page
    assert '<option value="">Choose' in page


def test_evidence_closes_when_consent_ends(bank: Office) -> None:
    """A year after consent the card of the credit history says so and shows nothing."""
    browser = bank.browser("analyst")
    open_card = browser.get("/customers/C59").text.partition('aria-label="Credit history"')[2]
    assert "no consent" not in open_card.partition("</section>")[0]
    bank.clock.forward(days=400)
    later = bank.browser("analyst", name="later").get("/customers/C59").text
    card = later.partition('aria-label="Credit history"')[2].partition("</section>")[0]
    assert "no consent" in card
    assert "ended on" in card
    assert "<dl>" not in card


def test_consent_to_transactions_has_a_card_of_its_own(bank: Office) -> None:
    """A link for it opens no credit history; none is made while the portal has no address."""
    browser = bank.browser("analyst")
    page = browser.get("/customers/C2").text
    card = page.partition('aria-label="Cash flow"')[2]
    assert page.count(">Ask for consent</button>") == card.count(">Ask for consent</button>") == 1
    assert browser.post("/customers/C2/consent").status_code == 409
    assert "consent asked for" not in bank.actions()


def test_review_is_saved_and_the_next_customer_follows(
    bank: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A review stands in the journal under the reviewer's name, as one that came back in a list."""
    browser, run = bank.browser("analyst", name="Ada"), newest(bank)
    work = browser.get(f"/runs/{run}/decisions?decision=review&decision=decline").text
    first, second = listed(work)[:2]
    page = browser.get(f"/customers/{first}?run={run}").text
    assert f'action="/customers/{second}"' in page
    rewritten: list[str] = []
    monkeypatch.setattr(settle_case, "rewrite_reviewed", lambda _, runs, __: rewritten.extend(runs))
    saved = browser.post(
        f"/customers/{first}/review",
        run=run,
        decision="approve",
        reason="Settled since, proof seen",
        note="letter of 3 March",
    )
    assert saved.status_code == 303, saved.text
    assert "The review is saved." in browser.get(saved.headers["location"]).text
    key = bank.journal.pseudonyms.customer("portfolio", first)
    (stored,) = bank.context.reviews.of_customer(key)
    assert (stored.reviewer, stored.decision) == ("Ada", "approve")
    assert stored.note == "Settled since, proof seen. letter of 3 March"
    assert bank.context.audit.entries(customer_id=first, action="review saved")
    assert rewritten == [run], "what the customer is told follows the review"


def test_a_customer_is_marked_as_told_of_the_notice_that_was_shown(bank: Office) -> None:
    """How and by whom stand on the page and in the audit; of another notice nothing is written."""
    browser, run = bank.browser("analyst", name="Ada"), newest(bank)
    first = listed(browser.get(f"/runs/{run}/decisions?decision=decline").text)[0]
    act_against(bank, first)
    path = f"/customers/{first}"
    shown = browser.get(f"{path}?run={run}").text
    (digest,) = re.findall(r'name="digest" value="([^"]+)"', shown)
    fields = {"run": run, "how": "text message"}
    stale = browser.post(f"{path}/told", digest="0" * 16, **fields)
    unknown = browser.post(f"{path}/told", digest=digest, run=run, how="pigeon")
    assert (stale.status_code, unknown.status_code) == (409, 400)
    store = Records.of(bank.journal, ToldNotice)
    key = bank.journal.pseudonyms.customer("portfolio", first)
    assert store.of_customers([key]) == []
    told, again = (browser.post(f"{path}/told", digest=digest, **fields) for _ in range(2))
    assert (told.status_code, again.status_code) == (303, 409)
    page = browser.get(told.headers["location"]).text
    assert page.count("by text message, Ada.") == 1
    assert "It is written down that the customer was told." in page
    (record,) = store.of_customers([key])
    assert (record.told_how, record.told_by, record.run_id) == ("text message", "Ada", run)
    assert bank.context.audit.entries(customer_id=first, action="notice told")


def test_refused_review_keeps_what_was_typed(bank: Office) -> None:
    """Without a decision, or overriding without a word why, nothing is saved and nothing lost."""
    browser, run = bank.browser("analyst"), newest(bank)
    first = listed(browser.get(f"/runs/{run}/decisions?decision=decline").text)[0]
    for decision, note in (("", "my long note"), ("approve", "")):
        answer = browser.post(
            f"/customers/{first}/review",
            run=run,
            decision=decision,
            reason="",
            note=note,
        )
        assert answer.status_code == 400
        assert f">{note}</textarea>" in answer.text
    key = bank.journal.pseudonyms.customer("portfolio", first)
    assert bank.context.reviews.of_customer(key) == []


def test_overriding_is_a_right_of_its_own(bank: Office) -> None:
    """A reviewer from whom it was taken may agree with the policy and no more."""
    browser, run = bank.browser("analyst", name="Ada"), newest(bank)
    bank.context.accounts.change("Ada", [], {"override": False})
    first = listed(browser.get(f"/runs/{run}/decisions?decision=decline").text)[0]
    fields = {"run": run, "reason": "The policy is right", "note": "seen"}
    path = f"/customers/{first}/review"
    assert browser.post(path, decision="approve", **fields).status_code == 403
    assert browser.post(path, decision="decline", **fields).status_code == 303


def test_override_right_holds_against_the_latest_decision_too(
    bank: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that said the same once is no way round the right."""
    browser, run = bank.browser("analyst", name="Ada"), newest(bank)
    bank.context.accounts.change("Ada", [], {"override": False})
    first = listed(browser.get(f"/runs/{run}/decisions?decision=decline").text)[0]
    older = bank.journal.runs.newest(limit=2)[1]

    def approved(run: RunRecord, customer_id: str) -> dict[str, Any]:
        row = find_row(run, customer_id)
        assert row is not None
        return {**row, "decision": "approve"}

    monkeypatch.setattr("nightscreen.desk.customer.find_row", approved)
    answer = browser.post(
        f"/customers/{first}/review",
        run=older.run_id,
        decision="approve",
        reason="Settled since, proof seen",
        note="seen",
    )
    assert answer.status_code == 403


def test_what_a_run_cost_is_seen_with_the_right_to_money_alone(bank: Office) -> None:
    """Report and calls are refused without it, and the run's page does not frame the report."""
    run = newest(bank)
    for role, status in (("privacy", 403), ("analyst", 200)):
        browser = bank.browser(role)
        assert ("<iframe" in browser.get(f"/runs/{run}").text) is (status == 200)
        for path in ("report", "files/report.json", "files/calls.parquet"):
            assert browser.get(f"/runs/{run}/{path}").status_code == status, path


@pytest.mark.parametrize(
    ("role", "seen", "refused"),
    [
        ("administrator", ["/", "/users"], ["/runs", "/decisions", "/customers/C1", "/audit"]),
        ("privacy", ["/", "/runs", "/customers/C1"], ["/users", "/audit"]),
        ("auditor", ["/", "/runs", "/customers/C1", "/audit"], ["/users"]),
        ("analyst", ["/", "/runs", "/customers/C1"], ["/users", "/audit"]),
    ],
)
def test_role_sees_its_pages_and_no_others(
    bank: Office, role: str, seen: list[str], refused: list[str]
) -> None:
    """What a role may not see is 403, whether or not it is there."""
    browser = bank.browser(role)
    assert {path: browser.get(path).status_code for path in seen} == dict.fromkeys(seen, 200)
    assert {path: browser.get(path).status_code for path in refused} == dict.fromkeys(refused, 403)


def test_reader_changes_nothing(bank: Office) -> None:
    """An auditor's forms are refused even where they are complete."""
    browser, run = bank.browser("auditor"), newest(bank)
    for path in (f"/runs/{run}/stop", f"/runs/{run}/resume", "/customers/C1/review"):
        assert browser.post(path, decision="approve").status_code == 403
    assert bank.starts.started == []


def test_one_check_is_asked_again_once_its_price_is_confirmed(bank: Office) -> None:
    """The price comes first; then one customer is screened under it, other evidence as it is."""
    browser, run = bank.browser("analyst", name="Ada"), newest(bank)
    path = "/customers/C1/again"
    priced = browser.post(path, run=run, check="karma")
    assert priced.status_code == 200, priced.text
    price = re.search(r'name="price" value="([^"]+)"', priced.text)
    assert price
    assert ">Ask for ₦10</button>" in priced.text
    assert bank.starts.started == []
    assert list((bank.folder / "home" / "desk").glob("*.sealed")) == []
    asked = browser.post(path, run=run, check="karma", price=price[1], do="ask")
    assert asked.status_code == 303, asked.text
    (started,) = bank.starts.started
    assert (started.max_spend, started.batch, started.purpose) == (
        price[1],
        "portfolio",
        "portfolio",
    )
    assert "karma.clear=0" in started.freshness
    with unsealed(Path(started.input), bank.journal.sealer) as clear:
        assert open_source(clear).header.fed_back
    assert quote_batch(started, bank.settings)["calls"] == 1
    assert bank.context.audit.entries(customer_id="C1", action="asked again")


def test_asking_again_keeps_to_its_own_cap(bank: Office) -> None:
    """What costs more than CONTEST__ASK_AGAIN_CAP is refused with both amounts."""
    contest = bank.settings.contest.model_copy(update={"ask_again_cap": Decimal(5)})
    bank.context.settings = bank.settings.model_copy(update={"contest": contest})
    browser, run = bank.browser("analyst"), newest(bank)
    answer = browser.post("/customers/C1/again", run=run, check="karma")
    assert answer.status_code == 400
    assert "more than asking again may cost" in answer.text
    assert bank.starts.started == []


def test_check_is_not_asked_again_without_consent_or_the_right_to_spend(bank: Office) -> None:
    """Credit history needs a consent that holds; who may not screen is refused."""
    browser, run = bank.browser("analyst"), newest(bank)
    fields = {"run": run, "check": "ecosystem"}
    answer = browser.post("/customers/C2/again", **fields)
    assert answer.status_code == 400
    assert "consent does not hold" in answer.text
    assert bank.browser("auditor").post("/customers/C2/again", **fields).status_code == 403
    assert bank.starts.started == []


def test_contest_is_recorded_and_answered_by_somebody_who_did_not_decide(bank: Office) -> None:
    """It waits on the front page; the reviewer may not answer it, and nothing typed is lost."""
    ada, run = bank.browser("analyst", name="Ada"), newest(bank)
    first = listed(ada.get(f"/runs/{run}/decisions?decision=decline").text)[0]
    at = f"/customers/{first}"
    fields = {"run": run, "decision": "decline", "reason": "The policy is right", "note": "seen"}
    assert ada.post(f"{at}/review", **fields).status_code == 303
    assert 'id="notice"' not in ada.get(f"{at}?run={run}").text, "nothing was done to a borrower"
    act_against(bank, first)
    assert 'id="notice"' in ada.get(f"{at}?run={run}").text
    said = "The loan was settled in May"
    made = ada.post("/contests", customer_id=first, batch="portfolio", run=run, said=said)
    assert made.headers["location"].startswith(f"{at}?run={run}")
    page = ada.get(at).text
    assert said in page
    assert 'id="notice"' not in page
    assert "1 contest</b> to answer" in ada.get("/").text
    (contest,) = list_contests(bank.journal)
    path = f"/contests/{contest['contest_id']}/answer"
    refused = ada.post(path, outcome="stands", answer="We looked again")
    assert refused.status_code == 403
    assert ">We looked again</textarea>" in refused.text
    privacy = bank.browser("privacy", name="Ngozi")
    changed = {"outcome": "changed", "decision": "approve", "answer": "It is settled"}
    assert privacy.post(path, **changed).status_code == 403
    stands = {"outcome": "stands", "answer": "The listing is of June"}
    assert privacy.post(path, **stands).status_code == 303
    assert list_contests(bank.journal) == []
    assert bank.browser("auditor").post("/contests", said="x").status_code == 403
    assert [each["user"] for each in bank.context.audit.entries(action="contest answered")] == [
        "Ngozi"
    ]


def test_list_of_runs_goes_back_to_the_first(tmp_path: Path) -> None:
    """Fifty a page, newest first; nothing falls off the end."""
    with Office(tmp_path) as office:
        for number in range(103):
            office.journal.runs.begin(
                f"run-{number:03d}",
                flow="screen_batch",
                batch="portfolio",
                purpose="portfolio",
                input_digest="",
                folder=str(tmp_path),
                cap_micro=None,
                parameters={},
            )
        browser, found = office.browser("auditor"), list[str]()
        page = browser.get("/runs").text
        while True:
            found += re.findall(r'href="/runs/(run-\d+)"', page)
            older = re.search(r'href="(/runs\?page=\d+)">older', page)
            if older is None:
                break
            page = browser.get(older[1]).text
    assert found == [f"run-{number:03d}" for number in reversed(range(103))]
    assert "101 to 103 of 103" in page


def test_list_of_work_reads_no_files_of_runs(tmp_path: Path) -> None:
    """Who needs somebody stands in the journal."""
    World(tmp_path).screen(borrowers(12), batch="portfolio")
    with Office(tmp_path) as office:
        run = office.journal.runs.newest(limit=1)[0]
        (Path(run.folder) / "enriched").rename(tmp_path / "away")
        assert ROW.findall(office.browser("analyst").get("/decisions").text)
