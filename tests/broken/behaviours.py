"""The broken behaviours: each a slip that somebody could make, and the tests that must notice it.

Names and promises speak of what a user gets, and stay as they are when a part is written anew. The
edits are of the code as it is, and are then written anew with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
"""The tree that the files of the edits are named in."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Text of one file that is replaced; it must be there exactly once."""

    file: str
    old: str
    new: str

    def applied_to(self, text: str) -> str:
        """Return the file's text with the edit made.

        Raises:
            ValueError: the text is not as expected.
        """
        number = text.count(self.old)
        if number != 1:
            raise ValueError(f"{self.file} has {self.old.strip()!r} {number} times")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Broken:
    """One behaviour, broken.

    Attributes:
        name: what goes wrong.
        promise: what a user loses by it.
        edits: what is changed in the code as it is.
        tests: tests that notice; all of them pass on the code as it is.
    """

    name: str
    promise: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


_CALLS = "nightscreen/journal/calls.py"
_CALLS_SQL = "nightscreen/report/calls.sql"
_CONFIRMATIONS = "nightscreen/operations/bvn/confirmations.py"
_CONSENT_RULE = "nightscreen/planning/eligibility.py"
_DECIDE = "nightscreen/results/decide.py"
_ENGINE = "nightscreen/journal/engine.py"
_ERASURE = "nightscreen/journal/erasure.py"
_SCHEMA = "nightscreen/journal/schema.py"
_FILES = "nightscreen/files/private_files.py"
_FORGET = "nightscreen/privacy/erasure.py"
_FRESHNESS = "nightscreen/planning/freshness.py"
_INTAKE = "nightscreen/runs/intake.py"
_LANE = "nightscreen/calling/lane.py"
_MANNERS = "nightscreen/data/manners.toml"
_MONEY = "nightscreen/journal/money.py"
_OUTPUTS = "nightscreen/files/run_folder.py"
_PERSON_RUN = "nightscreen/operations/person_run.py"
_PLAN = "nightscreen/planning/plan.sql"
_PRICES = "nightscreen/schemas/money.py"
_PURGING = "nightscreen/privacy/purging.py"
_BALANCE = "nightscreen/report/calls.py"
_IDENTIFIERS = "nightscreen/values/identifiers.py"
_KEYSET = "nightscreen/journal/keyset.py"
_RUN = "nightscreen/runs/run.py"
_SCREENING = "nightscreen/runs/screening_run.py"
_SEALING = "nightscreen/files/sealing.py"
_WRITER = "nightscreen/calling/writer.py"

_RUN_STOPS = "nightscreen/calling/stops.py"
_WALLET = "nightscreen/calling/wallet.py"
_T_CALLS = "tests/journal/test_journal_calls.py"
_T_CLAIMS = "tests/journal/test_claims.py"
_T_DECIDE = "tests/results/test_decide.py"
_T_ERASURE = "tests/personal/test_erasure.py"
_T_EXACT = "tests/money/test_exact.py"
_T_INTAKE = "tests/runs/test_intake.py"
_T_JOURNAL_KEEPING = "tests/journal/test_journal_keeping.py"
_T_WRITER = "tests/calling/test_writer.py"
_T_LINE = "tests/runs/test_line.py"
_T_POLICY_ATTACKS = "tests/policy/test_policy_attacks.py"
_T_PROMISES = "tests/runs/test_promises.py"
_T_PURGING = "tests/personal/test_purging.py"
_T_SPENDING_APPROVAL = "tests/runs/test_spending_approval.py"
_T_STOPS = "tests/money/test_stops.py"
_T_UNREAD_NIGHTS = "tests/money/test_unread_nights.py"

