"""Settings, read once from the environment or `.env` and passed down; nothing is read at import.

A wrong value is reported by its name in the environment; the value is never shown.
"""

from __future__ import annotations

import ipaddress
import re
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict
from pydantic_settings import SettingsError as UnreadableSettingsError

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.checks import Outcome, Purpose
from nightscreen.schemas.clock import DAY_MICROS
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.outcomes import BadLoan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

PREFIX = "NIGHTSCREEN_"


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _service_address(url: str) -> str:
    """Accept https anywhere and http on loopback only; drop the closing slash."""
    if not url:
        return url
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise ValueError("must not hold a user name or password")
    host = parts.hostname or ""
    if not host or parts.scheme not in {"http", "https"}:
        raise ValueError("must be an address such as https://service.example")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError("must begin with https:// (http is allowed on loopback only)")
    return url.rstrip("/")


def _days_or_duration(value: object, parsed: ValidatorFunctionWrapHandler) -> timedelta:
    """Read a bare number as days, other text as an ISO 8601 duration."""
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value.strip()):
        value = float(value)
    try:
        age: timedelta = parsed(timedelta(days=value) if isinstance(value, int | float) else value)
    except (ValidationError, OverflowError):
        age = timedelta(-1)
    if age < timedelta(0):
        raise ValueError("must be a number of days such as 30, or a duration such as P30D")
    return age


def _exact_address(url: str) -> str:
    """Accept an address by the same rule; leave it exactly as it was registered."""
    _service_address(url)
    return url


def _portal_address(url: str) -> str:
    """Accept scheme, host and port only: the portal has its host for itself."""
    url = _service_address(url)
    parts = urlsplit(url)
    if parts.path or parts.query or parts.fragment:
        raise ValueError("must end after the host, as https://consent.lender.example does")
    return url


def _origins(text: str) -> str:
    """Accept addresses by the same rule, separated by commas."""
    return ",".join(_portal_address(each.strip()) for each in text.split(",") if each.strip())


def _proxy_address(value: SecretStr) -> SecretStr:
    """Accept nothing, `environment`, or an HTTP proxy; the value may hold a password."""
    text = value.get_secret_value().strip()
    parts = urlsplit(text)
    bare = parts.scheme == "http" and parts.hostname and not parts.query and parts.path in ("", "/")
    if text not in ("", "environment") and not bare:
        raise ValueError(
            "must be the address of an HTTP proxy, such as http://proxy.lender.example:3128, or "
            "the word environment"
        )
    return SecretStr(text)


def _proxies(text: str) -> str:
    networks = [network for part in text.split(",") if (network := part.strip())]
    for network in networks:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            raise ValueError(
                f"{network} is no address or network; write such as 127.0.0.1 or 10.0.0.0/24"
            ) from None
    return ",".join(networks)


ServiceAddress = Annotated[str, AfterValidator(_service_address)]
ExactAddress = Annotated[str, AfterValidator(_exact_address)]
PortalAddress = Annotated[str, AfterValidator(_portal_address)]
Proxies = Annotated[str, AfterValidator(_proxies)]
ProxyAddress = Annotated[SecretStr, AfterValidator(_proxy_address)]
Origins = Annotated[str, AfterValidator(_origins)]
Age = Annotated[timedelta, WrapValidator(_days_or_duration)]
Naira = Annotated[Decimal, Field(ge=0, max_digits=18, decimal_places=6)]
Cap = Annotated[int, Field(ge=1, le=1024)]
TimeoutS = Annotated[float, Field(gt=0, le=600)]


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


OF_FAMILIES: Mapping[str, tuple[int, float]] = {
    "bvn": (2, 75),
    "aggregator": (8, 30),
    "loans": (4, 30),
}
"""Calls in flight and timeout in seconds, for the operations besides the checks."""
IN_FLIGHT = {
    **{name: check.max_in_flight for name, check in CHECKS.items()},
    **{family: calls for family, (calls, _) in OF_FAMILIES.items()},
}
TIMEOUTS_S = {
    **{name: check.timeout_s for name, check in CHECKS.items()},
    **{family: seconds for family, (_, seconds) in OF_FAMILIES.items()},
}
AGED = {
    **{name: (*check.ages, Outcome.UNREADABLE.value) for name, check in CHECKS.items()},
    "cash_flow": ("pulled",),
}
"""The outcomes whose age may be set, by check. An answer that could not be read has its own age;
the cash flow from pulled transactions ages as `cash_flow.pulled`."""


