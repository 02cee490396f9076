"""Forms as browsers send them: every value of each field, and the file of one that bears one.

Whether a form comes from a page of ours is judged before, in `guard`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.responses import RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.requests import Request

FORM_TYPE: Final = "application/x-www-form-urlencoded"
_LONGEST_FIELD: Final = 64 * 1024

Form = dict[str, list[str]]


async def read_form(request: Request, most_fields: int) -> Form:
    """Return the fields of a form.

    Raises:
        HTTPException: 415: it is no form; 400: it cannot be read, has too many fields or a NUL,
            which no table holds.
    """
    _require_type(request, FORM_TYPE)
    body = await request.body()
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=most_fields)
    except ValueError:
        raise HTTPException(400, "The form could not be read. Load the page again.") from None
    return _form(pairs)


async def read_file_form(request: Request, most_fields: int) -> tuple[Form, UploadFile | None]:
    """Return the fields of a form, and the file it bears, in memory; None where it bears none.

    Raises:
        HTTPException: 415 or 400, as `read_form` does, and where the file did not arrive whole.
    """
    _require_type(request, "multipart/form-data")
    limits = {"max_files": 1, "max_fields": most_fields, "max_part_size": _LONGEST_FIELD}
    try:
        form = await _InMemory(request.headers, request.stream(), **limits).parse()
    except (MultiPartException, KeyError):
        raise HTTPException(400, "The file did not arrive whole. Send it again.") from None
    items = form.multi_items()
    file = next((v for _, v in items if isinstance(v, UploadFile) and v.filename), None)
    fields = _form([(name, value) for name, value in items if isinstance(value, str)])
    _form([("", "" if file is None else file.filename or "")])
    return fields, file


class _InMemory(MultiPartParser):
    """Keeps a file in memory: on disk it would lie in clear."""

    spool_max_size = 1 << 40


def _require_type(request: Request, wanted: str) -> None:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != wanted:
        raise HTTPException(415, "The page takes its own form and nothing else.")


def _form(pairs: list[tuple[str, str]]) -> Form:
    found: Form = {}
    for name, value in pairs:
        if "\0" in name + value:
            raise HTTPException(400, "The form holds a character without a sign (NUL).")
        found.setdefault(name, []).append(value)
    return found


def attachment(content: bytes, name: str, media_type: str) -> Response:
    """Return a file that browsers save and never show; the guard forbids them to guess its type."""
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    return Response(content, media_type=media_type, headers=headers)


def onward(address: str) -> Response:
    """Return a redirect after which the browser asks with GET."""
    return RedirectResponse(address, 303)