_RESERVING = (
    Broken(
        "a reservation is skipped",
        "Calls under way are held against no cap, so that a night spends more than it may.",
        (
            Edit(
                _CALLS,
                "change = Spent(reserved_micro=reserved_micro, calls=len(self.granted))",
                "change = Spent(calls=len(self.granted))",
            ),
        ),
        (f"{_T_CALLS}::test_a_block_is_granted_and_its_worst_cost_reserved[sqlite]",),
    ),
    Broken(
        "the cap of a run is forgotten",
        "A run that was allowed 300 naira spends what the whole batch costs.",
        (
            Edit(_MONEY, "limits = ((run, caps.run_micro), (day,", "limits = ((run, None), (day,"),
            Edit(
                "nightscreen/calling/run.py",
                "            (caps.run_micro, partial(money.of_run, run.run_id)),\n"
                "            (caps.day_micro, money.today),\n"
                "            (caps.month_micro, money.this_month),\n        )\n"
                "        if cap is not None\n    ]\n    return max(",
                "            (caps.day_micro, money.today),\n"
                "            (caps.month_micro, money.this_month),\n        )\n"
                "        if cap is not None\n    ]\n    return max(",
            ),
        ),
        (f"{_T_LINE}::test_the_cap_stops_the_run_and_money_is_not_left_unused",),
    ),
    Broken(
        "the cap of a day is forgotten",
        "Several runs of one day together spend more than the lender allows a day.",
        (
            Edit(_MONEY, "(day, caps.day_micro)", "(day, None)"),
            Edit(
                "nightscreen/calling/run.py",
                "            (caps.day_micro, money.today),\n"
                "            (caps.month_micro, money.this_month),\n        )\n"
                "        if cap is not None\n    ]\n    return max(",
                "            (caps.month_micro, money.this_month),\n        )\n"
                "        if cap is not None\n    ]\n    return max(",
            ),
        ),
        (f"{_T_PROMISES}::test_runs_share_the_cap_of_their_time",),
    ),
    Broken(
        "the day's number of lookups is passed by one",
        "The service is asked more often a day than its contract with the lender allows.",
        (
            Edit(
                _MONEY,
                "if self.calls is not None and self.calls < 1:",
                "if self.calls is not None and self.calls < 0:",
            ),
        ),
        (f"{_T_STOPS}::test_the_quota_is_used_up_and_not_passed",),
    ),
    Broken(
        "a doubt gives its reservation back",
        "Money that may be gone is spent again, and the cap is passed.",
        (
            Edit(
                _MONEY,
                "RESERVING = frozenset({CallState.INTENT, CallState.IN_DOUBT, CallState.ANSWERED})",
                "RESERVING = frozenset({CallState.INTENT, CallState.ANSWERED})",
            ),
        ),
        (f"{_T_CALLS}::test_each_end_keeps_or_frees_the_reservation",),
    ),
    Broken(
        "unconfirmed prices are asked all at once",
        "Under an old price list a whole block of calls passes the cap, and not one call.",
        (
            Edit(
                _MONEY,
                "alone = self.limit_micro is not None and not self.risk_micro",
                "alone = self.limit_micro is not None",
            ),
        ),
        (
            (
                "tests/journal/test_journal_prices.py"
                "::test_near_the_cap_unconfirmed_calls_go_one_at_a_time[sqlite]"
            ),
        ),
    ),
    Broken(
        "a risen price is not reserved",
        "After a rise of prices every call in flight goes beyond the cap.",
        (
            Edit(
                _PRICES,
                "return max([known_micro, *prices])",
                "return max([known_micro, *prices[:0]])",
            ),
        ),
        (f"{_T_CALLS}::test_a_price_rise_is_reserved_at_once_everywhere_and_reported[sqlite]",),
    ),
    Broken(
        "the floor under the balance forgets calls under way",
        "The wallet is taken below what the lender keeps for other uses of it.",
        (
            Edit(
                _WALLET,
                "return self.least_micro - self.bound_micro - (self.floor_micro or 0)",
                "return self.least_micro - (self.floor_micro or 0)",
            ),
        ),
        (f"{_T_STOPS}::test_the_floor_is_kept",),
    ),
    Broken(
        "an unbelievable cost is taken for a price",
        "One absurd figure of the service makes every later call unaffordable.",
        (
            Edit(_CALLS, "if each.cost_micro and each.named_micro is None:", "if each.cost_micro:"),
            Edit(
                _PRICES,
                "return [price for price in found if limit_micro is None or price <= limit_micro]",
                "return list(found)",
            ),
        ),
        (
            (
                "tests/money/test_prices.py"
                "::test_a_cost_that_a_balance_contradicts_blocks_neither_night_nor_month"
            ),
        ),
    ),
    Broken(
        "a check is asked beyond the rank that the money reaches",
        "Under a cap cheap checks of late customers are paid for before dear ones of early.",
        (
            Edit(
                _CALLS,
                "return sum(each.lookup_id <= last for each in picked)",
                "return len(picked)",
            ),
        ),
        (f"{_T_CLAIMS}::test_no_check_goes_beyond_the_rank_that_the_money_reaches",),
    ),
    Broken(
        "days of spending begin at midnight",
        "One night is two days, and may spend the cap of a day twice.",
        (
            Edit(
                "nightscreen/schemas/clock.py",
                "NOON_MICROS = 11 * 3600 * MICROS",
                "NOON_MICROS = 23 * 3600 * MICROS",
            ),
        ),
        (f"{_T_PROMISES}::test_runs_share_the_cap_of_their_time",),
    ),
    Broken(
        "money passes through a float",
        "Sums of many lookups are off by fractions of a kobo and agree with nothing.",
        (
            Edit(
                "nightscreen/schemas/money.py",
                "return int((naira * MICRO).to_integral_value(rounding=ROUND_UP))",
                "return int(float(naira) * MICRO)",
            ),
        ),
        (f"{_T_PROMISES}::test_a_price_with_kobo_is_counted_to_the_kobo",),
    ),
)
"""Reserving and money."""

_WRITING = (
    Broken(
        "an intent is written with its outcome",
        "After a crash nobody knows of the calls that were under way, and may be charged.",
        (
            Edit(
                _CALLS,
                "_INTEND.run(connection, [turn",
                "_UNWRITTEN.extend([turn",
            ),
            Edit(
                _CALLS,
                "(connection.execute(_LAST_CALL).scalar() or 0) + 1",
                "(connection.execute(_LAST_CALL).scalar() or 0) + 1 + len(_UNWRITTEN)",
            ),
            Edit(
                _CALLS,
                "            found = _read_open(connection, ",
                "            _INTEND.run(connection, _UNWRITTEN)\n"
                "            _UNWRITTEN.clear()\n"
                "            found = _read_open(connection, ",
            ),
            Edit(
                _CALLS,
                "_LAST_CALL = select",
                "_UNWRITTEN: list[tuple[Any, ...]] = []\n_LAST_CALL = select",
            ),
        ),
        (f"{_T_PROMISES}::test_each_call_finds_its_intent_committed",),
    ),
    Broken(
        "outcomes are not committed",
        "What was paid for is lost, and is paid for again by the next run.",
        (
            Edit(
                _CALLS,
                "        with recording(self._engine) as connection:\n"
                "            found = _read_open(",
                "        with reading(self._engine) as connection:\n"
                "            found = _read_open(",
            ),
        ),
        (f"{_T_LINE}::test_second_night_pays_nothing",),
    ),
    Broken(
        "SQLite syncs now and then",
        "A power cut loses calls that were sent, and what they cost.",
        (Edit(_ENGINE, "PRAGMA synchronous=FULL", "PRAGMA synchronous=NORMAL"),),
        (
            (
                "tests/journal/test_journal_sqlite.py"
                "::test_commits_last_through_power_loss_by_setting"
            ),
        ),
    ),
    Broken(
        "PostgreSQL answers before it syncs",
        "A power cut of the database loses calls that were sent, and what they cost.",
        (Edit(_ENGINE, "synchronous_commit=on", "synchronous_commit=off"),),
        (("tests/journal/test_journal_postgresql.py::test_commits_last_whatever_the_server_does"),),
    ),
    Broken(
        "an outcome counts each time it is handed in",
        "A call is counted twice, and the journal says more than the service charged.",
        (
            Edit(
                _CALLS,
                "        or_(_IS_INTENT, and_(_CRASHED, calls.c.cost_micro.is_(None))),\n",
                "",
            ),
        ),
        (f"{_T_CALLS}::test_settling_twice_counts_once[sqlite]",),
    ),
    Broken(
        "outcomes that a full disk refused are dropped",
        "What was answered while the disk was full is lost though there is room again.",
        (Edit(_WRITER, "            self._unwritten += group\n", ""),),
        (f"{_T_WRITER}::test_a_failed_commit_breaks_the_writer_and_is_tried_once_more",),
    ),
)
"""Intents and outcomes, and what lasts of them."""

