"""BVN consent in two stages: every customer in the right state, every naira in its place."""

from __future__ import annotations

import asyncio
import csv
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from nightscreen.calling.stops import Stops
from nightscreen.config.settings import Retention
from nightscreen.journal import open_journal
from nightscreen.journal.actor import Actor
from nightscreen.journal.approvals import Approvals
from nightscreen.operations.bvn import BvnConfirmations, BvnRequests, OtpLinkState, accept_otp
from nightscreen.operations.bvn_table import compare
from nightscreen.privacy.lookup_subject import lookup_subject
from nightscreen.privacy.subject_access import access_page, gather
from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.app import application
from nightscreen.sandbox.faults import FaultPlan, Scripted
from nightscreen.sandbox.otp import masked_contact
from nightscreen.sandbox.people import bvn_details, person_of_bvn
from nightscreen.schemas.answers import BvnDetails
from nightscreen.schemas.approvals import ApprovalDecision
from nightscreen.schemas.bvn import RequestBvns
from nightscreen.schemas.clock import LAGOS, MICROS
from nightscreen.schemas.errors import InputError
from tests.left_behind import everything
from tests.operations.bvn_in_a_test import BvnWorld, asked
from tests.portal.visiting import Clock
from tests.screening import days_ago

ELSEWHERE = "+2348099999999"


@pytest.fixture
def world(tmp_path: Path) -> BvnWorld:
    return BvnWorld(tmp_path)


def of_magic(word: str, number: int) -> dict[str, str]:
    """Return a customer who is one of the sandbox's magic people."""
    row = test_identifiers.by_word(word)
    return asked(number, customer_id=f"M-{word}", bvn=row.bvn, phone=row.phone)


def spent(world: BvnWorld) -> str:
    """Return what the journal says was spent today, in naira."""
    with open_journal(world.folder / "home") as journal:
        return f"{journal.money.today().spent_micro / MICROS:.2f}"


def test_every_customer_is_in_the_right_state(world: BvnWorld) -> None:
    """Wrong, late, missing and right passwords; ledger, journal and report agree.

    Whose contact is not the registered one has the masked hint, and no charge.
    """
    rows = [asked(number) for number in range(1, 25)]
    strange = [of_magic("unreachable", 25), of_magic("otp-late", 26)]
    misled = [asked(number, phone=ELSEWHERE) for number in range(27, 31)]
    first = world.request([*rows, *strange, *misled])
    assert (first.report["state"], first.report["stop_reason"]) == ("completed", None)
    assert first.states == {"awaiting_otp": 25, "unreachable": 1, "wrong_contact": 4}
    assert first.report["cost"]["total"] == "0.00"
    assert first.report["cost"]["to_come"]["high"] == "500.00"
    part = first.report["checks"]["bvn_start"]
    assert (part["failed"], part["in_doubt"], part["free"]) == (0, 0, 30)
    for row in misled:
        told, registered = first.rows[row["customer_id"]], person_of_bvn(row["bvn"]).contacts
        assert told["masked_contact"] == ", ".join(map(masked_contact, registered))
        assert "not the registered one" in told["explained"]
        assert told["otp_link"] is None
    otps = {row["customer_id"]: world.otp(row) or "" for row in rows}
    ids = [row["customer_id"] for row in rows]
    late, twice, once, right = ids[:2], ids[2:7], ids[7:10], ids[10:20]
    world.confirm(dict.fromkeys([*twice, *once], "000000"))
    wrong = dict.fromkeys([*twice, misled[0]["customer_id"]], "111111")
    second = world.confirm({**wrong, **{each: otps[each] for each in [*once, *right]}})
    assert [code for _, code in second.problems] == ["request_wrong_contact"]
    world.sandbox.ahead_s += 601
    third = world.confirm({each: otps[each] for each in late})
    assert third.states == {
        "awaiting_otp": 5,
        "confirmed": 13,
        "expired": 2,
        "unreachable": 1,
        "wrong_contact": 4,
        "wrong_otp": 5,
    }
    by_customer = third.rows
    assert {by_customer[each]["attempts"] for each in twice} == {2}
    assert {by_customer[each]["attempts"] for each in once} == {1}
    assert world.charged == "260" == second.report["cost"]["total"].removesuffix(".00")
    assert spent(world) == "260.00"
    assert sum(float(row["cost"]) for row in by_customer.values()) == 260
    assert second.report["balance"]["drift"] == "0.00"
    assert len(world.calls("bvn_start")) == 30
    assert len(world.calls("bvn_finish")) == 8 + 18 + 2


