"""A run as a value: what is open while a run of any flow makes its calls.

It is handed to what asks and to what reports. How a run is opened and written down is `runs`'
business; what only screening has is `runs.screening_run.ScreeningRun`.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
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

_NOT_ACTED_ON = frozenset({CallState.NOT_SENT.value, CallState.NOT_CHARGED.value})


@dataclass(slots=True, kw_only=True)
class Run:
    """One run of any flow, under way."""

    run_id: str
    flow: str  # its flow as the journal has it, such as `pull_transactions`
    batch: str  # what its nights are compared by
    purpose: str  # what its calls are made for, as the journal has it
    parameters: ScreenBatch | ApiRunParameters
    settings: Settings
    journal: Journal
    folder: RunFolder
    stops: Stops  # what stops it
    wallet: Wallet  # what is known of the prepaid balance
    caps: Caps
    started_at: int  # when it was first begun
    is_new: bool  # it was begun now, not resumed
    response_rules: ResponseRules  # what a response of the service means
    # what the lender declares, for the account of the calls
    declared: Declarations = field(default_factory=Declarations)
    input_digest: str = ""
    quote: Quote | None = None  # what it may cost; None until that is worked out
    spent_before_micro: int = 0  # what earlier sessions of it had spent when it was quoted
    on_close: ExitStack = field(default_factory=ExitStack)  # gives back what the run has open

    @property
    def clock(self) -> Clock:
        """Return what gives the present instant."""
        return self.journal.clock

    @property
    def progress(self) -> dict[str, CheckProgress]:
        """Return the numbers of each check or operation that it asks."""
        return self.stops.progress

    @property
    def operations(self) -> tuple[str, ...]:
        """Return the checks or operations that its calls are counted under."""
        return tuple(self.progress)

    @property
    def rows_read(self) -> int | None:
        """Return how many rows it has read, None where its flow counts none."""
        return None

    @property
    def only_quotes(self) -> bool:
        """Return whether the run ends with its quote, and leaves nothing."""
        return only_quotes(self.parameters)

    @property
    def has_no_effect(self) -> bool:
        """Return whether no call of it, in whatever session, can have been acted on."""
        calls = (row for rows in self.journal.runs.calls(self.run_id) for row in rows)
        return all(row.state in _NOT_ACTED_ON for row in calls)

    def refuse_wrong_address(self) -> None:
        """Say so where nothing of the service was found at its address.

        A run that is resumed ends by its stop, with a report: it is there already.

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
        """Leave nothing of a new run that came to nothing."""
        if self.is_new and self.has_no_effect:
            self.journal.runs.discard(self.run_id)
            discard_folder(self.folder.path)

    def close(self) -> None:
        """Give back what the run has open, the journal last."""
        self.on_close.close()


def only_quotes(parameters: ScreenBatch | ApiRunParameters) -> bool:
    """Return whether a run of these parameters ends with its quote, and leaves nothing."""
    return bool(getattr(parameters, "quote_only", False))


# --- money ---


def money_left(run: Run) -> int | None:
    """Return micro-naira still free under every cap, or None where there is no cap."""
    money, caps = run.journal.money, run.caps
    rooms = [
        cap - spent().bound_micro
        for cap, spent in (
            (caps.run_micro, partial(money.of_run, run.run_id)),
            (caps.day_micro, money.today),
            (caps.month_micro, money.this_month),
        )
        if cap is not None
    ]
    return max(0, min(rooms)) if rooms else None


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