_REUSE = (
    Broken(
        "a duplicate is asked twice",
        "Two customers with one BVN cost two lookups.",
        (
            Edit(
                _PLAN,
                'WHERE "{slot}" = 0\nGROUP BY "{subject}";',
                'WHERE "{slot}" = 0\nGROUP BY "{subject}", row;',
            ),
            Edit(
                _CALLS,
                "                taken[bytes(subject)] = answered\n",
                "                continue\n",
            ),
        ),
        (f"{_T_LINE}::test_a_lookup_needed_twice_is_made_once",),
    ),
    Broken(
        "what another run asks at this moment is asked too",
        "Two runs at once pay twice for the customers that both have.",
        (
            Edit(
                _CALLS,
                "taken.setdefault(bytes(subject), Reservation(ReservationStatus.HELD))",
                "continue",
            ),
        ),
        (f"{_T_CALLS}::test_a_subject_asked_by_the_living_is_held[sqlite]",),
    ),
    Broken(
        "a fresh answer is bought again",
        "Every night pays for the whole book.",
        (
            Edit(
                _PLAN,
                "FROM judged WHERE NOT is_fresh AND NOT is_closed;",
                "FROM judged WHERE NOT is_closed;",
            ),
        ),
        (f"{_T_LINE}::test_second_night_pays_nothing",),
    ),
    Broken(
        "an old answer is used for ever",
        "A customer is judged by what was known of him a year ago.",
        (
            Edit(
                _PLAN,
                'coalesce("current" OR answered_at >= fresh_from, false) AS is_fresh',
                'coalesce("current" OR answered_at > 0, false) AS is_fresh',
            ),
        ),
        (f"{_T_LINE}::test_answers_are_asked_again_once_they_are_old",),
    ),
    Broken(
        "a resumed run buys its own answers again",
        "A run that was stopped pays twice for what it had asked already.",
        (
            Edit(
                "nightscreen/journal/answers.py",
                "row.subject in own or row.answer_id > since",
                "row.answer_id > since",
            ),
        ),
        (
            (
                "tests/planning/test_freshness_over_nights.py"
                "::test_what_a_run_asked_is_fresh_in_it_and_whenever_it_is_resumed"
            ),
        ),
    ),
)
"""Duplicates and answers at hand."""

_STOPPING = (
    Broken(
        "a refused key stops nothing",
        "Thousands of calls go out that the service refuses, and the account is locked.",
        (
            Edit(
                _MANNERS,
                'trouble = "auth"\nstop = "auth"\nstop_scope = "check"\n',
                'trouble = "auth"\n',
            ),
        ),
        (f"{_T_PROMISES}::test_a_check_whose_key_is_refused_is_asked_no_further",),
    ),
    Broken(
        "an empty wallet stops nothing",
        "The rest of the night is spent on calls that the service refuses to make.",
        (
            Edit(
                _MANNERS,
                'verdict = "stop"\ntrouble = "balance"\nstop = "balance"\nstop_scope = "run"\n',
                'verdict = "not_charged"\ntrouble = "balance"\n',
            ),
        ),
        (f"{_T_STOPS}::test_an_empty_wallet_stops_the_run",),
    ),
    Broken(
        "a silent service is asked on and on",
        "An outage uses up the money held for calls in doubt, and marks the book failed.",
        (
            Edit(
                "nightscreen/calling/stops.py",
                "if self.opened_at is None and self._attempts >= self.after:",
                "if self.opened_at is None and self._attempts < 0:",
            ),
        ),
        (f"{_T_STOPS}::test_an_outage_stops_the_run_and_a_resume_ends_it",),
    ),
    Broken(
        "the deadline is forgotten",
        "The night goes on into the morning, and nothing is published when it is needed.",
        (
            Edit(
                _RUN_STOPS,
                "        if self.deadline_at is not None and now >= self.deadline_at:\n"
                "            self.stop(StopReason.DEADLINE)\n",
                "",
            ),
        ),
        (f"{_T_PROMISES}::test_nothing_is_sent_after_the_deadline",),
    ),
    Broken(
        "a run that failed goes on sending what is left",
        "Whoever ends a run after an error pays for the rest of the batch, and gets nothing.",
        (
            Edit(
                "nightscreen/calling/caller.py",
                "        if any(lane.open for lane in self.lanes.values()):\n"
                "            stops.stop(StopReason.CANCELLED)\n",
                "",
            ),
        ),
        ("tests/money/test_stops.py::test_closing_after_a_failure_sends_nothing_more",),
    ),
)
"""Stops and the deadline."""

