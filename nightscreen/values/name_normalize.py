"""Read written names into comparable words, and judge whether two words are one name.

Here live the word lists of ``data/names`` (read once, when first needed), the folding of
letters, the sorting of words into names, initials, titles and marks of generation, and the
likeness of two single words. ``values.names`` pairs and grades whole names.
"""

import csv
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

from rapidfuzz.distance import OSA, JaroWinkler

from nightscreen.schemas.shipped import DATA

NAMES_DIR: Final = DATA / "names"
MOST_CHARACTERS: Final = 300
MOST_WORDS: Final = 24
LEAST_SIMILARITY: Final = 0.90
SHORT_WORD: Final = 3
SHORT_REST: Final = 2
LONG_WORD: Final = 8
MOST_SLIPS: Final = 2
LEAST_CUT_OFF: Final = 4
LEAST_KEY_SLIP: Final = 6
LEAST_MOVED: Final = 6
CACHED_WORDS: Final = 1 << 16

_APOSTROPHES: Final = "'`´‘’‛′ʹʻʼʽˈ\u02be\u02bf"  # noqa: RUF001 - all of them mean an apostrophe
_HYPHENS: Final = "-‐‑‒–—−"  # noqa: RUF001 - all of them mean a hyphen
_LETTERS: Final = {
    "Ɓ": "B", "Ɗ": "D", "Ɖ": "D", "Ƙ": "K", "Ƴ": "Y", "Ŋ": "N", "Ɛ": "E", "Ɔ": "O", "Ə": "E",
    "Ǝ": "E", "Ɣ": "G", "Ƒ": "F", "Ʋ": "V", "Ɩ": "I", "Ʊ": "U", "Ɲ": "N", "Ɠ": "G", "Ø": "O",
    "Ł": "L", "Đ": "D", "Æ": "AE", "Œ": "OE", "Þ": "TH", "Ð": "D", "Ħ": "H", "Ɨ": "I",
}  # fmt: skip
_SLASHED: Final = re.compile(r"\b[A-Z]/[A-Z]\b")
_FEMININE: Final = frozenset({"A", "AH", "AT", "ATU", "IA", "LA", "NA"})
_VOWELS: Final = frozenset("AEIOU")
_DOUBLED: Final = re.compile(r"(.)\1")
_KEY_ROWS: Final = ("QWERTYUIOP", "ASDFGHJKL", "ZXCVBNM")
_NEXT_KEYS: Final = frozenset(
    pair
    for row in _KEY_ROWS
    for pair in (*zip(row, row[1:]), *zip(row[1:], row))  # noqa: B905, RUF007
)
_SAME_SOUNDS: Final = str.maketrans("CQZVPYEOJ", "KKSFFIIUG")
"""Letters that Nigerian spellings exchange. P is with F because PH is written for it."""
_LONG_ENDING: Final = re.compile(r"(?<=[A-Z]{3}A)(?:TU|T|H)$")


class Similarity(IntEnum):
    """How sure it is that two words are one name."""

    DIFFERENT = 0
    NEAR = 1
    """By their letters alone: a slip of the hand, or two names that sound alike."""
    DOUBTFUL = 2
    """A short form of several names."""
    SURE = 3


