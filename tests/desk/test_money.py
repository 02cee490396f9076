"""The pages of money and audit: searched, and taken out with who, when and by which filter."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from decimal import Decimal

import pytest

from nightscreen.desk import books
from nightscreen.desk.pages import micro, naira
from nightscreen.journal.audit import AuditQuery
from nightscreen.journal.money import Spent
from nightscreen.journal.records import Records
from nightscreen.journal.verify import verify_journal
from nightscreen.schemas.checks import Outcome
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.wallet import WalletGap
from tests.begun import begin_run
from tests.desk.office import Office
from tests.journal.conftest import ended, reserve

ODD = 2_500_000 * MICROS


def taken(text: str) -> tuple[list[dict[str, str]], dict[str, str]]:
    """Return the rows of an export, and what it says of itself."""
    lines = text.lstrip("\ufeff").splitlines(keepends=True)
    about = [next(csv.reader([line]))[0] for line in lines if line.lstrip('"').startswith("# ")]
    rows = [line for line in lines if not line.lstrip('"').startswith("# ")]
    found = dict(each.removeprefix("# ").split(": ", 1) for each in about)
    return list(csv.DictReader(io.StringIO("".join(rows)))), found


def spent_in_all(bank: Office) -> Spent:
    """Return the sums of the journal's counters by day and check."""
    parts = [spent for _, _, spent in bank.journal.money.by_day()]
    return Spent(
        sum(each.spent_micro for each in parts),
        sum(each.reserved_micro for each in parts),
        sum(each.calls for each in parts),
    )


def test_money_shows_and_exports_what_the_journal_counted(bank: Office) -> None:
    """Days, checks and batches add up to the same sum; each run's balance adds up.

    User, time and filter stand inside the export and in the audit; whom the right `export` was
    taken from gets none.
    """
    browser, total = bank.browser("auditor", name="Ngozi"), spent_in_all(bank)
    assert total.spent_micro > 0
    page = browser.get("/money")
    assert page.status_code == 200
    assert f"<span>Spent</span><b>{micro(total.spent_micro)}</b>" in page.text
    for label in ("Search", "From", "To"):
        assert f">{label}</label>" in page.text
    rows, _ = taken(browser.get("/money.csv").text)
    for part in ("day and check", "batch"):
        of_part = [row for row in rows if row["part"] == part]
        assert naira_text(total.spent_micro) == str(sum(Decimal(row["spent"]) for row in of_part))
        assert total.calls == sum(int(row["calls"]) for row in of_part)
    by_day = [(row["day"], row["check"]) for row in rows if row["part"] == "day and check"]
    by_check = sorted(by_day, key=lambda each: each[1])
    assert by_day == sorted(by_check, key=lambda each: each[0], reverse=True)
    assert len({check for _, check in by_day}) > 1
    balances = [row for row in rows if row["part"] == "balance of a run"]
    assert {row["run_id"] for row in balances} >= {bank.night.run_id}
    for row in balances:
        if row["opening"]:
            less = ("cost", "explained_in_doubt", "drift")
            left = Decimal(row["opening"]) - sum(Decimal(row[name]) for name in less)
            assert left == Decimal(row["closing"])
            assert naira(row["closing"]) in page.text
    _, about = taken(browser.get("/money.csv?search=karma&since=2020-01-01").text)
    assert about["exported by"] == "Ngozi"
    assert about["filter"] == "search: karma; from: 2020-01-01"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", about["at"])
    (entry, _) = bank.context.audit.find(AuditQuery(action="money exported"))
    assert (entry["user"], entry["detail"]["filter"]) == ("Ngozi", about["filter"])
    bank.context.accounts.change("Ngozi", [], {"export": False})
    for path in ("/money.csv", "/audit.csv"):
        assert browser.get(path).status_code == 403
    bank.context.accounts.change("Ngozi", [], {"money": False})
    assert browser.get("/money").status_code == 403
    assert ">Money</a>" not in browser.get("/audit").text


def test_audit_is_taken_out_by_pseudonym_with_the_marks_of_its_chain(bank: Office) -> None:
    """Every entry of the filter; no customer's id is in it, nor in what is written of it."""
    write = bank.context.audit.write
    write("Ada", "customer seen", customer_id="CUST-0042", run_id="R-1")
    write("=cmd()", "signed in")
    auditor = bank.browser("auditor", name="Ngozi")
    text = auditor.get("/audit.csv").text
    rows, about = taken(text)
    assert [row["number"] for row in rows] == ["2", "1"]
    assert rows[0]["user"] == "'=cmd()"
    entry = bank.context.audit.find(AuditQuery(customer_id="CUST-0042"))[0]
    assert (rows[1]["customer"], rows[1]["mark"]) == (entry["pseudonym"], entry["mark"])
    assert (about["exported by"], about["filter"], about["rows"]) == ("Ngozi", "everything", "2")
    rows, about = taken(auditor.get("/audit.csv?search=CUST-0042").text)
    assert [row["number"] for row in rows] == ["1"]
    assert about["filter"] == "search: one customer"
    assert about == taken(auditor.get("/audit.csv?search=CUST-0042").text)[1] | {"at": about["at"]}
    written = json.dumps(
        [each["detail"] for each in bank.context.audit.find(AuditQuery(search="Ngozi"))]
    )
    assert "a search" in written
    assert "CUST-0042" not in written + text