_READING = (
    Broken(
        "a wrong address looks like an empty book",
        "Every customer is clear, since a wrong address finds nobody.",
        (
            Edit(
                _MANNERS,
                'verdict = "stop"\ntrouble = "address"\nstop = "address"\nstop_scope = "run"\n'
                'cost_naira = "0"\n\n# --- test mode',
                'verdict = "answered"\noutcome = "clear"\ncost_naira = "0"\n\n# --- test mode',
            ),
        ),
        (f"{_T_PROMISES}::test_a_wrong_address_is_no_book_without_listings",),
    ),
    Broken(
        "an answer without a cost counts as free",
        "Charged answers that cannot be read are missing from the books.",
        (
            Edit(
                "nightscreen/client/classify.py",
                'cost = _meta(look.document, "cost")',
                'cost = _meta(look.document, "cost") or 0',
            ),
        ),
        (
            (
                "tests/client/test_classify.py"
                "::test_success_without_meta_is_an_answer_of_unknown_cost"
            ),
            f"{_T_EXACT}::test_answers_without_meta_are_in_doubt_and_no_drift",
        ),
    ),
    Broken(
        "a fault of the server counts as not charged",
        "A call that was charged before it failed is named nowhere.",
        (
            Edit(
                _MANNERS,
                '[[rules]]\nname = "server fault"\nstatus = ["5xx"]\nverdict = "in_doubt"\n',
                '[[rules]]\nname = "server fault"\nstatus = ["5xx"]\nverdict = "not_charged"\n',
            ),
        ),
        (f"{_T_EXACT}::test_an_opening_charged_and_then_answered_502_is_not_exact",),
    ),
    Broken(
        "a karma record under 404 is clear",
        "A listed defaulter is approved.",
        (
            Edit(
                _MANNERS,
                'status = [404]\nbody_status = ["success"]\nbody = ["no_data"]\n'
                'verdict = "answered"\noutcome = "clear"\n',
                'status = [404]\nbody_status = ["success"]\nverdict = "answered"\n'
                'outcome = "clear"\n',
            ),
            Edit(
                _MANNERS,
                'operations = ["karma"]\nstatus = ["2xx", 404]\nbody_status = ["success"]\n',
                'operations = ["karma"]\nstatus = ["2xx"]\nbody_status = ["success"]\n',
            ),
        ),
        ("tests/money/test_odd_answers.py::test_a_karma_record_under_404_is_never_clear",),
    ),
    Broken(
        "Retry-After is not heard",
        "A service that asks for a pause is overrun, and locks the account.",
        (
            Edit(
                "nightscreen/client/limiter.py",
                "self.paused_until = max(self.paused_until, now + retry_after_s)",
                "self.paused_until = max(self.paused_until, now)",
            ),
        ),
        ("tests/client/test_limiter.py::test_retry_after_pauses_the_whole_check",),
    ),
    Broken(
        "a lookup in doubt is sent for without end",
        "A lookup whose answer is lost every time is bought night after night.",
        (
            Edit(
                _FRESHNESS,
                "return doubts >= attempts or unread >= min(UNREAD_SENDS, attempts)",
                "return unread >= min(UNREAD_SENDS, attempts)",
            ),
        ),
        (f"{_T_UNREAD_NIGHTS}::test_a_lost_answer_is_sent_for_five_times_a_day_over_all_runs",),
    ),
    Broken(
        "an answer about somebody else is evidence",
        "A customer is judged by another person's record.",
        (
            Edit(
                "nightscreen/checks/ecosystem.py",
                "return not names_the_same(IdentityKind.BVN, asked, record.bvn)",
                "return False",
            ),
            Edit(
                "nightscreen/checks/karma.py",
                "if named is not kind or not names_the_same(kind, asked, listing.karma_identity):",
                "if named is not kind:",
            ),
        ),
        (
            (
                "tests/money/test_somebody_elses_record.py"
                "::test_each_answered_with_the_record_of_another"
            ),
        ),
    ),
    Broken(
        "answers of test mode count",
        "A night of samples is published as if it were of customers.",
        (
            Edit(
                _MANNERS,
                'keys = ["mock-response"]\nverdict = "test_mode"\ntrouble = "test_mode"\n'
                'stop = "test_mode"\nstop_scope = "run"\n',
                'keys = ["mock-response-of-old"]\nverdict = "test_mode"\ntrouble = "test_mode"\n'
                'stop = "test_mode"\nstop_scope = "run"\n',
            ),
        ),
        (f"{_T_LINE}::test_test_mode_is_noticed_at_the_first_answers",),
    ),
)
"""What an answer means, and when it is sent for again."""

_CONSENT = (
    Broken(
        "consent is judged at the plan only",
        "A customer is asked about though his consent ended in the night.",
        (
            Edit(
                _CALLS,
                "if each.consent_ends_at is not None and self._now >= each.consent_ends_at:",
                "if each.consent_ends_at is not None and self._now < 0:",
            ),
            Edit(
                _LANE,
                "if task.consent_ends_at is not None and now >= task.consent_ends_at:",
                "if task.consent_ends_at is not None and now < 0:",
            ),
            Edit(
                _LANE,
                "if task.consent_ends_at is not None and self.clock() >= task.consent_ends_at:",
                "if task.consent_ends_at is not None and self.clock() < 0:",
            ),
        ),
        (f"{_T_LINE}::test_no_call_goes_out_once_its_consent_has_ended",),
    ),
    Broken(
        "consent is not asked for",
        "Customers who never consented are asked about in the ecosystem.",
        (
            Edit(
                "nightscreen/planning/eligibility.py",
                "refused = ~consent if CHECKS[slot.check].needs_consent else",
                'refused = ~consent if slot.check == "selfie" else',
            ),
        ),
        (f"{_T_LINE}::test_no_row_without_consent_reaches_the_ecosystem",),
    ),
    Broken(
        "a shared answer is shown without consent",
        "A customer without consent is shown what another's consent paid for.",
        (
            Edit(
                _PLAN,
                'CASE WHEN "{slot}" = 0 THEN "{subject}" END AS subject',
                'CASE WHEN "{slot}" IN (0, 3) THEN "{subject}" END AS subject',
            ),
            Edit(
                _PLAN,
                'ON subject = "{subject}" AND "{slot}" = 0\nORDER BY row;',
                'ON subject = "{subject}" AND "{slot}" IN (0, 3)\nORDER BY row;',
            ),
        ),
        (f"{_T_LINE}::test_an_answer_at_hand_is_not_shown_without_consent",),
    ),
    Broken(
        "consent that has expired counts",
        "Customers are asked about after the day they consented to.",
        (
            Edit(
                _CONSENT_RULE,
                "    until = _twelve_months_after(given) if expires is None else expires\n",
                "    until = 2**62\n",
            ),
        ),
        (f"{_T_PROMISES}::test_an_answer_at_hand_is_not_shown_once_consent_has_ended",),
    ),
)
"""Consent."""

