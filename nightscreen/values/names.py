"""Decide whether the holder of an account is the customer, by their names.

A name is split into words; words are paired, the surest pairs first; pairs and remaining words give
the grade. Each rule of two words has `@_rule` with a pair that it decides and a pair that it must
leave to other rules; tests check both.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final, Literal, NamedTuple

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
    for judge, *_ in RULES:
        decided = judge(a, b)
        if decided is not None:
            return decided
    return Similarity.DIFFERENT


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
    words = {a.text, a.reading, a.rest, b.text, b.reading, b.rest}
    if words.isdisjoint(short_forms()):  # most pairs
        return None
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
    """Names with the same opening are compared by the rest: brothers share the opening.

    Two exchanged letters (CHINWE, CHIWNE) are a slip. A letter that is missing or extra may be one
    (CHINEDU, CHINDU), or make another name (ADEDAYO, ADEAYO).
    """
    if not a.opening or not b.opening:
        return None
    if a.opening != b.opening:
        return Similarity.DIFFERENT
    by_letters = _by_letters(a.rest, b.rest)
    short, long = sorted((a.text, b.text), key=len)
    if by_letters or len(short) < _KEYED_WORD or OSA.distance(short, long) > 1:
        return by_letters
    if len(short) < len(long):
        return Similarity.NEAR
    return Similarity.SURE if sorted(short) == sorted(long) else by_letters


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


# --- whole names ---

Grade = Literal["strong", "likely", "weak", "none", "business"]
GRADES = ("strong", "likely", "business", "weak", "none")  # grades from best to worst
AGREES = frozenset({"strong"})
"""Grades that verify an account by themselves; if its BVN agrees, `likely` is enough."""
CONTRADICTS = frozenset({"weak", "none"})

_ENOUGH_NAMES: Final = 2
_MOST_WORDS: Final = 24
_EXPLAINED_WORDS: Final = 6
_CUT_FROM: Final = 25
"""Length from which a bank's field may have cut a name: fields have 25, 30 or 35 characters."""
_CUT_LETTERS: Final = 3  # a choice: one or two letters fit too many names
_CAPITALS: Final = re.compile("[A-Z]+")


class NameMatch(NamedTuple):
    """How well two names agree, and why; the text quotes words of the names."""

    grade: Grade
    explained: str


class Name(NamedTuple):
    """The parts of one person's name, in order."""

    words: list[str]  # full words; hyphenated ones are split
    initials: list[str]  # single letters
    honours: list[str]  # titles that are also names, such as PRINCE
    generations: set[str]  # `junior` or `senior`
    fillers: list[str]  # words that are not names, such as BIN and AL
    first_initial: str = ""  # an initial before the first word


class _Pairing(NamedTuple):
    """The words of two names that agree, and those left over; each word is used at most once."""

    alike: dict[Similarity, list[tuple[str, str]]]
    initials: list[str]
    ours: list[str]
    theirs: list[str]
    contrary_initial: bool
    contrary_generation: bool

    def grade(self) -> Grade:
        """Return the grade.

        MUSA BELLO and BELLO MUSA SANI are strong; MUSA BELLO SANI and BELLO MUSA IDRIS are likely,
        because one word disagrees; MUSA BELLO and BELLO TUNDE are weak; an initial counts half.
        """
        sure, near = len(self.alike[Similarity.SURE]), len(self.alike[Similarity.NEAR])
        names = sum(map(len, self.alike.values()))
        weight = names + len(self.initials) / 2
        against = min(len(self.ours), len(self.theirs)) + self.contrary_initial / 2
        if self.contrary_generation:
            return "weak" if weight >= 1 else "none"
        if sure >= _ENOUGH_NAMES and not against and not near:
            return "strong"
        agreed = names >= _ENOUGH_NAMES and against <= 1
        if agreed or (names and weight >= _ENOUGH_NAMES and not against):
            return "likely"
        return "weak" if weight >= 1 else "none"

    def explained(self) -> str:
        """Return a short text on what agrees and what contradicts."""
        reasons = []
        for similarity, label in (
            (Similarity.SURE, "agree"),
            (Similarity.DOUBTFUL, "perhaps a short form"),
            (Similarity.NEAR, "a slip or another name"),
        ):
            pairs = self.alike[similarity][:_EXPLAINED_WORDS]
            shown = [one if one == other else f"{one} = {other}" for one, other in pairs]
            reasons += [f"{label}: {', '.join(shown)}"] if shown else []
        if self.initials:
            reasons.append(f"initials agree: {' '.join(self.initials[:_EXPLAINED_WORDS])}")
        if self.ours and self.theirs:
            sides = (" ".join(side[:_EXPLAINED_WORDS]) for side in (self.ours, self.theirs))
            reasons.append(f"against: {' / '.join(sides)}")
        if self.contrary_initial:
            reasons.append("an initial contradicts")
        if self.contrary_generation:
            reasons.append("junior and senior differ")
        return "; ".join(reasons) or "no name agrees"


