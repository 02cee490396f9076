"""The doctor: problems of a run and its surroundings, and the next command.

It works when things are broken: a part that cannot be checked becomes a finding, and the other
parts are still checked. It changes nothing, needs no engine and makes no paid call. It suggests
itself as the next command only after something to fix first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nightscreen.client.api import ServiceProbe, diagnose_connection, probe_service
from nightscreen.client.network import Network, parse_address
from nightscreen.client.prices import load_prices
from nightscreen.client.response_rules import load_response_rules
from nightscreen.files.private_files import LEAST_FREE_BYTES, free_bytes
from nightscreen.journal.opening import JOURNAL_FILE, open_read_only, pids_at_work
from nightscreen.journal.records import Records
from nightscreen.journal.runs import KILLED, RUNNING
from nightscreen.operations.cashflow import CashFlow
from nightscreen.ops.status import (
    DAY_BEGINS,
    HUNG,
    condition_of,
    newest_runs,
    resume_command,
    shown_run,
)
from nightscreen.schemas.approvals import ApprovalState
from nightscreen.schemas.clock import LAGOS, Clock, system_clock, to_instant
from nightscreen.schemas.errors import (
    JournalBusyError,
    JournalDamagedError,
    JournalError,
    JournalUnreachableError,
    JournalVersionError,
    NightscreenError,
    SettingsError,
)
from nightscreen.schemas.money import MICRO, naira_words, to_micro
from nightscreen.schemas.stops import REFUSALS, StopReason, refusals
from nightscreen.schemas.wallet import OPEN, WalletGap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal

OK, WARNING, WRONG = "ok", "warning", "wrong"
HOME_DISK = "disk (home)"
SCHEDULE = "schedule"
"""Name of a finding about a deployment whose newest run is late or ended badly."""
DOCTOR = "nightscreen doctor"
_TABLES = ("manners", "prices", "features", "narrations")
_URGENCY = (HUNG, KILLED, "test_mode", "stopped")


class Remedy(NamedTuple):
    """What to do: `first`, a text if something must be fixed, then `command` to type."""

    first: str
    command: str = ""


class HealthFinding(NamedTuple):
    """The result of one check."""

    name: str  # what was checked
    standing: str  # ok, warning, or wrong if no run can start before it is fixed
    says: str  # the finding as text
    # what to do about it, if anything; a remedy without a command is followed by the run's remedy
    remedy: Remedy | None = None


@dataclass(slots=True)
class Diagnosis:
    """What the doctor found."""

    # the run's facts (`status.condition_of`); if no run was named, of the most urgent one among the
    # newest of each flow and batch
    run: dict[str, Any] | None = None
    # the facts of the other newest runs, newest first
    others: list[dict[str, Any]] = field(default_factory=list)
    findings: list[HealthFinding] = field(default_factory=list)
    safe: bool = True  # a run may be started or resumed now; if not, `why_not` has the reason
    why_not: str | None = None
    remedy: Remedy | None = None  # what to do next; None if all is well
    # the command's exit status: 0 nothing to do, 2 something must be fixed before any run, 3 a run
    # stopped and can be resumed, 4 the service is in test mode
    exit_status: int = 0

    def document(self) -> dict[str, Any]:
        """Return the JSON document; instants in UTC, money as decimal text in naira."""
        return {
            "run": None if self.run is None else shown_run(self.run),
            "others": [shown_run(other) for other in self.others],
            "findings": [
                {"name": each.name, "standing": each.standing, "says": each.says}
                | _advice(each.remedy)
                for each in self.findings
            ],
            **_advice(self.remedy),
            "safe_to_run_again": self.safe,
            "why_not": self.why_not,
            "exit_status": self.exit_status,
        }


def _advice(remedy: Remedy | None) -> dict[str, str | None]:
    first, command = remedy or ("", "")
    return {"first": first or None, "command": command or None}


def unreadable_settings(error: NightscreenError, more: tuple[HealthFinding, ...]) -> Diagnosis:
    """Return the diagnosis if the settings cannot be read; little else can be checked then."""
    remedy = Remedy("correct it in .env or the environment", DOCTOR)
    diagnosis = Diagnosis(findings=[HealthFinding("settings", WRONG, str(error), remedy), *more])
    _conclude(diagnosis, "")
    return diagnosis


def diagnose(
    settings: Settings,
    run_id: str = "",
    *,
    clock: Clock = system_clock,
    diagnosing: Callable[[str], str | None] | None = None,
    probing: ServiceProbe | None = None,
    more: tuple[HealthFinding, ...] = (),
) -> Diagnosis:
    """Check a run, or the newest of each flow and batch, and their surroundings.

    Args:
        settings: the settings that a run would use.
        run_id: the run; empty for the newest of each flow and batch.
        clock: returns the present instant.
        diagnosing: connects to the service's address and returns the problem, if any; by default
            over the network of the settings.
        probing: makes a free request there with the key, and returns the kind of error, if any.
        more: findings made elsewhere, such as about the engine.
    """
    diagnosis = Diagnosis()
    _find_run(settings, run_id, clock, diagnosis)
    network = Network.of(settings)
    folder = diagnosis.run["folder"] if diagnosis.run is not None else ""
    output = Path(folder).parent if folder else Path("out")
    diagnosis.findings += [
        _disk(HOME_DISK, settings.home),
        _disk("disk (output)", output),
        _settings(settings),
        _tables(settings),
    ]
    if settings.base_url:
        diagnosing = diagnosing or partial(diagnose_connection, network=network)
        probing = probing or partial(probe_service, network=network)
        diagnosis.findings.append(_service(settings, diagnosing, probing))
    diagnosis.findings += more
    _conclude(diagnosis, run_id)
    return diagnosis


def _find_run(settings: Settings, run_id: str, clock: Clock, diagnosis: Diagnosis) -> None:
    """Add the run, and findings about the journal, its key and the wallet."""
    try:
        journal = open_read_only(settings, clock=clock)
        if journal is None:
            says = f"none under {settings.home} yet: the first run makes it"
            diagnosis.findings = [HealthFinding("journal", OK, says)]
            return
        with journal:
            diagnosis.findings = [HealthFinding("journal", OK, "can be read"), _key(journal)]
            diagnosis.findings += _wallet(journal)
            records = [journal.runs.find(run_id)] if run_id else newest_runs(journal, clock)
            runs = [condition_of(each, settings, journal, clock) for each in records if each]
            diagnosis.run = min(runs, key=_urgency, default=None)
            diagnosis.others = [run for run in runs if run is not diagnosis.run]
    except (NightscreenError, OSError) as error:
        if isinstance(error, OSError):
            error = JournalError(f"the journal cannot be read: {error.strerror}")
        diagnosis.findings = [_journal_trouble(settings, error)]


def _urgency(run: Mapping[str, Any]) -> int:
    """Return a sort key: 0 for the run that needs a person first."""
    if run["state"] in _URGENCY:
        return _URGENCY.index(run["state"])
    return len(_URGENCY) + (0 if run["held"] else 1 if run["state"] == RUNNING else 2)


# --- findings ---


def _journal_trouble(settings: Settings, error: NightscreenError) -> HealthFinding:
    file = settings.home / JOURNAL_FILE
    first, command = "fix the journal as reported above", DOCTOR
    if isinstance(error, JournalVersionError):
        first = "install the version of nightscreen that made it here too"
    elif isinstance(error, JournalUnreachableError):
        first = "start the journal's database, or correct NIGHTSCREEN_JOURNAL_URL"
    elif isinstance(error, JournalBusyError):
        pids = ", ".join(map(str, pids_at_work(settings)))
        which = f"process {pids}" if pids else "the process that keeps it locked"
        first = f"wait for {which}, or end it"
    elif isinstance(error, JournalDamagedError):
        first = f"move it away: mkdir damaged; mv {file}* damaged/"
        command = "nightscreen journal restore BACKUP_DIR"
    return HealthFinding("journal", WRONG, str(error), Remedy(first, command))


def _key(journal: Journal) -> HealthFinding:
    fingerprint = journal.fingerprint[:8]
    if journal.key_trouble is None:
        return HealthFinding("key", OK, f"fits the journal (fingerprint {fingerprint})")
    says = f"{journal.key_trouble} (the journal's has the fingerprint {fingerprint})"
    return HealthFinding("key", WRONG, says, Remedy("put the right data key back"))


def _wallet(journal: Journal) -> list[HealthFinding]:
    """Report money that left the wallet between runs without a recorded reason."""
    findings = []
    for run_id in Records(journal, WalletGap).run_ids(state=OPEN):
        run = journal.runs.find(run_id)
        between = ((run.report if run else None) or {}).get("balance", {}).get("between_runs")
        if between is not None:
            missing = naira_words(to_micro(Decimal(between["missing"])))
            says = (
                f"{missing} left it between runs {between['run_before']} and {run_id}, and no "
                "call explains it"
            )
            first = (
                "note the reason at the desk under Money; where others use the wallet too, set "
                "NIGHTSCREEN_WALLET_SHARED=yes"
            )
            findings.append(HealthFinding("wallet", WARNING, says, Remedy(first)))
    return findings


def _disk(name: str, folder: Path) -> HealthFinding:
    free = free_bytes(folder)
    if free is None:
        return HealthFinding(name, WARNING, f"{folder} cannot be read; correct its permissions")
    says = f"{free / 1e9:,.1f} GB free under {folder}"
    if free >= LEAST_FREE_BYTES:
        return HealthFinding(name, OK, says)
    first = f"free some disk under {folder}; nightscreen purge --dry-run says what may go"
    return HealthFinding(name, WRONG, f"nearly full: {says}", Remedy(first))


def _settings(settings: Settings) -> HealthFinding:
    needed = {"BASE_URL": settings.base_url, "API_KEY": settings.api_key.get_secret_value()}
    names = " and ".join(f"NIGHTSCREEN_{name}" for name, value in needed.items() if not value)
    if not names:
        return HealthFinding("settings", OK, "complete")
    remedy = Remedy(f"write {names} into .env")
    return HealthFinding("settings", WRONG, f"{names} not set", remedy)


def _tables(settings: Settings) -> HealthFinding:
    """Report which tables are used, and what is wrong with the lender's own."""
    used = {name: settings.own_table(name) for name in _TABLES}
    try:
        load_response_rules(used["manners"])
        load_prices(used["prices"])
        CashFlow.of(settings)
    except NightscreenError as error:
        return HealthFinding("tables", WRONG, str(error), Remedy("correct that line", DOCTOR))
    says = ", ".join(f"{name} {path or 'of the package'}" for name, path in used.items())
    return HealthFinding("tables", OK, says)