_PROCESSES = (
    Broken(
        "a dead process is taken for living",
        "What a killed process was asking is never asked again, and its run never resumed.",
        (
            Edit(
                "nightscreen/journal/holders.py",
                "            self._path(holder).unlink(missing_ok=True)\n        return False\n",
                "            return True\n        return False\n",
            ),
        ),
        ("tests/journal/test_holders.py::test_a_killed_process_lets_go_at_once[sqlite]",),
    ),
    Broken(
        "a call that a kill cut off counts as never sent",
        "A call that may have been charged is named nowhere.",
        (
            Edit(
                _CALLS,
                ".values(state=CallState.IN_DOUBT.value, trouble=CRASHED, "
                "settled_at=self._clock())",
                ".values(state=CallState.NOT_SENT.value, trouble=CRASHED, "
                "settled_at=self._clock())",
            ),
        ),
        (f"{_T_CALLS}::test_recovery_doubts_exactly_what_the_dead_left[sqlite]",),
    ),
    Broken(
        "a process that lost its lock goes on sending",
        "Two processes pay for the same lookups, each taking the other for dead.",
        (
            Edit(
                _CALLS,
                "recording(self._engine, Turn.GRANTS, first=self._holders.assure)",
                "recording(self._engine, Turn.GRANTS)",
            ),
        ),
        (f"{_T_CALLS}::test_a_process_that_lost_its_lock_sends_nothing_more",),
    ),
    Broken(
        "a run that another process has is resumed",
        "Two processes write one folder, and pay for one batch twice.",
        (
            Edit(
                _RUN,
                "if journal.runs.held_elsewhere(run_id) or journal.askers.asks_elsewhere(run_id):",
                "if not run_id:",
            ),
        ),
        (f"{_T_PROMISES}::test_a_run_under_way_is_resumed_by_nobody_else",),
    ),
    Broken(
        "a cap on money is kept by each process for itself",
        "Four workers together spend four times what the day allows.",
        (
            Edit(
                _CALLS,
                "read_scopes(self._connection, self._scopes)",
                "{scope: _MINE.get((self._me, scope), Spent()) for scope in self._scopes}",
            ),
            Edit(
                _CALLS,
                "            changes.add(self._scopes, change)\n",
                "            changes.add(self._scopes, change)\n"
                "            for scope in self._scopes:\n"
                "                mine = _MINE.get((self._me, scope), Spent())\n"
                "                _MINE[self._me, scope] = mine.plus(change)\n",
            ),
            Edit(
                _CALLS,
                "_LAST_CALL = select",
                "_MINE: dict[Any, Spent] = {}\n_LAST_CALL = select",
            ),
        ),
        (f"{_T_CALLS}::test_threads_and_processes_never_pass_a_shared_cap[sqlite]",),
    ),
    Broken(
        "a worker goes by the caps of its own machine",
        "A night with workers spends more than the lender allowed it.",
        (
            Edit(
                "nightscreen/runs/worker.py",
                "caps = Caps(**own)",
                "caps = Caps(in_flight=tuple(settings.max_in_flight.items()))",
            ),
        ),
        ("tests/runs/test_workers.py::test_a_worker_keeps_the_caps_of_the_run",),
    ),
    Broken(
        "lookups of a dead worker stay claimed",
        "A lost machine takes its customers with it, and the run never ends.",
        (Edit(_CALLS, "        lookups.free(connection, dead)\n", ""),),
        (
            f"{_T_CLAIMS}::test_what_a_dead_process_had_claimed_is_free_and_its_call_in_doubt[sqlite]",
        ),
    ),
    Broken(
        "lookups of a run outlive it",
        "Sealed identities of a whole batch stay in the journal after every night.",
        (Edit(_SCREENING, "        journal.lookups.clear(run_id)\n", ""),),
        (f"{_T_LINE}::test_nothing_of_the_lookups_outlives_their_run",),
    ),
    Broken(
        "what waits for an earlier stage is asked at once",
        "Where karma may stop at the first listing every identity is paid for.",
        (
            Edit(
                "nightscreen/planning/lookup_table.py",
                "            waits[rows] |= ~ended[numbers]\n",
                "",
            ),
        ),
        ("tests/planning/test_short_circuit.py::test_no_more_is_asked_about_who_is_listed",),
    ),
    Broken(
        "another file is taken for the run's own",
        "Rows of one file are published as the result of another.",
        (
            Edit(
                _RUN,
                "if earlier is not None and earlier.input_digest != digest:",
                "if earlier is not None and not digest:",
            ),
        ),
        (f"{_T_LINE}::test_another_input_is_refused_on_resuming",),
    ),
)
"""Several processes, dead ones, and runs that are resumed."""