def match_names(ours: Iterable[str | None], theirs: str | None) -> NameMatch | None:
    """Compare a customer's name with that of an account.

    Args:
        ours: every name field of the customer's row, in the order first, middle, last name and
            full name; a full name alone may be in any order.
        theirs: the account's name from the bank.

    Returns:
        The grade and why; None if there is nothing to compare on one side. ``strong``: two names
        agree, the first name among them, and none disagrees; ``likely``: two agree and at most one
        disagrees; ``weak``: less than that, or junior against senior; ``none``: no name agrees;
        ``business``: the account is a company's.
    """
    held = in_order(theirs or "")
    customer = _customer(tuple(field for field in ours if field))
    if customer is None:
        return None
    mine, surname, titled = customer
    word = business_word(held, mine.words)
    if word is not None:
        return NameMatch("business", f"a business: {word}")
    if len(held) >= _ENOUGH_NAMES and sorted(held) == sorted(mine.words):  # most accounts
        return NameMatch("strong", f"agree: {', '.join(sorted(held)[:_EXPLAINED_WORDS])}")
    if len(str(theirs).strip()) >= _CUT_FROM:
        held = completed(held, mine.words)
    holder = read_name(held, titled)
    if holder is None:
        return None
    pairing = _pair(mine, holder)
    grade, explained = pairing.grade(), pairing.explained()
    if grade == "strong" and (doubt := _first_name_doubt(pairing, mine, surname, holder, titled)):
        return NameMatch("likely", f"{explained}; {doubt}")
    return NameMatch(grade, explained)


def in_order(text: str) -> list[str]:
    """Return folded words; a surname before a comma is moved to the end."""
    surname, comma, given = text.partition(",")
    if comma and read_name(fold_words(given)) is not None:
        return [*fold_words(given), *fold_words(surname)]
    return fold_words(text)


@lru_cache(maxsize=1 << 14)  # as many as a chunk of rows, which each check reads in turn
def _customer(fields: tuple[str, ...]) -> tuple[Name, str | None, str | None] | None:
    """Return the customer's name, its surname if known, and a title that is the surname.

    A full name adds words that the other fields lack; the other fields decide which word is the
    surname. In a full name alone the surname is known only by a comma.
    """
    parts = [part for field in fields if (part := in_order(field))]
    for at, part in enumerate(parts):
        others = [*parts[:at], *parts[at + 1 :]]
        named = {word for other in others for word in other}
        if named and len({*part}) > 1 and named <= {*part}:
            more = [word for word in part if word not in named]
            has_surname = at == len(parts) - 1 and len(others) > 1  # the other fields name it
            parts = [others[0], more, *others[1:]] if has_surname or not more else [part]
            break
    last_part = len(parts) - 1
    words = [
        word
        for at, part in enumerate(parts)
        if at in {0, last_part} or part != parts[at - 1]  # one name in two fields is one name
        for word in part
    ]
    last = words[-1] if len(words) > 1 else ""
    titled = last if listed("titles").get(last, "no") != "no" else None
    name = read_name(words, titled)
    known = len(parts) > 1 or any("," in field for field in fields)
    surname = name.words[-1] if name is not None and name.words and known else None
    return None if name is None else (name, surname, titled)


def read_name(folded: Sequence[str], titled: str | None = None) -> Name | None:
    """Split the folded words of one person's name into its parts; None if there is no name.

    Args:
        folded: the words, in order.
        titled: a title that is the customer's surname, so that it counts as a name.
    """
    parts = defaultdict[str, list[str]](list)
    for written in folded[:_MOST_WORDS]:
        for part in _CAPITALS.findall(written):
            parts["word" if part == titled else _kind(part)].append(part)
    words = parts["word"]
    if len(words) > _ENOUGH_NAMES and servants() & {*words}:  # RAHMAN alone is ABDUL RAHMAN
        words = [word for word in words if openings().get(word, ("",))[0] != ABD]
    if not words:  # PRINCE alone is a name
        words, parts["honour"] = parts["honour"], []
    generations = {listed("suffixes")[mark] for mark in parts["generation"]}
    if not words and not parts["initial"]:
        return None
    first = next(iter(_CAPITALS.findall(folded[0])), "")
    opens = first if first in parts["initial"] else ""
    return Name(words, parts["initial"], parts["honour"], generations, parts["filler"], opens)


@lru_cache(maxsize=CACHED_WORDS)
def _kind(part: str) -> str:
    if len(part) == 1:
        return "initial"
    if part in listed("titles"):
        return "honour" if listed("titles")[part] == "yes" else "title"
    if part in listed("suffixes"):
        return "generation"
    return "filler" if part in listed("fillers") else "word"