def day_and_month_may_change_places(number: int) -> bool:
    """Return whether a birthday is another date with day and month exchanged."""
    born = person_of_bvn(f"22{number:09d}").date_of_birth
    return born.day <= 12 and born.day != born.month


def test_confirmed_rows_hold_the_record_and_say_what_agrees(world: BvnWorld) -> None:
    """Name, birthday and phone are compared, in words; what a record lacks counts against nobody.

    A list of accounts is understood, too. Subject access has the request and the record, which is
    withheld where it is somebody else's.
    """
    right = asked(1)
    other = asked(2, last_name="Zzyzx", first_name="Qwerty", date_of_birth="1950-01-02")
    swapped = asked(next(filter(day_and_month_may_change_places, range(3, 200))))
    year, month, day = swapped["date_of_birth"].split("-")
    swapped["date_of_birth"] = f"{year}-{day}-{month}"
    magic = [of_magic(word, 300) for word in ("accounts", "incomplete", "watchlisted")]
    rows = [right, other, swapped, *magic]
    world.request(rows)
    by_customer = world.confirm({row["customer_id"]: world.otp(row) or "" for row in rows}).rows
    mine, theirs = by_customer["C1"], bvn_details(right["bvn"])
    assert mine["bvn_first_name"] == theirs["first_name"]
    assert mine["bvn_watchlisted"] == theirs["watchlisted"]
    assert str(mine["bvn_dob"]) == theirs["dob"]
    assert (mine["name_match"], mine["dob_match"], mine["phone_match"]) == ("strong", True, True)
    assert mine["phone_explained"] == f"agree: ...{right['phone'][-4:]}"
    assert mine["checked_at"] is not None
    assert (by_customer["C2"]["name_match"], by_customer["C2"]["dob_match"]) == ("none", False)
    assert by_customer["C2"]["dob_explained"].startswith("against: 1950-01-02 / ")
    assert by_customer[swapped["customer_id"]]["dob_explained"].endswith("changed places")
    listed = by_customer["M-accounts"]
    assert listed["bvn_accounts"][0]["account_number"]
    assert (listed["dob_match"], listed["bvn_dob"]) == (None, None)
    assert listed["name_match"] is not None
    assert by_customer["M-incomplete"]["state"] == "confirmed"
    assert by_customer["M-watchlisted"]["bvn_watchlisted"] == 1
    with open_journal(world.folder / "home") as journal:
        held = {
            name: gather(journal, lookup_subject(journal, name), Retention())
            for name in ("C1", "C2")
        }
    said = {
        name: {each["check"]: each["said"] for each in one["answers"]}["bvn_finish"]
        for name, one in held.items()
    }
    (request,) = held["C1"]["bvn_requests"]
    assert (request["state"], request["bvn"]) == ("confirmed", right["bvn"])
    assert access_page(held["C1"])
    assert said["C1"]["first_name"] == theirs["first_name"]
    for name in ("first_name", "mobile"):
        assert said["C2"][name].startswith("(withheld")


@pytest.mark.parametrize(
    ("record", "agrees"),
    [
        ("+234 803 123 4567", True),
        ("0803***4567", True),
        ("0803/123\u20134567;", True),
        ("0803***4568", False),
        ("0703***4567", False),
        ("0803123", None),
        ("***********", None),
        (None, None),
    ],
)
def test_a_masked_phone_agrees_by_its_digits_and_an_incomplete_one_says_nothing(
    record: str | None, agrees: bool | None
) -> None:
    answer = BvnDetails(first_name="Ada", mobile=record)
    assert compare({"phone": "+2348031234567"}, answer)["phone_match"] is agrees