_PEOPLE = (
    Broken(
        "erasure leaves the answers",
        "What the service said of an erased person is still there.",
        (
            Edit(
                _ERASURE,
                "            if leaves is None:\n",
                "            if leaves is None and table is not answers:\n",
            ),
        ),
        (f"{_T_ERASURE}::test_nothing_of_the_person_is_left_anywhere",),
    ),
    Broken(
        "erasure leaves the pseudonym in the calls",
        "Whoever has the key finds the erased person by a BVN.",
        (
            Edit(
                _SCHEMA,
                '{"subject": TOMBSTONE, "consent_reference": None}',
                '{"consent_reference": None}',
            ),
        ),
        (f"{_T_ERASURE}::test_nothing_of_the_person_is_left_anywhere",),
    ),
    Broken(
        "a late answer about an erased person is kept",
        "A process that seemed dead brings a person back who was erased meanwhile.",
        (Edit(_CALLS, "bodies.pop(each.call_id, None)\n", "bodies.get(each.call_id)\n"),),
        (f"{_T_CALLS}::test_a_late_outcome_about_an_erased_person_is_money_only[sqlite]",),
    ),
    Broken(
        "a person is erased while being asked about",
        "The answer comes after the erasure, and the person is back in the journal.",
        (Edit(_ERASURE, "require_rest(connection, person.subjects)", "require_rest(connection)"),),
        ("tests/journal/test_erasure.py::test_a_person_being_asked_about_is_refused[sqlite]",),
    ),
    Broken(
        "past outputs keep the erased person",
        "The person is erased from the journal and stays in every past list.",
        (
            Edit(
                _FORGET,
                "if folder.drop(file, mine) and",
                "if mine.count(file) and",
            ),
        ),
        (f"{_T_ERASURE}::test_nothing_of_the_person_is_left_anywhere",),
    ),
    Broken(
        "erasure leaves the files of the inbox",
        "The person stands in clear in the file that was dropped, for a year.",
        (
            Edit(
                _FORGET,
                "for path in found.dropped if path",
                "for path in found.dropped[:0] if path",
            ),
        ),
        ("tests/inbox/test_inbox.py::test_erasing_reaches_the_dropped_file_in_every_format",),
    ),
    Broken(
        "a legal hold stops no erasure",
        "Evidence that a court asked to keep is destroyed.",
        (Edit(_FORGET, "    _refuse_held(journal, found)\n    return found", "    return found"),),
        (f"{_T_ERASURE}::test_a_legal_hold_goes_first",),
    ),
    Broken(
        "a purge leaves what is too old",
        "Personal data is kept for longer than the lender declares.",
        (
            Edit(
                _PURGING,
                "if files and ended <= getattr(cutoffs, ground):",
                "if files and ended <= cutoffs.audit:",
            ),
        ),
        (f"{_T_PURGING}::test_each_kind_goes_at_its_age",),
    ),
    Broken(
        "rotation retires a key that a run still holds",
        "A run cannot open what its workers write from then on.",
        (Edit(_KEYSET, "    if not living:\n", "    if True:\n"),),
        (f"{_T_JOURNAL_KEEPING}::test_runs_go_on_while_the_key_is_rotated[sqlite]",),
    ),
    Broken(
        "a rotation that is cut off loses the new key",
        "Nobody can open the journal any more.",
        (Edit(_KEYSET, "        prepare_key(journal.home, fresh)\n", "        pass\n"),),
        (f"{_T_JOURNAL_KEEPING}::test_a_rotation_that_crashed_loses_no_key",),
    ),
    Broken(
        "a sealed answer opens as another person's",
        "Who can write the journal gives one customer the answer about another.",
        (Edit(_CALLS, 'return check.encode() + b"\\x1f" + subject\n', "return check.encode()\n"),),
        (
            (
                "tests/journal/test_answers.py"
                "::test_an_answer_moved_to_another_person_does_not_open[sqlite]"
            ),
        ),
    ),
    Broken(
        "pseudonyms have no key",
        "Whoever has the journal finds out BVNs by trying them all.",
        (
            Edit(
                _SEALING,
                "hmac.digest(self.key, ",
                'hmac.digest(b"", ',
            ),
        ),
        ("tests/files/test_sealing.py::test_pseudonyms_are_stable_distinct_and_keyed",),
    ),
    Broken(
        "a backup has its key beside it",
        "Whoever finds a backup reads every answer.",
        (
            Edit(
                "nightscreen/journal/copying.py",
                "        if passphrase:\n"
                "            write_private(partial / SEALED_KEY_FILE, "
                "seal_key(journal.lender_key, passphrase))\n",
                "        write_private(partial / KEY_FILE, encode_key(journal.lender_key))\n",
            ),
        ),
        (
            f"{_T_JOURNAL_KEEPING}::test_a_backup_made_while_a_run_goes_on_is_a_home_of_its_own[sqlite]",
        ),
    ),
    Broken(
        "a cut tail of the audit is not noticed",
        "Somebody removes the last entries about what he did, and all looks well.",
        (
            Edit(
                "nightscreen/journal/audit.py",
                "        if ends is not None and ends.last >= expected:\n"
                "            found.append(_missing(expected, ends.last))\n",
                "",
            ),
        ),
        ("tests/desk/test_audit.py::test_what_was_changed_is_noticed_and_named",),
    ),
    Broken(
        "a consent reference that names somebody is kept in clear",
        "A BVN stands in the table of calls that goes to auditors.",
        (
            Edit(
                _IDENTIFIERS,
                "    if any(len(number) >= _ENOUGH_DIGITS and number in digits for number in "
                "numbers):\n        return True\n",
                "",
            ),
            Edit(
                _IDENTIFIERS,
                "    if forms_in(reference) & PERSONAL:\n",
                '    if "@" in reference:\n',
            ),
        ),
        (f"{_T_LINE}::test_a_consent_reference_that_names_the_person_is_masked",),
    ),
    Broken(
        "a hint quotes the row",
        "Identifiers stand in problems.csv, which goes to whoever mends the file.",
        (
            Edit(
                _INTAKE,
                "            write(result.refused, result.problems)\n",
                "            told = [\n"
                "                type(each)(each.line, each.column, each.code,"
                ' f"{each.hint} {result.refused[0].values}", each.action)\n'
                "                if result.refused\n                else each\n"
                "                for each in result.problems\n            ]\n"
                "            write(result.refused, told)\n",
            ),
        ),
        (f"{_T_LINE}::test_the_books_of_the_report_always_add_up",),
    ),
    Broken(
        "a report names a customer",
        "A BVN stands in a report that is mailed to managers.",
        (
            Edit(
                "nightscreen/report/run_end.py",
                "self.notices = [*run.stops.refusals(), *run.stops.notices]\n",
                "self.notices = [*run.stops.refusals(), *run.stops.notices, *_asked(run)]\n",
            ),
            Edit(
                "nightscreen/report/run_end.py",
                "class RunEnd:",
                'def _asked(run: Run) -> list[str]:\n    needed = getattr(run, "needed", None)\n'
                "    pieces = [] if needed is None else needed.pieces()\n"
                '    return [str(row) for _, piece in pieces for row in piece["identity"]]\n\n\n'
                "class RunEnd:",
            ),
        ),
        (f"{_T_LINE}::test_every_row_has_the_status_the_sandbox_knows",),
    ),
    Broken(
        "a log quotes what a library says",
        "Identifiers stand in the log of whoever keeps it.",
        (
            Edit(
                "nightscreen/cli/entry.py",
                '"%(levelname)s %(name)s %(lineno)d"',
                '"%(levelname)s %(name)s %(message)s"',
            ),
        ),
        ("tests/cli/test_starting.py::test_the_text_of_a_library_is_left_out",),
    ),
    Broken(
        "a file named after somebody is taken",
        "A BVN stands in every log, report and page, since the file was called so.",
        (
            Edit(
                "nightscreen/schemas/naming.py",
                "    if contains_identifier(Path(path).name):\n",
                "    if contains_identifier(Path(path).suffix):\n",
            ),
        ),
        ("tests/flows/test_file_names.py::test_a_file_named_after_somebody_is_refused",),
    ),
)
"""Erasure, keys, backups and the audit; identifiers where none belong."""

