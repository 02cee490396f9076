"""Odd answers are values: nothing raises, and a stated cost is known whatever else is wrong."""

from __future__ import annotations

import gzip
import json

import pytest

from nightscreen.checks.karma import listings_of
from nightscreen.client.api import BODY_BYTES, Client
from nightscreen.client.classify import CallOutcome, Classifier
from nightscreen.client.response_parser import parse_answer
from nightscreen.client.response_rules import Break, ChargeStatus, Exchange
from nightscreen.schemas.checks import IdentityKind, Outcome
from tests.client.fakes import Canned, FakeTransport
from tests.client.lookups import karma

BVN = "22212345678"
KARMA = karma(IdentityKind.BVN, BVN)
META = '"meta":{"cost":10,"balance":990}'
LISTING = (
    b'{"status":"success","data":{"karma_identity":"22212345678","reason":"%s"},'
    + META.encode()
    + b"}"
)
CLASSIFIER = Classifier()


def read(body: bytes | str | dict[str, object], status: int = 200) -> CallOutcome:
    """Read an answer to a karma lookup."""
    raw = json.dumps(body) if isinstance(body, dict) else body
    raw = raw.encode() if isinstance(raw, str) else raw
    return CLASSIFIER.read(KARMA, Exchange(status, raw))


COSTED: list[str] = [
    '{"status":"success","data":"see the portal",' + META + "}",
    '{"status":"success","data":null,' + META + "}",
    '{"status":"success","data":[],' + META + "}",
    '{"status":"success","data":[1,null,"x",{}],' + META + "}",
    '{"status":"success","data":{},' + META + "}",
    '{"status":"success",' + META + "}",
    '{"status":"failed","data":{"karma_identity":"' + BVN + '"},' + META + "}",
    "<br />Warning: a notice<br />" + '{"status":"success","data":{"reason":"x"},' + META + "}",
    '{"status":"success","data":{"reason":"broken,' + META + "}",
    '{"status":"success","data":' + "[" * 100_000 + "]" * 100_000 + "," + META + "}",
    '{"status":"success","data":' + "9" * 10_000 + "," + META + "}",
    '{"status":"success","data":"a","data":null,"meta":{"cost":1},' + META + "}",
]


def test_a_stated_cost_is_settled_whatever_else_is_wrong() -> None:
    """It was charged and cannot be read: not in doubt, not tried again, its body kept."""
    for body in COSTED:
        reading = read(body)
        assert (reading.verdict, reading.outcome) == (
            ChargeStatus.UNREADABLE,
            Outcome.UNREADABLE,
        ), body
        assert (reading.cost_micro, reading.balance_micro) == (10_000_000, 990_000_000), body
        assert reading.retry is False, body
        assert reading.body == body.encode(), body


UNCOSTED: list[str] = [
    *('"meta":{"balance":990}', '"meta":{"cost":NaN}', '"meta":{"cost":-1}', '"meta":[]'),
    *('"meta":{"cost":1e999999999999}', '"meta":{"cost":"ten"}', '"meta":{"cost":9e99}'),
]


def test_without_a_stated_cost_it_is_in_doubt() -> None:
    """Nobody knows what it cost: the worst stays reserved, it is kept and may be sent again."""
    for meta in UNCOSTED:
        body = '{"status":"success","data":"x",' + meta + "}"
        reading = read(body)
        assert (reading.verdict, reading.retry) == (ChargeStatus.IN_DOUBT, True), meta
        assert (reading.cost_micro, reading.body) == (None, body.encode()), meta
        assert reading.is_unread, meta


KEPT: list[tuple[Exchange, bytes]] = [
    (Exchange(200, b"<html>"), b"<html>"),
    (Exchange(200, b""), b""),
    (Exchange(200, b"first part", broken=Break.TOO_LARGE), b"first part"),
]


def test_what_came_and_cannot_be_read_is_kept() -> None:
    """It is no lost connection: whoever corrects the table may read it after all."""
    for exchange, kept in KEPT:
        reading = CLASSIFIER.read(KARMA, exchange)
        assert (reading.verdict, reading.is_unread) == (ChargeStatus.IN_DOUBT, True), (
            exchange,
            kept,
        )
        assert reading.body == kept, (exchange, kept)