_CAUSES = {
    "certificate that is not trusted": "have the service's certificate fixed; "
    "where a proxy or the lender's own authority issued it, name that authority in "
    "NIGHTSCREEN_CA_FILE",
    "certificate for another host": "correct the host in NIGHTSCREEN_BASE_URL, or have the "
    "service's certificate fixed",
    "does not use TLS": "correct NIGHTSCREEN_BASE_URL: the port there does not serve https",
    "cannot be resolved": "correct the host in NIGHTSCREEN_BASE_URL, or fix the name server; "
    "behind a proxy set NIGHTSCREEN_PROXY",
    "the proxy": "correct NIGHTSCREEN_PROXY, or have the proxy fixed",
    "NIGHTSCREEN_": "correct that setting in .env",
}
"""Problems `diagnose_connection` may report that someone must fix, and how. A service that only
does not answer may do so later."""


def _service(
    settings: Settings, diagnosing: Callable[[str], str | None], probing: ServiceProbe
) -> HealthFinding:
    """Check whether the service can be reached, and whether it accepts address and key."""
    problem = diagnosing(settings.base_url)
    if problem is not None:
        remedies = (remedy for cause, remedy in _CAUSES.items() if cause in problem)
        first = next(remedies, "")
        standing = WRONG if first else WARNING
        wait = "wait until the service answers again, or fix the network"
        return HealthFinding("service", standing, problem, Remedy(first or wait))
    key = settings.api_key.get_secret_value()
    try:
        trouble = probing(settings.base_url, key, settings.own_table("manners")) if key else None
    except SettingsError as error:
        says = f"NIGHTSCREEN_{error}"
        return HealthFinding("service", WRONG, says, Remedy("correct it in .env"))
    if trouble == "auth":
        says, _, first = REFUSALS[trouble].partition(": ")
        return HealthFinding("service", WRONG, f"{says} ({settings.base_url})", Remedy(first))
    if trouble == "address":  # the only free request is about loans, which screening never makes
        says = f"{settings.base_url} knows no list of loan products: it offers none, or is wrong"
        first = "correct NIGHTSCREEN_BASE_URL, unless screening runs are answered there"
        return HealthFinding("service", WARNING, says, Remedy(first))
    host = parse_address(settings.base_url).url.netloc.decode("ascii")
    return HealthFinding("service", OK, f"{host} can be reached (no paid call was made)")