def test_an_invoice_below_the_reservation_takes_two_people(office: Office) -> None:
    begin_run(office.journal, "run-1")
    usual, pair = reserve(office.journal, 1, 2)
    odd = replace(ended(pair, cost=ODD), named_micro=ODD, outcome=Outcome.LISTED.value)
    office.journal.calls.settle("run-1", [ended(usual), odd])
    call = str(pair[1].call_id)
    ada, bem = office.browser("analyst", name="Ada"), office.browser("approver", name="Bem")
    spent = spent_in_all(office).spent_micro
    assert "2,500,000" in ada.get("/money").text
    given = {"call": call, "cost": "19"}
    assert ada.post("/money/settle", call=call, cost="1e999").status_code == 400
    assert ada.post("/money/settle", call="1", cost="5").status_code == 400
    assert ada.post("/money/settle", **given).status_code == 303
    assert spent_in_all(office).spent_micro == spent, "it waits"
    assert "Confirm" not in ada.get("/money").text
    seen = {"call": call, "cost": "19.00"}
    assert ada.post("/money/confirm", **seen).status_code == 403
    assert bem.post("/money/confirm", call=call, cost="18.00").status_code == 400
    assert spent_in_all(office).spent_micro == spent
    assert bem.post("/money/confirm", **seen).status_code == 303
    assert spent_in_all(office).spent_micro == spent - (2_500_000 - 19) * 1_000_000
    assert verify_journal(office.journal) == []
    (entered,) = office.context.audit.find(AuditQuery(action="cost entered"))
    (settled,) = office.context.audit.find(AuditQuery(action="cost settled"))
    assert (entered["user"], settled["user"]) == ("Ada", "Bem")
    assert settled["detail"]["before"] == "2500000.00"
    assert settled["detail"]["invoice"] == "19.00"
    again = ada.post("/money/settle", call=call, cost="30")
    assert again.status_code == 303
    assert spent_in_all(office).spent_micro == spent - (2_500_000 - 30) * 1_000_000
    assert verify_journal(office.journal) == []


def test_missing_money_is_red_until_its_reason_is_noted(bank: Office) -> None:
    """Tonight and Money show it to whoever may see money; whoever may settle notes the reason."""
    journal, (later, earlier) = bank.journal, bank.journal.runs.newest(limit=2)
    run_id, between = later.run_id, {"run_before": earlier.run_id, "micro": 250 * MICROS}
    gap = WalletGap(key=run_id, run_id=run_id, at=journal.clock(), **between)
    Records(journal, WalletGap).add([gap])
    ngozi, ada = bank.browser("auditor"), bank.browser("analyst")
    for path in ("/", "/money"):
        assert 'role="alert">₦250 left the wallet' in ngozi.get(path).text
    assert "₦250 left" not in bank.browser("privacy").get("/").text
    given = {"run_id": run_id, "reason": "tests of the app"}
    assert ada.post("/money/missing", run_id=run_id, reason=" ").status_code == 400
    assert ada.post("/money/missing", **given).status_code == 303
    assert ada.post("/money/missing", **given).status_code == 400
    for path in ("/", "/money"):
        assert "left the wallet" not in ngozi.get(path).text
    assert "missing money explained" in ngozi.get("/audit").text


def test_audit_is_searched_and_paged(bank: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """By words, number, customer and day; older entries follow page by page.

    Who sees no customers sees that somebody was looked at, not who.
    """
    write = bank.context.audit.write
    monkeypatch.setattr(books, "ENTRIES_SHOWN", 20)
    write("Ada", "customer seen", customer_id="C7", run_id="R-1")
    write("Bem", "policy approved", version=3, note="after the committee")
    for number in range(25):
        write("Ada", "decisions seen", run_id=f"R-{number}")
    browser = bank.browser("auditor")
    first = browser.get("/audit").text
    assert "20 of 27 entries" in first
    older = re.search(r'rel="next" href="([^"]+)"', first)
    assert older
    assert "7 of 27 entries" in browser.get(older[1].replace("&amp;", "&")).text
    for query, number, actions in (
        ("search=committee", 1, "policy approved"),
        ("search=BEM+policy", 1, "policy approved"),
        ("search=C7", 1, "customer seen"),
        ("search=2", 1, "policy approved"),
        ("search=R-1+decisions", 11, "decisions seen"),
        ("search=ada", 26, "decisions seen"),
        ("search=%27+OR+1%3D1", 0, ""),
        ("until=2001-01-01", 0, ""),
    ):
        page = browser.get(f"/audit?{query}").text
        found = re.search(r">(?:\d+) of (\d+) entr", page)
        if query == "search=2":
            assert "after the committee" in page
            continue
        assert (int(found[1]) if found else 0) == number, query
        assert f"<td>{actions}</td>" in page or not number
    assert browser.get("/audit?since=soon").status_code == 400
    limited = bank.browser("auditor", name="Kemi")
    assert "<td>C7</td>" in limited.get("/audit?search=C7").text
    bank.context.accounts.change("Kemi", [], branches=["Kano"])
    page = limited.get("/audit?search=Ada+customer").text
    assert ("(not shown)" in page, "C7" in page) == (True, False)
    assert "No matching entries" in limited.get("/audit?search=C7").text