def _refuse_unknown(names: Iterable[str], known: Iterable[str]) -> None:
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ValueError(f"there is no {', '.join(unknown)}; there are {', '.join(known)}")


def _over(defaults: Mapping[str, float], known: Iterable[str]) -> AfterValidator:
    """Accept known names; values replace the defaults."""

    def merge(values: dict[str, float]) -> dict[str, float]:
        _refuse_unknown(values, known)
        return {**defaults, **values}

    return AfterValidator(merge)


def _ages(values: dict[str, dict[str, timedelta]]) -> dict[str, dict[str, timedelta]]:
    names = (f"{check}.{outcome}" for check, ages in values.items() for outcome in ages)
    known = [f"{check}.{outcome}" for check, outcomes in AGED.items() for outcome in outcomes]
    _refuse_unknown(names, known)
    return values


InFlight = Annotated[dict[str, Cap], _over(IN_FLIGHT, IN_FLIGHT)]
Timeouts = Annotated[dict[str, TimeoutS], _over(TIMEOUTS_S, TIMEOUTS_S)]
PerDay = Annotated[dict[str, Annotated[int, Field(ge=0)]], _over({}, CHECKS)]
AgesSet = Annotated[dict[str, dict[str, Age]], AfterValidator(_ages)]


class Retention(_Group):
    """Days after which `purge` deletes data, by ground; runs under legal hold are kept."""

    quarantine_days: int = Field(30, ge=1)
    enriched_days: int = Field(396, ge=1)
    decisions_days: int = Field(2192, ge=1)
    journal_answers_days: int = Field(2192, ge=1)
    notices_days: int = Field(2192, ge=1)
    consents_days: int = Field(2192, ge=1)
    approvals_days: int = Field(2192, ge=1)
    audit_days: int = Field(2192, ge=1)
    applicants_days: int = Field(183, ge=1)

    def cutoffs(self, now: int) -> dict[str, int]:
        """Return, by ground, the instant in microseconds before which data are deleted."""
        return {name.removesuffix("_days"): now - days * DAY_MICROS for name, days in self}

    @classmethod
    def all_of(cls, days: int) -> Self:
        """Return the same period for every ground."""
        return cls(**dict.fromkeys(cls.model_fields, days))


GROUNDS = tuple(name.removesuffix("_days") for name in Retention.model_fields)
"""The grounds on which data are retained."""


class BvnConsent(_Group):
    """Settings of BVN consent; the service documents neither form nor lifetime of its passwords."""

    abandon_after: timedelta = Field(timedelta(days=1), gt=timedelta(0))
    otp_attempts: int = Field(3, ge=1, le=10)
    otp_digits: int = Field(6, ge=4, le=12)


class ContestClocks(_Group):
    """Hours within which a contest is answered, and what a repeated lookup may cost."""

    hours: float = Field(24, gt=0, le=8760)
    complex_hours: float = Field(48, gt=0, le=8760)
    data_protection_hours: float = Field(720, gt=0, le=8760)
    ask_again_cap: Naira = Decimal(100)


_ROLES = "(analyst|approver|auditor|privacy|administrator)"
_CASH_FLOW_DAYS = {
    Purpose.ORIGINATION: timedelta(days=7),
    Purpose.PORTFOLIO: timedelta(days=31),  # a pull a month
}
_UNREADABLE = Outcome.UNREADABLE.value
_UNREADABLE_DAYS = timedelta(days=7)
"""Until a lookup is repeated whose answer could not be read: it may have been charged, and would be
again."""
NIGHTLY_MARGIN = timedelta(hours=4)
"""Subtracted from each age, so that "one day" works for a run that starts at a similar hour."""
IN_DOUBT_AGE = timedelta(days=1) - NIGHTLY_MARGIN
"""How long a call in doubt counts as an attempt whose answer was lost."""


def max_ages(
    purpose: Purpose, freshness: Mapping[str, Mapping[str, timedelta]]
) -> dict[tuple[str, str], timedelta]:
    """Return how old an answer may be, by check and outcome, less `NIGHTLY_MARGIN`."""
    ages = {
        (name, outcome.value): timedelta(days=getattr(days, purpose.value))
        for name, check in CHECKS.items()
        for outcome, days in check.ages.items()
    }
    ages |= {(name, _UNREADABLE): _UNREADABLE_DAYS for name in CHECKS}
    for check in CHECKS:
        ages |= {(check, outcome): age for outcome, age in freshness.get(check, {}).items()}
    return {key: max(age - NIGHTLY_MARGIN, timedelta(0)) for key, age in ages.items()}


