"""The doctor: problems of a run and its surroundings, and the next command.

Everything here works when things are broken: a part that cannot be looked at is reported in words,
and the others are looked at all the same. Nothing is changed, no engine is needed, no paid call is
made. No state's next command is the doctor itself, unless something is to be fixed before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nightscreen.client.connectivity import ServiceProbe, diagnose_connection, probe_service
from nightscreen.client.network import Network, parse_address
from nightscreen.client.prices import load_prices
from nightscreen.client.response_rules import load_response_rules
from nightscreen.files.private_files import LEAST_FREE_BYTES, free_bytes
from nightscreen.journal.opening import JOURNAL_FILE, open_read_only, pids_at_work
from nightscreen.journal.records import Records
from nightscreen.journal.runs import KILLED, RUNNING
from nightscreen.operations.transactions.cashflow import CashFlow
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
    """What to do: `first` in words if something must be fixed, then `command` to type."""

    first: str
    command: str = ""


class HealthFinding(NamedTuple):
    """One thing that was looked at."""

    name: str  # what it is
    standing: str  # ok, warning, or wrong where no run can go on before it is fixed
    says: str  # the finding, in words
    # what to do about it, None where nothing is to be done; a remedy without a command is followed
    # by what the run needs
    remedy: Remedy | None = None


@dataclass(slots=True)
class Diagnosis:
    """The diagnosis."""

    # the run's facts (`status.condition_of`), None where there is none; where none was named, the
    # one that needs a person most among the newest of each flow and batch
    run: dict[str, Any] | None = None
    # the facts of those others, newest first
    others: list[dict[str, Any]] = field(default_factory=list)
    findings: list[HealthFinding] = field(default_factory=list)
    safe: bool = True  # a run may be started or resumed now; `why_not` says why not
    why_not: str | None = None
    remedy: Remedy | None = None  # what to do next, None where all is well
    # as the command ends: 0 nothing to do, 2 something must be fixed before any run, 3 a run
    # stopped and can be resumed, 4 the service is in test mode
    exit_status: int = 0

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it; instants in UTC, money as decimal text in naira."""
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
    """Return the diagnosis where the settings cannot be read, so that nothing else can be."""
    mend = Remedy("correct it in .env or the environment", DOCTOR)
    found = Diagnosis(findings=[HealthFinding("settings", WRONG, str(error), mend), *more])
    _conclude(found, "")
    return found


def diagnose(
    settings: Settings,
    run_id: str = "",
    *,
    clock: Clock = system_clock,
    diagnosing: Callable[[str], str | None] | None = None,
    probing: ServiceProbe | None = None,
    more: tuple[HealthFinding, ...] = (),
) -> Diagnosis:
    """Look at a run, or at the newest of each flow and batch, and at what they need.

    Args:
        settings: as a run would have them.
        run_id: the run; empty for the newest of each flow and batch.
        clock: the present instant.
        diagnosing: tries the service's address and returns what is in the way; None: over the
            settings' network.
        probing: makes a free request there with the key, and returns the trouble it met.
        more: what was found out elsewhere, such as about the engine.
    """
    found = Diagnosis()
    _find_run(settings, run_id, clock, found)
    network = Network.of(settings)
    folder = found.run["folder"] if found.run is not None else ""
    output = Path(folder).parent if folder else Path("out")
    found.findings += [
        _disk(HOME_DISK, settings.home),
        _disk("disk (output)", output),
        _settings(settings),
        _tables(settings),
    ]
    if settings.base_url:
        diagnosing = diagnosing or partial(diagnose_connection, network=network)
        probing = probing or partial(probe_service, network=network)
        found.findings.append(_service(settings, diagnosing, probing))
    found.findings += more
    _conclude(found, run_id)
    return found


def _find_run(settings: Settings, run_id: str, clock: Clock, found: Diagnosis) -> None:
    """Find the run in the journal, and say what is wrong with that."""
    try:
        look = open_read_only(settings, clock=clock)
        if look is None:
            says = f"none under {settings.home} yet: the first run makes it"
            found.findings = [HealthFinding("journal", OK, says)]
            return
        with look:
            found.findings = [HealthFinding("journal", OK, "can be read"), _key(look)]
            found.findings += _wallet(look)
            wanted = [look.runs.find(run_id)] if run_id else newest_runs(look, clock)
            runs = [condition_of(each, settings, look, clock) for each in wanted if each]
            found.run = min(runs, key=_urgency, default=None)
            found.others = [run for run in runs if run is not found.run]
    except (NightscreenError, OSError) as error:
        if isinstance(error, OSError):
            error = JournalError(f"the journal cannot be read: {error.strerror}")
        found.findings = [_journal_trouble(settings, error)]


def _urgency(run: Mapping[str, Any]) -> int:
    """Return how soon a person must see to a run; 0 is first, and among equals the newest."""
    if run["state"] in _URGENCY:
        return _URGENCY.index(run["state"])
    return len(_URGENCY) + (0 if run["held"] else 1 if run["state"] == RUNNING else 2)


# --- what is looked at ---


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


def _key(look: Journal) -> HealthFinding:
    mark = look.fingerprint[:8]
    if look.key_trouble is None:
        return HealthFinding("key", OK, f"fits the journal (fingerprint {mark})")
    says = f"{look.key_trouble} (the journal's has the fingerprint {mark})"
    return HealthFinding("key", WRONG, says, Remedy("put the right data key back"))


