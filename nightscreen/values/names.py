"""Decide whether the holder of an account is the customer, from two written names.

Here live the pairing of two bags of words, the signs of a business, and the grade that
follows. ``values.name_normalize`` splits a name into words and compares words; what a grade
means for a customer is not decided here.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from nightscreen.values.name_normalize import (
    CACHED_WORDS,
    MOST_WORDS,
    Name,
    Similarity,
    alike,
    beginnings,
    fold_words,
    is_name,
    lexicon,
    read_name,
    words_in_order,
)

Grade = Literal["strong", "likely", "weak", "none", "business"]
GRADES = ("strong", "likely", "business", "weak", "none")
"""Grades from best to worst."""
AGREES = frozenset({"strong"})
"""Grades that verify an account by themselves; with its BVN agreeing, `likely` does no harm."""
CONTRADICTS = frozenset({"weak", "none"})

_ENOUGH_NAMES = 2
_EXPLAINED_WORDS = 6
_CUT_FROM = 25  # letters and spaces: banks keep names in fields of 25, 30 or 35
_CUT_LETTERS = 3


class NameMatch(NamedTuple):
    """How well two names agree, and why, in a few words (which quote words of the names)."""

    grade: Grade
    explained: str


class _Pairing(NamedTuple):
    """The words of two names that agree and that do not, each word used at most once.

    ``sure``, ``doubtful`` and ``near`` are pairs of full words, ``halves`` initials that agree,
    and ``ours`` and ``theirs`` the full words left over on each side.
    """

    sure: tuple[tuple[str, str], ...]
    doubtful: tuple[tuple[str, str], ...] = ()
    near: tuple[tuple[str, str], ...] = ()
    halves: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()
    contrary_initial: bool = False
    contrary_generation: bool = False

    @property
    def names(self) -> int:
        """Number of full words that agree."""
        return len(self.sure) + len(self.doubtful) + len(self.near)

    @property
    def against(self) -> float:
        """Number of contradictions; an initial counts half."""
        return min(len(self.ours), len(self.theirs)) + 0.5 * self.contrary_initial


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
    if not theirs:
        return None
    fields = tuple(field for field in ours if field)
    folded = fold_words(theirs)
    written = " ".join(fields)
    if _agree_at_once(fold_words(written), folded, in_order="," not in written):
        return NameMatch("strong", f"agree: {', '.join(sorted(folded)[:_EXPLAINED_WORDS])}")
    customer = _customer(fields)
    return None if customer is None else _match(customer, fields, folded, theirs)


def _agree_at_once(ours: Sequence[str], theirs: Sequence[str], *, in_order: bool) -> bool:
    """Return whether an account has the customer's words and none of them needs a reading.

    It has at least two, the first name among them. Most accounts and histories are so, and what
    follows would come to the same at five times the cost.

    Args:
        ours: the folded words of the customer's fields.
        theirs: those of the account.
        in_order: the customer's first name is written first.
    """
    bag, borne = set(theirs), set(ours)
    plain = (
        _ENOUGH_NAMES <= len(bag) == len(theirs) <= MOST_WORDS >= len(ours)
        and bag <= borne
        and all(map(_is_plain, theirs))
    )
    if not plain or bag == borne:
        return plain
    left = borne - bag
    return (
        in_order
        and len(borne) == len(ours)
        and ours[0] in bag
        and all(map(_is_plain, left))
        and not any(word.startswith(tuple(bag)) for word in left)  # nor two of them in one
    )


@lru_cache(maxsize=CACHED_WORDS)
def _is_plain(written: str) -> bool:
    """Return whether a folded word is a name whatever stands beside it."""
    return is_name(written) and not _business_kinds(written)


def _completed(folded: list[str], width: int, ours: frozenset[str]) -> list[str]:
    """Return the words of an account's name, the last made whole where the bank's field cut it.

    A shared beginning such as OLUWA is not made whole: it would fit a brother's name as well. A
    name in its own right, such as CHIDI, was not cut.
    """
    last = folded[-1] if folded else ""
    if width < _CUT_FROM or len(last) < _CUT_LETTERS or last in ours:
        return folded
    words = lexicon()
    if last in beginnings() or last in words.shorts or last in words.families:
        return folded
    whole = [word for word in ours if word.startswith(last)]
    return [*folded[:-1], *whole] if len(whole) == 1 else folded


class _Customer(NamedTuple):
    """A customer's name: all its words, and the fields whose order says what they are.

    Attributes:
        name: the words without order.
        parts: the fields, without a full name that only repeats the others.
        titled: a title that is the customer's surname.
    """

    name: Name
    parts: Sequence[str]
    titled: str | None

    def ends(self) -> tuple[str, str | None]:
        """Return the first name, of a full name alone its first word, and the surname.

        That is the last word of the last name; None where a full name alone does not say.
        """
        ordered = [words_in_order(fold_in_order(part)) for part in self.parts]
        words = [word for part in ordered for word in part]
        known = len([part for part in ordered if part]) > 1 or any(
            "," in each for each in self.parts
        )
        return words[0] if words else "", words[-1] if known and words else None


@lru_cache(maxsize=1024)
def _customer(fields: tuple[str, ...]) -> _Customer | None:
    """Read the customer's fields; one customer is often compared several times in a row."""
    parts = _parts(fields)
    last = fold_in_order(parts[-1]) if parts else []
    titled = last[-1] if last and last[-1] in lexicon().surname_titles else None
    if titled is not None and len(parts) == 1 and len(last) == 1:
        titled = None
    name = read_name(fold_words(" ".join(fields)), titled)
    return None if name is None else _Customer(name, parts, titled)


