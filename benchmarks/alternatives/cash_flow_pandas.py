"""Eight figures of cash flow as pandas works them out, by the same rules, to the same values.

Written as somebody who knows pandas would: narrations are matched once for each distinct text,
everything else is grouped and merged; amounts are floats. `benchmarks.cash_flow` holds the figures
against ours and stops where one differs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    import pyarrow as pa

    from nightscreen.operations.transactions.narrations import Narrations

FIGURES = (
    *("tx_months", "tx_inflow_monthly", "tx_outflow_monthly", "tx_repayments"),
    *("tx_loans_received", "tx_returned", "tx_betting_share", "tx_balance_min"),
)
_SAME = ["customer_id", "account_number", "amount"]


def figures(transactions: pa.Table, narrations: Narrations) -> pd.DataFrame:
    """Return `FIGURES` by customer."""
    frame = _settled(transactions)
    frame["category"] = _categories(frame, narrations)
    cancelled = _cancelled(frame)
    stands = frame[~frame.index.isin(cancelled)]
    once = stands[~stands.duplicated([*_SAME, "credit", "narration", "day", "same"])]
    own = _own_pairs(once[once["category"] == ""])
    items = once[
        ~once["category"].isin(["reversal", "returned", "own", "savings"]) & ~once.index.isin(own)
    ]
    span = frame.groupby("customer_id")["day"].agg(["min", "max"])
    months = _months(frame, span)
    found = pd.DataFrame(index=span.index)
    found["tx_months"] = months.groupby("customer_id").size().reindex(found.index, fill_value=0)
    inflow = items[items["credit"] & (items["category"] != "loan_received")]
    for name, side in (("inflow", inflow), ("outflow", items[~items["credit"]])):
        sums = side.groupby(["customer_id", "month"])["amount"].sum()
        whole = months.join(sums, on=["customer_id", "month"]).fillna({"amount": 0})
        found[f"tx_{name}_monthly"] = whole.groupby("customer_id")["amount"].median()
    late = items["day"] > items["customer_id"].map(span["max"]) - pd.Timedelta(days=180)
    returned = frame["day"] > frame["customer_id"].map(span["max"]) - pd.Timedelta(days=180)
    for name, which in (
        ("repayments", items[late & ~items["credit"] & (items["category"] == "loan_repayment")]),
        ("loans_received", items[late & items["credit"] & (items["category"] == "loan_received")]),
        ("returned", frame[returned & (frame["category"] == "returned")]),
    ):
        counted = which.groupby("customer_id").size()
        found[f"tx_{name}"] = counted.reindex(found.index, fill_value=0)
    spent = items[~items["credit"]].merge(months, on=["customer_id", "month"])
    bets = spent[spent["category"] == "betting"].groupby("customer_id")["amount"].sum()
    spending = spent.groupby("customer_id")["amount"].sum()
    found["tx_betting_share"] = bets.reindex(spending.index, fill_value=0) / spending
    found["tx_balance_min"] = _lowest(frame, span["max"])
    return found


def _settled(transactions: pa.Table) -> pd.DataFrame:
    frame = transactions.to_pandas()
    for column in ("amount", "balance"):
        frame[column] = frame[column].astype("float64")
    frame = frame[frame["deleted_on"].isna() & (frame["status"] == "success")]
    moment = frame["transaction_date"].dt.tz_convert("Africa/Lagos").dt.tz_localize(None)
    frame = frame.assign(
        moment=moment,
        day=moment.dt.normalize(),
        month=moment.dt.to_period("M"),
        credit=frame["entry_type"] == "credit",
        same=frame["reference"].where(
            frame["reference"].str.len() >= 6,
            moment.astype(str) + frame["balance"].astype(str),
        ),
    )
    # Of equal instants the newer stands first.
    newest_last: pd.DataFrame = frame[::-1].sort_values("moment", kind="stable")
    return newest_last.reset_index(drop=True)


def _categories(frame: pd.DataFrame, narrations: Narrations) -> pd.Series:
    """Return the category of each transaction: every distinct text is matched once."""
    form = frame["narration"].str.upper().str.replace(r"[0-9]{4,}", "0", regex=True)
    keys = pd.DataFrame(
        {"form": form, "kind": frame["transaction_type"], "credit": frame["credit"]}
    )
    texts = keys.drop_duplicates()
    rules = [
        (
            rule.category,
            rule.direction.value,
            re.compile(rule.pattern),
            re.compile(rule.exception) if rule.unless else None,
        )
        for rule in narrations.rule
    ]
    found = []
    lists = (texts[column].tolist() for column in ("form", "kind", "credit"))
    for text, kind, credit in zip(*lists, strict=True):
        plain = re.sub("[^A-Z0-9]+", " ", f"{text} {kind}".upper())
        padded, direction = f" {plain.strip()} ", "credit" if credit else "debit"
        found.append(
            next(
                (
                    category
                    for category, side, holds, unless in rules
                    if side in ("any", direction)
                    and holds.search(padded)
                    and not (unless and unless.search(padded))
                ),
                "",
            )
        )
    return keys.merge(texts.assign(category=found), how="left")["category"]


def _cancelled(frame: pd.DataFrame) -> set[int]:
    """Return the items that a reversal or a return takes back."""
    numbered = frame.reset_index()
    is_back = numbered["category"].isin(["reversal", "returned"])
    pairs = numbered[is_back].merge(numbered[~is_back], on=_SAME, suffixes=("", "_item"))
    apart = pairs["moment"] - pairs["moment_item"]
    near = (apart >= pd.Timedelta(0)) & (apart <= pd.Timedelta(days=30))
    pairs = pairs[near & (pairs["credit"] != pairs["credit_item"])]
    pairs = pairs.assign(same=pairs["reference"] == pairs["reference_item"])
    pairs = pairs.sort_values(["index", "same", "index_item"], ascending=[True, False, False])
    return _each_its_own(pairs, "index", "index_item")


def _own_pairs(plain: pd.DataFrame) -> set[int]:
    """Return both sides of transfers between a customer's own accounts."""
    sides = plain.reset_index()
    pairs = sides[~sides["credit"]].merge(
        sides[sides["credit"]], on=["customer_id", "amount"], suffixes=("", "_got")
    )
    apart = (pairs["moment_got"] - pairs["moment"]).abs()
    other = pairs["account_number"] != pairs["account_number_got"]
    pairs = pairs.assign(apart=apart)[other & (apart <= pd.Timedelta(days=2))]
    pairs = pairs.sort_values(["index", "apart", "index_got"])
    got = _each_its_own(pairs, "index", "index_got")
    return got | set(pairs[pairs["index_got"].isin(got)]["index"])