# --- remedies ---


def _conclude(diagnosis: Diagnosis, run_id: str) -> None:
    """Set the remedy, the exit status and whether it is safe to run again."""
    diagnosis.remedy, diagnosis.exit_status = _for_run(diagnosis, run_id)
    if diagnosis.run is not None and diagnosis.run["state"] in {RUNNING, HUNG}:
        pid = diagnosis.run["pid"]
        who = f"process {pid}" if pid is not None else "another process"
        diagnosis.safe, diagnosis.why_not = False, f"{who} is at work on it"
    missed = next((finding for finding in diagnosis.findings if finding.name == SCHEDULE), None)
    if missed is not None and diagnosis.exit_status == 0:
        diagnosis.exit_status, diagnosis.remedy = 3, missed.remedy
    wrong = [finding for finding in diagnosis.findings if finding.standing == WRONG]
    if not wrong:
        return
    worst = min(wrong, key=lambda finding: finding.name != HOME_DISK)  # breaks the journal, too
    diagnosis.exit_status = 2
    if diagnosis.safe:
        diagnosis.safe, diagnosis.why_not = False, f"no run can start: {worst.name} must be fixed"
    fix, next_step = worst.remedy, diagnosis.remedy
    if fix is not None and not fix.command:
        first = "; then ".join(filter(None, (fix.first, next_step.first if next_step else "")))
        fix = Remedy(first, (next_step.command if next_step else "") or DOCTOR)
    diagnosis.remedy = fix or next_step