def _match(
    customer: _Customer, fields: Sequence[str], folded: list[str], theirs: str
) -> NameMatch | None:
    """Compare names that are not simply the same words."""
    word = _business_word(folded, customer.name.words)
    if word is not None:
        return NameMatch("business", f"a business: {word}")
    folded = _completed(folded, len(theirs.strip()), customer.name.words)
    holder = read_name(folded, customer.titled)
    if holder is None:
        return None
    pairing = _pair(customer.name, holder)
    if len(set(folded)) < len(folded):
        pairing = _with_repeats(pairing, fields, folded)
    grade = _grade(pairing)
    if grade == "strong" and (pairing.ours or pairing.theirs):
        doubt = _first_name_doubt(pairing, customer, theirs, holder.compounds)
        if doubt:
            return NameMatch("likely", f"{_explain(pairing)}; {doubt}")
    return NameMatch(grade, _explain(pairing))


def _parts(fields: Sequence[str]) -> Sequence[str]:
    """Return the fields without a full name that only repeats the others."""
    words = [fold_words(field) for field in fields]
    if max(map(len, words), default=0) < _ENOUGH_NAMES:
        return fields
    bags = [set(each) for each in words]
    return [
        field
        for at, field in enumerate(fields)
        if len(bags[at]) < _ENOUGH_NAMES
        or not (others := set().union(*bags[:at], *bags[at + 1 :]))
        or not others <= bags[at]
    ] or list(fields[-1:])


def fold_in_order(text: str) -> list[str]:
    """Return folded words, a surname that is written first, before a comma, at the end."""
    surname, comma, given = text.partition(",")
    if comma and words_in_order(fold_words(given)):
        return [*fold_words(given), *fold_words(surname)]
    return fold_words(text)


def _first_name_doubt(
    pairing: _Pairing,
    customer: _Customer,
    theirs: str,
    compounds: Iterable[tuple[str, ...]],
) -> str | None:
    """Say why two names that agree may be a father's and his child's, or return None.

    A child often has the father's name in the middle: an account that leaves the customer's
    first name out may be the father's, one that puts another name before it the child's. The
    other half of a double surname is no name before it.
    """
    given, family = customer.ends()
    if given in pairing.ours:
        return f"the account does not show {given}"
    if pairing.ours and family not in pairing.ours:
        return None
    held = words_in_order(fold_in_order(theirs))
    if pairing.ours:
        other = next((word for word in held if word in lexicon().name_titles), None)
        doubted = other and other != customer.titled
        return f"{other} may be a title or another surname" if doubted else None
    partners = dict((*pairing.sure, *pairing.doubtful))
    first, surname = partners.get(given), partners.get(family or "")
    if len(partners) > _ENOUGH_NAMES or first not in held or surname not in held:
        return None
    at, end = held.index(first), held.index(surname)
    double = next((parts for parts in compounds if surname in parts), ())
    between = [word for word in held[1:at] if word not in double]
    if (end == len(held) - 1 and at > 0) or (end == 0 and between):
        return f"the account has a name before {first}"
    return None


def _with_repeats(pairing: _Pairing, fields: Sequence[str], folded: Sequence[str]) -> _Pairing:
    """Return a pairing in which a word that both sides have twice agrees twice.

    A customer has a word twice if two one-word fields have it, or one field repeats it;
    a full name beside its parts repeats nothing.
    """
    read = [fold_words(field) for field in fields]
    parts = [words[0] for words in read if len(words) == 1]
    agreeing = {ours for ours, theirs in pairing.sure if ours == theirs}
    twice = tuple(
        (word, word)
        for word in sorted(agreeing)
        if folded.count(word) > 1
        and pairing.sure.count((word, word)) == 1
        and max(parts.count(word), *(words.count(word) for words in read)) > 1
    )
    return pairing._replace(sure=pairing.sure + twice) if twice else pairing