@dataclass(frozen=True, slots=True)
class Prefix:
    """A beginning that many names share.

    ``bare`` says whether the rest alone is a short form: ``yes``, ``no``, or ``listed`` where
    the rest must be a short form of the list.
    """

    text: str
    group: str
    bare: str


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The word lists of ``data/names``, ready for lookups."""

    titles: frozenset[str]
    name_titles: frozenset[str]
    surname_titles: frozenset[str]
    generations: dict[str, str]
    fillers: frozenset[str]
    business: dict[str, str]
    families: dict[str, str]
    servants: frozenset[str]
    prefixes: tuple[Prefix, ...]
    endings: tuple[tuple[str, int], ...]
    short_forms: dict[tuple[str, str], Similarity]
    shorts: frozenset[str]
    respellings: tuple[tuple[str, str], ...]


class Word(NamedTuple):
    """One word of a name with the forms in which it is compared."""

    text: str
    reading: str
    known: bool
    short: bool
    group: str
    bare: bool
    rest: str
    trunk: str


class Name(NamedTuple):
    """All that is written of one person's name, without order.

    ``words`` are distinct full words with hyphenated ones taken apart, ``written`` the same as
    they were written, ``written_words`` how many were written without a hyphen; ``honours`` are
    titles that people also have as names.
    """

    words: frozenset[str]
    written: frozenset[str]
    written_words: int
    initials: tuple[str, ...] = ()
    compounds: frozenset[tuple[str, ...]] = frozenset()
    honours: frozenset[str] = frozenset()
    generations: frozenset[str] = frozenset()
    fillers: frozenset[str] = frozenset()


class _Piece(NamedTuple):
    """Part of a written word: its kind and its text, or its parts where it is hyphenated."""

    kind: str
    text: str
    parts: tuple[str, ...] = ()


def _rows(name: str) -> Iterator[dict[str, str]]:
    """Yield the lines of one word list."""
    with (NAMES_DIR / name).open(encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines)


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """Return the word lists, read from ``data/names`` at the first call."""
    titles = {row["word"]: row["also_a_name"] for row in _rows("titles.csv")}
    families, servants = _families()
    short_forms = _short_forms()
    prefixes = [Prefix(r["prefix"], r["group"], r["bare"]) for r in _rows("prefixes.csv")]
    endings = [(row["ending"], int(row["shortest_rest"])) for row in _rows("endings.csv")]
    return Lexicon(
        titles=frozenset(word for word, borne in titles.items() if borne != "yes"),
        name_titles=frozenset(word for word, borne in titles.items() if borne == "yes"),
        surname_titles=frozenset(word for word, borne in titles.items() if borne != "no"),
        generations={row["word"]: row["generation"] for row in _rows("suffixes.csv")},
        fillers=frozenset(row["word"] for row in _rows("fillers.csv")),
        business={row["word"]: row["kind"] for row in _rows("business.csv")},
        families=families,
        servants=servants,
        prefixes=tuple(sorted(prefixes, key=lambda prefix: -len(prefix.text))),
        endings=tuple(sorted(endings, key=lambda ending: -len(ending[0]))),
        short_forms=short_forms,
        shorts=frozenset(short for short, _ in short_forms),
        respellings=tuple((row["written"], row["read_as"]) for row in _rows("respellings.csv")),
    )


def _families() -> tuple[dict[str, str], frozenset[str]]:
    """Return each spelling's family name, and the spellings that follow Abdul."""
    families: dict[str, str] = {}
    servants: set[str] = set()
    for row in _rows("families.csv"):
        spellings = (row["name"], *row["spellings"].split())
        families.update(dict.fromkeys(spellings, row["name"]))
        if row["after"] == "ABD":
            servants.update(spellings)
    return families, frozenset(servants)


def _short_forms() -> dict[tuple[str, str], Similarity]:
    """Return how sure each pair of a short form and a long form is."""
    pairs: dict[tuple[str, str], Similarity] = {}
    for row in _rows("short_forms.csv"):
        sure = Similarity.SURE if row["certainty"] == "sure" else Similarity.DOUBTFUL
        for long in row["long"].split():
            pairs[row["short"], long] = max(sure, pairs.get((row["short"], long), sure))
    return pairs


@lru_cache(maxsize=1)
def _ascii_table() -> dict[int, str]:
    """Return what becomes of each ASCII character that is no capital or digit."""
    table = {code: " " for code in range(128) if not chr(code).isalnum()}
    table |= {ord(mark): "" for mark in _APOSTROPHES}
    table |= {ord(mark): "-" for mark in _HYPHENS}
    return table | {ord("&"): " AND ", ord("."): "."}


def fold(text: str) -> str:
    """Return the text in plain capitals, digits, dots, hyphens and spaces.

    Accents, dots below and apostrophes go, hooked letters lose their hook, an ampersand
    becomes ``AND`` and all else a space. Text beyond the first 300 characters is left out.
    """
    return _folded(text[:MOST_CHARACTERS])


def fold_words(text: str) -> list[str]:
    """Return the words of a folded text, each folded by itself: many names share it."""
    return [word for part in text[:MOST_CHARACTERS].split() for word in _folded(part).split()]


@lru_cache(maxsize=CACHED_WORDS)
def _folded(text: str) -> str:
    if not text.isascii():
        text = _without_accents(text)
    text = text.upper()
    if "/" in text:
        text = _SLASHED.sub(" ", text)
    return text.translate(_ascii_table())


def _without_accents(text: str) -> str:
    """Return the text with every letter replaced by ASCII, or by a space."""
    marked = text.translate(_ascii_table() | {ord("."): ".", ord("&"): "&", ord("/"): "/"})
    letters = []
    for letter in unicodedata.normalize("NFKD", marked):
        if letter.isascii():
            letters.append(letter)
        elif not unicodedata.combining(letter):
            letters.append(_ascii_letter(letter))
    return "".join(letters)


