"""The standard nights: the customers of each, and what happens in it.

A night that continues an earlier one takes place in the same world after it. All people are made
up.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from nightscreen.config.settings import ContestClocks
from nightscreen.journal.actor import Actor
from nightscreen.privacy.contests import open_contest
from nightscreen.sandbox.batch import make_batch
from nightscreen.schemas.clock import MICROS, to_instant
from tests.killed import is_killed
from tests.nights.fixed_world import FixedWorld, Seeded
from tests.results.reviewing import filled, save
from tests.runs.workers_in_a_test import Shared
from tests.screening import Night, csv_rows, customer

Row = dict[str, str]
Nights = dict[str, Night]


MINUTE = 60 * MICROS
MAGIC = 999_000_000
"""Customers from this number on behave as `sandbox/test_identifiers.py` says of the last digits."""
LISTED = 1  # the magic customer who is on the blacklist by every identifier
CHECKS = ("bank_account", "karma", "ecosystem")
FAULTS = (
    *("http_429", "http_500", "http_502", "http_503", "http_504", "cut_before_charge"),
    *("cut_after_charge", "truncated", "unreadable", "timeout", "http_502_after_charge"),
    *("no_data", "foreign_404", "redirect"),
)
GIVEN = Path(__file__).with_name("given")
"""What a lender gives a run beside its rows: policies and a mapping."""
HEADINGS = {
    "customer_id": "Customer No",
    "first_name": "Other Names",
    "last_name": "Surname",
    "bvn": "Bank Verification Number",
    "account_number": "NUBAN",
    "bank_name": "Paying bank",
    "phone": "GSM",
    "exposure": "Amount o/s",
    "branch": "Religion",
}


def made_up(world: FixedWorld, rows: int, *, seed: int, damage_pct: float = 0) -> list[Row]:
    """Return rows of a generated batch, as of the world's day."""
    path = world.folder / "made.csv"
    today = to_instant(world.now).date()
    make_batch(path, rows=rows, seed=seed, damage_pct=damage_pct, today=today)
    generated = [
        {name: value or "" for name, value in row.items() if name} for row in csv_rows(path)
    ]
    path.unlink()
    return generated


def people(world: FixedWorld, numbers: Iterable[int]) -> list[Row]:
    """Return customers by number; numbers under ten are the magic people of that code.

    Every third of the others has no consent.
    """
    rows = []
    for number in numbers:
        row = customer(MAGIC + number if number < 10 else number, customer_id=f"C{number:03d}")
        row["exposure"] = str(5000 * (number % 40))
        if number < 10 or number % 3:
            row |= {"consent_reference": f"CNS-{number}", "consented_at": world.day(60)}
        rows.append(row)
    return rows


def portfolio(world: FixedWorld) -> Nights:
    """Return a plain night, the next day's, and one after most consents were withdrawn."""
    rows = [*made_up(world, 12, seed=3), *people(world, range(1, 9))]
    rows.append({**rows[2], "customer_id": "TWIN"})
    rows.append({**rows[2], "customer_id": "SILENT TWIN", "consent_reference": ""})
    nights = {"plain": world.screen(rows, batch="borrowers")}
    world.pass_time(days=1, minutes=20)
    rows[4]["last_name"], rows[5]["account_number"] = "Somebody", rows[6]["account_number"]
    rows = [*rows[1:], *people(world, range(60, 62))]
    nights["second"] = world.screen(rows, batch="borrowers")
    world.pass_time(days=1, minutes=20)
    for number, row in enumerate(rows):
        if number % 3 == 0:
            row["consent_reference"] = row["consented_at"] = ""
            row["consent_expires_at"] = ""
        elif number % 3 == 1:
            row["consent_withdrawn_at"] = world.day(1)
    nights["without-consent"] = world.screen(rows, batch="borrowers")
    return nights


def capped(world: FixedWorld) -> Nights:
    """Return a night whose cap is reached before that of the month: rank decides who is asked."""
    rows = [*people(world, range(1, 9)), *people(world, range(20, 36))]
    world.settings["monthly_spend_cap"] = "9000"
    return {"capped": world.screen(rows, max_spend="350")}


def faulty(world: FixedWorld) -> Nights:
    """Return a night with faults of every kind on the wire, resumed the next hour."""
    world.settings["timeout_s"] = dict.fromkeys(CHECKS, 20)
    world.settings["attempts"] = 3
    manners = world.sandbox.manners
    world.sandbox.manners = manners.model_copy(update={"silence_s": 60.0})
    world.sandbox.faults.seed = 11
    world.sandbox.faults.rates = {"all": dict.fromkeys(FAULTS, 0.03)}
    rows = people(world, range(100, 122))
    first = world.screen(rows)
    world.pass_time(minutes=60)
    return {"faulty": world.screen(rows, run=first.report["run_id"])}


def dirty(world: FixedWorld) -> Nights:
    """Return a night of applicants from a messy file with a lender's own headings."""
    mapping = shutil.copy(GIVEN / "mapping.toml", world.folder)
    rows = made_up(world, 28, seed=8, damage_pct=60)
    for row in rows:
        row["date_of_birth"] = "/".join(reversed(row["date_of_birth"].split("-")))
    path = world.write([{HEADINGS.get(name, name): row[name] for name in row} for row in rows])
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[7] = lines[7].rpartition(",")[0].rpartition(",")[0]
    lines[9] += ",one too many"
    lines.append(lines[12])
    lines.insert(0, "Harbour Finance: applications of the day")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    night = world.screen(input=str(path), mapping=str(mapping), purpose="origination")
    return {"dirty": night}