def _business_word(folded: Sequence[str], borne: frozenset[str]) -> str | None:
    """Return the word that makes a name a business's, if there is one.

    Args:
        folded: the words of a name as the bank writes it, folded.
        borne: the words of the customer's own name; some words of businesses are surnames too.
    """
    joint: dict[str, None] = {}
    before = ""
    for written in folded:
        for word, kind in _business_kinds(written):
            if kind == "sure" or (kind == "unless_ours" and word not in borne):
                return word
            if kind == "after_and" and before == "AND":
                return word
            if kind == "joint":
                joint[word] = None
        before = written
    return " ".join(joint) if len(joint) > 1 else None


@lru_cache(maxsize=CACHED_WORDS)
def _business_kinds(written: str) -> tuple[tuple[str, str], ...]:
    """Return the words of businesses within one folded word, each with its kind."""
    kinds = lexicon().business
    parts = written.replace(".", "-").split("-")
    words = dict.fromkeys((*parts, "".join(parts)))
    return tuple((word, kinds[word]) for word in words if word in kinds)


def _grade(pairing: _Pairing) -> Grade:
    """Return the grade that agreements and contradictions add up to."""
    against = pairing.against
    weight = pairing.names + len(pairing.halves) / 2
    if pairing.contrary_generation:
        return "weak" if weight >= 1 else "none"
    if len(pairing.sure) >= _ENOUGH_NAMES and not against and not pairing.near:
        return "strong"
    if pairing.names >= _ENOUGH_NAMES and against <= 1:
        return "likely"
    if pairing.names and weight >= _ENOUGH_NAMES and not against:
        return "likely"
    return "weak" if weight >= 1 else "none"


def _pair(ours: Name, theirs: Name) -> _Pairing:
    """Pair the words of two names one to one, the surest first."""
    generations = ours.generations and theirs.generations
    contrary = bool(generations) and ours.generations.isdisjoint(theirs.generations)
    if _same_as_written(ours, theirs):
        same = tuple((word, word) for word in sorted(ours.written))
        return _Pairing(same, halves=ours.initials, contrary_generation=contrary)
    mine, others = _written_alike(ours, theirs)
    sure = [(word, word) for word in sorted(mine & others)]
    doubtful: list[tuple[str, str]] = []
    near: list[tuple[str, str]] = []
    lists = {Similarity.SURE: sure, Similarity.DOUBTFUL: doubtful, Similarity.NEAR: near}
    left, right = sorted(mine - others), sorted(others - mine)
    if left and right:
        for one, other in _assign(left, right):
            lists[alike(one, other)].append((one, other))
    met = sure + doubtful + near
    if (left and right) or ours.initials or theirs.initials:
        left = _contrary([one for one, _ in met], left)
        right = _contrary([other for _, other in met], right)
    halves, left, right, contrary_initial = _initials(ours, theirs, left, right)
    if len(sure) == 1 and not left and not right:
        sure += _second_names(ours, theirs)
    return _Pairing(
        tuple(sure),
        tuple(doubtful),
        tuple(near),
        halves,
        tuple(left),
        tuple(right),
        contrary_initial,
        contrary,
    )


def _same_as_written(ours: Name, theirs: Name) -> bool:
    """Return whether both names consist of the same words, at least two of them."""
    return (
        ours.written == theirs.written
        and len(ours.written) >= _ENOUGH_NAMES
        and ours.initials == theirs.initials
    )


def _second_names(ours: Name, theirs: Name) -> list[tuple[str, str]]:
    """Return a second agreement of names that have one word: a repeated name or an honour."""
    if _is_one_word_repeated(ours) and _is_one_word_repeated(theirs):
        return [(min(ours.words), min(theirs.words))]
    if len(ours.words) > 1 or len(theirs.words) > 1:
        return []
    return [(word, word) for word in sorted(ours.honours & theirs.honours)]


def _is_one_word_repeated(name: Name) -> bool:
    """Return whether a name is one word written twice, perhaps in two spellings."""
    first = min(name.words)
    return name.written_words > 1 and all(
        alike(first, word) is Similarity.SURE for word in name.words
    )


def _written_alike(ours: Name, theirs: Name) -> tuple[set[str], set[str]]:
    """Return both bags with split and hyphenated words written as on the other side."""
    mine, others = set(ours.words), set(theirs.words)
    for parts in sorted(ours.compounds | theirs.compounds):
        _compound_alike(parts, mine, others, both=parts in ours.compounds & theirs.compounds)
    _join_split(mine, ours.fillers, others)
    _join_split(others, theirs.fillers, mine)
    return mine, others


