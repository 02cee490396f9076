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
_LONGEST_FIELD: Final = 64 * 1024  # of one that comes beside a file

Form = dict[str, list[str]]


class _InMemory(MultiPartParser):
    """Keeps a file in memory: on disk it would lie in clear."""

    spool_max_size = 1 << 40


async def read_form(
    request: Request, most_fields: int, *, takes_file: bool = False
) -> tuple[Form, UploadFile | None]:
    """Return the fields of a form, and the file it bears, in memory; None where it bears none.

    Raises:
        HTTPException: 415: it is no form; 400: it cannot be read, has too many fields or a NUL,
            which no table holds, or its file did not arrive whole.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != ("multipart/form-data" if takes_file else FORM_TYPE):
        raise HTTPException(415, "The page takes its own form and nothing else.")
    file = None
    try:
        if takes_file:
            limits = {"max_files": 1, "max_fields": most_fields, "max_part_size": _LONGEST_FIELD}
            parser = _InMemory(request.headers, request.stream(), **limits)
            items = (await parser.parse()).multi_items()
            file = next((v for _, v in items if isinstance(v, UploadFile) and v.filename), None)
            pairs = [(name, value) for name, value in items if isinstance(value, str)]
        else:
            body = (await request.body()).decode()
            pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=most_fields)
    except (ValueError, KeyError, MultiPartException):
        raise HTTPException(400, "The form did not arrive whole. Send it again.") from None
    form: Form = {}
    for name, value in pairs:
        form.setdefault(name, []).append(value)
    if "\0" in "".join([*(n + v for n, v in pairs), (file and file.filename) or ""]):
        raise HTTPException(400, "The form holds a character without a sign (NUL).")
    return form, file


def attachment(content: bytes, name: str, media_type: str) -> Response:
    """Return a file that browsers save and never show; the guard forbids them to guess its type."""
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    return Response(content, media_type=media_type, headers=headers)


def onward(address: str) -> Response:
    """Return a redirect after which the browser asks with GET."""
    return RedirectResponse(address, 303)