def _ascii_letter(letter: str) -> str:
    """Return the ASCII form of one letter that does not decompose, a space if it has none."""
    capital = letter.upper()
    if capital.isascii():
        return capital
    return _LETTERS.get(capital, " ")


@lru_cache(maxsize=CACHED_WORDS)
def _read(written: str) -> tuple[_Piece, ...]:
    """Sort one folded word, between two spaces, into the pieces it consists of."""
    if written.isalpha():
        return (_piece(written),)
    if written[0].isdigit():
        return ()
    plain = "".join(letter for letter in written if not letter.isdigit())
    chunks = plain.split(".")
    undotted = _piece("".join(chunks))
    if max(map(len, chunks)) > 1 and undotted.kind in {"title", "generation"}:
        return (undotted,)
    pieces: list[_Piece] = []
    for chunk in chunks:
        pieces.extend(_read_hyphenated([part for part in chunk.split("-") if part]))
    return tuple(pieces)


def _read_hyphenated(parts: list[str]) -> list[_Piece]:
    """Return hyphenated parts as one compound where all are names, else one by one.

    A part that only opens a name (Abdul-, Oluwa-, al-) is written together with the next.
    """
    pieces = [_piece(part) for part in parts]
    names = [piece.text for piece in pieces if piece.kind in {"name", "filler"}]
    if len(parts) < 2 or len(names) < len(parts):  # noqa: PLR2004 - a hyphen has two sides
        return pieces
    if names[0] in _openings():
        return [_piece("".join(names))]
    return [_Piece("compound", "-".join(names), tuple(names))]


@lru_cache(maxsize=1)
def beginnings() -> frozenset[str]:
    """Return the beginnings that many names share."""
    return frozenset(prefix.text for prefix in lexicon().prefixes)


@lru_cache(maxsize=1)
def _openings() -> frozenset[str]:
    """Return the words that, before a hyphen, only open a name."""
    words = lexicon()
    return words.fillers | {prefix.text for prefix in words.prefixes if prefix.bare == "yes"}


def _piece(part: str) -> _Piece:
    """Return a plain part of a word with its kind."""
    words = lexicon()
    if len(part) == 1:
        kind = "initial"
    elif part in words.titles:
        kind = "title"
    elif part in words.name_titles:
        kind = "honour"
    elif part in words.generations:
        kind = "generation"
    elif part in words.fillers:
        kind = "filler"
    else:
        kind = "name"
    return _Piece(kind, part)


def read_name(folded: Sequence[str], surname: str | None = None) -> Name | None:
    """Read the folded words of one person's name into one bag; None if there is no name in them.

    Args:
        folded: the words.
        surname: a title that is the customer's surname: a name on either side.
    """
    plain: list[str] = []
    marked: list[_Piece] = []
    for written in folded[:MOST_WORDS]:
        for piece in _read(written):
            if piece.kind == "name" or (surname is not None and piece.text == surname):
                plain.append(piece.text)
            elif piece.kind != "title":
                marked.append(piece)
    if marked:
        return _marked_name(plain, marked)
    if not plain:
        return None
    words = frozenset(plain)
    return Name(_servants_joined(words), words, len(plain))


def is_name(written: str) -> bool:
    """Return whether a folded word is one name as it stands, and joined with no other."""
    return _read(written) == (_Piece("name", written),) and written not in _servant_openings()


def words_in_order(folded: Sequence[str]) -> list[str]:
    """Return the words and initials of a name in their order, parts of compounds apart.

    A part that only opens a name is joined with the next; titles and fillers are left out.
    """
    found: list[str] = []
    opening = ""
    for written in folded[:MOST_WORDS]:
        for piece in _read(written):
            for part in piece.parts or (piece.text,):
                if piece.kind == "filler" or part in _servant_openings():
                    opening += part if part in _openings() else ""
                elif piece.kind not in {"title", "generation"}:
                    found.append(opening + part)
                    opening = ""
    return [*found, opening] if opening else found


