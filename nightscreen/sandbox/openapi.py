"""The OpenAPI document: the wire with the default switches, made from models of what goes over it.

Models and words only; paths and methods are those of the tables of routes. The models are open: the
service may send keys that nobody knows. Records of area A and C are not shown by the specification.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Final, Literal, NamedTuple
from uuid import UUID

from pydantic import AnyUrl, BaseModel, ConfigDict, Field, create_model

from nightscreen.sandbox import aggregator, loans, validation
from nightscreen.sandbox.grants import SCOPES, TOKEN_LENGTH
from nightscreen.sandbox.people import FORMS

Schema = dict[str, object]

Bvn = Annotated[str, Field(pattern="^[0-9]{11}$")]
BankCode = Annotated[str, Field(pattern="^[0-9]{3}$")]
AccountNumber = Annotated[str, Field(pattern="^[0-9]{10}$")]
Money = Annotated[str, Field(pattern=r"^-?[0-9]+\.[0-9]{2}$")]
Filled = Annotated[str, Field(min_length=1)]
Token = Annotated[str, Field(min_length=TOKEN_LENGTH, max_length=TOKEN_LENGTH)]
YesOrNo = Literal[0, 1]


def _alike(kind: object, names: str) -> dict[str, tuple[object, object]]:
    """Describe required fields of one type."""
    return dict.fromkeys(names.split(), (kind, ...))


class Meta(BaseModel):
    balance: float
    cost: float = 0


class Error(BaseModel):
    status: Literal["error", "success"]
    message: str
    meta: Meta | None = None
    data: list[str] | None = None


class KarmaType(BaseModel):
    karma: str


class KarmaIdentityType(BaseModel):
    identity_type: str


class ReportingEntity(BaseModel):
    name: str
    email: str


class KarmaRecord(BaseModel):
    karma_identity: str
    amount_in_contention: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]{2}$")]
    reason: str | None
    default_date: date
    karma_type: KarmaType
    karma_identity_type: KarmaIdentityType
    reporting_entity: ReportingEntity


EcosystemRecord = create_model(  # type: ignore[call-overload]
    "EcosystemRecord",
    bvn=(Bvn, ...),
    **_alike(str, "first_name last_name bvn_phone_number phone_number email gender"),
    **_alike(
        int,
        "age lenders loans settled_loans running_loans past_due_loans delayed_paid_loans logins "
        "credit_delinquency unique_phone_numbers unique_emails failed_selfie_bvn_check "
        "lending_lenders delayed_paid_loans_trials delayed_paid_loans_trials_max "
        "delayed_paid_loans_trials_min loan_requests failed_loan_requests unique_login_ips "
        "unique_device_ids distinct_mobile_os duplicated_devices shared_device_users",
    ),
    **_alike(
        float,
        "loan_amount_minimum loan_amount_maximum loan_amount_average past_due_loan_amount_due "
        "loan_amount settled_loan_amount settled_loan_amount_paid running_loan_amount "
        "past_due_loan_amount penalty penalty_paid delayed_paid_loan_amount delayed_paid_loans_avg",
    ),
    **_alike(
        datetime,
        "date_of_birth first_account last_account first_login last_login processed_on "
        "first_loan_date last_loan_date",
    ),
)


class Account(BaseModel):
    bank_code: BankCode
    account_name: str
    account_number: AccountNumber
    bvn: Bvn


class Likeness(BaseModel):
    match: bool
    similarity: float


class BvnAccount(BaseModel):
    account_name: str
    account_number: str
    bank_name: str
    bank_code: str
    account_status: Annotated[int, Field(ge=1, le=8)]
    account_designation: str
    account_type: str


class BvnDetails(BaseModel):
    reference: int
    bvn: Bvn
    first_name: str
    last_name: str
    dob: date
    watchlisted: int
    enrollment_bank: BankCode = ""
    middle_name: str | None = None
    mobile: str | None = None
    registration_date: str | None = None
    email: str | None = None
    gender: str | None = None
    marital_status: str | None = None
    residential_address: str | None = None
    state_of_origin: str | None = None
    image_url: str | None = None
    accounts: list[BvnAccount] = []


class AccessToken(BaseModel):
    access_token: Token
    token_type: str
    username: str
    scope: str
    refresh_token: Token = ""


class Bank(BaseModel):
    id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    name: str
    short_code: str
    long_code: str
    icon: str


class Audited(BaseModel):
    created_on: datetime
    modified_on: datetime
    deleted_on: datetime | None
    deleted_by: str | None = None


class Transaction(Audited):
    id: UUID | None = None
    account_number: str
    currency: str
    amount: Money
    balance: Money
    reference: str
    hash: str
    status: str
    entry_type: Literal["credit", "debit"]
    narration: str
    transaction_date: datetime
    transaction_type: str
    note: str | None
    source: str
    provider: str
    bank: Bank


class LinkedAccount(Audited):
    id: UUID
    account_name: str
    account_number: str
    balance: Money
    currency: str
    last_balance_time: datetime
    last_synced: datetime
    data_source: list[str]
    description: str | None
    bank: Bank


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


Profile = create_model(  # type: ignore[call-overload]
    "Profile", **_alike(str, "id username first_name last_name email phone_number")
)


class Product(BaseModel):
    product_id: str
    name: str
    description: str
    disburse_to: str
    collection_method: str
    interest_rate: float
    interest_period: str | None
    min_amount: float
    max_amount: float
    min_tenor_value: int
    min_tenor_period: str | None
    max_tenor_value: int
    max_tenor_period: str | None
    require_guarantor: YesOrNo
    allows_early_settlement: YesOrNo
    is_active: YesOrNo


class Link(BaseModel):
    reference: str
    url: AnyUrl


class LoanStatus(BaseModel):
    status: Literal["PENDING", "RUNNING", "SETTLED", "CANCELLED"]
    can_request: bool
    can_cancel: bool


class LoanUser(BaseModel):
    first_name: str | None
    last_name: str | None
    email: str | None
    phone_number: str | None


class LoanRecord(BaseModel):
    reference: str
    product_id: str
    product_name: str
    tenor_period: str
    status: LoanStatus
    loan_amount: float | None
    amount_disbursed: float
    paid: float
    tenor_value: int | None
    reject_reason: str | None
    user: LoanUser
    created_on: datetime
    applied_on: datetime | None
    disbursed_on: datetime | None
    settled_on: datetime | None


class ContactBody(BaseModel):
    contact: Filled


class OtpBody(BaseModel):
    otp: Filled


class ImageBody(BaseModel):
    image: Annotated[str, Field(pattern="^https?://", json_schema_extra={"format": "uri"})]


class AccountBody(BaseModel):
    account_number: AccountNumber
    bank_code: BankCode


class TokenBody(BaseModel):
    code: Annotated[Filled, Field(description="the authorization code, or the refresh token")]
    grant_type: Literal["authorization_code", "refresh_token"]
    redirect_uri: Annotated[str, Field(json_schema_extra={"format": "uri"})]


class NoteBody(BaseModel):
    note: Filled


class AddBody(BaseModel):
    account_number: Filled
    bank_code: Filled


class RenameBody(BaseModel):
    account_name: Filled


class SyncBody(BaseModel):
    account_id: Filled


class LoanCustomer(BaseModel):
    email: str | None = None
    phone_number: str | None = None


class LoanBody(BaseModel):
    product_id: Filled
    meta: LoanCustomer | None = None


def _answer(name: str, data: object, *, status: str = "success", parts: str) -> type[BaseModel]:
    """Put data into an envelope; areas and operations differ in what else is in it."""
    known = {"message": (str, ...), "meta": (Meta, ...)}
    return create_model(  # type: ignore[call-overload, no-any-return]
        name,
        status=(Literal[status], ...),
        **{part: known[part] for part in parts.split()},
        data=(data, ...),
    )


def _described(name: str, data: object, *, status: str = "success") -> type[BaseModel]:
    return _answer(name, data, status=status, parts="message meta")


class Described(NamedTuple):
    """The description of one operation."""

    summary: str
    answer: type[BaseModel]
    errors: str
    body: type[BaseModel] | None = None


_KEY: Final = "400 401 402 403"
_DATA: Final = "400 402 403 404 500"
_ONE_TRANSACTION: Final = _described("OneTransaction", Transaction)
_ONE_ACCOUNT: Final = _described("OneLinkedAccount", LinkedAccount)
OPERATIONS: Final = {
    "bvn_start": Described(
        "a one-time password is on its way",
        *(_described("BvnStart", str, status="otp"), f"{_KEY} 404 500 504", ContactBody),
    ),
    "bvn_finish": Described(
        "the BVN record",
        *(_described("BvnFinish", BvnDetails | list[BvnAccount]), f"{_KEY} 500 504", OtpBody),
    ),
    "selfie": Described(
        "how alike photograph and record are",
        *(_described("Selfie", Likeness), f"{_KEY} 404 500 504", ImageBody),
    ),
    "bank_account": Described(
        "who holds the account", _described("BankAccount", Account), f"{_KEY} 500 504", AccountBody
    ),
    "karma": Described(
        "the entry on the blacklist", _described("Karma", KarmaRecord), f"{_KEY} 404 500"
    ),
    "ecosystem": Described(
        "the record", _described("Ecosystem", EcosystemRecord), f"{_KEY} 404 500"
    ),
    "aggregator_auth": Described("an access token", AccessToken, f"{_KEY} 500", TokenBody),
    "aggregator_transactions": Described(
        "all transactions, newest first",
        _answer("Transactions", list[Transaction], parts="meta"),
        _DATA,
    ),
    "aggregator_transaction_view": Described("one transaction", _ONE_TRANSACTION, _DATA),
    "aggregator_transaction_update": Described(
        "the transaction with its new note", _ONE_TRANSACTION, _DATA, NoteBody
    ),
    "aggregator_bank_account_list": Described(
        "all bank accounts", _answer("LinkedAccounts", list[LinkedAccount], parts="meta"), _DATA
    ),
    "aggregator_bank_account_add": Described("the account added", _ONE_ACCOUNT, _DATA, AddBody),
    "aggregator_bank_account_sync": Described(
        "the account, as of now", _ONE_ACCOUNT, _DATA, SyncBody
    ),
    "aggregator_bank_account_view": Described("one bank account", _ONE_ACCOUNT, _DATA),
    "aggregator_bank_account_update": Described(
        "the account with its new name", _ONE_ACCOUNT, _DATA, RenameBody
    ),
    "aggregator_bank_account_delete": Described(
        "the account is gone", _described("Gone", Nothing), _DATA
    ),
    "aggregator_profile_view": Described(
        "the customer's profile", _described("ProfileView", Profile), _DATA
    ),
    "loan_products": Described(
        "the active products",
        _answer("LoanProducts", list[Product], parts="message"),
        "400 401 403 500",
    ),
    "loan_start": Described(
        "a short link to the loan form",
        *(_answer("LoanLink", Link, parts="message"), "400 401 403 500 504", LoanBody),
    ),
    "loan_view": Described(
        "the state of the loan", _answer("Loan", LoanRecord, parts="message"), "400 401 403 404 500"
    ),
}
SPECIFIED: Final = ("aggregator_auth", "aggregator_transactions")
"""The operations of area A that the specification shows; the others are experimental."""

PARAMETERS: Final[dict[str, Schema]] = {
    "bvn": {"type": "string", "pattern": "^[0-9]{11}$"},
    "identity": {
        "type": "string",
        "minLength": 1,
        "description": f"one of: {', '.join(FORMS)}, percent-encoded; anything else is a miss",
    },
    "id": {"type": "string", "minLength": 1},
    "reference": {"type": "string", "minLength": 1},
}
ERRORS: Final = {
    "400": "the input is malformed; malformed JSON is answered with an HTML page",
    "401": "no Authorization header",
    "402": "the wallet is too low for this operation",
    "403": "wrong key, or no right to this operation",
    "404": "nothing is known of this identifier",
    "500": "no price for this operation, or the account does not exist",
    "504": "a required field is missing or empty, or an image is no web address",
}
_TEXT: Final[Schema] = {"schema": {"type": "string"}}


class Document:
    """Puts the document together; the schemas of models gather on the way."""

    def __init__(self) -> None:
        self.schemas: dict[str, object] = {}

    def schema(self, model: type[BaseModel]) -> Schema:
        """Return a model's schema, and keep those of the models in it."""
        whole: Schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        inner = whole.pop("$defs", {})
        if isinstance(inner, dict):
            self.schemas |= inner
        return whole

    def named(self, model: type[BaseModel]) -> Schema:
        """Return JSON content that points to a model's schema."""
        self.schemas[model.__name__] = self.schema(model)
        ref = {"$ref": f"#/components/schemas/{model.__name__}"}
        return {"application/json": {"schema": ref}}

    def error(self, status: str) -> Schema:
        """Describe an error."""
        content = {"text/plain": _TEXT} if status == "504" else self.named(Error)
        if status == "400":
            content["text/html"] = _TEXT
        return {"description": ERRORS[status], "content": content}

    def operation(self, name: str) -> Schema:
        """Describe one operation."""
        said = OPERATIONS[name]
        responses: Schema = {
            "200": {"description": said.summary, "content": self.named(said.answer)},
            **{status: self.error(status) for status in said.errors.split()},
        }
        described: Schema = {"operationId": name, "summary": said.summary, "responses": responses}
        if said.body:
            content = {"application/json": {"schema": self.schema(said.body)}}
            described["requestBody"] = {"required": True, "content": content}
        of_area_a = name.startswith("aggregator_")
        if of_area_a and name != aggregator.AUTH:
            described["security"] = [{"token": []}]
        if of_area_a and name not in SPECIFIED:
            described |= {"summary": f"{said.summary} (experimental)", "x-experimental": True}
        return described

    def paths(self) -> dict[str, Schema]:
        """Describe every path of the service."""
        tables = (validation.ROUTES, aggregator.AUTH_ROUTES, aggregator.DATA_ROUTES, loans.ROUTES)
        paths: dict[str, Schema] = {"/data-share": {"get": _screen()}}
        for table in tables:
            for route, operations in table.items():
                path = route.replace(":path", "")
                item: Schema = {
                    method.lower(): self.operation(operation.name)
                    for method, operation in operations.items()
                }
                named = [name for name in PARAMETERS if f"{{{name}}}" in path]
                if named:
                    item["parameters"] = [
                        _parameter(name, "path", PARAMETERS[name]) for name in named
                    ]
                paths[path] = item
        return paths