def _wallet(look: Journal) -> list[HealthFinding]:
    """Say what left the wallet between runs, and has no reason yet."""
    found = []
    for run_id in Records(look, WalletGap).run_ids(state=OPEN):
        run = look.runs.find(run_id)
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
            found.append(HealthFinding("wallet", WARNING, says, Remedy(first)))
    return found


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
    """Say which tables are used, and what is wrong with the lender's own."""
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
"""What `diagnose_connection` may find that stays wrong until somebody fixes it, and how; a silent
service may answer again."""


def _service(
    settings: Settings, diagnosing: Callable[[str], str | None], probing: ServiceProbe
) -> HealthFinding:
    """Find out whether the service can be reached, and whether it knows address and key."""
    in_the_way = diagnosing(settings.base_url)
    if in_the_way is not None:
        causes = (first for words, first in _CAUSES.items() if words in in_the_way)
        first = next(causes, "")
        standing = WRONG if first else WARNING
        wait = "wait until the service answers again, or fix the network"
        return HealthFinding("service", standing, in_the_way, Remedy(first or wait))
    key = settings.api_key.get_secret_value()
    try:
        trouble = probing(settings.base_url, key, settings.own_table("manners")) if key else None
    except SettingsError as error:
        says = f"NIGHTSCREEN_{error}"
        return HealthFinding("service", WRONG, says, Remedy("correct it in .env"))
    if trouble == "auth":
        says, _, first = REFUSALS[trouble].partition(": ")
        return HealthFinding("service", WRONG, f"{says} ({settings.base_url})", Remedy(first))
    if trouble == "address":  # the one free question is about loans, which screening never asks
        says = f"{settings.base_url} knows no list of loan products: it offers none, or is wrong"
        first = "correct NIGHTSCREEN_BASE_URL, unless screening runs are answered there"
        return HealthFinding("service", WARNING, says, Remedy(first))
    host = parse_address(settings.base_url).url.netloc.decode("ascii")
    return HealthFinding("service", OK, f"{host} can be reached (no paid call was made)")


# --- what follows from it ---


def _conclude(found: Diagnosis, asked: str) -> None:
    """Decide what to do next: what is broken first, then what the run needs."""
    found.remedy, found.exit_status = _for_run(found, asked)
    if found.run is not None and found.run["state"] in {RUNNING, HUNG}:
        pid = found.run["pid"]
        who = f"process {pid}" if pid is not None else "another process"
        found.safe, found.why_not = False, f"{who} is at work on it"
    missed = next((finding for finding in found.findings if finding.name == SCHEDULE), None)
    if missed is not None and found.exit_status == 0:
        found.exit_status, found.remedy = 3, missed.remedy
    wrong = [finding for finding in found.findings if finding.standing == WRONG]
    if not wrong:
        return
    worst = min(wrong, key=lambda finding: finding.name != HOME_DISK)  # breaks the journal, too
    found.exit_status = 2
    if found.safe:
        found.safe, found.why_not = False, f"no run can start: {worst.name} must be fixed"
    mend, then = worst.remedy, found.remedy
    if mend is not None and not mend.command:
        first = "; then ".join(filter(None, (mend.first, then.first if then else "")))
        mend = Remedy(first, (then.command if then else "") or DOCTOR)
    found.remedy = mend or then


def _for_run(found: Diagnosis, asked: str) -> tuple[Remedy | None, int]:
    """Return what the run needs, and the exit status."""
    run = found.run
    if run is None:
        if found.findings[0].standing == WRONG:  # the journal: it cannot say which runs there are
            return None, 2
        if not asked:
            return Remedy("", "nightscreen quote FILE"), 0
        first = f"there is no run {asked} in this journal: it never started, or HOME is another"
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
        "stopped": (_for_stop(run, found, again), 3),
        "completed": (held, 3) if run["held"] else (None, 0),
    }
    remedy, status = table[run["state"]]
    if remedy == Remedy(""):  # a flow whose runs are not resumed
        remedy = Remedy("begin it anew with its own command")
    return remedy, status


def _resume(run: Mapping[str, Any], *options: str) -> str:
    """Return the command that resumes a run, with a deadline that is still to come."""
    kept = options
    if run["deadline_at"] is not None and run["deadline_at"] > run["now"]:
        deadline = to_instant(run["deadline_at"]).astimezone(LAGOS)
        kept = (*options, "--deadline", f"{deadline:%Y-%m-%dT%H:%M}")
    return resume_command(run["run_id"], run["flow"], *kept)


def _for_stop(run: Mapping[str, Any], found: Diagnosis, again: str) -> Remedy:
    """Return what ends a stop."""
    if run["approval"] is not None:
        approve = f"nightscreen approve {run['run_id']}"
        return {
            ApprovalState.WAITING: Remedy("ask an approver to approve the spending", approve),
            ApprovalState.APPROVED: Remedy("", again),
            ApprovalState.REFUSED: Remedy("only to approve it all the same", approve),
            ApprovalState.VOID: Remedy("ask an approver to approve the spending again", approve),
        }[run["approval"]["state"]]
    reason, need = run["stop_reason"], run["missing_micro"]
    refused = "; ".join(
        refusals(
            (check, kind) for check in run["checks"] for kind in run["checks"][check]["errors"]
        )
    )
    service = next((each.remedy for each in found.findings if each.name == "service"), None)
    by = f" by about {naira_words(need)}" if need else ""
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
    cap, bound, missing = run["cap_micro"], run["bound_micro"], need or 0
    if cap is not None and (not wait or cap - bound < missing):
        naira = -(-max(bound + missing, cap + MICRO) // MICRO)
        return Remedy(wait, _resume(run, "--max-spend", str(naira)))
    return Remedy(wait, again)