def test_second_request_is_made_only_on_purpose(world: BvnWorld) -> None:
    """A re-run asks those without a request; `again` asks everybody of its file.

    The same wrong contact asks nobody twice; a corrected one asks those whom it corrects.
    """
    world.request([asked(1, phone=ELSEWHERE), asked(2, phone=ELSEWHERE)])
    more = world.request([asked(1, phone=ELSEWHERE), asked(2, phone=ELSEWHERE), asked(3)])
    assert more.report["checks"]["bvn_start"]["distinct"] == 1
    result = world.request([asked(1), asked(2, phone=ELSEWHERE), asked(3)])
    assert result.report["checks"]["bvn_start"]["distinct"] == 1
    assert result.states == {"awaiting_otp": 2, "wrong_contact": 1}
    assert len(world.calls("bvn_start")) == 4
    first = world.otp(asked(3))
    world.request([asked(3)], again=True)
    assert len(world.calls("bvn_start")) == 5
    assert world.confirm({"C3": first or ""}).rows["C3"]["state"] == "wrong_otp"


def test_nobody_is_asked_without_consent_and_nobody_twice(world: BvnWorld) -> None:
    """Expired, withdrawn and absent consent: nothing is sent, nothing is shown.

    Of two customers with one BVN one is asked: a second password would undo the first.
    """
    rows = [
        asked(1),
        asked(2, consent_reference=""),
        asked(3, consented_at="2020-01-01T00:00:00"),
        asked(4, consent_withdrawn_at=days_ago(30)),
        asked(5, phone="", bvn="22000000005"),
        asked(6, bvn="123"),
        asked(7, bvn=asked(1)["bvn"]),
    ]
    result = world.request(rows)
    assert result.states == {"awaiting_otp": 1, "ineligible": 2, "invalid": 1, "refused": 3}
    check = result.report["checks"]["bvn_start"]
    counted = [check[f"rows_{why}"] for why in ("ineligible", "invalid", "refused")]
    assert (counted, check["lookups"], check["distinct"]) == ([2, 1, 3], 1, 1)
    assert ("8", "bvn_repeated") in result.problems
    assert len(world.calls()) == 1


def test_consent_is_judged_again_before_sending(world: BvnWorld) -> None:
    """A consent that ends between the stages is not relied upon; the password is not sent.

    So does a file that knows of the withdrawal end the open request.
    """
    world.clock = clock = Clock()
    world.request([asked(1), asked(2), asked(3, consent_expires_at=later(hours=2))])
    otps = {f"C{number}": world.otp(asked(number)) or "" for number in (1, 2, 3)}
    world.request([asked(1, consent_withdrawn_at=days_ago(30)), asked(2)])
    clock.forward(hours=3)
    result = world.confirm(otps)
    assert result.problems == [("2", "consent_ended"), ("4", "consent_ended")]
    states = [result.rows[f"C{number}"]["state"] for number in (1, 2, 3)]
    assert states == ["refused", "confirmed", "refused"]
    assert result.rows["C1"]["masked_contact"] is None
    assert len(world.calls("bvn_finish")) == 1


def later(**ahead: int) -> str:
    """Return an instant ahead as files have it."""
    return (datetime.now(LAGOS) + timedelta(**ahead)).isoformat(timespec="seconds")


def test_problems_of_the_file_are_told_and_nothing_is_sent(world: BvnWorld) -> None:
    """Unknown, unasked, repeated, malformed and missing: each has its code; no password shows."""
    wrong = world.folder / "wrong.csv"
    wrong.write_text("name,otp\nAda,123456\n", encoding="utf-8")
    with pytest.raises(InputError, match="customer_id"):
        world.run_persons(BvnRequests, RequestBvns(input=str(wrong), output=world.out))
    assert not world.read_settings().home.exists()  # no journal, no key
    with pytest.raises(InputError, match="customer_id,otp"):
        world.confirm(world.write([asked(1)], "wrong.csv"))
    wrong.write_text("customer_id,otp,OTP Code\nC1,123456,123457\n", encoding="utf-8")
    with pytest.raises(InputError, match="more than one column of passwords"):
        world.confirm(wrong)
    world.request([asked(number) for number in range(1, 6)])
    world.screen([asked(9)], checks=["karma"])
    path = world.folder / "bad.csv"
    path.write_text(
        "Customer ID,OTP,Remark\n"
        "C1,123 456,first\nC2,12345,\nC3,654321,\nC3,654322,\nC4,,\n"
        "C9,777777,\nNOBODY,888888,\n,999991,\n246810,not one,\n",
        encoding="utf-8",
    )
    result = world.confirm(path)
    assert sorted(result.problems, key=lambda each: int(each[0])) == [
        ("3", "otp_malformed"),
        ("4", "customer_id_repeated"),
        ("5", "customer_id_repeated"),
        ("6", "otp_missing"),
        ("7", "no_request"),
        ("8", "no_request"),
        ("9", "customer_id_missing"),
        ("10", "otp_malformed"),
    ]
    assert result.report["rows"] == {"read": 9, "screened": 1, "quarantined": 8}
    assert [call["outcome"] for call in world.calls("bvn_finish")] == ["wrong_otp"]
    quarantine = (result.folder / "quarantine.csv").read_text(encoding="utf-8")
    for otp in ("123456", "12345", "654321", "654322", "777777", "888888", "999991", "246810"):
        assert otp not in quarantine, otp
    with (result.folder / "quarantine.csv").open(encoding="utf-8", newline="") as file:
        assert next(csv.reader(file)) == ["customer_id", "line", "column", "code", "hint"]