def cash_flow_age(purpose: Purpose, freshness: Mapping[str, Mapping[str, timedelta]]) -> timedelta:
    """Return how old a cash flow may be, less `NIGHTLY_MARGIN`."""
    age = freshness.get("cash_flow", {}).get("pulled", _CASH_FLOW_DAYS[purpose])
    return max(age - NIGHTLY_MARGIN, timedelta(0))


def overridden(
    settings: Mapping[str, Mapping[str, timedelta]], given: Sequence[str]
) -> dict[str, dict[str, timedelta]]:
    """Return the ages of the settings, replaced by those of one run.

    Args:
        settings: ages of the settings.
        given: such as `karma.clear=1` (days) or `ecosystem.found=PT12H`.

    Raises:
        SettingsError: an age cannot be read, names no check and outcome, or contradicts another.
    """
    merged: dict[str, dict[str, Any]] = {check: dict(ages) for check, ages in settings.items()}
    limits: dict[str, str] = {}  # one text may have several, separated by commas
    for limit in filter(str.strip, ",".join(given).split(",")):
        name, _, age = (part.strip() for part in limit.partition("="))
        if limits.setdefault(name, age) != age:
            raise SettingsError(
                f"freshness {name} is given twice, as {limits[name]} and as {age}: give it once"
            )
        check, _, outcome = name.partition(".")
        merged.setdefault(check, {})[outcome] = age
    try:
        return TypeAdapter(AgesSet).validate_python(merged)
    except ValidationError as error:
        first = error.errors()[0]
        why = first["msg"].removeprefix("Value error, ")
        place = ".".join(str(part) for part in first["loc"])
        raise SettingsError(
            f"freshness {place or ','.join(given)} cannot be read: {why}; write it such as "
            "karma.clear=1"
        ) from None


