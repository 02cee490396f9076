"""The home page: what the sandbox is and how it is doing; `docs/sandbox.md` has its tables."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from starlette.routing import Route

from nightscreen.sandbox import test_identifiers, wire
from nightscreen.sandbox.auth import header
from nightscreen.sandbox.behaviour_flags import described
from nightscreen.sandbox.pages import page_reply, render
from nightscreen.sandbox.state import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.types import Receive, Scope, Send

    from nightscreen.sandbox.state import Sandbox

LAST_CALLS: Final = 25
MAGIC_HEADINGS: Final = ("word", "what happens", "BVN", "account at 058", "phone")
CUSTOMER_HEADINGS: Final = ("word", "what happens")
MANNER_HEADINGS: Final = ("switch", "default", "meaning")
_CALL: Final = (
    *("seq", "operation", "identity", "http_status", "outcome", "fault"),
    *("charged", "balance", "delivery", "attempt"),
)
_OTP: Final = ("bvn", "otp", "contact", "state", "number", "wrong")

EXAMPLES: Final[tuple[tuple[str, str, dict[str, object] | None], ...]] = (
    ("what was asked and charged", "ledger", None),
    ("everything that can be set", "state", None),
    ("start afresh", "reset", {}),
    ("money in; empty at the 100th call", "wallet", {"top_up": "5000", "dry_at_call": 100}),
    (
        "another consumer takes 50 naira every 10 calls",
        "wallet",
        {"drain_every": {"calls": 10, "amount": 50}},
    ),
    (
        "slow, as in real life",
        "latency",
        {"kind": "lognormal", "median_ms": 3000, "p99_ms": 20_000},
    ),
    (
        "one karma call in ten fails",
        "faults",
        {"operation": "karma", "rates": {"http_500": 0.05, "cut_after_charge": 0.05}},
    ),
    (
        "an outage from the 50th call on, 20 calls long",
        "faults",
        {"script": [{"at_call": 50, "calls": 20, "fault": "http_503"}]},
    ),
    ("test mode", "mode", {"test_mode": "mock-response"}),
    ("another habit", "manners", {"masked_bvn": False}),
    ("another price", "prices", {"karma": "12.5"}),
    ("a hidden limit", "capacity", {"max_in_flight": 8, "refusal": "http_503"}),
    ("a month later", "world", {"day": 30}),
    ("one-time passwords, as the customers hold them", "otps", None),
    ("every loan, and the fate in store for it", "loans", None),
    ("a customer consents without a browser", "grants", {"customer": "ada@customers.example"}),
    ("who consented, and what came of it", "grants", None),
    ("every access token expires at once", "tokens", {"action": "expire"}),
    ("five minutes pass at once", "clock", {"advance_s": 300}),
)
"""Control requests worth knowing: what for, address under `/_sandbox/`, body (None reads)."""


def magic_rows() -> list[tuple[str, ...]]:
    """List the magic identifiers; emails are `<word>@magic.example`, domains alike."""
    return [
        (row.word, row.meaning, row.bvn, row.account_number, row.phone)
        for row in test_identifiers.TABLE
    ]


def customer_rows() -> list[tuple[str, ...]]:
    """List the magic customers of area A; the username is `<word>@magic.example`."""
    return [(row.word, row.meaning) for row in test_identifiers.CUSTOMERS]


def manner_rows() -> list[tuple[str, ...]]:
    """List the switches with their defaults."""
    return list(described())


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table as Markdown."""
    lines = [" | ".join(headings), " | ".join("---" for _ in headings)]
    lines += [" | ".join(row) for row in rows]
    return "".join(f"| {line} |\n" for line in lines)


def documentation() -> str:
    """Write all tables, as in `docs/sandbox.md`."""
    return "\n".join(
        (
            markdown(MAGIC_HEADINGS, magic_rows()),
            markdown(CUSTOMER_HEADINGS, customer_rows()),
            markdown(MANNER_HEADINGS, manner_rows()),
        )
    )


def home_page(sandbox: Sandbox, url: str) -> bytes:
    """Write the page as it is at this moment, for who reached the sandbox at this address."""
    wallet = sandbox.wallet_json()
    otps = sandbox.otps.as_json(sandbox.now())[-LAST_CALLS:]
    consent = {
        "response_type": "code",
        "client_id": sandbox.client.client_id,
        "redirect_uri": f"{url}/",
        "scope": "transaction:list profile:view",
        "state": "anything",
    }
    return render(
        "home.html",
        scenario=sandbox.scenario,
        scenarios=[(scenario.name, scenario.about) for scenario in SCENARIOS.values()],
        url=url,
        api_key=sandbox.opening.api_key,
        day=sandbox.day,
        wallet=(
            ("opened with", wallet["opening"]),
            ("topped up", wallet["topped_up"]),
            ("drained by others", wallet["drained"]),
            ("charged for calls", sandbox.ledger.totals_json()["charged"]),
            ("balance now", wallet["balance"]),
        ),
        last_calls=LAST_CALLS,
        call_headings=[name.replace("_", " ") for name in _CALL],
        calls=[[entry[name] for name in _CALL] for entry in sandbox.ledger.newest(LAST_CALLS)],
        otp_headings=_OTP,
        otps=[["" if otp[name] is None else otp[name] for name in _OTP] for otp in reversed(otps)],
        loans=[*sandbox.loans.loans.values()][-LAST_CALLS:][::-1],
        consent_query=urlencode(consent),
        examples=[
            (about, name, "" if body is None else f" -d '{json.dumps(body)}'")
            for about, name, body in EXAMPLES
        ],
        tables=sys.modules[__name__],
    )


class HomePage:
    """Answers `/`."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the page."""
        host = header(scope, b"host").decode("latin-1") or "localhost"
        reply = page_reply(200, home_page(self._sandbox, f"http://{host}"))
        await wire.deliver(reply, scope, receive, send)


def routes(sandbox: Sandbox) -> list[Route]:
    """Return the route of the home page."""
    return [Route("/", HomePage(sandbox))]
