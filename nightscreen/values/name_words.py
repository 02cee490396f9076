"""Words of names: their plain forms, and whether two of them are the same name.

Each rule has `@_rule` with a pair that it decides and a pair that it must leave to other rules;
tests check both. `names` compares whole names.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable
from enum import IntEnum
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from rapidfuzz.distance import OSA, JaroWinkler

from nightscreen.schemas.shipped import DATA, read_rows

NAMES_DIR: Final = DATA / "names"
CACHED_WORDS: Final = 1 << 16
_MOST_CHARACTERS: Final = 300
_SHORT_WORD: Final = 3
"""Words of up to three letters must be equal: ADE is not a typing error for ADA."""
_LEAST_SIMILARITY: Final = 0.90  # Jaro-Winkler similarity of two words that may be a typing error
_LONG_WORD: Final = 8  # letters from which a word may have two typing errors
_KEYED_WORD: Final = 6  # letters from which one wrong letter is more often an error than a name
_APOSTROPHES: Final = "'`´‘’‛′ʹʻʼʽˈ\u02be\u02bf"  # noqa: RUF001 - all of them mean an apostrophe
_HYPHENS: Final = "-‐‑‒–—−"  # noqa: RUF001 - all of them mean a hyphen
_LETTERS: Final = str.maketrans(
    dict.fromkeys(_APOSTROPHES, "")
    | dict.fromkeys(_HYPHENS, "-")
    | dict(zip("ƁƊĐƘƳŊƐƏƎƔƑƲƖƗƱƝƠØŁĦÐƉƆ", "BDDKYNEEEGFVIIUNOOLHDDO", strict=True))
    | {"Ɠ": "G", "Æ": "AE", "Œ": "OE", "Þ": "TH", "&": " AND "}
)
_SLASHED: Final = re.compile(r"\b[A-Z]/[A-Z]\b")
_OTHER: Final = re.compile(r"[^A-Z0-9.\- ]")
_DOUBLED: Final = re.compile(r"(.)\1")
_FEMININE: Final = frozenset({"A", "AH", "AT", "ATU", "IA", "LA", "NA"})
_VOWELS: Final = frozenset("AEIOU")
_SAME_SOUNDS: Final = str.maketrans("CQZVPYEOJ", "KKSFFIIUG", "H")
"""Letters that Nigerian spellings exchange. P goes with F because of PH."""
_KEYS: Final = ("QWERTYUIOP", "ASDFGHJKL", "ZXCVBNM")
_NEXT_KEYS: Final = frozenset(
    pair for row in _KEYS for one, other in pairwise(row) for pair in (one + other, other + one)
)


ABD: Final = "ABD"  # the opening of Abdul in all spellings, which alone is half a name


class Similarity(IntEnum):
    """How sure it is that two words are the same name."""

    DIFFERENT = 0
    NEAR = 1  # by their letters alone: a typing error, or two names that sound alike
    DOUBTFUL = 2  # a short form of several names
    SURE = 3


class Word(NamedTuple):
    """A word in the forms in which it is compared."""

    text: str  # in plain capitals
    reading: str  # the name of its family of spellings, or its normalised spelling
    known: bool  # it is in a family of spellings
    opening: str  # a beginning that many names share, in one spelling: OLUWA, CHUKWU
    rest: str  # the reading of what follows the opening
    bare: bool  # the rest alone is a short form
    trunk: str  # the reading of what precedes an ending that many names share


def _rows(name: str) -> list[list[str]]:
    """Return the rows of a word list, longest first column first."""
    rows = (list(row.values()) for row in read_rows(NAMES_DIR / f"{name}.csv"))
    return sorted(rows, key=lambda row: -len(row[0]))


@cache
def listed(name: str) -> dict[str, str]:
    """Return the first two columns of a list in `data/names` as a dict."""
    return {row[0]: row[1] for row in _rows(name)}


@cache
def openings() -> dict[str, tuple[str, str]]:
    """Return the openings that many names share, with group and when each may be left out."""
    return {written: (group, bare) for written, group, bare, *_ in _rows("prefixes")}


@cache
def families() -> dict[str, str]:
    """Return the family's name by spelling."""
    return {
        spelling: name
        for name, spellings in listed("families").items()
        for spelling in (name, *spellings.split())
    }


@cache
def servants() -> frozenset[str]:
    """Return the names that follow Abdul, in all spellings."""
    follow = {row[0] for row in _rows("families") if row[2] == "ABD"}
    return frozenset(spelling for spelling, name in families().items() if name in follow)