_ROWS = (
    Broken(
        "a row that cannot be read is lost",
        "A customer is missing from the night, and nothing says so.",
        (
            Edit(
                _INTAKE,
                "[*batch.broken, *refused_rows(came, refusals)]",
                "refused_rows(came, refusals)",
            ),
            Edit(_INTAKE, "read=len(batch.lines) + len(batch.broken),", "read=len(batch.lines),"),
        ),
        (f"{_T_INTAKE}::test_broken_rows_are_read_refused_and_told",),
    ),
    Broken(
        "a customer stands in the list twice",
        "Two rows of one customer are decided against each other.",
        (
            Edit(
                _INTAKE,
                '                reasons.setdefault(row, ("customer_id", ID_REPEATED))\n',
                "                continue\n",
            ),
        ),
        (f"{_T_INTAKE}::test_only_the_first_of_repeated_ids_passes_also_across_batches",),
    ),
    Broken(
        "a refused row has no line in the quarantine",
        "Nobody can mend a row that was refused, since it stands nowhere.",
        (
            Edit(
                _INTAKE,
                "            write(result.refused, result.problems)\n",
                "            write(result.refused[:1], result.problems)\n",
            ),
        ),
        (f"{_T_LINE}::test_the_books_of_the_report_always_add_up",),
    ),
    Broken(
        "a file is written where it lies",
        "After a crash half a list looks like a whole one.",
        (
            Edit(
                _FILES,
                "    partial = _partial(path)\n    try:\n        partial.touch(mode=_FILE_MODE)\n",
                "    partial = path\n    try:\n        partial.touch(mode=_FILE_MODE)\n",
            ),
            Edit(
                _FILES,
                "        partial.replace(path)\n        if lasting:\n"
                "            sync_folder(path.parent)\n    except OSError as error:\n"
                "        raise _cannot_write(path, error) from None\n    finally:\n"
                "        with suppress(OSError):\n            partial.unlink(missing_ok=True)\n",
                "        if lasting:\n            sync_folder(path.parent)\n"
                "    except OSError as error:\n"
                "        raise _cannot_write(path, error) from None\n",
            ),
        ),
        ("tests/files/test_files.py::test_a_failure_leaves_the_old_file_and_no_part",),
    ),
    Broken(
        "the manifest of an earlier session stays while files are replaced",
        "Whoever takes files by the manifest takes a mixture of two sessions.",
        (Edit(_OUTPUTS, "        (self.path / MANIFEST).unlink(missing_ok=True)\n", ""),),
        (f"{_T_PROMISES}::test_no_manifest_stands_while_files_are_replaced",),
    ),
)
"""Rows and files."""

_DECIDING = (
    Broken(
        "missing evidence approves",
        "A loan is given to a customer whose check was never answered.",
        (
            Edit(
                _DECIDE,
                "WHEN {approved} AND NOT open AND NOT {unknown} THEN",
                "WHEN {approved} AND NOT {unknown} THEN",
            ),
        ),
        (f"{_T_DECIDE}::test_a_row_with_an_open_check_is_never_approved",),
    ),
    Broken(
        "a condition that cannot be told approves",
        "A loan is given though nobody knows whether a rule declines it.",
        (
            Edit(
                _DECIDE,
                "WHEN {approved} AND NOT open AND NOT {unknown} THEN",
                "WHEN {approved} AND NOT open THEN",
            ),
        ),
        (f"{_T_DECIDE}::test_a_condition_that_fails_holds_an_approval_back",),
    ),
    Broken(
        "a condition may read files",
        "Whoever writes a policy reads the data key off the disk.",
        (
            Edit(
                "nightscreen/policy/engine.py",
                '"enable_external_access": "false"',
                '"enable_external_access": "true"',
            ),
        ),
        (f"{_T_POLICY_ATTACKS}::test_the_engine_itself_reaches_nothing",),
    ),
    Broken(
        "a stranger's name is strong",
        "An account of somebody else is verified, and the loan is paid out to it.",
        (
            Edit(
                "nightscreen/values/names.py",
                "if sure >= _ENOUGH_NAMES and not against and not near:",
                "if sure and not near:",
            ),
        ),
        ("tests/values/test_names.py::test_pair_is_graded_as_operations_would",),
    ),
    Broken(
        "an account under another BVN is verified",
        "The loan is paid out to whoever bears the same name.",
        (
            Edit(
                "nightscreen/checks/bank_account.py",
                "if bvn is False or grade in CONTRADICTS:",
                "if grade in CONTRADICTS:",
            ),
        ),
        ("tests/checks/test_judge.py::test_a_masked_bvn_decides_where_no_name_is_known",),
    ),
    Broken(
        "one listing among several identities is overlooked",
        "A customer who is listed by phone is clear by BVN, and is approved.",
        (
            Edit(
                "nightscreen/results/assemble.py",
                "cells.found.append((each.slot.kind, answer.record))",
                "cells.found.append((each.slot.kind, answer.record)) if not cells.missed else None",
            ),
        ),
        (f"{_T_PROMISES}::test_a_listing_by_phone_is_not_hidden_by_a_clear_bvn",),
    ),
    Broken(
        "a dear run spends without being approved",
        "A typing error in a file costs a month's money in one night.",
        (
            Edit(
                "nightscreen/runs/approval.py",
                "    run.stops.stop(StopReason.APPROVAL)\n    return False\n",
                "    return True\n",
            ),
        ),
        (f"{_T_SPENDING_APPROVAL}::test_a_dear_run_ends_after_its_quote_and_holds_nothing",),
    ),
    Broken(
        "an approval holds for any amount",
        "Who was allowed 500 naira resumes with a cap of a million.",
        (
            Edit(
                "nightscreen/journal/approvals.py",
                "if cap_micro is None or cap_micro > (found.max_spend_micro or 0):",
                "if cap_micro is None:",
            ),
        ),
        (f"{_T_SPENDING_APPROVAL}::test_more_than_was_approved_must_be_approved",),
    ),
    Broken(
        "a proposer approves the own policy",
        "One person alone decides by which rules loans are given.",
        (
            Edit(
                "nightscreen/journal/actor.py",
                "    if self.is_one_of(names):\n",
                "    if self.is_one_of(names) and not self.alone:\n",
            ),
        ),
        ("tests/policy/test_policy_versions.py::test_nobody_approves_their_own_proposal",),
    ),
    Broken(
        "a command decides though the desk has users",
        "Whoever reaches the machine approves, signs and reviews under anybody's name.",
        (
            Edit(
                "nightscreen/journal/actor.py",
                "        elif has_users(journal):\n",
                "        elif has_users(journal.engine) and not self.account:\n",
            ),
        ),
        ("tests/cli/test_who_decides.py::test_commands_name_the_page_where_the_desk_has_users",),
    ),
    Broken(
        "a condition may call any function",
        "Whoever writes a policy reads settings, files or the environment of the machine.",
        (
            Edit(
                "nightscreen/policy/conditions.py",
                "if name not in _functions() or named or",
                "if named or",
            ),
        ),
        (f"{_T_POLICY_ATTACKS}::test_an_attack_is_refused[text turned to bytes]",),
    ),
)
"""Policy, names and approvals."""