def business_word(folded: Sequence[str], borne: Sequence[str]) -> str | None:
    """Return the word that makes an account's name a business's, such as VENTURES; None if none.

    Args:
        folded: the words of the account's name.
        borne: the words of the customer's name; some words of businesses are surnames too.
    """
    kinds, joint, before = listed("business"), [], ""
    for written in folded:
        parts = written.replace(".", "-").split("-")
        for word in {*parts, "".join(parts)} & kinds.keys():
            kind = kinds[word]
            own = kind == "unless_ours" and word in borne
            if kind in {"sure", "unless_ours"} and not own:
                return word
            if kind == "after_and" and before == "AND":
                return word
            joint += [word] if kind == "joint" and word not in joint else []
        before = written
    return " ".join(joint) if len(joint) > 1 else None


def completed(folded: list[str], ours: Sequence[str]) -> list[str]:
    """Return an account's words; the last is completed if the bank's field cut it.

    OGUNMODEDE OLUWAFUNMI is completed by the customer's OLUWAFUNMILAYO. OLUWA is not, because it
    would also fit a brother, nor is a complete name such as CHIDI.
    """
    last = (folded or [""])[-1]
    whole = {word for word in ours if word.startswith(last)}
    is_name = any(last in words for words in (openings(), short_forms(), families()))
    is_cut = len(last) >= _CUT_LETTERS and not is_name and len(whole) == 1
    return [*folded[:-1], *whole] if is_cut else folded


def _pair(ours: Name, theirs: Name) -> _Pairing:
    """Pair the words of two names one to one, the surest first."""
    left, right = written_alike(ours, theirs), written_alike(theirs, ours)
    if len(left) == len(right) == 1:  # PRINCE EZE is two names if both sides have it
        honours = sorted(set(ours.honours) & set(theirs.honours))
        left, right = [*left, *honours], [*right, *honours]
    pairs: dict[Similarity, list[tuple[str, str]]] = {each: [] for each in Similarity}
    for word in sorted(left):  # most are equal
        if word in right:
            pairs[Similarity.SURE].append((word, word))
            left.remove(word)
            right.remove(word)
    candidates = [(one, other) for one in left for other in right if alike(one, other)]
    candidates.sort(key=lambda pair: (-alike(*pair), sorted(pair)))
    for one, other in candidates:
        if one in left and other in right:
            pairs[alike(one, other)].append((one, other))
            left.remove(one)
            right.remove(other)
    agreed, mine_open, others_open = _initials(ours, theirs, left, right)
    contrary = (mine_open and (right or others_open)) or (others_open and left)
    generations = ours.generations and theirs.generations
    apart = bool(generations) and ours.generations.isdisjoint(theirs.generations)
    return _Pairing(pairs, agreed, left, right, bool(contrary), apart)


def written_alike(name: Name, other: Name) -> list[str]:
    """Return the words, two joined if the other name joins them: OLUWA SEUN is OLUWASEUN."""
    words, usable = sorted(name.words), {*name.words, *name.fillers}
    for joined in set(other.words) - usable:
        for first in sorted(usable):
            second = joined.removeprefix(first)
            if second not in {joined, first} and second in usable:
                usable -= {first, second}
                words = [*(word for word in words if word not in {first, second}), joined]
                break
    return sorted(words)


def _initials(
    ours: Name, theirs: Name, left: list[str], right: list[str]
) -> tuple[list[str], list[str], list[str]]:
    """Pair initials with remaining words, which are removed, and with each other.

    Returns the initials that agree, and each side's others.
    """
    agreed: list[str] = []
    mine, others = list(ours.initials), list(theirs.initials)
    for initials, words in ((mine, right), (others, left), (mine, others)):
        for initial in list(initials):
            word = next((word for word in words if word.startswith(initial)), None)
            if word is not None:
                words.remove(word)
                initials.remove(initial)
                agreed.append(initial)
    return sorted(agreed), mine, others


def _first_name_doubt(
    pairing: _Pairing, customer: Name, surname: str | None, holder: Name, titled: str | None
) -> str | None:
    """Return why two names that agree may be a father's and his child's; None if not.

    A child often has the father's name in the middle: an account without the customer's first name
    may be the father's (MUSA IDRIS BELLO, IDRIS BELLO), one with another name before it the child's
    (MUSA BELLO, SANI MUSA BELLO).
    """
    given, held = customer.words[0], holder.words
    if given in pairing.ours:
        return f"the account does not show {given}"
    if pairing.ours and surname not in pairing.ours:
        return None
    if pairing.ours:
        other = next((word for word in holder.honours if word != titled), None)
        return other and f"{other} may be a title or another surname"
    pairs = [pair for alike_pairs in pairing.alike.values() for pair in alike_pairs]
    first, last = dict(pairs).get(given), dict(pairs).get(surname or "")
    if given == surname or len(pairs) > _ENOUGH_NAMES or first not in held or last not in held:
        return None
    at, end = held.index(first), held.index(last)
    before = held[:at] if end == len(held) - 1 else held[1:at] if end == 0 else []
    # what the customer's own first initial stands for is no name of a father
    own = {word for word in before if customer.first_initial and word not in pairing.theirs}
    own = {word for word in own if word.startswith(customer.first_initial)}
    return f"the account has a name before {first}" if {*before} - own else None