def _marked_name(plain: list[str], marked: list[_Piece]) -> Name | None:
    """Return the bag of plain words and of pieces that are more or less than a plain word."""

    def texts(kind: str) -> list[str]:
        return [piece.text for piece in marked if piece.kind == kind]

    compounds = frozenset(piece.parts for piece in marked if piece.kind == "compound")
    honours, initials = frozenset(texts("honour")), tuple(sorted(texts("initial")))
    if not plain and not compounds:
        plain, honours = sorted(honours), frozenset()
        if not plain and not initials:
            return None
    fillers = frozenset(texts("filler"))
    marks = (lexicon().generations[mark] for mark in texts("generation"))
    return Name(
        words=_servants_joined(frozenset(plain).union(*compounds)),
        written=fillers.union(plain, map("-".join, compounds)),
        written_words=len(plain),
        initials=initials,
        compounds=compounds,
        honours=honours,
        generations=frozenset(mark for mark in marks if mark),
        fillers=fillers,
    )


def _servants_joined(words: frozenset[str]) -> frozenset[str]:
    """Return the words with Abdul and the name that must follow it written together."""
    if words.isdisjoint(_servant_openings()):
        return words
    opening = min(words & _servant_openings())
    follower = min(words & lexicon().servants, default=None)
    if follower is None:
        return words
    return words - {opening, follower} | {f"ABDUL{follower}"}


@lru_cache(maxsize=1)
def _servant_openings() -> frozenset[str]:
    """Return the spellings of Abdul as a separate word."""
    return frozenset(prefix.text for prefix in lexicon().prefixes if prefix.group == "ABD")


@lru_cache(maxsize=CACHED_WORDS)
def word_forms(text: str) -> Word:
    """Return one full word with its reading, its shared beginning and the rest."""
    words = lexicon()
    family = words.families.get(text)
    trunk = next(
        (
            text[: -len(ending)]
            for ending, shortest in words.endings
            if text.endswith(ending) and len(text) - len(ending) >= shortest
        ),
        "",
    )
    prefix = _prefix_of(text) if family is None or family == text else None
    rest = text[len(prefix.text) :] if prefix else ""
    listed = prefix is not None and prefix.bare == "listed" and rest in words.shorts
    return Word(
        text=text,
        reading=family or _reading(text),
        known=family is not None,
        short=not words.shorts.isdisjoint((text, family or text)),
        group=prefix.group if prefix else "",
        bare=listed or (prefix is not None and prefix.bare == "yes"),
        rest=_reading(rest),
        trunk=_reading(trunk),
    )


def _prefix_of(text: str) -> Prefix | None:
    """Return the beginning to judge apart: before a known rest if possible, else the longest."""
    words = lexicon()
    fitting = [p for p in words.prefixes if text.startswith(p.text)]
    rests = [(p, text[len(p.text) :]) for p in fitting]
    known = (p for p, rest in rests if rest in words.families or rest in words.shorts)
    full = (p for p, rest in rests if len(rest) >= SHORT_WORD)
    short = (p for p, rest in rests if len(rest) >= SHORT_REST)
    return next(known, None) or next(full, None) or next(short, None)


def _reading(text: str) -> str:
    """Return the text in the spelling of its family, or with spelling habits evened out."""
    words = lexicon()
    if text in words.families:
        return words.families[text]
    if len(text) <= SHORT_WORD:
        return text
    read = text
    for written, read_as in words.respellings:
        read = read.replace(written, read_as)
    read = _LONG_ENDING.sub("", _DOUBLED.sub(r"\1", read))
    return read if len(read) > SHORT_WORD else text


@lru_cache(maxsize=CACHED_WORDS)
def alike(one: str, other: str) -> Similarity:
    """Judge whether two full words, in folded letters, are one name.

    Words of up to three letters must be equal. A beginning that many names share is judged
    apart from the rest, so that brothers are not taken for one another.
    """
    if one == other:
        return Similarity.SURE
    a, b = word_forms(one), word_forms(other)
    if a.reading == b.reading or _is_short_of(a, b) or _is_short_of(b, a):
        return Similarity.SURE
    if a.short or b.short or (a.group and a.group == b.group):
        listed = _listed_short_form(a, b)
        if listed:
            return listed
    return Similarity.DIFFERENT if a.known and b.known else _compare_letters(a, b)


def _compare_letters(a: Word, b: Word) -> Similarity:
    """Judge by their letters two words that no list says anything of."""
    if a.group and b.group:
        close = _close(a.rest, b.rest) if a.group == b.group else Similarity.DIFFERENT
        return close or (Similarity.SURE if _is_moved(a.text, b.text) else close)
    found = max(_close(a.text, b.text), _close(a.reading, b.reading))
    return Similarity.NEAR if not found and _is_cut_off(a, b) else found


