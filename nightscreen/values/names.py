"""Decide whether the holder of an account is the customer, by their names.

A name is split into words; words are paired, the surest pairs first; pairs and remaining words give
the grade. `name_words` decides whether two words are the same name.
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
"""Grades that verify an account by themselves; if its BVN agrees, `likely` is enough."""
CONTRADICTS = frozenset({"weak", "none"})

_ENOUGH_NAMES: Final = 2
_MOST_WORDS: Final = 24
_EXPLAINED_WORDS: Final = 6
_CUT_FROM: Final = 25
"""Length from which a bank's field may have cut a name: fields have 25, 30 or 35 characters."""
_CUT_LETTERS: Final = 3  # a choice: one or two letters fit too many names
_LETTERS: Final = re.compile("[A-Z]+")


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


@lru_cache(maxsize=1024)
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
    words = [word for part in parts for word in part]
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
        for part in _LETTERS.findall(written):
            parts["word" if part == titled else _kind(part)].append(part)
    words = parts["word"]
    if len(words) > _ENOUGH_NAMES and servants() & {*words}:  # RAHMAN alone is ABDUL RAHMAN
        words = [word for word in words if openings().get(word, ("",))[0] != ABD]
    if not words:  # PRINCE alone is a name
        words, parts["honour"] = parts["honour"], []
    generations = {listed("suffixes")[mark] for mark in parts["generation"]}
    if not words and not parts["initial"]:
        return None
    return Name(words, parts["initial"], parts["honour"], generations, parts["filler"])


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
    candidates = [(one, other) for one in left for other in right if alike(one, other)]
    candidates.sort(key=lambda pair: (pair[0] != pair[1], -alike(*pair), sorted(pair)))
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
    if (end == len(held) - 1 and at > 0) or (end == 0 and at > 1):
        return f"the account has a name before {first}"
    return None
