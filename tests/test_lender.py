"""Random weeks of a lender: in any order of events, money and people stay correct.

Runs are screened, killed, resumed with other caps and approved; the wallet runs empty and is topped
up, prices change, people are erased, the data key is rotated. The service's own ledger is the
truth. Answers stay fresh throughout, so that no lookup may be answered twice.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from nightscreen.journal.actor import Actor
from nightscreen.journal.approvals import Approvals
from nightscreen.journal.keyset import rotate_key
from nightscreen.journal.opening import journal_of
from nightscreen.privacy.erasure import ErasureTarget, erase, find_person_data
from nightscreen.schemas.approvals import ApprovalDecision
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.errors import InputError
from tests.how_many import examples
from tests.kill.truth import books_of, ledger_of, wrong_statuses
from tests.killed import is_killed
from tests.laws import about_ledger
from tests.left_behind import everything
from tests.screening import CONSENT, AskingApproval, Night, World, customer

PEOPLE = 40
AT_ONCE = {"bank_account": 2, "karma": 3, "ecosystem": 3}
ALL = "100000"
CAPS = st.sampled_from(["30", "75", ALL])
CALLS = st.integers(1, 30)
BATCH = "borrowers"


class Lender(RuleBasedStateMachine):
    """A lender with some customers, and everything that may happen to its runs."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.world = World(self.folder, settings={"max_in_flight": AT_ONCE})
        self.people = {
            number: customer(number, customer_id=f"CUSTOMER-{number:03d}", **CONSENT)
            for number in range(1, PEOPLE + 1)
        }
        self.listed = 0
        self.files = 0
        self.unfinished: list[str] = []
        self.erased: list[int] = []

    # --- events ---

    @rule(more=st.integers(1, 8), cap=CAPS)
    def screen(self, more: int, cap: str) -> None:
        self._check(self.world.screen(input=self._file(more), batch=BATCH, max_spend=cap))

    @rule(more=st.integers(2, 8), at_call=CALLS, heard=st.booleans())
    def be_killed(self, more: int, at_call: int, *, heard: bool) -> None:
        """Screen the current customers in a process that is killed at some call."""
        file = self._file(more)
        is_killed(
            self.world,
            lambda: self.world.screen(input=file, batch=BATCH, max_spend=ALL),
            at_call=at_call,
            heard=heard,
        )
        self._look_for_unfinished()

    @precondition(lambda self: self.unfinished)
    @rule(cap=CAPS)
    def resume(self, cap: str) -> None:
        self._check(self.world.screen(run=self.unfinished[-1], max_spend=cap))

    @precondition(lambda self: self.unfinished)
    @rule(at_call=CALLS, heard=st.booleans())
    def be_killed_resuming(self, at_call: int, *, heard: bool) -> None:
        """Resume a run in a process that is killed again."""
        run = self.unfinished[-1]
        is_killed(
            self.world,
            lambda: self.world.screen(run=run, max_spend=ALL),
            at_call=at_call,
            heard=heard,
        )
        self._look_for_unfinished()

    @rule(more=st.integers(2, 8), cap=st.sampled_from([40, 5000]))
    def approve(self, more: int, cap: int) -> None:
        """Start a run that needs approval, approve it, and resume it."""
        self.world.settings["approval_above"] = "20"
        try:
            night = self.world.screen_by(AskingApproval(), input=self._file(more), batch=BATCH)
            if night.report["stop_reason"] == "approval":
                assert night.report["cost"]["total"] == "0.00"
                run_id = night.report["run_id"]
                with journal_of(self.world.read_settings()) as journal:
                    Approvals(journal).decide(
                        Actor("chief"),
                        run_id,
                        ApprovalDecision.APPROVED,
                        max_spend_micro=cap * MICROS,
                    )
                night = self.world.screen_by(AskingApproval(), run=run_id, max_spend=str(cap))
            self._check(night)
        finally:
            del self.world.settings["approval_above"]

    @rule(naira=st.sampled_from([0, 25, 60]))
    def run_dry(self, naira: int) -> None:
        """Let others spend all but some naira of the wallet."""
        self.world.sandbox.wallet.set_balance(naira * MICROS)

    @rule()
    def top_up(self) -> None:
        self.world.sandbox.wallet.top_up(10_000 * MICROS)

    @rule(check=st.sampled_from(sorted(AT_ONCE)), naira=st.integers(8, 30))
    def change_price(self, check: str, naira: int) -> None:
        self.world.sandbox.prices[check] = naira * MICROS

    @precondition(lambda self: any(number <= self.listed for number in self.people))
    @rule(which=st.integers(0, PEOPLE))
    def erase(self, which: int) -> None:
        """Erase a customer; unfinished runs are not resumed, since their files have the person."""
        listed = [number for number in self.people if number <= self.listed]
        number = listed[which % len(listed)]
        for file in self.folder.glob("in-*.csv"):
            file.unlink()
        self.unfinished.clear()
        person = self.people.pop(number)
        self.erased.append(number)
        target = ErasureTarget(customer_id=person["customer_id"], bvn=person["bvn"])
        pseudonyms: list[bytes] = []
        # a run that was killed early may have no data of this person
        with journal_of(self.world.read_settings()) as journal, suppress(InputError):
            data = find_person_data(journal, target)
            pseudonyms = list(data.pseudonyms().all)
            erase(journal, data)
        identifiers = [person[name].encode() for name in ("bvn", "account_number", "customer_id")]
        for path, content in everything(self.folder):
            assert not [each for each in (*identifiers, *pseudonyms) if each in content], path

    @rule()
    def rotate(self) -> None:
        if (self.folder / "home").exists():
            with journal_of(self.world.read_settings()) as journal:
                rotate_key(journal)

    # --- checks ---

    def _check(self, night: Night) -> None:
        """Compare a run with the people and the ledger; the laws were checked before."""
        if night.report["state"] == "completed":
            # a lone lookup that meets an empty wallet fails: no other lookup confirms the cause
            with journal_of(self.world.read_settings()) as journal:
                wrong = wrong_statuses(night.folder, journal)
            wrong = [each for each in wrong if ": failed" not in each]
            assert wrong == []
        self._look_for_unfinished()

    def _look_for_unfinished(self) -> None:
        """Find the runs that can be resumed, and compare the ledger with the journal."""
        with journal_of(self.world.read_settings()) as journal:
            runs = journal.runs.newest(limit=None)
            books = books_of(journal, ledger_of(self.world))
        assert [key for key in books.charges if books.answered[key] > 1] == []
        if not self.erased:  # calls about an erased person have no subject any more
            assert books.unnamed == []
        assert [*about_ledger(books.calls, books.ledger_micro)] == []
        files = {path.name for path in self.folder.glob("in-*.csv")}
        self.unfinished = [
            run.run_id
            for run in reversed(runs)
            if run.state != "completed" and Path(run.parameters["input"]).name in files
        ]

    def _file(self, more: int) -> str:
        """Write the current customers, some of them new, into a file; return its path."""
        self.listed = min(PEOPLE, self.listed + more)
        self.files += 1
        rows = [row for number, row in self.people.items() if number <= self.listed]
        return str(self.world.write(rows, f"in-{self.files}.csv"))

    def teardown(self) -> None:
        shutil.rmtree(self.folder)


TestLender = Lender.TestCase
TestLender.settings = settings(
    max_examples=examples(20),
    stateful_step_count=10,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