@cache
def short_forms() -> dict[str, dict[str, Similarity]]:
    """Return the long forms of each short form, and how sure each is."""
    forms: dict[str, dict[str, Similarity]] = defaultdict(dict)
    for short, longs, certainty in _rows("short_forms"):
        similarity = Similarity.SURE if certainty == "sure" else Similarity.DOUBTFUL
        for long in longs.split():
            forms[short][long] = max(similarity, forms[short].get(long, similarity))
    return dict(forms)


def fold_words(text: str) -> list[str]:
    """Return the words of a text in plain capitals, digits, dots and hyphens.

    Accents, dots below, hooks and apostrophes are removed, an ampersand becomes AND, any other
    character a space. Text beyond the first 300 characters is ignored.
    """
    return [word for part in text[:_MOST_CHARACTERS].split() for word in _folded(part)]


@lru_cache(maxsize=CACHED_WORDS)
def _folded(text: str) -> tuple[str, ...]:
    plain = _SLASHED.sub(" ", text.upper()).translate(_LETTERS)
    if not plain.isascii():
        decomposed = unicodedata.normalize("NFKD", plain)
        plain = "".join(char for char in decomposed if not unicodedata.combining(char))
        plain = plain.upper().translate(_LETTERS)
    return tuple(_OTHER.sub(" ", plain).split())


@lru_cache(maxsize=CACHED_WORDS)
def word_forms(text: str) -> Word:
    """Return a word with its reading, opening and trunk."""
    family = families().get(text)
    fitting = [
        (text.removeprefix(written), opening, bare)
        for written, (opening, bare) in openings().items()
        if text.startswith(written) and family in {None, text}
    ]
    known = [each for each in fitting if each[0] in families() or each[0] in short_forms()]
    full = [each for each in fitting if len(each[0]) >= _SHORT_WORD]
    short = [each for each in fitting if len(each[0]) == _SHORT_WORD - 1]
    rest, opening, bare = next(iter((*known, *full, *short)), ("", "", ""))
    trunks = (
        text.removesuffix(ending)
        for ending, shortest in listed("endings").items()
        if text.endswith(ending) and len(text) - len(ending) >= int(shortest)
    )
    return Word(
        text=text,
        reading=_reading(text),
        known=family is not None,
        opening=opening,
        rest=_reading(rest),
        bare=bare == "yes" or (bare == "listed" and rest in short_forms()),
        trunk=_reading(next(trunks, "")),
    )


def _reading(text: str) -> str:
    """Return the name of a word's family, or the word with its spelling normalised."""
    if text in families():
        return families()[text]
    read = text
    for written, read_as in listed("respellings").items():
        read = read.replace(written, read_as)
    read = _DOUBLED.sub(r"\1", read)
    return read if len(text) > _SHORT_WORD < len(read) else text


Judge = Callable[[Word, Word], Similarity | None]


RULES: list[tuple[Judge, str, str]] = []
"""Rules of similarity, each with a pair of words that it decides and a pair that it does not decide
so. A rule that returns None leaves the words to the next."""


def _rule(example: str, counterexample: str) -> Callable[[Judge], Judge]:
    """Add a rule after those above it."""

    def add(judge: Judge) -> Judge:
        RULES.append((judge, example, counterexample))
        return judge

    return add


@lru_cache(maxsize=CACHED_WORDS)
def alike(one: str, other: str) -> Similarity:
    """Return how sure it is that two plain words are the same name, by the first rule that says."""
    a, b = word_forms(one), word_forms(other)
    decided = (judge(a, b) for judge, *_ in RULES)
    return next((each for each in decided if each is not None), Similarity.DIFFERENT)


@_rule("MOHAMMED MUHAMMAD", "MUSA MUSTAPHA")
def same_reading(a: Word, b: Word) -> Similarity | None:
    """Two spellings of the same name, by the list of families or by normalised spelling."""
    return Similarity.SURE if a.reading == b.reading else None


@_rule("OLUFEMI FEMI", "OLUFEMI OLU")
def without_its_opening(a: Word, b: Word) -> Similarity | None:
    """A name without the opening that it shares with many, perhaps with a typing error."""
    for short, long in ((a, b), (b, a)):
        if not long.bare or long.opening == short.opening or len(long.rest) <= _SHORT_WORD:
            continue
        is_typo = not short.known and _by_letters(short.reading, long.rest) is Similarity.SURE
        if short.reading == long.rest or is_typo:
            return Similarity.SURE
    return None


@_rule("KELECHUKWU KELE", "CHUKWUDI CHUKWUMA")
def without_its_ending(a: Word, b: Word) -> Similarity | None:
    """A name without the ending that it shares with many."""
    cut = any(long.trunk and short.reading == long.trunk for short, long in ((a, b), (b, a)))
    return Similarity.SURE if cut else None