def _parameter(name: str, place: str, schema: Schema, *, required: bool = True) -> Schema:
    return {"name": name, "in": place, "required": required, "schema": schema}


def _screen() -> Schema:
    """Describe the consent screen, which a browser meets and no program."""
    text: Schema = {"type": "string"}
    filled: Schema = {"type": "string", "minLength": 1}
    scopes = {**filled, "description": f"one or more of: {', '.join(SCOPES)}"}
    hint = {**text, "description": "the sandbox's own: who is signed in"}
    page: Schema = {"text/html": _TEXT}
    return {
        "operationId": "consent_screen",
        "summary": "asks the customer; the browser is sent back with code and state",
        "security": [],
        "parameters": [
            _parameter("response_type", "query", {"type": "string", "enum": ["code"]}),
            _parameter("client_id", "query", filled),
            _parameter("redirect_uri", "query", {"type": "string", "format": "uri"}),
            _parameter("scope", "query", scopes),
            _parameter("state", "query", text, required=False),
            _parameter("login_hint", "query", hint, required=False),
        ],
        "responses": {
            "200": {"description": "the page that asks", "content": page},
            "302": {"description": "back to redirect_uri, refused", "content": page},
            "400": {"description": "the request is wrong: a page, no redirect", "content": page},
        },
    }


def document() -> dict[str, object]:
    """Return the OpenAPI document."""
    made = Document()
    paths = made.paths()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "The service, as the sandbox simulates it",
            "version": "2",
            "description": "The wire with the default switches of the sandbox.",
        },
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "token": {"type": "apiKey", "in": "header", "name": "x-access-token"},
            },
            "schemas": made.schemas,
        },
    }
