"""Decide whether the holder of an account is the customer, from two written names.

A name is read into words; words are paired, the surest first; what pairs and what is left over
make the grade. When two words are one name is in `name_words`; what a grade means for a customer
is not decided here.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from nightscreen.values.name_words import (
    ABD,
    CACHED_WORDS,
    Similarity,
    alike,
    families,
    fold_words,
    listed,
    openings,
    servants,
    short_forms,
)

Grade = Literal["strong", "likely", "weak", "none", "business"]
GRADES = ("strong", "likely", "business", "weak", "none")  # grades from best to worst
AGREES = frozenset({"strong"})
"""Grades that verify an account by themselves; with its BVN agreeing, `likely` does no harm."""
CONTRADICTS = frozenset({"weak", "none"})

_ENOUGH_NAMES: Final = 2
_MOST_WORDS: Final = 24
_EXPLAINED_WORDS: Final = 6
_CUT_FROM: Final = 25
"""Letters and spaces from which a bank's field cuts a name: fields have 25, 30 or 35."""
_CUT_LETTERS: Final = 3  # a choice: what begins with one or two letters may be anybody's name
_LETTERS: Final = re.compile("[A-Z]+")


class NameMatch(NamedTuple):
    """How well two names agree, and why, in a few words (which quote words of the names)."""

    grade: Grade
    explained: str


class Name(NamedTuple):
    """What is written of one person's name, in its order."""

    words: list[str]  # full ones; hyphenated ones apart
    initials: list[str]  # single letters
    honours: list[str]  # titles that people also have as names, such as PRINCE
    generations: set[str]  # `junior` or `senior`
    fillers: list[str]  # words that are no name of their own, such as BIN and AL


class _Pairing(NamedTuple):
    """The words of two names that agree and that do not, each word used at most once."""

    alike: dict[Similarity, list[tuple[str, str]]]
    initials: list[str]
    ours: list[str]
    theirs: list[str]
    contrary_initial: bool
    contrary_generation: bool

    def grade(self) -> Grade:
        """Return the grade that agreements and contradictions add up to.

        MUSA BELLO and BELLO MUSA SANI are strong; MUSA BELLO SANI and BELLO MUSA IDRIS likely,
        for one word is against; MUSA BELLO and BELLO TUNDE weak; an initial counts half.
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
        """Say in a few words what agrees and what contradicts."""
        said = []
        for likeness, label in (
            (Similarity.SURE, "agree"),
            (Similarity.DOUBTFUL, "perhaps a short form"),
            (Similarity.NEAR, "a slip or another name"),
        ):
            pairs = self.alike[likeness][:_EXPLAINED_WORDS]
            shown = [one if one == other else f"{one} = {other}" for one, other in pairs]
            said += [f"{label}: {', '.join(shown)}"] if shown else []
        if self.initials:
            said.append(f"initials agree: {' '.join(self.initials[:_EXPLAINED_WORDS])}")
        if self.ours and self.theirs:
            sides = (" ".join(side[:_EXPLAINED_WORDS]) for side in (self.ours, self.theirs))
            said.append(f"against: {' / '.join(sides)}")
        if self.contrary_initial:
            said.append("an initial contradicts")
        if self.contrary_generation:
            said.append("junior and senior differ")
        return "; ".join(said) or "no name agrees"


def match_names(ours: Iterable[str | None], theirs: str | None) -> NameMatch | None:
    """Say whether an account held in one name is the customer's.

    Args:
        ours: every name field of the customer's row, in the order first, middle, last name and
            full name; a full name alone may be in any order.
        theirs: the account's name as the bank writes it.

    Returns:
        The grade and why, or None where there is nothing to compare on one side: ``strong``
        is two names, the first name among them, and nothing against; ``likely`` two and at most
        one against; ``weak`` less than that, or junior against senior; ``none`` no name;
        ``business`` an account that is a company's.
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
    """Return folded words; a surname that is written first, before a comma, at the end."""
    surname, comma, given = text.partition(",")
    if comma and read_name(fold_words(given)) is not None:
        return [*fold_words(given), *fold_words(surname)]
    return fold_words(text)


@lru_cache(maxsize=1024)
def _customer(fields: tuple[str, ...]) -> tuple[Name, str | None, str | None] | None:
    """Return the customer's name, which word is the surname, and a title that is the surname.

    A full name beside the other fields adds the words that they lack, or nothing: which word is
    the surname the others say. Of a full name alone nobody knows, unless a comma says so.
    """
    parts = [part for field in fields if (part := in_order(field))]
    for at, part in enumerate(parts):
        others = [*parts[:at], *parts[at + 1 :]]
        named = {word for other in others for word in other}
        if named and len({*part}) > 1 and named <= {*part}:
            more = [word for word in part if word not in named]
            told = at == len(parts) - 1 and len(others) > 1  # the others say which is the surname
            parts = [others[0], more, *others[1:]] if told or not more else [part]
            break
    words = [word for part in parts for word in part]
    last = words[-1] if len(words) > 1 else ""
    titled = last if listed("titles").get(last, "no") != "no" else None
    name = read_name(words, titled)
    known = len(parts) > 1 or any("," in field for field in fields)
    surname = name.words[-1] if name is not None and name.words and known else None
    return None if name is None else (name, surname, titled)


