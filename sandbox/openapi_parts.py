"""Parts of the OpenAPI document that all areas share: schemas, operations, errors.

What an area's paths are is written in `sandbox.openapi` and beside it.
"""

from __future__ import annotations

from typing import Final

Schema = dict[str, object]

BVN: Final = "[0-9]{11}"
JSON: Final = "application/json"


def ref(name: str) -> Schema:
    """Point to a named schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def shape(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """Describe an object; it may have more fields than are named."""
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **(optional or {})},
    }


def text(pattern: str = "") -> Schema:
    """Describe a text, of a pattern if one is given."""
    return {"type": "string", "pattern": f"^{pattern}$"} if pattern else {"type": "string"}


WHOLE: Final[Schema] = {"type": "integer"}
NUMBER: Final[Schema] = {"type": "number"}
DAY: Final[Schema] = {"type": "string", "format": "date"}
MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}


def texts(*names: str) -> dict[str, Schema]:
    """Describe fields that are any text."""
    return {name: text() for name in names}


ERRORS: Final = {
    "400": "the input is malformed; malformed JSON is answered with an HTML page",
    "401": "no Authorization header",
    "402": "the wallet is too low for this operation",
    "403": "wrong key, or no right to this operation",
    "404": "nothing is known of this identifier",
    "500": "no price for this operation, or the account does not exist",
    "504": "a required field is missing or empty",
}


def error(status: str) -> Schema:
    """Describe an error answer."""
    content: Schema = {JSON: {"schema": ref("Error")}}
    if status == "400":
        content["text/html"] = {"schema": text()}
    if status == "504":
        content = {"text/plain": {"schema": text()}}
    return {"description": ERRORS[status], "content": content}


def operation(
    name: str, summary: str, schema: str, errors: str, fields: dict[str, Schema] | None = None
) -> Schema:
    """Describe one operation: its answer, the errors it has, and the fields of its body."""
    responses: Schema = {
        "200": {"description": summary, "content": {JSON: {"schema": ref(schema)}}}
    }
    responses.update({status: error(status) for status in errors.split()})
    described: Schema = {"operationId": name, "summary": summary, "responses": responses}
    if fields:
        described["requestBody"] = {
            "required": True,
            "content": {JSON: {"schema": shape(fields)}},
        }
    return described


def parameter(name: str, schema: Schema) -> list[Schema]:
    """Describe a segment of the path."""
    return [{"name": name, "in": "path", "required": True, "schema": schema}]
