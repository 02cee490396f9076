"""The report's numbers, times and codes as people read them. Pure; nothing is counted here."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.clock import LAGOS, instant_text
from nightscreen.schemas.money import naira_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TITLES = {
    **{check: declared.title for check, declared in CHECKS.items()},
    "bvn_start": "Password sent",
    "bvn_finish": "BVN confirmed",
    "aggregator_refresh": "Access renewed",
    "aggregator_transactions": "Transactions",
    "aggregator_accounts": "Linked accounts",
    "aggregator_profile": "Profile",
    "loan_products": "Loan products",
    "loan_start": "Loan offers",
    "loan_view": "Loans followed",
}
_INSTANTS = ("_at", "_since", "until")  # what names of instants in microseconds end with
PURPOSES = {"portfolio": "portfolio review", "origination": "new applications"}
CAUSES = {
    "test_mode": "The service was in test mode",
    "pending": "Not reached yet",
    "failed": "No answer after every attempt",
    "unreadable": "Answered and charged, not readable yet",
    "in_doubt": "Sent, answer lost, may be charged",
    "refused": "No valid consent",
    "invalid": "Identifier malformed",
}
"""Why a row is not fully screened; a row's cause is the first that applies to any of its checks."""
DECISIONS = {
    "decline": "Decline",
    "review": "Review",
    "undecided": "Undecided",
    "approve": "Approve",
}
"""Titles of decisions, those to act on first."""
BASES = {
    "with_history": "With a history",
    "no_history": "No history found",
    "no_consent": "No valid consent",
    "not_asked": "Not asked for",
    "not_answered": "No answer yet",
}
HISTORY = {
    "no_history": ("not_found",),
    "no_consent": ("refused",),
    "not_asked": ("off", "ineligible", "invalid"),
    "not_answered": ("test_mode", "unreadable", "in_doubt", "failed", "pending", "spared"),
}
"""Statuses of the ecosystem check without a history, by the names of `BASES`."""
STATUSES = {
    "off": "not asked for",
    "ineligible": "identifier absent",
    "invalid": "identifier malformed",
    "refused": "no valid consent",
    "test_mode": "test mode",
    "unreadable": "answered, not readable yet",
    "in_doubt": "answer lost",
    "failed": "failed",
    "pending": "not reached yet",
    "no_match": "does not match",
    "match": "matches",
}
NEXT = {
    "approval": "No call was made; once it is approved, the run goes on.",
    "budget": "Raise the cap, then resume the run.",
    "balance": "Top the wallet up, then resume the run.",
    "auth": "Check the API key and what it may ask, then resume the run.",
    "outage": "Check the network and the service's address, then resume the run.",
    "quota": "The next day begins at noon; resume the run then.",
}
TROUBLES = {
    "not_sent": "No connection, nothing was sent",
    "refused": "Refused, the service was busy",
    "overload": "Server error, may be charged",
    "timeout": "No answer in time, may be charged",
    "cut": "Connection lost, may be charged",
    "unreadable": "Answer not readable",
    "wrong_identity": "Answer about somebody else",
    "outage": "Answers not readable, an outage",
    "rejected": "The service rejected the request",
    "no_product": "The service does not have the product",
    "auth": "Key refused",
    "no_right": "Key without the right to this",
    "unpriced": "No price agreed for this check",
    "balance": "Wallet too low",
    "address": "Not the service's address",
    "test_mode": "Sample answer of the test mode",
}
NOTHING = "none"
_SCALES = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"))
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


def decided(report: Mapping[str, Any], word: str) -> dict[str, Any]:
    """Return the weight of a decision's customers, with what is new among them."""
    new = (report["news"] or {"decisions": {}})["decisions"]
    return {**added(report["evidence"].get(word, {}).values()), **new.get(word, {})}