def test_wrong_password_is_never_tried_again_by_machine(world: BvnWorld) -> None:
    """The same file again sends nothing; another of the customer is sent, three at most."""
    world.request([asked(1)])
    world.confirm({"C1": "000001"})
    again = world.confirm({"C1": "000001"})
    assert again.problems == [("2", "already_tried")]
    assert len(world.calls("bvn_finish")) == 1
    world.confirm({"C1": "000002"})
    world.confirm({"C1": "000003"})
    last = world.confirm({"C1": world.otp(asked(1)) or ""})
    assert last.problems == [("2", "attempts_used_up")]
    assert last.rows["C1"]["attempts"] == 3
    assert len(world.calls("bvn_finish")) == 3


def test_a_password_confirms_its_own_customer_only(tmp_path: Path) -> None:
    """Two customers of one BVN in one file: the answer to one is not the end of the other's call.

    Each answer is charged once and counts once.
    """
    world = BvnWorld(tmp_path, settings={"max_in_flight": {"bvn": 1}})
    first, second = asked(1), asked(1, customer_id="CY")
    world.request([first])
    world.request([second], again=True)
    right = world.otp(second) or ""
    result = world.confirm({"CY": right, "C1": f"{(int(right) + 1) % 10**6:06d}"})
    assert result.rows["CY"]["state"] == "confirmed"
    assert result.rows["C1"]["state"] in {"expired", "wrong_otp"}  # the first is answered first
    assert {name: row["cost"] for name, row in result.rows.items()} == {"CY": 20, "C1": 0}
    assert result.report["cost"]["total"] == "20.00"


def test_lost_answers_are_named_and_not_repeated(world: BvnWorld) -> None:
    """A start in doubt may have sent a password; a finish in doubt may have been charged."""
    world.sandbox.faults = FaultPlan(
        0, script=[Scripted("http_502_after_charge", 1, 1, "bvn_start")]
    )
    first = world.request([asked(1), asked(2)])
    lost = next(row for row in first.rows.values() if row["state"] == "requested")
    assert lost["in_doubt"] == "start"
    assert world.request([asked(1), asked(2)]).report["checks"]["bvn_start"]["distinct"] == 0
    world.sandbox.faults = FaultPlan(
        0, script=[Scripted("http_502_after_charge", 1, 1, "bvn_finish")]
    )
    mine = asked(int(lost["customer_id"][1:]))
    result = world.confirm({lost["customer_id"]: world.otp(mine) or ""})
    row = result.rows[lost["customer_id"]]
    assert (row["in_doubt"], result.report["cost"]["in_doubt_exposure"]) == ("finish", "20.00")
    assert result.report["checks"]["bvn_finish"]["in_doubt"] == 1
    again = world.confirm({lost["customer_id"]: world.otp(mine) or "654321"})
    assert again.problems == [("2", "finish_in_doubt")]
    assert len(world.calls("bvn_finish")) == 1
    with open_journal(world.folder / "home") as journal:
        assert len(journal.runs.in_doubt()) == 2
    world.request([mine], again=True)
    confirmed = world.confirm({lost["customer_id"]: world.otp(mine) or ""})
    assert confirmed.rows[lost["customer_id"]]["state"] == "confirmed"