@_rule("TUNDE BABATUNDE", "TUNDE BABAJIDE")
def listed_short_form(a: Word, b: Word) -> Similarity | None:
    """A short form in the list; some are short for several names."""
    similarities = []
    for short, long in ((a, b), (b, a)):
        longs = {long.text, long.reading, *([long.rest] if long.bare else [])}
        pairs = [(form, whole) for form in (short.text, short.reading) for whole in longs]
        pairs += [(short.rest, long.rest)] if a.opening and a.opening == b.opening else []
        similarities += [short_forms().get(form, {}).get(whole) for form, whole in pairs]
    return max((each for each in similarities if each), default=None)


@_rule("ABDUL ABDULMALIK", "ABDUL BELLO")
def abdul_alone(a: Word, b: Word) -> Similarity | None:
    """Abdul is short for every name that it opens."""
    alone = a.opening == b.opening == ABD and {a.text, b.text} & openings().keys()
    return Similarity.DOUBTFUL if alone else None


@_rule("HASSAN HUSSAIN", "MOHAMMED MUHAMMAD")
def known_names_differ(a: Word, b: Word) -> Similarity | None:
    """Two listed names of different families are different names, however similar in letters."""
    return Similarity.DIFFERENT if a.known and b.known and a.reading != b.reading else None


@_rule("OLUWASEUN OLUWASEUUN", "OLUWASEUN OLUWASEYI")
def behind_one_opening(a: Word, b: Word) -> Similarity | None:
    """Names with the same opening are compared by the rest: brothers share the opening."""
    if not a.opening or not b.opening:
        return None
    return _by_letters(a.rest, b.rest) if a.opening == b.opening else Similarity.DIFFERENT


@_rule("NOSAKHARE NOSA", "OLUWASEUN OLUWA")
def part_of_a_name(a: Word, b: Word) -> Similarity | None:
    """The beginning or the end of a name that is not a listed short form: perhaps the same."""
    short, long = sorted((a.text, b.text), key=len)
    shared = short in openings() or short in listed("endings")
    if len(short) <= _SHORT_WORD or a.known or b.known or shared or _by_letters(short, long):
        return None
    begun = long.startswith(short) and long.removeprefix(short) not in _FEMININE
    return Similarity.NEAR if begun or long.endswith(short) else None


@_rule("EHIGIATOR EHIGIATR", "AMINU AMINA")
def slip_of_the_hand(a: Word, b: Word) -> Similarity | None:
    """Letters left out, doubled, exchanged, or replaced by a neighbouring key."""
    return max(_by_letters(a.text, b.text), _by_letters(a.reading, b.reading))


def _by_letters(one: str, other: str) -> Similarity:
    """Return whether one of two words is, or may be, a typing error for the other.

    Jaro-Winkler alone would match names of brothers and sisters, so the number of errors is limited
    too, and endings that make another name or the other sex do not count as errors.
    """
    short, long = sorted((one, other), key=len)
    slips = OSA.distance(one, other)
    close = JaroWinkler.normalized_similarity(one, other) >= _LEAST_SIMILARITY
    if slips == 0:
        return Similarity.SURE
    if len(short) <= _SHORT_WORD or not close or slips > (2 if len(long) >= _LONG_WORD else 1):
        return Similarity.DIFFERENT
    ending = long.removeprefix(short)
    if ending in _FEMININE and short[-1] not in _VOWELS:
        return Similarity.DIFFERENT
    if short[:-1] == long[:-1] and {short[-1], long[-1]} <= _VOWELS:
        return Similarity.DIFFERENT
    return Similarity.SURE if _is_slip(short, long, slips) else Similarity.NEAR


def _is_slip(short: str, long: str, slips: int) -> bool:
    """Return whether two similar words differ by spelling or by a typing error.

    One replaced letter more often makes another name (Danladi, Danlami): it counts as an error only
    if it has the same sound or, in a longer word after the first letter, is a neighbouring key.
    """
    sounds = {_DOUBLED.sub(r"\1", each.translate(_SAME_SOUNDS)) for each in (short, long)}
    if len(sounds) == 1:
        return True
    if slips > 1 or len(short) < len(long):
        return slips == 1 and not (long[:-1] == short and {short[-1], long[-1]} <= _VOWELS)
    changed = [one + other for one, other in zip(short, long, strict=True) if one != other]
    keyed = len(long) >= _KEYED_WORD and short[0] == long[0] and changed[0] in _NEXT_KEYS
    return len(changed) > 1 or keyed