def added(weights: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sum of weights: rows, exposure, and rows with unknown exposure."""
    each = list(weights)
    return {
        "rows": sum(weight["rows"] for weight in each),
        "exposure": f"{sum((Decimal(weight['exposure']) for weight in each), Decimal(0)):.2f}",
        "unknown_rows": sum(weight["unknown_rows"] for weight in each),
    }


def naira(text: str | None) -> str:
    """Return decimal text as exact naira; `none` for None."""
    if text is None:
        return NOTHING
    amount = Decimal(text)
    return f"{'-' if amount < 0 else ''}₦{abs(amount):,.2f}"


def naira_at_risk(weight: Mapping[str, Any]) -> str:
    """Return a weight's exposure; without any known exposure it is unknown, not zero."""
    if weight["rows"] and weight["rows"] == weight["unknown_rows"]:
        return "not known"
    return naira(weight["exposure"])


def weight_words(weight: Mapping[str, Any]) -> str:
    """Return a weight's naira at risk or, if no exposure is known, its customers."""
    if weight["rows"] and weight["rows"] == weight["unknown_rows"]:
        return some(weight["rows"], "customer")
    return naira_short(weight["exposure"])


def weight_and_customers(weight: Mapping[str, Any]) -> str:
    """Return a weight's naira at risk and customers."""
    customers = some(weight["rows"], "customer")
    if weight["rows"] and weight["rows"] == weight["unknown_rows"]:
        return f"{customers}, their exposure is not known"
    return f"{naira_short(weight['exposure'])}, {customers}"


def weight_notes(weight: Mapping[str, Any]) -> str:
    """Return a weight's customers, and how many of them have no known exposure."""
    rows, unknown = weight["rows"], weight["unknown_rows"]
    if not rows:
        return "No customer"
    if rows == unknown:
        return "Their exposure is not known"
    more = f"; the exposure of {count(unknown)} is not known" if unknown else ""
    return f"{some(rows, 'customer')}{more}"


def naira_short(text: str | None) -> str:
    """Return decimal text as rounded naira: `₦12,345`, `₦2.41 billion`."""
    if text is None:
        return NOTHING
    amount = Decimal(text)
    sign, size = ("-" if amount < 0 else ""), abs(amount)
    for least, word in _SCALES:
        if size >= least:
            return f"{sign}₦{three_figures(size / least)} {word}"
    return f"{sign}₦{size:,.2f}".removesuffix(".00")


def three_figures(number: Decimal) -> str:
    """Return a number of at least 1 with three figures, never fewer than its whole part."""
    places = 2 if number < 10 else 1 if number < 100 else 0  # noqa: PLR2004 - three figures
    return f"{number:,.{places}f}"


def share(part: str | float, whole: str | float) -> str | None:
    """Return a share as a percentage; None if the whole is 0."""
    below, above = Decimal(str(whole)), Decimal(str(part))
    return None if below <= 0 else percent(100 * above / below)


def percent(value: Decimal | float) -> str:
    """Return a percentage that shows 0 and 100 only for exactly none and all."""
    number = Decimal(str(value))
    if 0 < number < Decimal("0.1"):
        return "under 0.1 %"
    if Decimal("99.9") < number < 100:  # noqa: PLR2004 - percent
        return "over 99.9 %"
    return f"{number:.0f} %" if number in (0, 100) else f"{number:.1f} %"


def count(number: float) -> str:
    """Return a whole number with thousands separators."""
    return f"{int(number):,}"


def some(number: float, one: str, many: str | None = None) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def plain(name: str) -> str:
    """Return a snake_case name with spaces."""
    return name.replace("_", " ")


def sentence(code: str) -> str:
    """Return a code with spaces, a capital letter and its abbreviations in capitals."""
    words = plain(code).replace("bvn", "BVN").replace("url", "address")
    return words[:1].upper() + words[1:]


def facts(fields: Mapping[str, Any], unit: str = "") -> dict[str, Any]:
    """Return fields of the journal for JSON: instants as ISO text, amounts in naira.

    `unit` ends the names of amounts, in place of `_micro`.
    """
    shown: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            shown[name] = facts(value, unit)
        elif isinstance(value, list):
            shown[name] = [facts(each, unit) if isinstance(each, dict) else each for each in value]
        elif name.endswith("_micro"):
            shown[name.removesuffix("_micro") + unit] = naira_text(value)
        elif isinstance(value, int) and (name == "at" or name.endswith(_INSTANTS)):
            shown[name] = instant_text(value)
        else:
            shown[name] = value
    return shown


def moment(text: str | None, *, seconds: bool = False) -> str:
    """Return an instant in Lagos: `Fri 20 Nov 2026, 02:14`."""
    if not text:
        return "not known"
    at = datetime.fromisoformat(text).astimezone(LAGOS)
    return f"{at:%a} {at.day} {at:%b %Y, %H:%M}{f':{at:%S}' if seconds else ''}"


def clock_time(text: str, *, seconds: bool = False) -> str:
    """Return an instant's time of day in Lagos."""
    return f"{datetime.fromisoformat(text).astimezone(LAGOS):{'%H:%M:%S' if seconds else '%H:%M'}}"


def from_to(report: Mapping[str, Any]) -> str:
    """Return start, end and duration of a run; a date that both share is shown once."""
    begun, ended = (str(report.get(name) or "") for name in ("started_at", "finished_at"))
    if not begun or not ended:
        return moment(begun or ended or None)
    same_day = moment(begun)[:-5] == moment(ended)[:-5]
    until = clock_time(ended) if same_day else moment(ended)
    seconds = datetime.fromisoformat(ended) - datetime.fromisoformat(begun)
    return f"{moment(begun)} to {until}, {lasting(seconds / timedelta(seconds=1))}"


def lasting(seconds: float) -> str:
    """Return a duration in its two largest units."""
    whole = round(seconds)
    if whole < _MINUTE_S:
        return some(whole, "second") if whole else "under a second"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    return f"{some(whole // _DAY_S, 'day')} {whole % _DAY_S // _HOUR_S} h"


def milliseconds(value: float | None) -> str:
    """Return how long an answer took."""
    if value is None:
        return NOTHING
    if value < 1000:  # noqa: PLR2004 - a second
        return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"  # noqa: PLR2004 - two figures
    return f"{value / 1000:.1f} s"


def days_old(days: float) -> str:
    """Return the age of evidence."""
    if days < 1:
        return "under a day"
    return some(int(days), "day")


def month_name(text: str) -> str:
    """Return `November 2026` for `2026-11`."""
    return f"{datetime.fromisoformat(f'{text}-01'):%B %Y}"