def test_an_outage_that_goes_on_costs_one_password_at_each_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is met by all in flight once; then one customer's call finds out whether it is over."""
    sent, go_on = list[int](), Stops.go_on  # how many calls were made before each retry

    settings = {
        "max_in_flight": {"bvn": 4},
        "resume_every": timedelta(seconds=0.05),
        "outage_give_up": timedelta(seconds=0.3),
    }
    world = BvnWorld(tmp_path, settings=settings)
    customers = [asked(number) for number in range(1, 61)]
    world.request(customers)
    world.sandbox.faults = FaultPlan(0, script=[Scripted("http_502", 6, 48, "bvn_finish")])

    def noted(stops: Stops) -> None:
        sent.append(len(world.calls("bvn_finish")))
        go_on(stops)

    monkeypatch.setattr(Stops, "go_on", noted)
    passwords = {each["customer_id"]: world.otp(each) or "" for each in customers}
    until = datetime.now(LAGOS) + timedelta(hours=1)
    result = world.confirm(passwords, deadline=until.strftime("%Y-%m-%dT%H:%M"))
    assert (result.report["state"], result.states["confirmed"]) == ("completed", 12)
    assert result.report["checks"]["bvn_finish"]["in_doubt"] == 48
    retries = [after - before for before, after in pairwise(sent)]
    assert len(retries) > 2
    assert set(retries) == {1}


