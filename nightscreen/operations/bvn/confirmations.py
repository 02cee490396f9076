"""Confirming BVN consent: a file of one-time passwords is read, sent on, and learnt from.

The charge falls here. A password is in memory alone, and only until it is sent: no finding,
quarantine or repr holds one. A wrong one is never tried again, one whose answer was lost never sent
again, by machine. The portal's way in is `links`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nightscreen.client import wire
from nightscreen.files.outputs import QUARANTINE
from nightscreen.files.quarantine import QuarantineWriter
from nightscreen.journal import journal_of
from nightscreen.journal.customers import Customers
from nightscreen.operations.bvn.states import BvnRun, after_call, newest
from nightscreen.operations.bvn.table import lines_of, write_bvns
from nightscreen.operations.person_run import FAILED, PENDING, Account, Person, keep, write_problems
from nightscreen.reading.columns import fold
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import file_digest, open_source
from nightscreen.schemas.bvn import BvnRequest, BvnState, ConfirmBvns, Doubt
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.naming import batch_name
from nightscreen.schemas.rows import Action, Problem, RefusedRow, SourceColumn
from nightscreen.values.issues import bare_digits, is_absent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.run import Run
    from nightscreen.config.settings import BvnConsent, Settings
    from nightscreen.operations.person_run import CallEnd
    from nightscreen.reading.open_file import TableSource
    from nightscreen.schemas.rows import SourceBatch


OTP_HEADINGS = frozenset(
    {"otp", "otpcode", "otps", "onetimepassword", "onetimepasscode", "onetimepin", "passcode"}
)
QUARANTINED = (SourceColumn("customer_id", "customer_id", "customer_id"),)
"""All that the quarantine of such a file shows of a row: nothing that could be a password."""

ID_MISSING = ("customer_id_missing", "The row has no customer_id; nothing was sent.")
OTP_MISSING = (
    "otp_missing",
    "The row has no one-time password; nothing was sent. Leave customers out who supplied none.",
)
REPEATED = (
    "customer_id_repeated",
    "The customer is in the file more than once: which password is meant? Nothing was sent.",
)
BROKEN = "The row could not be split into the columns of the file; nothing was sent."
_DIGITS = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class Supplied:
    """One customer's password as the file has it."""

    line: int
    customer_id: str
    otp: str = field(repr=False)


@dataclass(slots=True)
class OtpFile:
    """The contents of a file of passwords: rows that can be sent on, and findings."""

    supplied: list[Supplied] = field(default_factory=list)
    refused: list[RefusedRow] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    read: int = 0  # rows of the file; always those supplied plus those refused

    def refuse(self, line: int, customer_id: str, column: str, code: str, hint: str) -> None:
        """Refuse a row."""
        self.refused.append(RefusedRow(line, column, code, hint, (customer_id,)))
        self.problems.append(Problem(line, column, code, hint, Action.REFUSED))


UNKNOWN = ("customer_unknown", "No such customer was ever asked or screened; nothing was sent.")
NO_REQUEST = (
    "no_request",
    "The customer was not asked for BVN consent: nightscreen bvn request; nothing was sent.",
)
CONSENT_ENDED = (
    "consent_ended",
    "The customer's consent has expired or was withdrawn since; nothing was sent.",
)
ALREADY_TRIED = (
    "already_tried",
    "This very file was tried before; the customer must supply another password.",
)
ATTEMPTS_USED_UP = (
    "attempts_used_up",
    "Too many wrong passwords; ask the customer again on purpose: bvn request --again.",
)
IN_DOUBT = (
    "finish_in_doubt",
    "A password was sent and its answer lost: it may be used up and charged. Ask the customer "  # noqa: ISC004 - one sentence too long for a line
    "again on purpose: bvn request --again.",
)
UNDER_WAY = ("under_way", "Another process is sending this customer's password right now.")
_ENDED = {
    BvnState.CONFIRMED: ("already_confirmed", "The BVN is confirmed already; nothing was sent."),
    BvnState.EXPIRED: (
        "request_expired",
        "The password came too late; ask the customer again on purpose: bvn request --again.",
    ),
    BvnState.UNREACHABLE: (
        "request_unreachable",
        "The customer could not be reached, so no password is valid; nothing was sent.",
    ),
    BvnState.WRONG_CONTACT: (
        "request_wrong_contact",
        "The contact is not the registered one, so no password was sent; correct it, ask again.",
    ),
    BvnState.ABANDONED: (
        "request_abandoned",
        "The request waited too long; ask the customer again on purpose: bvn request --again.",
    ),
}


