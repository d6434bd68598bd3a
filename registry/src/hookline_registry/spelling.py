"""Finds the name that a misspelt one was meant to be.

Only what means the same is suggested. Names consist of words, and each word must be
there: with a typing error, in another inflection, or abbreviated. Another word in its
place makes another name, however similar the letters are.
"""

import re
from collections.abc import Iterable

_WORD = re.compile(r"[^\W_]+")
_ABBREVIATED = {
    "configuration": "config",
    "length": "len",
    "maximum": "max",
    "memory": "mem",
    "minimum": "min",
    "number": "num",
    "utilization": "util",
}
_ENDINGS = ("ing", "ed", "es", "s", "e")
_STEM = 4
"""Letters that a word has at least without its ending."""
_SHORT = 4
"""Longest words in which another letter makes another word, as in cpu and gpu."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that `name` misspells; None if it is none, or unclear.

    At most one word may be left out, of a name of three words or more.
    """
    words = _words(name)
    costs = {each: _cost(words, _words(each)) for each in dict.fromkeys(known)}
    found = {each: cost for each, cost in costs.items() if cost is not None}
    best = [each for each, cost in found.items() if cost == min(found.values())]
    return best[0] if len(best) == 1 else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns `; did you mean X?` for what `name` misspells, or an empty text."""
    found = closest(name, known)
    return f"; did you mean {found}?" if found else ""


def unknown(what: str, name: str, known: Iterable[str], *, of: str = "") -> str:
    """Returns the message for a name that is not among the known ones."""
    names = list(known)
    hint = did_you_mean(name, names) or f"; available: {', '.join(names)}"
    return f"unknown {what} {name!r}{f' of {of}' if of else ''}{hint}"


def _words(name: str) -> list[str]:
    return _WORD.findall(name.lower())


def _cost(given: list[str], meant: list[str]) -> int | None:
    """Returns how far one name is from another; None if it means something else."""
    if "".join(given) == "".join(meant):
        return 0
    if len(given) == len(meant):
        return _sum_of_costs(given, meant)
    if len(meant) == len(given) + 1 and len(given) > 1:
        shorter = (meant[:place] + meant[place + 1 :] for place in range(len(meant)))
        costs = [_sum_of_costs(given, words) for words in shorter]
        return min((10 + cost for cost in costs if cost is not None), default=None)
    return None


def _sum_of_costs(given: list[str], meant: list[str]) -> int | None:
    costs = [_cost_of_word(*pair) for pair in zip(given, meant, strict=True)]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _cost_of_word(given: str, meant: str) -> int | None:
    if _ABBREVIATED.get(given, given) == _ABBREVIATED.get(meant, meant):
        return 0
    if _stem(given) == _stem(meant):
        return 1
    return 2 if _is_mistyped(given, meant) else None


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM:
            return word.removesuffix(ending)
    return word


def _is_mistyped(given: str, meant: str) -> bool:
    """Whether one letter is missing, too many or another, or two are exchanged."""
    if min(len(given), len(meant)) < _SHORT - 1:
        return False
    ahead = _common(given, meant)
    behind = _common(given[ahead:][::-1], meant[ahead:][::-1])
    left = given[ahead : len(given) - behind], meant[ahead : len(meant) - behind]
    if left[0] == left[1][::-1] and len(left[0]) == len("ab"):
        return True
    if len(left[0]) + len(left[1]) == 1:
        return True
    is_other = len(left[0]) == len(left[1]) == 1
    return is_other and len(meant) > _SHORT


def _common(one: str, other: str) -> int:
    """Returns the length of the common beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    least = min(len(one), len(other))
    return next((place for place, (a, b) in pairs if a != b), least)