def test_killed_between_intent_and_state_is_told_by_the_journal(
    world: BvnWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies after the answer leaves a request that the next run understands."""
    monkeypatch.setattr(BvnRequests, "save_result", lambda *_: None)
    monkeypatch.setattr(BvnRequests, "reload", lambda _: None)
    world.request([asked(1)])
    monkeypatch.undo()
    result = world.request([asked(1)])
    assert result.states == {"awaiting_otp": 1}
    assert result.rows["C1"]["masked_contact"]
    assert len(world.calls("bvn_start")) == 1
    otp = world.otp(asked(1)) or ""
    monkeypatch.setattr(BvnConfirmations, "save_result", lambda *_: None)
    monkeypatch.setattr(BvnConfirmations, "reload", lambda _: None)
    world.confirm({"C1": otp})
    monkeypatch.undo()
    again = world.confirm({"C1": otp})
    assert again.problems == [("2", "already_confirmed")]
    assert again.rows["C1"]["state"] == "confirmed"
    assert len(world.calls("bvn_finish")) == 1


def test_watch_list_reaches_later_screening_runs_with_consent_alone(world: BvnWorld) -> None:
    """A confirmed BVN on the watch list declines; without consent it is not shown."""
    rows = [of_magic("watchlisted", 1), of_magic("details", 2), asked(3)]
    world.request(rows[:2])
    world.confirm({row["customer_id"]: world.otp(row) or "" for row in rows[:2]})
    silent = {**rows[0], "customer_id": "M-silent", "consent_reference": ""}
    night = world.screen([*rows, silent], checks=["karma"])
    by_customer = {row["customer_id"]: row for row in night.rows}
    assert [by_customer[each]["bvn_watchlisted"] for each in ("M-watchlisted", "M-details")] == [
        1,
        0,
    ]
    assert [by_customer[each]["bvn_watchlisted"] for each in ("C3", "M-silent")] == [None, None]
    assert by_customer["M-silent"]["bvn_checked_at"] is None
    assert by_customer["M-watchlisted"]["bvn_checked_at"] is not None
    assert by_customer["M-watchlisted"]["decision"] == "decline"
    assert "CBN_WATCHLIST" in by_customer["M-watchlisted"]["reasons"]
    assert "CBN_WATCHLIST" not in by_customer["M-silent"]["reasons"]


# --- a link for each customer ---


def link_of(world: BvnWorld, number: int = 1) -> str:
    """Ask a customer and return their link."""
    link = world.request([asked(number)]).rows[f"C{number}"]["otp_link"]
    assert isinstance(link, str)
    return link


def test_customer_types_the_password_and_is_confirmed(world: BvnWorld) -> None:
    """The call is made at once, charged once, and the lender's next table shows it.

    A daily cap that is used up makes a link unavailable, not closed; after the set time it has
    expired, and nothing is sent. Neither journal nor outputs hold a password, right or wrong.
    """
    world.clock = clock = Clock()
    link, other = (link_of(world, number) for number in (1, 2))
    passwords = [world.otp(asked(number)) or "" for number in (1, 2)] + ["860193"]
    seen = world.look(link)
    assert (seen.state, seen.attempts_left) == (OtpLinkState.OPEN, 3)
    assert seen.masked_contact is not None
    assert "*" in seen.masked_contact
    world.settings["daily_spend_cap"] = "19"
    assert world.type_otp(link, passwords[0]).state is OtpLinkState.UNAVAILABLE
    del world.settings["daily_spend_cap"]
    assert world.calls("bvn_finish") == []
    done = world.type_otp(link, f" {passwords[0]} ")
    assert done.state is OtpLinkState.CONFIRMED
    assert world.charged == "20"
    result = world.request([asked(1)])
    assert result.rows["C1"]["state"] == "confirmed"
    assert result.rows["C1"]["bvn_first_name"]
    assert result.rows["C1"]["otp_link"] is None
    assert world.type_otp(link, "123456").state is OtpLinkState.CONFIRMED
    assert world.type_otp(other, passwords[2]).state is OtpLinkState.WRONG_OTP
    clock.forward(days=1, seconds=1)
    assert world.type_otp(other, passwords[1]).state is OtpLinkState.EXPIRED
    assert [call["outcome"] for call in world.calls("bvn_finish")] == ["consented", "wrong_otp"]
    for path, held in everything(world.folder):
        for otp in passwords:
            assert otp not in str(path.relative_to(world.folder))
            assert otp.encode() not in held, path


def test_two_at_a_time_are_one(world: BvnWorld) -> None:
    link = link_of(world)
    transport = httpx.ASGITransport(application(world.sandbox))
    token, otp = link.rpartition("/")[2], world.otp(asked(1)) or ""

    async def both() -> list[OtpLinkState]:
        each = (
            accept_otp(world.read_settings(), token, otp, transport=transport) for _ in range(4)
        )
        return [view.state for view in await asyncio.gather(*each)]

    states = asyncio.run(both())
    assert OtpLinkState.CONFIRMED in states
    assert set(states) <= {OtpLinkState.CONFIRMED, OtpLinkState.BUSY}
    assert len(world.calls("bvn_finish")) == 1
    assert world.charged == "20"


def test_confirmations_above_the_limit_wait_for_approval_and_then_keep_to_it(
    world: BvnWorld,
) -> None:
    """Nothing is sent before, also without a terminal; `yes` is an approval in advance.

    Sixty naira pay for three confirmations; resumed with more, the rest follow, none twice.
    """
    rows = [asked(number) for number in range(1, 6)]
    world.request(rows)
    otps = {row["customer_id"]: world.otp(row) or "" for row in rows}
    world.settings["approval_above"] = "30"
    waiting = world.confirm(otps)
    run_id = waiting.report["run_id"]
    assert (waiting.report["state"], waiting.report["stop_reason"]) == ("stopped", "approval")
    assert (waiting.states, spent(world)) == ({"awaiting_otp": 5}, "0.00")
    assert world.calls("bvn_finish") == []
    with open_journal(world.folder / "home") as journal:
        actor, cap, approvals = Actor("Bem"), 60 * MICROS, Approvals(journal)
        (asked_for,) = approvals.waiting()
        assert asked_for.quote["quoted"]["expected"] == "100.00"
        assert asked_for.quote["quoted"]["high"] == "100.00"
        approvals.decide(actor, run_id, ApprovalDecision.APPROVED, max_spend_micro=cap)
    resumed = world.confirm(otps, run=run_id, max_spend="60")
    assert (resumed.report["stop_reason"], spent(world)) == ("budget", "60.00")
    assert resumed.states == {"awaiting_otp": 2, "confirmed": 3}
    assert (resumed.report["cost"]["cap"], world.charged) == ("60.00", "60")
    assert world.confirm(otps, run=run_id).report["stop_reason"] == "budget"
    assert world.confirm(otps, run=run_id, max_spend="90").report["stop_reason"] == "approval"
    assert world.confirm(otps, run=run_id, max_spend="90", yes=True).states["confirmed"] == 4
    whole = world.confirm(otps, run=run_id, max_spend="500", yes=True)
    assert (whole.report["state"], whole.states) == ("completed", {"confirmed": 5})
    assert whole.report["cost"]["total"] == "100.00" == f"{world.charged}.00"
    part = whole.report["checks"]["bvn_finish"]
    assert (part["distinct"], part["paid"], part["pending"]) == (5, 5, 0)