@dataclass(slots=True, kw_only=True)
class Given(Person):
    """One customer's password on its way, held in memory alone; gone once it was sent."""

    request: BvnRequest
    otp: str = field(repr=False)


class BvnConfirmations(BvnRun[ConfirmBvns, Given]):
    """A run that sends on the passwords of a file."""

    flow, name = "confirm_bvns", "confirm-bvns"
    operation = Operation.BVN_FINISH

    def __init__(self, run: Run, parameters: ConfirmBvns) -> None:
        super().__init__(run, parameters)
        self._batches: set[str] = set()

    @classmethod
    def identify(cls, parameters: ConfirmBvns, settings: Settings) -> tuple[str, str]:
        """Return the one batch name that the customers were asked in, and the file's digest.

        It is keyed by the journal: from a plain one the few digits of a password could be guessed.
        """
        path, file = Path(parameters.input), read_passwords(parameters, settings)
        with journal_of(settings) as journal:
            names = journal.pseudonyms
            customers = [names.customers_anywhere([row.customer_id]) for row in file.supplied]
            asked = {each.batch for each in newest(journal, customers).values()}
            digest = names.subject("file of passwords", file_digest(path)).hex()
        return asked.pop() if len(asked) == 1 else batch_name(path), f"keyed:{digest}"

    def find(self) -> list[Given]:
        """Read the passwords into memory and judge each customer's request; write quarantine."""
        file = read_passwords(self.parameters, self.run.settings)
        found = self._matched(file)
        file.supplied.clear()
        self.rows_read, self.rows_refused = file.read, len(file.refused)
        folder = self.run.folder
        with QuarantineWriter(folder.path / QUARANTINE, QUARANTINED) as quarantine:
            quarantine.write(sorted(file.refused, key=lambda rejected: rejected.line))
        folder.rows[QUARANTINE] = len(file.refused)
        write_problems(folder, file.problems)
        return found

    def _matched(self, file: OtpFile) -> list[Given]:
        """Find each customer's request; refuse a password that may not be sent."""
        run, found = self.run, list[Given]()
        name = run.journal.pseudonyms.customers_anywhere
        customers = {row.customer_id: name([row.customer_id]) for row in file.supplied}
        known = newest(run.journal, list(customers.values()))
        digests: dict[str, str] = {}
        for row in file.supplied:
            request = known.get(customers[row.customer_id])
            if request is None:
                self._refuse_unknown(file, row)
                continue
            self._batches.add(request.batch)
            if request.finish_run_id == run.run_id and request.finishing is None:
                continue  # an earlier session of the run has dealt with it
            finding = refusal(request, run.settings.bvn_consent, run.clock())
            if finding is None and self._was_tried(request, digests):
                finding = ALREADY_TRIED
            if finding is None:
                found.append(Given(subject=request.subject, request=request, otp=row.otp))
            else:
                file.refuse(row.line, row.customer_id, "customer_id", *finding)
        return found

    def _was_tried(self, request: BvnRequest, digests: dict[str, str]) -> bool:
        """Return whether the last password, a wrong one, came from a file with the same content."""
        run_id = request.finish_run_id
        if run_id is None or request.state is not BvnState.WRONG_OTP:
            return False
        if run_id not in digests:
            earlier = self.run.journal.runs.find(run_id)
            digests[run_id] = "" if earlier is None else earlier.input_digest
        return digests[run_id] == self.run.input_digest

    def _refuse_unknown(self, file: OtpFile, row: Supplied) -> None:
        """Refuse a customer without a request; an id that could be a password is not shown."""
        customers, name = Customers.of(self.run.journal), self.run.journal.pseudonyms.customer
        if customers.known([name(batch, row.customer_id) for batch in customers.batches()]):
            file.refuse(row.line, row.customer_id, "customer_id", *NO_REQUEST)
        else:
            digits = self.run.settings.bvn_consent.otp_digits
            shown = "" if tidy_otp(row.customer_id, digits) else row.customer_id
            file.refuse(row.line, shown, "customer_id", *UNKNOWN)

    def begin(self, person: Given) -> bool:
        """Take the request for this call; one that has changed is judged again first."""
        kept, now = self.requests, self.run.clock()
        request = kept.find(person.request.key)
        if request is not None and request.finishing:
            return False
        before = (person.request.state, person.request.attempts)
        if (
            request is None
            or (request.state, request.attempts) != before
            or refusal(request, self.run.settings.bvn_consent, now) is not None
        ):
            person.word = person.otp = ""
            return True
        person.request = request.model_copy(update={"finishing": self.run.run_id})
        return kept.replace(person.request, request, now)

    def call(self, caller: Caller, person: Given) -> LookupTask:
        """Return the call that sends the password on; it is kept nowhere."""
        request = person.request
        return caller.task(
            wire.bvn_finish(request.held.bvn, person.otp),
            kind=self.kind,
            subject=request.subject,
            consent_reference=request.consent_reference,
            consent_ends_at=request.consent_ends_at,
        )

    def learn(self, person: Given, end: CallEnd | None) -> None:
        """Write down what came of it; a password that surely did not arrive is kept in memory."""
        before = person.request
        after = keep(self.requests, before, end, after_call, self.run.clock())
        if after is not None:  # else it was erased meanwhile
            person.request = after
            self.moved.append((after, before.state.value))
        words = {LookupStatus.WAITING: PENDING, LookupStatus.FAILED: FAILED}
        status = LookupStatus.LAPSED if person.task is None else person.task.status
        person.word = "" if end is not None and end.is_lost else words.get(status, "")
        if not person.word:
            person.otp = ""

    def look_again(self) -> None:
        """Read again the requests that may have been settled after a cancellation."""
        for each in self.people:
            each.request = self.requests.find(each.request.key) or each.request
            if each.word == PENDING and each.request.finish_run_id == self.run.run_id:
                each.word = ""

    def forget(self) -> None:
        """Delete every password from memory."""
        for each in self.people:
            each.otp = ""

    def write(self) -> Account:
        """Write the table of every customer of the batch names that the file is about.

        So those who supplied nothing are seen too.
        """
        lines = lines_of(self.run.journal, self._batches)
        states, changes = write_bvns(self.run, lines, self.moved)
        return Account({self.operation: states}, {"states": states, "changes": changes})