_REPORTING = (
    Broken(
        "the report leaves out what retries cost",
        "The report shows less than the service charged.",
        (
            Edit(
                _CALLS_SQL,
                "    sum(cost)::BIGINT AS cost_micro,\n",
                "    coalesce(sum(cost) FILTER (attempt = 1), 0)::BIGINT AS cost_micro,\n",
            ),
        ),
        (f"{_T_PROMISES}::test_lost_answers_and_what_sending_again_cost_stand_in_the_report",),
    ),
    Broken(
        "what the wallet lost besides is not told",
        "Nobody notices that another program spends from the same wallet.",
        (
            Edit(
                _BALANCE,
                'explained = min(max(0, lost), ends["doubt"])',
                "explained = lost",
            ),
        ),
        ("tests/money/test_exact.py::test_another_consumer_of_the_wallet_is_drift",),
    ),
    Broken(
        "exact is said of any books",
        "The lender trusts an opening that another call had changed already.",
        (
            Edit(
                _BALANCE,
                '    exact = ends["opening_exact"] and ends["closing_exact"]\n    if exact:\n',
                '    exact = ends["opening_exact"] or ends["closing_exact"]\n    if not exact:\n',
            ),
        ),
        (f"{_T_EXACT}::test_an_opening_charged_and_then_answered_502_is_not_exact",),
    ),
    Broken(
        "the money goes to the smallest exposure first",
        "Under a cap the night screens the customers that matter least.",
        (
            Edit(
                "nightscreen/planning/price.py",
                "falling = np.where(exposure < 0, -middle, -exposure)",
                "falling = np.where(exposure < 0, -middle, exposure)",
            ),
        ),
        (f"{_T_LINE}::test_what_was_reached_under_a_cap_is_what_mattered_most",),
    ),
    Broken(
        "a stopped run is publishable",
        "A list that lacks half of the book is sent to the branches.",
        (
            Edit(
                "nightscreen/report/run_end.py",
                '"publishable": self.state == COMPLETED,\n            "started_at"',
                '"publishable": self.state != TEST_MODE,\n            "started_at"',
            ),
        ),
        ("tests/report/test_report_page.py::test_the_verdict_says_rows_and_whether_to_publish",),
    ),
)
"""What the report says."""

_ONE_BY_ONE = (
    Broken(
        "a password is sent by two at once",
        "A customer's only password is used up, and the confirmation charged twice.",
        (
            Edit(
                _PERSON_RUN,
                "if before is not None and before.searched_state == self.rule.under_way:",
                "if False:",
            ),
            Edit(
                _CONFIRMATIONS,
                "if code or request.attempts != person.tries:",
                "if request.attempts != person.tries:",
            ),
            Edit(
                _PERSON_RUN,
                "            return self.kept.replace(intent, before, self.run.clock())\n",
                "            self.kept.put([intent], self.run.clock())\n            return True\n",
            ),
        ),
        ("tests/operations/test_bvn_consent.py::test_two_at_a_time_are_one",),
    ),
    Broken(
        "wrong passwords are not counted",
        "Whoever has a customer's link may try passwords until one is right.",
        (
            Edit(
                "nightscreen/operations/bvn/states.py",
                'ended = {"settled_at": end.settled_at, "attempts": request.attempts + 1}',
                'ended = {"settled_at": end.settled_at, "attempts": request.attempts}',
            ),
        ),
        (
            "tests/portal/test_otp_page.py::test_wrong_password_is_told_beside_the_field_and_counted",
        ),
    ),
    Broken(
        "consent is not judged again before a password is sent",
        "A BVN record is fetched, and paid for, of a customer who has withdrawn.",
        (
            Edit(
                _CONFIRMATIONS,
                'return "consent_ended" if now >= request.consent_ends_at else ""',
                'return ""',
            ),
        ),
        ("tests/operations/test_bvn_consent.py::test_consent_is_judged_again_before_sending",),
    ),
    Broken(
        "a lost answer counts as never sent",
        "A customer gets a second link, or a second password, where the first may have arrived.",
        (
            Edit(
                _PERSON_RUN,
                "        return self.state in LOST\n",
                "        return False\n",
            ),
        ),
        (
            "tests/operations/test_offering.py::test_lost_answer_is_named_and_never_asked_again_by_machine",
        ),
    ),
    Broken(
        "an offer is not written before its call",
        "Nobody knows of a link whose run was killed, and the customer gets another.",
        (
            Edit(
                _PERSON_RUN,
                "return bool(self.kept.add([intent]))",
                "return True",
            ),
        ),
        ("tests/operations/test_offering.py::test_offering_again_makes_no_second_link",),
    ),
    Broken(
        "calls of a living process are taken over",
        "A password that is under way counts as lost, or is sent a second time.",
        (
            Edit(
                _PERSON_RUN, "if worker == run_id or not is_under_way(journal, worker):", "if True:"
            ),
        ),
        ("tests/journal/test_bvn_requests.py::test_calls_of_the_dead_alone_are_learnt[sqlite]",),
    ),
)
"""Runs that ask person by person."""

BEHAVIOURS: tuple[Broken, ...] = (
    *_RESERVING,
    *_WRITING,
    *_REUSE,
    *_STOPPING,
    *_READING,
    *_CONSENT,
    *_PROCESSES,
    *_PEOPLE,
    *_ROWS,
    *_DECIDING,
    *_REPORTING,
    *_ONE_BY_ONE,
)