def _compound_alike(
    parts: tuple[str, ...], mine: set[str], others: set[str], *, both: bool
) -> None:
    """Take a hyphenated word for one name where the other side has all of it.

    Where it is the whole of a name, and the other side writes it apart, its parts stay names.
    """
    joined, bits = "".join(parts), set(parts)
    if bits <= mine and joined in others:
        sides = [mine]
    elif bits <= others and joined in mine:
        sides = [others]
    elif bits <= mine & others and (both or (mine - bits and others - bits)):
        sides = [mine, others]
    else:
        return
    for side in sides:
        side.difference_update(bits)
        side.add(joined)


def _join_split(words: set[str], fillers: frozenset[str], other: set[str]) -> None:
    """Write two words together where the other side does."""
    for joined in sorted(other - words):
        usable = words | fillers
        openings = [first for first in usable if joined.startswith(first)]
        for first in sorted(openings):
            second = joined.removeprefix(first)
            if second != first and second in usable:
                words -= {first, second}
                words.add(joined)
                break


def _assign(left: Sequence[str], right: Sequence[str]) -> list[tuple[str, str]]:
    """Return a largest one-to-one assignment of words that are alike, sure ones first."""
    likeness = [[alike(one, other) for other in right] for one in left]
    holder: dict[int, int] = {}
    for least in (Similarity.SURE, Similarity.DOUBTFUL, Similarity.NEAR):
        placed = set(holder.values())
        for row in range(len(left)):
            if row not in placed:
                _place(row, likeness, least, holder, set())
    return [(left[row], right[column]) for column, row in sorted(holder.items())]


def _place(
    row: int,
    likeness: list[list[Similarity]],
    least: Similarity,
    holder: dict[int, int],
    tried: set[int],
) -> bool:
    """Find a place for one word, moving others where they fit elsewhere too."""
    for column, value in enumerate(likeness[row]):
        if value < least or column in tried:
            continue
        tried.add(column)
        if column not in holder or _place(holder[column], likeness, least, holder, tried):
            holder[column] = row
            return True
    return False


def _contrary(met: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return the words that have met nothing and only repeat no word that has."""
    return [
        word
        for word in words
        if word not in met and not any(alike(word, other) is Similarity.SURE for other in met)
    ]


def _initials(
    ours: Name, theirs: Name, left: list[str], right: list[str]
) -> tuple[tuple[str, ...], list[str], list[str], bool]:
    """Pair initials with words left over and with each other.

    Returns:
        The initials that agree, the full words still left on each side, and whether an initial
        contradicts what is left beyond the contradictions of full words.
    """
    if not ours.initials and not theirs.initials:
        return (), left, right, False
    halves: list[str] = []
    mine, right = _spell_out(ours.initials, right, halves)
    others, left = _spell_out(theirs.initials, left, halves)
    for initial in list(mine):
        if initial in others:
            mine.remove(initial)
            others.remove(initial)
            halves.append(initial)
    mine = [initial for initial in mine if initial not in halves]
    others = [initial for initial in others if initial not in halves]
    full = min(len(left), len(right))
    mine_against = bool(mine) and len(right) + len(others) > full
    others_against = bool(others) and len(left) + len(mine) > full
    return tuple(sorted(halves)), left, right, mine_against or others_against


def _spell_out(
    initials: Sequence[str], words: Sequence[str], halves: list[str]
) -> tuple[list[str], list[str]]:
    """Pair initials with words that begin with them; return what is left of both."""
    words, open_initials = list(words), []
    for initial in initials:
        word = next((word for word in words if word.startswith(initial)), None)
        if word is None:
            open_initials.append(initial)
        else:
            words.remove(word)
            halves.append(initial)
    return open_initials, words


def _explain(pairing: _Pairing) -> str:
    """Say in a few words what agrees and what contradicts."""
    said = []
    if pairing.sure:
        said.append(f"agree: {_quoted(pairing.sure)}")
    if pairing.doubtful:
        said.append(f"perhaps a short form: {_quoted(pairing.doubtful)}")
    if pairing.near:
        said.append(f"a slip or another name: {_quoted(pairing.near)}")
    if pairing.halves:
        said.append(f"initials agree: {' '.join(pairing.halves[:_EXPLAINED_WORDS])}")
    if pairing.ours and pairing.theirs:
        ours = " ".join(pairing.ours[:_EXPLAINED_WORDS])
        theirs = " ".join(pairing.theirs[:_EXPLAINED_WORDS])
        said.append(f"against: {ours} / {theirs}")
    if pairing.contrary_initial:
        said.append("an initial contradicts")
    if pairing.contrary_generation:
        said.append("junior and senior differ")
    return "; ".join(said) or "no name agrees"


def _quoted(pairs: Sequence[tuple[str, str]]) -> str:
    """Return pairs of words, each said once where both sides write it alike."""
    shown = [one if one == other else f"{one} = {other}" for one, other in pairs]
    return ", ".join(shown[:_EXPLAINED_WORDS])
