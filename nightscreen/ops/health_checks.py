"""Examining: journal, key, disk, settings and the way to the service, each looked at by itself.

A part that is broken is reported in words and stops nothing. Nothing is changed, no paid call is
made. `run_status` has the state of a run; `diagnostics` draws the conclusions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.client.network import parse_address
from nightscreen.client.prices import load_prices
from nightscreen.client.response_rules import load_response_rules
from nightscreen.files.disk_space import LEAST_FREE_BYTES, free_bytes
from nightscreen.journal.opening import JOURNAL_FILE
from nightscreen.journal.read_only import Look, look_into, pids_at_work
from nightscreen.operations.transactions.cashflow import CashFlow
from nightscreen.ops.suggestions import DOCTOR, Remedy
from nightscreen.schemas.errors import (
    JournalBusyError,
    JournalDamagedError,
    JournalError,
    JournalUnreachableError,
    JournalVersionError,
    NightscreenError,
    SettingsError,
)
from nightscreen.schemas.stops import REFUSALS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nightscreen.client.connectivity import Knock
    from nightscreen.config.settings import Settings
    from nightscreen.schemas.clock import Clock

OK, WARNING, WRONG = "ok", "warning", "wrong"
HOME_DISK = "disk (home)"
SCHEDULE = "schedule"
"""Name of a finding about a deployment whose newest run is late or ended badly."""
_GIGA = 1_000_000_000


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """One thing that was looked at.

    Attributes:
        name: what it is.
        standing: ok, warning, or wrong where no run can go on before it is fixed.
        says: the finding, in words.
        remedy: what to do about it, None where nothing is to be done; a remedy without a command
            is followed by what the run needs.
    """

    name: str
    standing: str
    says: str
    remedy: Remedy | None = None


def find_journal(settings: Settings, clock: Clock) -> tuple[Look | None, list[HealthFinding]]:
    """Look into the journal; where that fails, say so and go on without it."""
    try:
        look = look_into(
            settings.home,
            url=settings.journal_url,
            data_key=settings.data_key.get_secret_value(),
            clock=clock,
        )
    except NightscreenError as error:
        return None, [journal_trouble(settings, error)]
    except OSError as error:
        trouble = JournalError(f"the journal cannot be read: {error.strerror}")
        return None, [journal_trouble(settings, trouble)]
    if look is None:
        says = f"none under {settings.home} yet: the first run makes it"
        return None, [HealthFinding("journal", OK, says)]
    return look, [HealthFinding("journal", OK, "can be read"), _key(look)]


def journal_trouble(settings: Settings, error: NightscreenError) -> HealthFinding:
    """Say what is wrong with the journal, and what to type."""
    file = settings.home / JOURNAL_FILE
    first, command = "fix the journal as reported above", DOCTOR
    if isinstance(error, JournalVersionError):
        first = "install the version of nightscreen that made it here too"
    elif isinstance(error, JournalUnreachableError):
        first = "start the journal's database, or correct NIGHTSCREEN_JOURNAL_URL"
    elif isinstance(error, JournalBusyError):
        pids = ", ".join(map(str, pids_at_work(settings.home, settings.journal_url)))
        which = f"process {pids}" if pids else "the process that keeps it locked"
        first = f"wait for {which}, or end it"
    elif isinstance(error, JournalDamagedError):
        first = f"move it away: mkdir damaged; mv {file}* damaged/"
        command = "nightscreen journal restore BACKUP_DIR"
    return HealthFinding("journal", WRONG, str(error), Remedy(first, command))


def _key(look: Look) -> HealthFinding:
    if look.key_trouble is None:
        return HealthFinding("key", OK, f"fits the journal (fingerprint {look.fingerprint[:8]})")
    remedy = Remedy("put the right data key back", "")
    says = f"{look.key_trouble} (the journal's has the fingerprint {look.fingerprint[:8]})"
    return HealthFinding("key", WRONG, says, remedy)


def find_surroundings(
    settings: Settings,
    run: Mapping[str, Any] | None,
    reaching: Callable[[str], str | None],
    knocking: Knock,
) -> list[HealthFinding]:
    """Look at disk, settings and the way to the service."""
    output = Path(run["folder"]).parent if run is not None and run["folder"] else Path("out")
    found = [_disk(HOME_DISK, settings.home), _disk("disk (output)", output), _settings(settings)]
    found.append(_tables(settings))
    if settings.base_url:
        found.append(_service(settings, reaching, knocking))
    return found


def _disk(name: str, folder: Path) -> HealthFinding:
    free = free_bytes(folder)
    if free is None:
        return HealthFinding(name, WARNING, f"{folder} cannot be read; correct its permissions")
    says = f"{free / _GIGA:,.1f} GB free under {folder}"
    if free >= LEAST_FREE_BYTES:
        return HealthFinding(name, OK, says)
    remedy = Remedy(
        f"free some disk under {folder}; nightscreen purge --dry-run says what may go", ""
    )
    return HealthFinding(name, WRONG, f"nearly full: {says}", remedy)


def _settings(settings: Settings) -> HealthFinding:
    missing = [
        name
        for name, value in (
            ("NIGHTSCREEN_BASE_URL", settings.base_url),
            ("NIGHTSCREEN_API_KEY", settings.api_key.get_secret_value()),
        )
        if not value
    ]
    if missing:
        names = " and ".join(missing)
        return HealthFinding(
            "settings",
            WRONG,
            f"{names} not set",
            Remedy(f"write {names} into .env", ""),
        )
    return HealthFinding("settings", OK, "complete")


def _tables(settings: Settings) -> HealthFinding:
    """Say which tables are used, and what is wrong with the lender's own."""
    names = ("manners", "prices", "features", "narrations")
    used = {name: settings.own_table(name) for name in names}
    try:
        load_response_rules(used["manners"])
        load_prices(used["prices"])
        CashFlow.of(settings)
    except NightscreenError as error:
        return HealthFinding("tables", WRONG, str(error), Remedy("correct that line", DOCTOR))
    says = ", ".join(f"{name} {path or 'of the package'}" for name, path in used.items())
    return HealthFinding("tables", OK, says)


