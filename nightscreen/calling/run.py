"""A run of any flow as a value, which is passed to the code that asks and reports.

`runs` opens and saves it; `runs.screening_run.ScreeningRun` adds what only screening needs.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nightscreen.client.prices import load_prices
from nightscreen.config.declarations import Declarations
from nightscreen.files.places import discard_folder
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.money import max_cost, price_limit
from nightscreen.schemas.stops import ADDRESS, REFUSALS

if TYPE_CHECKING:
    from nightscreen.calling.stops import CheckProgress, Stops
    from nightscreen.calling.wallet import Wallet
    from nightscreen.client.response_rules import ResponseRules
    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.config.settings import Settings
    from nightscreen.files.run_folder import RunFolder
    from nightscreen.journal import Journal
    from nightscreen.schemas.api_runs import ApiRunParameters
    from nightscreen.schemas.calls import Caps
    from nightscreen.schemas.clock import Clock
    from nightscreen.schemas.plan import Quote

_WITHOUT_EFFECT = frozenset({CallState.NOT_SENT.value, CallState.NOT_CHARGED.value})


@dataclass(slots=True, kw_only=True)
class Run:
    """One run of any flow."""

    run_id: str
    flow: str  # its flow in the journal, such as `pull_transactions`
    batch: str  # the batch name; a run is compared with earlier ones of the same name
    purpose: str  # the purpose of its calls, in the journal
    parameters: ScreenBatch | ApiRunParameters
    settings: Settings
    journal: Journal
    folder: RunFolder
    stops: Stops
    wallet: Wallet
    caps: Caps
    started_at: int  # when it first started, in microseconds
    is_new: bool  # not resumed
    response_rules: ResponseRules
    # the lender's declarations, for the list of calls
    declared: Declarations = field(default_factory=Declarations)
    input_digest: str = ""
    quote: Quote | None = None  # None until it is priced
    spent_before_micro: int = 0  # what its earlier sessions had spent when it was quoted
    on_close: ExitStack = field(default_factory=ExitStack)  # closes the run's open resources

    @property
    def clock(self) -> Clock:
        """Return the journal's clock."""
        return self.journal.clock

    @property
    def progress(self) -> dict[str, CheckProgress]:
        """Return the progress of each check or operation."""
        return self.stops.progress

    @property
    def operations(self) -> tuple[str, ...]:
        """Return the run's checks or operations."""
        return tuple(self.progress)

    @property
    def rows_read(self) -> int | None:
        """Return how many rows it has read; None if its flow does not count rows."""
        return None

    @property
    def only_quotes(self) -> bool:
        """Return whether the run ends with its quote, and saves nothing."""
        return only_quotes(self.parameters)

    @property
    def has_no_effect(self) -> bool:
        """Return whether no call of it, in any session, can have had an effect."""
        calls = (row for rows in self.journal.runs.calls(self.run_id) for row in rows)
        return all(row.state in _WITHOUT_EFFECT for row in calls)

    def refuse_wrong_address(self) -> None:
        """Refuse a new run if the service was not found at its address.

        A resumed run, which has a folder already, ends by its stop, with a report.

        Raises:
            SettingsError: the address answers, but not as the service does.
        """
        stops = self.stops
        nothing_came = stops.answered == 0 and self.has_no_effect
        if self.is_new and stops.reason == ADDRESS and nothing_came:
            raise SettingsError(
                f"{REFUSALS['address']} ({self.settings.base_url}); nothing was spent"
            )

    def discard(self) -> None:
        """Remove every trace of a new run without effect."""
        if self.is_new and self.has_no_effect:
            self.journal.runs.discard(self.run_id)
            discard_folder(self.folder.path)

    def close(self) -> None:
        """Close the run's open resources, the journal last."""
        self.on_close.close()


def only_quotes(parameters: ScreenBatch | ApiRunParameters) -> bool:
    """Return whether a run with these parameters ends with its quote, and saves nothing."""
    return parameters.quote_only


# --- money ---


def listed_prices(settings: Settings) -> dict[str, int]:
    """Return the price list, by operation, in micro-naira.

    Raises:
        SettingsError: it cannot be read.
    """
    return load_prices(settings.own_table("prices"))


def known_prices(journal: Journal, settings: Settings) -> tuple[dict[str, int], dict[str, int]]:
    """Return the latest price and the most a call may cost, by operation, in micro-naira.

    Raises:
        SettingsError: the price list cannot be read.
    """
    seen, now = journal.money.prices(), journal.clock()
    latest, most = listed_prices(settings), {}
    for name, listed in latest.items():
        limit, price = price_limit(listed), seen.get(name)
        most[name] = max_cost(listed, price, limit_micro=limit, now=now)
        if price is not None and price.latest_micro <= limit:
            latest[name] = price.latest_micro
    return latest, most
