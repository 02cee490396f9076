"""Exchanges are read as the table says, whatever the service sends."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from nightscreen.client import wire
from nightscreen.client.classify import CallOutcome, Classifier
from nightscreen.client.response_parser import parse_answer
from nightscreen.client.response_rules import Break, ChargeStatus, Exchange
from nightscreen.schemas.checks import IdentityKind, Operation, Outcome
from tests.client.lookups import bank_account, ecosystem, karma, selfie

BVN = "22212345678"
ACCOUNT = "0123456789"
REQUESTS = {
    "bank_account": bank_account(ACCOUNT, "058"),
    "karma": karma(IdentityKind.BVN, BVN),
    "ecosystem": ecosystem(BVN),
    "selfie": selfie(BVN, "https://img.example/a.jpg"),
    Operation.BVN_START: wire.bvn_start(BVN, "08012345678"),
    Operation.BVN_FINISH: wire.bvn_finish(BVN, "123456"),
    Operation.AGGREGATOR_EXCHANGE: wire.exchange("code", "https://lender.example/cb"),
    Operation.AGGREGATOR_REFRESH: wire.refresh("again", "https://lender.example/cb"),
    Operation.AGGREGATOR_TRANSACTIONS: wire.scoped(Operation.AGGREGATOR_TRANSACTIONS, "token"),
    Operation.AGGREGATOR_TRANSACTION: wire.scoped(
        Operation.AGGREGATOR_TRANSACTION, "token", item="t1"
    ),
    Operation.AGGREGATOR_TRANSACTION_UPDATE: wire.scoped(
        Operation.AGGREGATOR_TRANSACTION_UPDATE, "token", item="t1", fields={"note": "rent"}
    ),
    Operation.AGGREGATOR_ACCOUNTS: wire.scoped(Operation.AGGREGATOR_ACCOUNTS, "token"),
    Operation.AGGREGATOR_ACCOUNT: wire.scoped(Operation.AGGREGATOR_ACCOUNT, "token", item="a1"),
    Operation.AGGREGATOR_ACCOUNT_ADD: wire.scoped(
        Operation.AGGREGATOR_ACCOUNT_ADD, "token", fields={"bank_code": "058"}
    ),
    Operation.AGGREGATOR_ACCOUNT_UPDATE: wire.scoped(
        Operation.AGGREGATOR_ACCOUNT_UPDATE, "token", item="a1", fields={"a": "b"}
    ),
    Operation.AGGREGATOR_ACCOUNT_DELETE: wire.scoped(
        Operation.AGGREGATOR_ACCOUNT_DELETE, "token", item="a1"
    ),
    Operation.AGGREGATOR_ACCOUNT_SYNC: wire.scoped(
        Operation.AGGREGATOR_ACCOUNT_SYNC, "token", fields={"account_id": "a1"}
    ),
    Operation.AGGREGATOR_PROFILE: wire.scoped(Operation.AGGREGATOR_PROFILE, "token"),
    Operation.LOAN_PRODUCTS: wire.loan_products(),
    Operation.LOAN_START: wire.loan_start("p1", email="ada@example.ng"),
    Operation.LOAN_VIEW: wire.loan_view("LN-1"),
}
CLASSIFIER = Classifier()


def read(operation: str, status: int, body: object) -> CallOutcome:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return CLASSIFIER.read(REQUESTS[operation], Exchange(status, raw))


def told(reading: CallOutcome) -> str:
    """Return the reading as one line of a table."""
    words = [str(reading.verdict), str(reading.outcome or reading.trouble)]
    words += ["retry"] * reading.retry + ["strain"] * reading.strain
    words += [f"{reading.stop}/{reading.stop_scope}"] if reading.stop else []
    return " ".join(words)


def ok(data: object, **more: object) -> dict[str, object]:
    return {"status": "success", "message": "Successful", "data": data, **more}


def error(message: str) -> dict[str, object]:
    return {"status": "error", "message": message}


ROUTE = f"Cannot GET /v2/verification/ecosystem/{BVN}"
OTHER = "in_doubt wrong_identity"
OTHER_BVN, MISS = "22299999999", "answered not_found"
META: dict[str, object] = {"meta": {"cost": 10, "balance": 990}}
ADDRESS = "stop address address/run"
WRONG_CONTACT = "not_charged wrong_contact"
TEST_MODE = "test_mode test_mode test_mode/run"
TABLE: tuple[tuple[str, int, object, str], ...] = (
    ("karma", 201, ok({"karma_identity": BVN}, deprecation="soon"), "answered listed"),
    # tokens and data of customers who consented
    ("aggregator_refresh", 200, {"token_type": "Bearer"}, "in_doubt unreadable retry"),
    ("aggregator_exchange", 200, {"token_type": "Bearer"}, "in_doubt unreadable"),
    ("aggregator_transactions", 200, ok(None), "in_doubt unreadable retry"),
    ("aggregator_transactions", 200, {**error("down"), "data": []}, "in_doubt unreadable retry"),
    ("aggregator_transactions", 404, error("Route not found"), "stop address address/run"),
    # loans
    ("loan_start", 200, ok({"reference": "LN-1"}), "in_doubt unreadable"),
    ("loan_view", 404, error("Route not found"), "stop address address/run"),
    # a record that does not say whose it is
    ("bank_account", 200, ok({"account_name": "ADA OBI"}), "in_doubt unreadable retry"),
    ("bank_account", 200, ok({"account_number": " "}, **META), "unreadable unreadable"),
    ("bank_account", 200, ok({"account_number": "*" * 10}, **META), "unreadable unreadable"),
    ("bank_account", 200, ok({"bvn": BVN, "bank_code": "058"}, **META), "unreadable unreadable"),
    ("ecosystem", 200, ok({"lenders": 2}), "in_doubt unreadable retry"),
    ("ecosystem", 200, ok({"bvn": None, "loans": 3}, **META), "unreadable unreadable"),
    ("karma", 200, ok({"reason": "owes"}, **META), "unreadable unreadable"),
    ("karma", 200, ok([{"reason": "owes"}], **META), "unreadable unreadable"),
    ("karma", 404, ok({"reason": "owes"}, **META), "unreadable unreadable"),
    # a miss that names another
    ("ecosystem", 404, error(f"{OTHER_BVN} not found in ecosystem"), f"{OTHER} retry"),
    ("ecosystem", 404, error("12345678901 not found in ecosystem"), f"{OTHER} retry"),
    ("ecosystem", 404, error(f"{BVN[:4]}*****99 not found in ecosystem"), f"{OTHER} retry"),
    ("ecosystem", 404, error(f"{BVN[:3]}*****{BVN[8:]} not found in ecosystem"), MISS),
    ("ecosystem", 404, error("BVN not found in ecosystem (reference 160999999990)"), MISS),
    ("karma", 404, {**error(f"{OTHER_BVN} is not listed"), "status": "success"}, f"{OTHER} retry"),
    ("karma", 404, error(f"Identity not found in karma: {OTHER_BVN}"), f"{OTHER} retry"),
    ("selfie", 404, error(f"No BVN record for {OTHER_BVN}"), f"{OTHER} retry"),
    # misses
    ("ecosystem", 404, error(f"{BVN} not found in ecosystem"), "answered not_found"),
    # other 404s and redirects are a wrong address
    ("ecosystem", 404, error(ROUTE), "stop address address/run"),
    ("ecosystem", 404, error(f"Not found: {ROUTE}"), "stop address address/run"),
    ("karma", 404, error("Route not found"), "stop address address/run"),
    ("karma", 404, b"<html>", "stop address address/run"),
    ("bank_account", 404, {"status": "success"}, "stop address address/run"),
    ("karma", 302, b"", "stop address address/run"),
    # test mode
    ("karma", 404, {"status": "success", "mock-response": 1}, "test_mode test_mode test_mode/run"),
    ("bvn_start", 200, {"status": "otp", "data": "0", "message": "Mock response"}, TEST_MODE),
    # contacts that are not the registered one
    ("bvn_start", 400, error("Contact is not 0801*****78"), WRONG_CONTACT),
    ("bvn_start", 403, {**error("Forbidden"), "data": ["a***@mail.example"]}, WRONG_CONTACT),
    ("bvn_start", 404, {**error("BVN"), "data": {"phone": "+234801***5678"}}, WRONG_CONTACT),
    ("bvn_start", 422, {**error("No"), "errors": [{"email": "a***@m**.example"}]}, WRONG_CONTACT),
    # not charged
    ("karma", 400, b"<html>", "not_charged rejected"),
    ("bvn_finish", 422, error("The OTP is invalid or has expired"), "not_charged otp_wrong"),
    ("bvn_start", 404, error("no such page"), "stop address address/run"),
    ("karma", 418, b"", "not_charged rejected"),
    # what stands before the service did not pass it on
    ("karma", 408, b"", "not_charged refused retry"),
    ("karma", 421, b"", "not_charged refused retry"),
    ("karma", 425, b"", "not_charged refused retry"),
    # in doubt
    ("karma", 599, b"", "in_doubt overload retry strain"),
    ("karma", 200, b'{"status":"succ', "in_doubt unreadable retry"),
    ("karma", 200, b"[]", "in_doubt unreadable retry"),
    ("karma", 200, ok(None), "in_doubt unreadable retry"),
    ("karma", 200, ok({}), "in_doubt unreadable retry"),
    ("karma", 200, ok("listed"), "in_doubt unreadable retry"),
    ("karma", 200, error("odd"), "in_doubt unreadable retry"),
    ("karma", 204, b"", "in_doubt unreadable retry"),
    ("bvn_finish", 200, ok([]), "in_doubt unreadable"),
    # somebody else
    ("karma", 200, ok({"karma_identity": "22299999999"}), OTHER),
    ("ecosystem", 200, ok({"bvn": "22299999999"}), OTHER),
    ("bank_account", 200, ok({"account_number": "9876543210"}), OTHER),
    ("ecosystem", 200, ok({"bvn": "22200000678", "lenders": 1}), OTHER),
    ("karma", 200, ok({"karma_identity": "a@b.ng"}), OTHER),
    (
        "karma",
        200,
        ok({"karma_identity": BVN, "karma_identity_type": {"identity_type": "Email"}}),
        OTHER,
    ),
    ("bank_account", 200, ok({"account_number": ACCOUNT, "bank_code": "044"}), OTHER),
    ("bvn_finish", 200, ok({"bvn": "22299999999"}), OTHER),
    # the masked BVN of an account is compared with the row, not with the question
    ("bank_account", 200, ok({"bvn": "22000000021", "account_number": ACCOUNT}), "answered found"),
)
"""Forms that `tests/exchanges` does not show."""


def test_table_of_responses() -> None:
    """Each response is read as one line says."""
    for operation, status, body, line in TABLE:
        assert told(read(operation, status, body)) == line, (operation, status, body, line)


BROKEN: list[tuple[str, Break, str]] = [
    ("karma", Break.NOT_SENT, "not_sent not_sent retry"),
    ("karma", Break.TIMEOUT, "in_doubt timeout retry strain"),
    ("karma", Break.CUT, "in_doubt cut retry"),
    ("karma", Break.TOO_LARGE, "in_doubt unreadable retry"),
    ("bvn_start", Break.NOT_SENT, "not_sent not_sent retry"),
    ("bvn_start", Break.CUT, "in_doubt cut"),
    ("bvn_finish", Break.TIMEOUT, "in_doubt timeout strain"),
    ("bvn_finish", Break.TOO_LARGE, "in_doubt unreadable"),
]


def test_table_of_broken_exchanges() -> None:
    """A BVN call that may have arrived is never repeated by machine."""
    for operation, broken, line in BROKEN:
        reading = CLASSIFIER.read(REQUESTS[operation], Exchange(broken=broken))
        assert told(reading) == line, (operation, broken, line)


def test_money_is_exact() -> None:
    """Cost and balance never pass through a float."""
    meta = b'"meta":{"cost":10.10,"balance":9007199254740993.123456}'
    body = b'{"status":"success","data":{"karma_identity":"' + BVN.encode() + b'"},' + meta + b"}"
    reading = read("karma", 200, body)
    assert reading.cost_micro == 10_100_000
    assert reading.balance_micro is None  # beyond every wallet
    body = body.replace(b"9007199254740993.123456", b'"12,345.123456"')
    assert read("karma", 200, body).balance_micro == 12_345_123_456


def test_mock_response_is_never_an_answer() -> None:
    """Test mode is noticed on every operation, whatever the status."""
    body = {**ok({"karma_identity": BVN, "similarity": 99}), "mock-response": "sample"}
    for operation in Operation:
        for status in (200, 404, 500):
            verdict = read(operation, status, body).verdict
            assert verdict is ChargeStatus.TEST_MODE, (operation, status)


def test_success_without_meta_is_an_answer_of_unknown_cost() -> None:
    """A `meta` that is missing or odd does not undo an answer; its cost is unknown, not nought."""
    metas: list[dict[str, object]] = [{}, {"meta": None}, {"meta": []}, {"meta": "x"}]
    metas += [{"meta": {"cost": cost}} for cost in (-1, "free", True)]
    for meta in metas:
        reading = read("karma", 200, ok({"karma_identity": BVN}, **meta))
        assert (reading.verdict, reading.cost_micro) == (ChargeStatus.ANSWERED, None), meta


def test_miss_costs_nothing_unless_it_says_so() -> None:
    """Misses are free; a balance beside one is kept."""
    body = error(f"{BVN} not found in ecosystem")
    reading = read("ecosystem", 404, {**body, "meta": {"balance": 5.5}})
    assert (reading.cost_micro, reading.balance_micro) == (0, 5_500_000)
    assert read("ecosystem", 404, {**body, "meta": {"cost": 1}}).cost_micro == 1_000_000


def test_only_answers_keep_their_body_and_no_repr_shows_it() -> None:
    """What is kept is sealed elsewhere; nothing of it is in a repr."""
    answered = read("karma", 200, ok({"karma_identity": BVN}))
    assert BVN.encode() in answered.body
    assert BVN not in repr(answered)
    assert read("karma", 400, error(BVN)).body == b""
    assert BVN not in repr(Exchange(200, BVN.encode()))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["status", "message", "data", "meta", "cost", "balance", "bvn", "karma_type"]
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(
    operation=st.sampled_from(list(Operation)),
    status=st.integers(100, 999) | st.none(),
    body=st.binary(max_size=200) | JSON.map(lambda document: json.dumps(document).encode()),
    broken=st.none() | st.sampled_from(Break),
)
def test_reading_never_raises(
    operation: Operation, status: int | None, body: bytes, broken: Break | None
) -> None:
    """Any bytes under any status have a reading, and every hit has a readable record."""
    reading = CLASSIFIER.read(REQUESTS[operation], Exchange(status, body, broken))
    misses = (None, Outcome.CLEAR, Outcome.NOT_FOUND)
    if reading.outcome not in misses:
        assert parse_answer(operation, reading.body) is not None
    assert (reading.verdict is ChargeStatus.ANSWERED) == (reading.trouble is None)