def _each_its_own(pairs: pd.DataFrame, one: str, other: str) -> set[int]:
    """Return the nearest of each; of two that mean the same, the second takes its next."""
    turn = pairs[~pairs.duplicated(one)].groupby(other).cumcount()
    wanted = pairs[one].map(dict(zip(pairs.loc[turn.index, one], turn, strict=True)))
    return set(pairs[pairs.groupby(one).cumcount() == wanted][other])


def _months(frame: pd.DataFrame, span: pd.DataFrame) -> pd.DataFrame:
    months = frame[["customer_id", "month"]].drop_duplicates().join(span, on="customer_id")
    start = months["month"].dt.start_time
    end = (months["month"] + 1).dt.start_time
    begins = start.where(start > months["min"], months["min"])
    enough = (end - begins).dt.days >= 25
    whole = months["max"] + pd.Timedelta(days=7) >= end - pd.Timedelta(days=1)
    late = months["month"] >= months["max"].dt.to_period("M") - 12
    months = months[enough & whole & late].sort_values("month", ascending=False)
    latest: pd.DataFrame = months[months.groupby("customer_id").cumcount() < 12]
    return latest[["customer_id", "month"]]


def _lowest(frame: pd.DataFrame, last: pd.Series) -> pd.Series:
    """Return the lowest day of the last ninety, all accounts together."""
    closing = frame.dropna(subset="balance").drop_duplicates(
        ["customer_id", "account_number", "day"], keep="last"
    )
    until = closing.groupby(["customer_id", "account_number"])["day"].shift(-1)
    end = closing["customer_id"].map(last)
    until = (until - pd.Timedelta(days=1)).fillna(end)
    first = closing["day"].clip(lower=end - pd.Timedelta(days=89))
    days = (until - first).dt.days + 1
    closing = closing.assign(first=first)[days > 0]
    every = closing.loc[closing.index.repeat(days[days > 0])]
    nth = every.groupby(level=0).cumcount()
    every = every.assign(day=every["first"] + pd.to_timedelta(nth, unit="D"))
    return every.groupby(["customer_id", "day"])["balance"].sum().groupby("customer_id").min()