def loan_book(world: FixedWorld) -> Nights:
    """Return the second month of a book with a row per loan: some are worse, one is gone."""

    def book(numbers: Iterable[int]) -> list[Row]:
        rows = []
        for index, row in enumerate(people(world, numbers)):
            for loan in range(1 + index % 3):
                status = ("Running", "Overdue", "Settled", "Written off")[(index + loan) % 4]
                owed = str(1500 * (index + 1) + 250 * loan)
                rows.append({**row, "exposure": owed, "Loan Status": status})
        return rows

    numbers = [*range(1, 6), *range(200, 206)]
    world.screen(book(numbers), merge_rows=True, batch="loans")
    world.pass_time(days=31, minutes=20)
    world.sandbox.day += 31
    planted = world.sandbox.planted
    for number in range(200, 203):
        bvn = customer(number)["bvn"]
        planted.histories[bvn] = {"past_due_loans": 2, "past_due_loan_amount_due": 48_000}
    planted.listings[customer(MAGIC + LISTED)["bvn"]] = None
    night = world.screen(book([*numbers[1:], 206]), merge_rows=True, batch="loans")
    return {"loan-book": night}


def test_mode(world: FixedWorld) -> Nights:
    """Return a night on which the service is in test mode."""
    world.sandbox.test_mode = "mock-response"
    return {"test-mode": world.screen(people(world, range(1, 21)))}


def two_workers(world: FixedWorld) -> Nights:
    """Return a night that two workers share with the run's own process."""
    world.settings["max_in_flight"] = dict.fromkeys(CHECKS, 2)
    rows = [*people(world, range(1, 6)), *people(world, range(300, 315))]
    runner = SharedAndSeeded(world, None)
    return {"two-workers": world.screen_by(runner, rows, workers=2, checks=CHECKS[:2])}


class SharedAndSeeded(Seeded, Shared):
    """Runs with workers; these need no seed, since they draw no jitter without failures."""


def killed(world: FixedWorld) -> Nights:
    """Return a night that was killed while a charged answer was on its way, and resumed."""
    rows = [*people(world, range(1, 6)), *people(world, range(400, 415))]
    assert is_killed(world, lambda: world.screen(rows), at_call=30)
    world.evenings.append((world.now, world.now + MINUTE))
    world.pass_time(minutes=30)
    with world.journal() as journal:
        (begun,) = journal.runs.newest()
    return {"killed": world.screen(rows, run=begun.run_id)}


def applicants(world: FixedWorld) -> Nights:
    """Return applicants under a lender's own policy, and the next night after people decided."""
    own, strict = (shutil.copy(GIVEN / name, world.folder) for name in ("own.toml", "strict.toml"))
    rows = people(world, [*range(1, 9), *range(500, 512)])
    for number, row in enumerate(rows):
        row["phone"], row["email"] = f"0803{number // 2:07d}", f"c{number}@example.ng"
        row["image_url"] = f"https://images.example/{number}.jpg"
        row["branch"], row["score"] = ("Ikeja", "Enugu")[number % 2], str(20 + 4 * number)
        row["exposure"] = str(6000 * number)
    rows[3]["email"] = "listed@magic.example"
    options = {
        "purpose": "origination",
        "batch": "applicants",
        "checks": [*CHECKS, "selfie"],
        "karma_identities": ["bvn", "phone", "email", "nuban"],
        "karma_stop_at_first": True,
        "policy": str(own),
        "shadow": str(strict),
    }
    nights = {"applicants": world.screen(rows, **options)}
    world.pass_time(minutes=600)
    _decide(world, nights["applicants"].report["run_id"])
    world.pass_time(minutes=860)
    rows[1]["score"] = "90"
    nights["reviewed"] = world.screen(rows, **options)
    return nights


def _decide(world: FixedWorld, run_id: str) -> None:
    """Let a reviewer change a decision and confirm another, and a customer contest a third."""
    decisions = {"C001": "approve", "C002": "decline", "C003": "review"}
    rows = [filled(who, run_id, each, int(who[1:]) + 1) for who, each in decisions.items()]
    with world.journal() as journal:
        save(journal, *rows, partial=True)
        clocks = ContestClocks(hours=24, complex_hours=48, data_protection_hours=100)
        open_contest(
            journal, Actor("Ada Eze"), clocks, "C004", said="It was paid.", batch="applicants"
        )


def topped_up(world: FixedWorld) -> Nights:
    """Return a night whose wallet ran empty, and was topped up before the run was resumed."""
    world.sandbox.wallet.set_balance(300_000_000)
    rows = people(world, [*range(1, 5), *range(600, 616)])
    first = world.screen(rows)
    world.pass_time(minutes=90)
    world.sandbox.wallet.top_up(2_000_000_000)
    return {"topped-up": world.screen(rows, run=first.report["run_id"])}


WORLDS: dict[str, Callable[[FixedWorld], Nights]] = {
    "plain": portfolio,
    "second": portfolio,
    "without-consent": portfolio,
    "capped": capped,
    "faulty": faulty,
    "dirty": dirty,
    "loan-book": loan_book,
    "test-mode": test_mode,
    "two-workers": two_workers,
    "killed": killed,
    "applicants": applicants,
    "reviewed": applicants,
    "topped-up": topped_up,
}
"""The function that screens each standard night, by the night's name."""


def spend(name: str, folder: Path) -> tuple[FixedWorld, Nights]:
    """Screen a night, and the nights that come before or after it in the same world."""
    world = FixedWorld(folder)
    return world, WORLDS[name](world)