class Settings(BaseSettings):
    """All settings, by names with the prefix `NIGHTSCREEN_`.

    `.env.example` explains each; the reference page of settings is made from it.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        env_file=".env",
        env_file_encoding="utf-8",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    base_url: ServiceAddress = ""  # address of the service
    api_key: SecretStr = SecretStr("")  # key the service issued to you
    proxy: ProxyAddress = SecretStr("")  # or `environment`
    ca_file: Path | None = None
    consent_url: ServiceAddress = ""  # address of the consent screen
    client_id: str = ""  # your client id, from the service's console
    redirect_uri: ExactAddress = ""
    portal_url: PortalAddress = ""
    portal_name: str = Field("Your lender", min_length=1, max_length=80)
    portal_contact: str = Field("", max_length=200)
    desk_url: PortalAddress = ""
    desk_proxies: Proxies = ""
    desk_second_factor: str = Field("", pattern=rf"^(all|{_ROLES}(,{_ROLES})*)?$")
    output: Path = Path("out")  # where the desk writes runs
    aggregator_sends_key: bool = False  # send the key as well as a customer's access token
    aggregator_path: str = Field("/v2/aggregator", pattern=r"^(/[\w.-]+)+$")
    transactions_reread_days: int = Field(90, ge=0)
    home: Path = Path(".nightscreen")  # folder of the state (mode 0700)
    engine_pages: Origins = ""
    open_engine: bool = False  # take work from a server without authentication
    journal_url: str = ""  # SQLAlchemy URL of the journal; SQLite under HOME
    data_key: SecretStr = SecretStr("")  # 32 bytes base64; made once under HOME for a new journal
    manners_file: Path | None = None
    prices_file: Path | None = None
    narrations_file: Path | None = None
    features_file: Path | None = None
    declarations_file: Path | None = None
    max_in_flight: InFlight = IN_FLIGHT  # calls in flight at once
    share_caps: bool = False
    timeout_s: Timeouts = TIMEOUTS_S  # seconds a call may take
    attempts: int = Field(5, ge=1, le=20)  # per lookup, resends included
    max_per_day: PerDay = {}  # lookups per day, by check
    daily_spend_cap: Naira | None = None  # naira per day over all runs
    monthly_spend_cap: Naira | None = None  # naira per month over all runs
    balance_floor: Naira | None = None  # stop before the wallet falls below it
    approval_above: Naira | None = None  # a run quoted above it needs approval
    approval_timeout: timedelta = timedelta(hours=2)  # how long an unused approval is valid
    override_above: Naira | None = None  # exposure; above it an override needs two people
    review_within: timedelta = Field(timedelta(days=3), gt=timedelta(0))
    freshness: AgesSet = {}  # how old an answer may be
    shadow: Path | None = None  # a second policy that every screening tries, without effect
    require_approved_policy: bool = False
    merge_rows: bool = False  # the rows of one customer_id are one customer, in every run
    tolerated_failure_pct: float = Field(5.0, ge=0, le=100)
    selfie_match_at: float = Field(90.0, ge=0, le=100)  # similarity that is a match
    selfie_no_match_below: float = Field(70.0, ge=0, le=100)
    nights_left_notice: int = Field(3, ge=0)
    wallet_shared: bool = False  # others use the wallet too
    outage_give_up: timedelta = timedelta(minutes=10)  # a run stops after this without an answer
    resume_every: timedelta = timedelta(minutes=15)  # with a deadline: retry then, one call first
    inbox: Path = Path("inbox")  # folder whose files `nightscreen inbox` screens
    inbox_settle_s: float = Field(5, ge=0, le=3600)
    log_format: Literal["text", "json"] = "text"
    retention: Retention = Retention()  # how long each kind of data is kept, in days
    bvn_consent: BvnConsent = BvnConsent()
    contest: ContestClocks = ContestClocks()
    bad_loan: BadLoan = BadLoan()

    def own_table(self, name: str) -> Path | None:
        """Return the lender's own file of this name; None if the package's is used."""
        configured: Path | None = getattr(self, f"{name}_file")
        if configured is not None:
            return configured
        at_home = self.home / f"{name}.{'sql' if name == 'features' else 'toml'}"
        return at_home if at_home.exists() else None

    @field_validator("selfie_match_at", "selfie_no_match_below")
    @classmethod
    def _in_hundredths(cls, value: float) -> float:
        """Refuse a threshold written as a share: similarity runs to about 100."""
        if 0 < value <= 1:
            raise ValueError("similarity runs from 0 to 100: write 90, not 0.9")
        return value

    @field_validator("selfie_no_match_below")
    @classmethod
    def _below_match(cls, value: float, info: ValidationInfo) -> float:
        """Refuse thresholds that overlap."""
        match_at = info.data.get("selfie_match_at", value)
        if value > match_at:
            raise ValueError(
                f"is {value:g}, above SELFIE_MATCH_AT ({match_at:g}); it must be at most that, and "
                "scores between the two are unsure"
            )
        return value


def read_settings(**overrides: object) -> Settings:
    """Read the settings from the environment and `.env`.

    Raises:
        SettingsError: a value is wrong; the text names each variable and what it must be, never its
            value.
    """
    try:
        return Settings(**overrides)  # type: ignore[arg-type]  # values are validated by the model
    except ValidationError as error:
        wrong = "; ".join(_mistake(item["loc"], item["msg"]) for item in error.errors())
        raise SettingsError(wrong) from None
    except UnreadableSettingsError as error:
        name = PREFIX + str(error).partition('"')[2].partition('"')[0].upper()
        raise SettingsError(
            f"{name} cannot be read: set its parts by name instead, as {_example_below(name)}"
        ) from None
    except UnicodeDecodeError:
        raise SettingsError(".env is not UTF-8 text: save it as UTF-8") from None


def setting_names() -> list[str]:
    """Return the environment variable of every setting, without names of groups."""
    return list(_names(Settings, PREFIX))


_NAMED_BELOW = {
    "max_in_flight": [*IN_FLIGHT],
    "timeout_s": [*TIMEOUTS_S],
    "max_per_day": [*CHECKS],
    "freshness": [
        f"{check}__{outcome}" for check, outcomes in AGED.items() for outcome in outcomes
    ],
}
"""What may follow the names of settings that hold a value per check."""


def _names(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if name in _NAMED_BELOW:
            yield from (f"{prefix}{name}__{below}".upper() for below in _NAMED_BELOW[name])
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _names(kind, f"{prefix}{name.upper()}__")
        else:
            yield f"{prefix}{name.upper()}"


def _example_below(name: str) -> str:
    below = [setting for setting in setting_names() if setting.startswith(f"{name}__")]
    return f"{below[0]}=…" if below else f"{name}=…"


def _mistake(place: tuple[int | str, ...], message: str) -> str:
    name = PREFIX + "__".join(str(part).upper() for part in place)
    return f"{name}: {message.removeprefix('Value error, ')}"