def read_name(folded: Sequence[str], titled: str | None = None) -> Name | None:
    """Read the folded words of one person's name; None if there is no name in them.

    Args:
        folded: the words, in order.
        titled: a title that is the customer's surname: a name on either side.
    """
    found = defaultdict[str, list[str]](list)
    for written in folded[:_MOST_WORDS]:
        for part in _LETTERS.findall(written):
            found["word" if part == titled else _kind(part)].append(part)
    words = found["word"]
    if len(words) > _ENOUGH_NAMES and servants() & {*words}:  # RAHMAN alone is ABDUL RAHMAN
        words = [word for word in words if openings().get(word, ("",))[0] != ABD]
    if not words:  # PRINCE alone is a name
        words, found["honour"] = found["honour"], []
    generations = {listed("suffixes")[mark] for mark in found["generation"]}
    if not words and not found["initial"]:
        return None
    return Name(words, found["initial"], found["honour"], generations, found["filler"])


@lru_cache(maxsize=CACHED_WORDS)
def _kind(part: str) -> str:
    """Return what a part of a name is."""
    if len(part) == 1:
        return "initial"
    if part in listed("titles"):
        return "honour" if listed("titles")[part] == "yes" else "title"
    if part in listed("suffixes"):
        return "generation"
    return "filler" if part in listed("fillers") else "word"


def business_word(folded: Sequence[str], borne: Sequence[str]) -> str | None:
    """Return the word that makes a name a business's: MUSA VENTURES is one, MUSA FARUK none.

    Args:
        folded: the words of a name as the bank writes it.
        borne: the words of the customer's own name; some words of businesses are surnames too.
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
    """Return an account's words, the last made whole where the bank's field cut it.

    OGUNMODEDE OLUWAFUNMI is completed by the customer's OLUWAFUNMILAYO. OLUWA is not, which would
    fit a brother as well, nor a name in its own right, such as CHIDI.
    """
    last = (folded or [""])[-1]
    whole = {word for word in ours if word.startswith(last)}
    a_name = any(last in words for words in (openings(), short_forms(), families()))
    cut = len(last) >= _CUT_LETTERS and not a_name and len(whole) == 1
    return [*folded[:-1], *whole] if cut else folded


def _pair(ours: Name, theirs: Name) -> _Pairing:
    """Pair the words of two names one to one, the surest first."""
    left, right = written_alike(ours, theirs), written_alike(theirs, ours)
    if len(left) == len(right) == 1:  # PRINCE EZE is two names where both have it
        honours = sorted(set(ours.honours) & set(theirs.honours))
        left, right = [*left, *honours], [*right, *honours]
    found: dict[Similarity, list[tuple[str, str]]] = {each: [] for each in Similarity}
    candidates = [(one, other) for one in left for other in right if alike(one, other)]
    candidates.sort(key=lambda pair: (pair[0] != pair[1], -alike(*pair), sorted(pair)))
    for one, other in candidates:
        if one in left and other in right:
            found[alike(one, other)].append((one, other))
            left.remove(one)
            right.remove(other)
    agreed, mine_open, others_open = _initials(ours, theirs, left, right)
    contrary = (mine_open and (right or others_open)) or (others_open and left)
    generations = ours.generations and theirs.generations
    apart = bool(generations) and ours.generations.isdisjoint(theirs.generations)
    return _Pairing(found, agreed, left, right, bool(contrary), apart)


def written_alike(name: Name, other: Name) -> list[str]:
    """Return words, two of them joined where the other name joins them: OLUWA SEUN is OLUWASEUN."""
    found, usable = sorted(name.words), {*name.words, *name.fillers}
    for joined in set(other.words) - usable:
        for first in sorted(usable):
            second = joined.removeprefix(first)
            if second not in {joined, first} and second in usable:
                usable -= {first, second}
                found = [*(word for word in found if word not in {first, second}), joined]
                break
    return sorted(found)


def _initials(
    ours: Name, theirs: Name, left: list[str], right: list[str]
) -> tuple[list[str], list[str], list[str]]:
    """Pair initials with words left over, which they take away, and with each other.

    Returns those that agree, and each side's others.
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
    """Say why two names that agree may be a father's and his child's, or return None.

    A child often has the father's name in the middle: an account that leaves the customer's
    first name out may be the father's (MUSA IDRIS BELLO, IDRIS BELLO), one that puts another name
    before it the child's (MUSA BELLO, SANI MUSA BELLO).
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
    if (end == len(held) - 1 and at > 0) or (end == 0 and at > 1):
        return f"the account has a name before {first}"
    return None
