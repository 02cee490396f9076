"""What people write down on a customer's case, and the files that they keep beside it.

Both are records of the journal, sealed, and go with the customer. A file is of a few types, told by
its first bytes: whatever its name says, it is kept under the ending of its type.
"""

from __future__ import annotations

import secrets
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from nightscreen.journal.actor import REVIEW
from nightscreen.journal.engine import writing
from nightscreen.journal.records import Records
from nightscreen.schemas.cases import CaseAttachment, CaseComment
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from nightscreen.journal import Journal
    from nightscreen.journal.actor import Actor

LARGEST: Final = 5 * 1024 * 1024
_LONGEST: Final = 2000
_TYPES: Final = (
    (b"%PDF-", ".pdf", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", ".png", "image/png"),
    (b"\xff\xd8\xff", ".jpg", "image/jpeg"),
)
"""First bytes, ending and media type of what may be kept: documents and photographs."""


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file to keep: its name as somebody gave it, and its bytes."""

    name: str = field(repr=False)
    content: bytes = field(repr=False)


def add_comment(
    journal: Journal,
    actor: Actor,
    customer_id: str,
    *,
    batch: str,
    run_id: str,
    text: str,
    file: GivenFile | None = None,
) -> CaseComment:
    """Write a comment down on a customer's case, and keep the file beside it.

    Raises:
        NotAllowedError: the actor may not review customers.
        InputError: the comment is blank or too long, or the file is of no type that is kept, or
            larger than `LARGEST`.
    """
    actor.require(journal, REVIEW, customer_id=customer_id)
    if not text.strip():
        raise InputError("the comment is blank: write what the next person should know")
    if len(text) > _LONGEST:
        raise InputError(f"the comment is too long: at most {_LONGEST:,} characters")
    about = {
        "key": secrets.token_hex(12),
        "customer": journal.pseudonyms.customer(batch, customer_id),
        "batch": batch,
        "run_id": run_id,
        "at": journal.clock(),
    }
    comment = CaseComment(**about, text=text.strip(), by=actor.name)
    attached = []
    if file is not None:
        ending, media_type = _type_of(file)
        name = f"{PurePath(file.name).stem or 'file'}{ending}"
        content = b64encode(file.content).decode()
        attached = [CaseAttachment(**about, file_name=name, media_type=media_type, content=content)]
        named = {"file_name": name, "file_size": len(file.content)}
        comment = comment.model_copy(update=named)
    with writing(journal.engine) as connection:
        Records(journal, CaseComment).insert(connection, [comment])
        Records(journal, CaseAttachment).insert(connection, attached)
    detail = {"attachment": bool(attached)}
    actor.note(journal, "comment added", run_id=run_id, customer_id=customer_id, **detail)
    return comment


def _type_of(file: GivenFile) -> tuple[str, str]:
    """Return ending and media type of a file by its first bytes.

    Raises:
        InputError: it is of no type that is kept, or too large.
    """
    if len(file.content) > LARGEST:
        raise InputError("the attachment is larger than 5 MB: make it smaller, or leave pages out")
    for begins, ending, media_type in _TYPES:
        if file.content.startswith(begins):
            return ending, media_type
    raise InputError("the attachment is no PDF, PNG or JPEG file: save it as one of these")


def find_attachment(journal: Journal, customer: bytes, key: str) -> CaseAttachment | None:
    """Return the file beside a comment on a customer; None where there is none of this key."""
    found = Records(journal, CaseAttachment).find(key)
    return found if found is not None and found.customer == customer else None