def refusal(request: BvnRequest, settings: BvnConsent, now: int) -> tuple[str, str] | None:
    """Return why a password for a request may not be sent on, as code and hint; None if it may.

    Args:
        request: the customer's newest request.
        settings: how many wrong passwords are allowed.
        now: the present instant, microseconds.
    """
    if request.state in _ENDED:
        return _ENDED[request.state]
    if request.doubt is Doubt.FINISH:
        return IN_DOUBT
    if request.finishing or (request.state is BvnState.REQUESTED and request.doubt is None):
        return UNDER_WAY
    if request.attempts >= settings.otp_attempts:
        return ATTEMPTS_USED_UP
    return CONSENT_ENDED if now >= request.consent_ends_at else None


# --- the file ---


def otp_malformed(digits: int) -> tuple[str, str]:
    """Return the finding about a password that cannot be one."""
    hint = (
        f"A one-time password has {digits} digits; nothing was sent. A spreadsheet may have taken "
        "leading zeros off: format the column as text. If the service's have another length, set "
        "NIGHTSCREEN_BVN_CONSENT__OTP_DIGITS."
    )
    return "otp_malformed", hint


def tidy_otp(text: str, digits: int) -> str | None:
    """Return a password without blanks, dashes and spreadsheet marks; None if it is none."""
    bare = bare_digits(text)
    return bare if len(bare) == digits and _DIGITS.fullmatch(bare) else None


