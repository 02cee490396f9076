"""The pages of the consent screen: HTML and the headers that go with it.

Words and looks only; what is asked and what follows is decided in `sandbox.consenting`. The pages
have no script, and everything that came with the request is escaped.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from nightscreen.sandbox.grants import SCOPES
from nightscreen.sandbox.wire import Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

_STYLE: Final = """
:root{color-scheme:light dark;--ink:#17202b;--soft:#536070;--line:#cfd6de;--paper:#fff;
--back:#eef2f4;--go:#0a6847;--on-go:#fff;--bad:#a3160d}
@media (prefers-color-scheme:dark){:root{--ink:#e9eef3;--soft:#a5b1bf;--line:#3c4957;
--paper:#18212b;--back:#0f151c;--go:#6fd6ab;--on-go:#06281b;--bad:#ff9d94}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:1.0625rem/1.5 system-ui,sans-serif}
main{max-width:34rem;margin:0 auto;padding:1.5rem 1.25rem 2rem;background:var(--paper);
min-height:100vh}
@media (min-width:40rem){main{margin:3rem auto;padding:2rem 2.25rem;min-height:0;
border-radius:.75rem;border:1px solid var(--line)}}
h1{font-size:1.4rem;line-height:1.25;margin:.25rem 0 1rem}
h2{font-size:1.0625rem;margin:1.5rem 0 .5rem}
p{margin:.5rem 0}
.brand,.soft{color:var(--soft);font-size:.9375rem}
.brand{margin:0}
ul{margin:.5rem 0;padding:0;list-style:none;border-top:1px solid var(--line)}
li{padding:.6rem 0;border-bottom:1px solid var(--line)}
code{font:.8125rem ui-monospace,monospace;color:var(--soft);overflow-wrap:anywhere}
label{display:block;font-weight:600;margin:1.5rem 0 .25rem}
input{width:100%;font:inherit;color:inherit;background:transparent;padding:.65rem .75rem;
border:1px solid var(--soft);border-radius:.4rem}
input[aria-invalid]{border:2px solid var(--bad)}
.error{color:var(--bad);font-weight:600;margin:.35rem 0 0}
.choice{display:grid;gap:.75rem;margin:1.5rem 0 1rem}
@media (min-width:26rem){.choice{grid-template-columns:1fr 1fr}}
button{font:inherit;font-weight:600;min-height:3rem;padding:.6rem 1rem;border-radius:.4rem;
cursor:pointer;border:2px solid var(--go);background:transparent;color:var(--ink)}
button[value=allow]{background:var(--go);color:var(--on-go)}
:focus-visible{outline:3px solid var(--ink);outline-offset:2px}
.where{overflow-wrap:anywhere}
"""
_STYLE_HASH: Final = b64encode(sha256(_STYLE.encode()).digest()).decode()

HTML: Final = b"text/html; charset=utf-8"


def headers(redirect_uri: str = "") -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers of every page and redirect of the screen.

    Args:
        redirect_uri: where the form's answer may lead; browsers hold a form's redirect against
            the policy too.
    """
    parts = urlsplit(redirect_uri)
    onward = f" {parts.scheme}://{parts.netloc}" if parts.netloc else ""
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'{onward}; "
        "frame-ancestors 'none'; base-uri 'none'"
    )
    return (
        (b"content-security-policy", policy.encode()),
        (b"referrer-policy", b"no-referrer"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"cache-control", b"no-store"),
    )


def _page(title: str, inside: str) -> bytes:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<p class="brand">Sandbox accounts</p>\n<h1>{escape(title)}</h1>\n{inside}'
        "</main>\n</body>\n</html>\n"
    ).encode("utf-8", "replace")


def asking(
    *, client: str, scopes: Sequence[str], customer: str, redirect_uri: str, query: str, fault: str
) -> bytes:
    """Write the page that asks the customer.

    Args:
        client: name of who asks.
        scopes: what is asked for, known scopes only.
        customer: who is signed in; may be changed on the page.
        redirect_uri: where the customer goes back to.
        query: the request as it came, which the form brings back.
        fault: what was wrong with the customer's last entry, or empty.
    """
    wishes = "\n".join(
        f"<li>{escape(SCOPES[scope][:1].upper() + SCOPES[scope][1:])}<br>"
        f"<code>{escape(scope)}</code></li>"
        for scope in scopes
    )
    wrong = ' aria-invalid="true" autofocus' if fault else ""
    told = f'<p class="error" id="fault">{escape(fault)}</p>\n' if fault else ""
    described = "fault who-note" if fault else "who-note"
    host = urlsplit(redirect_uri).netloc
    name = escape(client)
    return _page(
        f"{client} asks for access to your bank data",
        f'<p>If you allow it, <strong>{name}</strong> can:</p>\n<ul role="list">\n{wishes}\n</ul>\n'
        f'<p class="soft">Nothing else is shared. {name} never sees your password, and cannot '
        "move money. You can take this back at any time.</p>\n"
        f'<form method="post" action="?{escape(query)}">\n'
        '<label for="customer">Signed in as</label>\n'
        f'<input id="customer" name="customer" value="{escape(customer)}" required '
        'maxlength="200" autocomplete="username" autocapitalize="none" spellcheck="false" '
        f'aria-describedby="{described}"{wrong}>\n{told}'
        '<p class="soft" id="who-note">In this sandbox you may be anybody: write any name.</p>\n'
        '<div class="choice">\n'
        '<button name="decision" value="allow">Allow</button>\n'
        '<button name="decision" value="deny" formnovalidate>Deny</button>\n</div>\n'
        f'<p class="soft where">Either way you go back to {escape(host)}.</p>\n</form>\n',
    )


def refusing(reasons: Sequence[str]) -> bytes:
    """Write the page that tells why nothing can be asked; the customer is not sent anywhere."""
    listed = "\n".join(f"<li>{escape(reason)}</li>" for reason in reasons)
    return _page(
        "This link does not work",
        "<p>The application that sent you here made a mistake in its request. Nothing was shared, "
        "and nothing was allowed.</p>\n<h2>What is wrong with it</h2>\n"
        f'<ul role="list">\n{listed}\n</ul>\n'
        '<p class="soft">Go back to the application and tell its makers. '
        "You can close this page.</p>\n",
    )


def page_reply(status: int, body: bytes, redirect_uri: str = "") -> Reply:
    """Make an answer of a page."""
    return Reply(status, body, HTML, headers(redirect_uri))


def redirect_reply(status: int, location: str) -> Reply:
    """Make an answer that sends the browser on."""
    return Reply(status, b"", HTML, ((b"location", location.encode("ascii")), *headers(location)))
