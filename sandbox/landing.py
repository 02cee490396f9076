"""The landing page: what the sandbox is, and how it is doing, in plain HTML without script."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from starlette.routing import Route

from nightscreen.sandbox import tables, wire
from nightscreen.sandbox.scenarios import SCENARIOS
from nightscreen.sandbox.wire import Reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.types import Receive, Scope, Send

    from nightscreen.sandbox.state import Sandbox

LAST_CALLS: Final = 25

_STYLE: Final = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:0 auto;padding:1.5rem}
h1{margin-bottom:0}h2{margin-top:2.5rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}
th,td{padding:.3rem .8rem .3rem 0;text-align:left;vertical-align:top;border-bottom:1px solid #8886}
code,pre{font:0.85rem/1.5 ui-monospace,monospace}
pre{padding:1rem;border:1px solid #8886;border-radius:.4rem;overflow-x:auto}
nav a{margin-right:1rem}
"""

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


def _table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>\n"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>\n"
    )


def _section(anchor: str, title: str, inside: str) -> str:
    return f'<section id="{anchor}"><h2>{escape(title)}</h2>\n{inside}</section>\n'


def _wallet(sandbox: Sandbox) -> str:
    wallet = sandbox.wallet_json()
    charged = sandbox.ledger.totals_json()["charged"]
    rows = (
        ("opened with", wallet["opening"]),
        ("topped up", wallet["topped_up"]),
        ("drained by others", wallet["drained"]),
        ("charged for calls", charged),
        ("balance now", wallet["balance"]),
    )
    return _table(("wallet", "naira"), rows)


def _last_calls(sandbox: Sandbox) -> str:
    shown = (
        *("seq", "operation", "identity", "http_status", "outcome", "fault"),
        *("charged", "balance", "delivery", "attempt"),
    )
    newest = sandbox.ledger.newest(LAST_CALLS)
    if not newest:
        return "<p>None yet.</p>\n"
    rows = ([entry[name] for name in shown] for entry in newest)
    return _table([name.replace("_", " ") for name in shown], rows)


def _examples(url: str) -> str:
    lines = []
    for about, name, payload in EXAMPLES:
        tail = "" if payload is None else f" -d '{json.dumps(payload)}'"
        lines.append(f"# {about}\ncurl {url}/_sandbox/{name}{tail}\n")
    return f"<pre>{escape(chr(10).join(lines))}</pre>\n"


def _first_call(url: str, api_key: str) -> str:
    command = (
        f"curl -H 'Authorization: Bearer {api_key}' {url}/v2/verification/karma/22999000001\n"
        f"curl -H 'Authorization: Bearer {api_key}' {url}/v2/verification/bankaccount/bvn \\\n"
        '  -d \'{"account_number": "9990000011", "bank_code": "058"}\''
    )
    return f"<pre>{escape(command)}</pre>\n"


def _consent(sandbox: Sandbox, url: str) -> str:
    query = urlencode(
        {
            "response_type": "code",
            "client_id": sandbox.client.client_id,
            "redirect_uri": f"{url}/",
            "scope": "transaction:list profile:view",
            "state": "anything",
        }
    )
    return (
        f'<p><a href="/data-share?{escape(query)}">See the consent screen</a> as a customer does. '
        "Usernames that choose their own trouble, each <code>word@magic.example</code>:</p>\n"
        + _table(tables.CUSTOMER_HEADINGS, tables.customer_rows())
    )


def _passwords(sandbox: Sandbox) -> str:
    shown = ("bvn", "otp", "contact", "state", "number", "wrong")
    newest = sandbox.otps.as_json(sandbox.otp_terms())[-LAST_CALLS:]
    if not newest:
        return "<p>None sent yet.</p>\n"
    rows = (["" if one[name] is None else one[name] for name in shown] for one in reversed(newest))
    return _table(shown, rows)


def _loans(sandbox: Sandbox) -> str:
    newest = [*sandbox.loans.loans.values()][-LAST_CALLS:]
    if not newest:
        return "<p>None offered yet.</p>\n"
    lines = [
        f'<li><a href="{escape(one.path)}">{one.reference}</a> {escape(one.product.name)}, '
        f"{one.place(sandbox.day).status}</li>\n"
        for one in reversed(newest)
    ]
    return f"<ul>\n{''.join(lines)}</ul>\n"


def page(sandbox: Sandbox, url: str) -> str:
    """Write the page as it is at this moment.

    Args:
        sandbox: what to show.
        url: address under which the sandbox was reached, for the examples.
    """
    scenario = sandbox.scenario
    scenarios = [(one.name, one.about) for one in SCENARIOS.values()]
    sections = (
        _section("try", "A first call", _first_call(url, sandbox.opening.api_key)),
        _section("wallet", "Wallet", _wallet(sandbox)),
        _section("calls", f"Last {LAST_CALLS} calls", _last_calls(sandbox)),
        _section(
            "magic",
            "Magic identifiers",
            "<p>Every other well-formed identifier has an ordinary, stable life. An email is "
            "<code>word@magic.example</code>, a domain <code>word.magic.example</code>, a NUBAN "
            "identity <code>058-</code> and the account number.</p>\n"
            + _table(tables.MAGIC_HEADINGS, tables.magic_rows()),
        ),
        _section("consent", "Consent", _consent(sandbox, url)),
        _section("passwords", "One-time passwords", _passwords(sandbox)),
        _section("loans", "Loans", _loans(sandbox)),
        _section("control", "Control", _examples(url)),
        _section("manners", "Manners", _table(tables.MANNER_HEADINGS, tables.manner_rows())),
        _section("scenarios", "Scenarios", _table(("name", "mood"), scenarios)),
    )
    links = "".join(
        f'<a href="#{anchor}">{anchor}</a>'
        for anchor in (
            "try",
            "wallet",
            "calls",
            "magic",
            "consent",
            "passwords",
            "loans",
            "control",
            "manners",
            "scenarios",
        )
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Sandbox</title><style>{_STYLE}</style></head>\n<body><main>\n"
        "<h1>Sandbox</h1>\n<p>A simulator of the paid service: made-up people, made-up money, "
        "real HTTP. Nothing asked here costs anything, and nobody here exists. Scenario: "
        f"<strong>{escape(scenario.name)}</strong>, {escape(scenario.about)}. "
        '<a href="/_sandbox/openapi.json">OpenAPI document</a>.</p>\n'
        f"<nav>{links}</nav>\n{''.join(sections)}</main></body></html>\n"
    )


class Landing:
    """Answers `/`."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the page."""
        host = next((value for name, value in scope["headers"] if name == b"host"), b"localhost")
        body = page(self._sandbox, f"http://{host.decode('latin-1')}").encode()
        await wire.deliver(Reply(200, body, b"text/html; charset=utf-8"), scope, receive, send)


def routes(sandbox: Sandbox) -> list[Route]:
    """Return the route of the landing page."""
    return [Route("/", Landing(sandbox))]