def _otp_column(source: TableSource) -> int:
    columns = source.header.columns
    indices = [
        index for index, column in enumerate(columns) if fold(column.heading) in OTP_HEADINGS
    ]
    if len(indices) != 1:
        trouble = "no column otp" if not indices else "more than one column of passwords"
        raise InputError(f"{source.path}: {trouble}; the file needs customer_id,otp")
    return indices[0]


def read_passwords(parameters: ConfirmBvns, settings: Settings) -> OtpFile:
    """Read the file of passwords; it needs the columns `customer_id` and `otp`.

    Raises:
        InputError: there is none, or it cannot be read as such a file.
    """
    if not parameters.input:
        raise InputError(
            "no input file was given; name a CSV, XLSX or Parquet file with customer_id,otp"
        )
    digits = settings.bvn_consent.otp_digits
    mapping = read_mapping(Path(parameters.mapping)) if parameters.mapping else None
    source, found = open_source(Path(parameters.input), mapping=mapping), OtpFile()
    otp_at = _otp_column(source)
    id_at = next(
        index for index, column in enumerate(source.header.columns) if column.known == "customer_id"
    )
    rows: list[tuple[int, str, str]] = []
    for batch in source.batches():
        rows += _rows(batch, id_at, otp_at)
        for broken in batch.broken:
            found.refuse(broken.line, "", broken.column, broken.code, BROKEN)
    found.read = len(rows) + len(found.refused)
    number = Counter(customer_id for _, customer_id, _ in rows)
    for line, customer_id, text in rows:
        _judge(found, line, customer_id, text, digits, repeated=number[customer_id] > 1)
    found.problems += _ignored_columns(source, {id_at, otp_at})
    return found


def _rows(batch: SourceBatch, id_at: int, otp_at: int) -> Iterator[tuple[int, str, str]]:
    ids = batch.columns.column(id_at).to_pylist()
    otps = batch.columns.column(otp_at).to_pylist()
    for line, customer_id, otp in zip(batch.lines, ids, otps, strict=True):
        yield line, (customer_id or "").strip(), (otp or "").strip()


def _judge(
    found: OtpFile, line: int, customer_id: str, text: str, digits: int, *, repeated: bool
) -> None:
    otp = tidy_otp(text, digits)
    if not customer_id:
        found.refuse(line, "", "customer_id", *ID_MISSING)
    elif repeated:
        found.refuse(line, customer_id, "customer_id", *REPEATED)
    elif otp is not None:
        found.supplied.append(Supplied(line, customer_id, otp))
    elif not text or is_absent(bare_digits(text)):
        found.refuse(line, customer_id, "otp", *OTP_MISSING)
    else:
        shown = (
            customer_id if tidy_otp(customer_id, digits) is None else ""
        )  # columns may be swapped
        found.refuse(line, shown, "otp", *otp_malformed(digits))


def _ignored_columns(source: TableSource, used: set[int]) -> Iterator[Problem]:
    """Report columns that are neither customer nor password; they are not read and not stored."""
    for index, column in enumerate(source.header.columns):
        if index not in used:
            yield Problem(
                1,
                f"column {index + 1}" if column.known is None else column.known,
                "column_left_aside",
                "The file needs customer_id and otp only; this column was not read.",
                Action.WARNED,
            )