def _for_run(diagnosis: Diagnosis, run_id: str) -> tuple[Remedy | None, int]:
    """Return the run's remedy and the exit status; `run_id` is empty if no run was named."""
    run = diagnosis.run
    if run is None:
        if diagnosis.findings[0].standing == WRONG:  # the journal: its runs are not known
            return None, 2
        if not run_id:
            return Remedy("", "nightscreen quote FILE"), 0
        first = f"there is no run {run_id} in this journal: it never started, or HOME is another"
        return Remedy(first, "nightscreen runs list"), 2
    again, pid = _resume(run), run["pid"]
    kill = f"end process {pid}: kill -TERM {pid}, and kill -KILL {pid} if that does nothing"
    release = f"nightscreen runs release {run['run_id']} --reason 'why it may be published'"
    held = Remedy(
        "look at the notices in report.html: the night is held back as implausible", release
    )
    live = "switch the service to live in its console, and set a live NIGHTSCREEN_API_KEY"
    table: dict[str, tuple[Remedy | None, int]] = {
        RUNNING: (Remedy("wait until it ends: it is at work"), 0),
        HUNG: (Remedy(kill if pid else "end its process on the machine it runs on", again), 3),
        KILLED: (Remedy("", again), 3),
        "test_mode": (Remedy(live, again), 4),
        "stopped": (_for_stop(run, diagnosis, again), 3),
        "completed": (held, 3) if run["held"] else (None, 0),
    }
    remedy, status = table[run["state"]]
    if remedy == Remedy(""):  # a flow whose runs cannot be resumed
        remedy = Remedy("begin it anew with its own command")
    return remedy, status


def _resume(run: Mapping[str, Any], *options: str) -> str:
    """Return the command that resumes a run, with its deadline if that has not passed."""
    if run["deadline_at"] is not None and run["deadline_at"] > run["now"]:
        deadline = to_instant(run["deadline_at"]).astimezone(LAGOS)
        options = (*options, "--deadline", f"{deadline:%Y-%m-%dT%H:%M}")
    return resume_command(run["run_id"], run["flow"], *options)


def _for_stop(run: Mapping[str, Any], diagnosis: Diagnosis, again: str) -> Remedy:
    """Return the remedy of a stopped run; `again` is the command that resumes it."""
    if run["approval"] is not None:
        approve = f"nightscreen approve {run['run_id']}"
        return {
            ApprovalState.WAITING: Remedy("ask an approver to approve the spending", approve),
            ApprovalState.APPROVED: Remedy("", again),
            ApprovalState.REFUSED: Remedy("only to approve it all the same", approve),
            ApprovalState.VOID: Remedy("ask an approver to approve the spending again", approve),
        }[run["approval"]["state"]]
    reason, missing_micro = run["stop_reason"], run["missing_micro"]
    refused = "; ".join(
        refusals(
            (check, kind) for check in run["checks"] for kind in run["checks"][check]["errors"]
        )
    )
    service = next((each.remedy for each in diagnosis.findings if each.name == "service"), None)
    by = f" by about {naira_words(missing_micro)}" if missing_micro else ""
    first: Mapping[str | None, str] = {
        StopReason.BALANCE: f"top the wallet up{by}, above NIGHTSCREEN_BALANCE_FLOOR if set",
        StopReason.AUTH: refused
        or f"{REFUSALS['auth']}; where a notice of the report names the price list, correct that",
        StopReason.OUTAGE: refused
        or (service.first if service else "the service answers again: nothing to wait for"),
        StopReason.FAILURES: "look at the errors by kind above: what was rejected is asked again",
        StopReason.DEADLINE: "it goes on without a deadline; add --deadline 06:00 to set one",
        StopReason.QUOTA: f"wait for the next day, {DAY_BEGINS}, or raise "
        "NIGHTSCREEN_MAX_PER_DAY__<CHECK>",
    }
    if reason != StopReason.BUDGET:
        return Remedy(first.get(reason, ""), again)
    wait = ", and ".join(run["caps_in_the_way"])
    cap, bound, missing = run["cap_micro"], run["bound_micro"], missing_micro or 0
    if cap is not None and (not wait or cap - bound < missing):
        naira = -(-max(bound + missing, cap + MICRO) // MICRO)
        return Remedy(wait, _resume(run, "--max-spend", str(naira)))
    return Remedy(wait, again)