@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_of_a_body_that_is_too_large_the_first_part_is_kept(encoding: str) -> None:
    """A megabyte of it, as it came."""
    body = b"x" * (BODY_BYTES + 10)
    sent = gzip.compress(body) if encoding else body
    headers = {"Content-Encoding": encoding} if encoding else {}
    async with Client(
        "https://service.example", "key", transport=FakeTransport(Canned(200, sent, headers))
    ) as client:
        reading = await client.send(KARMA)
    assert (reading.verdict, reading.is_unread) == (ChargeStatus.IN_DOUBT, True)
    assert reading.body == sent[:BODY_BYTES]


ODDLY_WRITTEN: list[bytes] = [
    b"\xef\xbb\xbf" + LISTING % b"x",
    (LISTING % b"x").decode().encode("utf-16"),
    LISTING % b"Jos\xe9 owes",
    LISTING % b"two\nlines",
    LISTING % b"half \\ud83d it",
    (LISTING % b"x").replace(b'"reason"', b'"amount_in_contention":NaN,"reason"'),
    (LISTING % b"x").replace(b'"data"', b'"data":null,"data"'),
]


def test_odd_writing_is_read_all_the_same() -> None:
    """Marks, line breaks, stray bytes and numbers that are none are no reason to lose a record."""
    for body in ODDLY_WRITTEN:
        reading = read(body)
        assert (reading.verdict, reading.outcome) == (ChargeStatus.ANSWERED, Outcome.LISTED), body
        assert reading.cost_micro == 10_000_000, body
        (listing,) = listings_of(parse_answer("karma", reading.body))
        assert listing.reason, body
        listing.reason.encode()


def test_a_list_of_records_is_several_listings() -> None:
    """What cannot be read of it is left out; not one may be about somebody else."""
    one, other = {"karma_identity": BVN, "reason": "a"}, {"karma_identity": BVN, "reason": "b"}
    reading = read({"status": "success", "data": [one, 3, {}, other, {"reason": "nobody's"}]})
    assert reading.outcome is Outcome.LISTED
    found = listings_of(parse_answer("karma", reading.body))
    assert [each.reason for each in found] == ["a", "b"]
    strange = {"karma_identity": "22299999999", "reason": "c"}
    mixed = read({"status": "success", "data": [one, strange], "meta": {"cost": 10}})
    assert (mixed.verdict, mixed.trouble) == (ChargeStatus.UNREADABLE, "wrong_identity")


UNDER_404: list[tuple[dict[str, object], str]] = [
    ({"status": "success"}, "answered clear"),
    ({"status": "success", "data": None, "message": "x"}, "answered clear"),
    ({"status": "success", "data": {}}, "answered clear"),
    ({"status": "success", "data": {"karma_identity": BVN}}, "answered listed"),
    ({"status": "success", "data": [{"karma_identity": BVN}]}, "answered listed"),
    ({"status": "success", "data": [{"reason": "x"}]}, "in_doubt unreadable"),
    ({"status": "success", "data": {"foo": 1}}, "in_doubt unreadable"),
    ({"status": "success", "data": {"foo": 1}, "meta": {"cost": 10}}, "unreadable unreadable"),
    (
        {"status": "success", "data": {"karma_identity": "22299999999"}},
        "in_doubt wrong_identity",
    ),
    (
        {"status": "error", "message": "Identity not found", "data": {"reason": "x"}},
        "in_doubt unreadable",
    ),
]


def test_404_with_something_in_it_is_never_clear() -> None:
    """A record of the one asked about is a listing; whatever else there is cannot be read."""
    for body, told in UNDER_404:
        reading = read(body, 404)
        assert f"{reading.verdict} {reading.trouble or reading.outcome}" == told, (body, told)
        assert reading.stop is None, (body, told)


def test_a_sample_costs_nothing() -> None:
    sample = {"status": "success", "mock-response": "x", "meta": {"cost": 10}}
    reading = read({**sample, "data": {"karma_identity": BVN}})
    assert (reading.verdict, reading.cost_micro) == (ChargeStatus.TEST_MODE, 0)