def _service(
    settings: Settings,
    reaching: Callable[[str], str | None],
    knocking: Knock,
) -> HealthFinding:
    """Find out whether the service can be reached, and whether it knows address and key."""
    in_the_way = reaching(settings.base_url)
    if in_the_way is not None:
        standing, first = _way(in_the_way)
        return HealthFinding("service", standing, in_the_way, Remedy(first, ""))
    key = settings.api_key.get_secret_value()
    try:
        trouble = knocking(settings.base_url, key, settings.own_table("manners")) if key else None
    except SettingsError as error:
        return HealthFinding(
            "service", WRONG, f"NIGHTSCREEN_{error}", Remedy("correct it in .env", "")
        )
    if trouble in {"address", "auth"}:
        says, _, first = REFUSALS[trouble].partition(": ")
        return HealthFinding("service", WRONG, f"{says} ({settings.base_url})", Remedy(first, ""))
    host = _host(settings.base_url)
    return HealthFinding("service", OK, f"{host} can be reached (nothing paid was asked)")


def _way(in_the_way: str) -> tuple[str, str]:
    """Return how bad it is that the service cannot be reached, and what fixes it.

    A wrong name or certificate stays wrong until somebody fixes it, so that no run can start; a
    silent service may answer again.
    """
    for words, first in _CAUSES.items():
        if words in in_the_way:
            return WRONG, first
    return WARNING, "wait until the service answers again, or fix the network"


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
"""The result of `reach`, and the first thing to do about it."""


def _host(base_url: str) -> str:
    return parse_address(base_url).url.netloc.decode("ascii")