def _is_cut_off(a: Word, b: Word) -> bool:
    """Return whether one of two unknown words may be the other without its end or beginning."""
    short, long = (a, b) if len(a.text) < len(b.text) else (b, a)
    if len(short.text) < LEAST_CUT_OFF or a.known or b.known:
        return False
    if short.text in beginnings() or short.text in dict(lexicon().endings):
        return False  # what many names share is no short form of one
    if long.text.endswith(short.text):
        return True
    rest = long.text.removeprefix(short.text)
    return len(rest) < len(long.text) and rest not in _FEMININE


def _is_short_of(short: Word, long: Word) -> bool:
    """Return whether one word is the other without its shared beginning or its ending."""
    if not long.bare or long.group == short.group or len(long.rest) <= SHORT_WORD:
        return bool(long.trunk) and short.reading == long.trunk
    if short.reading == long.trunk:
        return True
    return short.reading == long.rest or (
        not short.known and _close(short.reading, long.rest) is Similarity.SURE
    )


def _listed_short_form(a: Word, b: Word) -> Similarity:
    """Return what the list of short forms says of two words."""
    found = max(_listed(a, b), _listed(b, a))
    if a.group == b.group == "ABD" and not _servant_openings().isdisjoint((a.text, b.text)):
        return max(found, Similarity.DOUBTFUL)
    if a.group and a.group == b.group:
        listed = lexicon().short_forms
        same = listed.get((a.rest, b.rest)) or listed.get((b.rest, a.rest))
        return max(found, same or Similarity.DIFFERENT)
    return found


def _listed(short: Word, long: Word) -> Similarity:
    """Return how sure the list is that the first word is short for the second."""
    if not short.short:
        return Similarity.DIFFERENT
    listed = lexicon().short_forms
    longs = (long.text, long.reading, long.rest) if long.bare else (long.text, long.reading)
    return max(
        listed.get((form, whole), Similarity.DIFFERENT)
        for form in (short.text, short.reading)
        for whole in longs
    )


def _close(one: str, other: str) -> Similarity:
    """Return whether two words are so close that one is a typo of the other, or may be.

    Jaro-Winkler alone takes brothers and sisters for one another: the number of slips is
    bounded too, and endings that make another name or the other sex are no slips.
    """
    if one == other:
        return Similarity.SURE
    if JaroWinkler.normalized_similarity(one, other) < LEAST_SIMILARITY:
        return Similarity.DIFFERENT
    shortest, longest = sorted((len(one), len(other)))
    slips = OSA.distance(one, other)
    most = MOST_SLIPS if longest >= LONG_WORD else 1
    if shortest <= SHORT_WORD or longest - shortest > MOST_SLIPS or slips > most:
        return Similarity.DIFFERENT
    short, long = (one, other) if len(one) == shortest else (other, one)
    if long.startswith(short) and short[-1] not in _VOWELS and long[shortest:] in _FEMININE:
        return Similarity.DIFFERENT
    if short[:-1] == long[:-1] and {short[-1], long[-1]} <= _VOWELS:
        return Similarity.DIFFERENT
    return Similarity.SURE if _is_slip(short, long, slips) else Similarity.NEAR


def _is_slip(short: str, long: str, slips: int) -> bool:
    """Return whether two close words differ as spellings or typos do.

    One letter in another's place makes another name more often than a slip (Danladi, Danlami):
    only a letter of the same sound, or in a longer word of the next key, counts as one, and not
    the first.
    """
    if _sounds(short) == _sounds(long):
        return True
    if slips > 1:
        return False
    if len(short) < len(long):
        return not (long[:-1] == short and {short[-1], long[-1]} <= _VOWELS)
    changed = [pair for pair in zip(short, long, strict=True) if pair[0] != pair[1]]
    if len(changed) > 1:  # two letters in each other's place
        return True
    first = short[0] != long[0]  # seldom a slip: Ikechukwu and Okechukwu are brothers
    return len(long) >= LEAST_KEY_SLIP and not first and changed[0] in _NEXT_KEYS


def _is_moved(one: str, other: str) -> bool:
    """Return whether a letter of a longer word is left out, doubled, or swapped with the next."""
    short, long = (one, other) if len(one) <= len(other) else (other, one)
    if len(short) < LEAST_MOVED or OSA.distance(short, long) != 1:
        return False
    return len(long) > len(short) or sorted(short) == sorted(long)


def _sounds(word: str) -> str:
    """Return a word with letters of one sound written alike."""
    return _DOUBLED.sub(r"\1", word.translate(_SAME_SOUNDS).replace("H", ""))
