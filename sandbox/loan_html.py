"""The look of the hosted loan form: one page, fields, tables and notes, in HTML without script.

Only writing lives here. Which page a customer sees is decided in `sandbox.loan_pages`.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from decimal import Decimal

    from nightscreen.sandbox.loan_form import Filled

BRAND: Final = "Sandbox Credit"

STYLE: Final = """
:root{color-scheme:light dark;--ink:#17211d;--soft:#52605a;--page:#f3f5f2;--card:#fff;
--line:#c6cfc9;--brand:#0a6247;--on:#fff;--bad:#a81c26;--badsoft:#fdf0f0;--tag:#e3efe9}
@media (prefers-color-scheme:dark){:root{--ink:#e9efec;--soft:#a9b8b1;--page:#101613;
--card:#18201c;--line:#48554f;--brand:#79d2b0;--on:#0b1a14;--bad:#ff9a9a;--badsoft:#2c1a1b;
--tag:#24352d}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:1.0625rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
.strip{margin:0;padding:.4rem 1rem;background:var(--tag);font-size:.875rem;text-align:center}
header,main,footer{max-width:36rem;margin:0 auto;padding:0 1rem}
header{display:flex;gap:1rem;align-items:center;justify-content:space-between;
padding-top:1rem;padding-bottom:1rem}
.brand{margin:0;font-weight:700;color:var(--brand)}
main{background:var(--card);border:1px solid var(--line);border-radius:.75rem;padding:1.5rem}
h1{font-size:1.6rem;line-height:1.2;margin:0 0 .5rem}
h2,legend{font-size:1.15rem;font-weight:650;line-height:1.3}
h2{margin:2rem 0 .5rem}
p{margin:.5rem 0}
.soft,.hint{color:var(--soft)}
.hint{display:block;font-size:.9375rem}
fieldset{border:0;margin:1.75rem 0 0;padding:0;min-width:0}
legend{padding:0;margin-bottom:.25rem}
.field{margin:1rem 0 0}
.pair{display:grid;gap:0 1rem;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr))}
label{display:block;font-weight:600}
input,select{width:100%;min-height:2.85rem;margin-top:.25rem;padding:.45rem .7rem;font:inherit;
color:inherit;background:var(--card);border:1px solid var(--soft);border-radius:.4rem}
input[aria-invalid=true],select[aria-invalid=true]{border:2px solid var(--bad)}
.money{position:relative}.money input{padding-left:2rem}
.money span{position:absolute;left:.75rem;top:.95rem;color:var(--soft)}
.tick{display:flex;gap:.75rem;align-items:flex-start;font-weight:400}
.tick input{flex:none;width:1.5rem;min-height:1.5rem;margin:.1rem 0 0;accent-color:var(--brand)}
.error{display:block;margin-top:.25rem;color:var(--bad);font-weight:600;font-size:.9375rem}
.problems{margin:0 0 1.25rem;padding:.9rem 1rem;border:2px solid var(--bad);border-radius:.5rem;
background:var(--badsoft)}
.problems h2{margin:0 0 .25rem}.problems ul{margin:0;padding-left:1.2rem}
.problems a{color:var(--bad)}
.told{padding:.75rem 1rem;border-left:.3rem solid var(--brand);background:var(--tag);
border-radius:0 .4rem .4rem 0;margin:1rem 0}
a{color:var(--brand);text-underline-offset:.15em}
button{min-height:2.9rem;padding:.5rem 1.5rem;font:inherit;font-weight:650;cursor:pointer;
border:1px solid var(--brand);border-radius:.4rem;background:var(--brand);color:var(--on)}
button.quiet{background:transparent;color:var(--brand)}
button.small{min-height:2.75rem;padding:.25rem .9rem;font-size:.9375rem}
main form>button{margin-top:1.5rem}
:focus-visible{outline:3px solid var(--brand);outline-offset:2px}
dl{margin:1rem 0;display:grid;grid-template-columns:minmax(7rem,9.5rem) 1fr;gap:.5rem 1rem}
dt{color:var(--soft)}dd{margin:0;font-weight:600;overflow-wrap:anywhere}
.cards{list-style:none;margin:.5rem 0 0;padding:0}
.cards li{padding:.75rem 0;border-top:1px solid var(--line);display:flex;flex-wrap:wrap;
gap:.1rem 1rem;justify-content:space-between}
.cards li>span:first-child{overflow-wrap:anywhere}
.tag{display:inline-block;padding:.1rem .6rem;border-radius:1rem;background:var(--tag);
font-size:.9375rem;font-weight:600}
footer{padding-top:1.25rem;padding-bottom:3rem;font-size:.9375rem;color:var(--soft)}
summary{cursor:pointer;padding:.5rem 0}
pre{overflow-x:auto;padding:.75rem;border:1px solid var(--line);border-radius:.4rem;
font:.8125rem/1.6 ui-monospace,monospace}
@media (max-width:30rem){main{border-width:1px 0;border-radius:0;padding:1.25rem 1rem}
button:not(.small){width:100%}}
@media print{.strip,footer,form{display:none}}
"""

_DIGEST: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
HEADERS: Final = (
    (
        b"content-security-policy",
        f"default-src 'none'; style-src 'sha256-{_DIGEST}'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'".encode(),
    ),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form.

    Attributes:
        name: its name, and the anchor of its error.
        label: what people read above it.
        kind: type of the input.
        complete: value of `autocomplete`.
        hint: a line below the label, or empty.
        mode: value of `inputmode`, or empty.
    """

    name: str
    label: str
    kind: str = "text"
    complete: str = "off"
    hint: str = ""
    mode: str = ""


def _described(name: str, hint: str, error: str) -> tuple[str, str, str]:
    """Write hint and error of a field, and the attributes that tie them to it."""
    ids = [f"{name}-{part}" for part, text in (("hint", hint), ("error", error)) if text]
    tied = f' aria-describedby="{" ".join(ids)}"' if ids else ""
    tied += ' aria-invalid="true"' if error else ""
    above = f'<span class="hint" id="{name}-hint">{escape(hint)}</span>' if hint else ""
    below = (
        f'<span class="error" id="{name}-error">'
        f'<span aria-hidden="true">▲ </span>{escape(error)}</span>'
        if error
        else ""
    )
    return tied, above, below


def text_field(one: Field, form: Filled) -> str:
    """Write a field into which text is typed."""
    tied, hint, error = _described(one.name, one.hint, form.errors.get(one.name, ""))
    mode = f' inputmode="{one.mode}"' if one.mode else ""
    entry = (
        f'<input id="{one.name}" name="{one.name}" type="{one.kind}" '
        f'value="{escape(form.value(one.name))}" autocomplete="{one.complete}" '
        f"required{mode}{tied}>"
    )
    if one.name == "amount":
        entry = f'<div class="money"><span aria-hidden="true">₦</span>{entry}</div>'
    label = f'<label for="{one.name}">{escape(one.label)}</label>'
    return f'<div class="field">{label}{hint}{entry}{error}</div>\n'


def choice_field(name: str, label: str, choices: Iterable[tuple[str, str]], form: Filled) -> str:
    """Write a field in which one of a few choices is made."""
    tied, _, error = _described(name, "", form.errors.get(name, ""))
    options = "".join(
        f'<option value="{escape(value)}"{" selected" if form.value(name) == value else ""}>'
        f"{escape(text)}</option>"
        for value, text in (("", "Choose"), *choices)
    )
    return (
        f'<div class="field"><label for="{name}">{escape(label)}</label>'
        f'<select id="{name}" name="{name}" required{tied}>{options}</select>{error}</div>\n'
    )


def tick_field(name: str, label: str, form: Filled) -> str:
    """Write a box to tick."""
    tied, _, error = _described(name, "", form.errors.get(name, ""))
    ticked = " checked" if form.value(name) == "yes" else ""
    return (
        f'<div class="field"><label class="tick" for="{name}"><input id="{name}" name="{name}" '
        f'type="checkbox" value="yes" required{ticked}{tied}><span>{escape(label)}</span></label>'
        f"{error}</div>\n"
    )


def problems(form: Filled) -> str:
    """Write the list of what is wrong with a form, each leading to its field."""
    if not form.errors:
        return ""
    lines = "".join(
        f'<li><a href="#{name}">{escape(text)}</a></li>' for name, text in form.errors.items()
    )
    return (
        '<div class="problems" role="alert" aria-labelledby="problems-title">'
        f'<h2 id="problems-title">Please correct this</h2><ul>{lines}</ul></div>\n'
    )


def sending(address: str, inside: str, button: str, *, kind: str = "") -> str:
    """Write a form around its fields."""
    style = f' class="{kind}"' if kind else ""
    return (
        f'<form method="post" action="{escape(address)}" novalidate>\n{inside}'
        f"<button{style}>{escape(button)}</button></form>\n"
    )


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Write names and values."""
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs)
    return f"<dl>{lines}</dl>\n"


def naira(amount: Decimal) -> str:
    """Write an amount for people, without needless kobo."""
    return f"₦{amount:,.0f}" if amount == amount.to_integral_value() else f"₦{amount:,.2f}"


def told(text: str) -> str:
    """Write a sentence that stands out."""
    return f'<p class="told">{escape(text)}</p>\n'


def page(title: str, inside: str, *, above: str = "", foot: str = "", head: str = "") -> bytes:
    """Write a whole page.

    Args:
        title: its heading, and its title in the browser.
        inside: what stands below the heading.
        above: what is wrong with a form, if anything is.
        foot: what stands below the card.
        head: what stands opposite the brand.
    """
    shown = f"{'Error: ' if above else ''}{title} · {BRAND}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="robots" content="noindex"><title>{escape(shown)}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n"
        '<p class="strip">Sandbox: made-up people, made-up money.</p>\n'
        f'<header><p class="brand">{BRAND}</p>{head}</header>\n'
        f"<main>\n{above}<h1>{escape(title)}</h1>\n{inside}</main>\n"
        f"<footer>{foot}</footer>\n</body></html>\n"
    ).encode("utf-8", "replace")
