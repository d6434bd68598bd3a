"""Finds repetitions in patterns that xgrammar matches too loosely.

In JSON schemas only, it lets a repetition at the end of an optional part or of an
alternative match without what precedes it: `(ab*)?` would match "b".
"""

import re
from dataclasses import dataclass

_ATOM = re.compile(
    r"\[\^?(?:\\.|[^\]\\])*\]|\\(?:u\{\w+\}|u\w{4}|x\w{2}|c.|.)", re.DOTALL
)
"""A character class or an escape, in which nothing is an operator."""
_OPENING = re.compile(r"\(\?(?::|<\w+>|P<\w+>)")
_TOKEN = re.compile(r"[(|)]|[?*+]|\{\d*,?\d*\}")
_QUANTIFIER = re.compile(r"[?*+]|\{\d*,?\d*\}")
_EXACT = re.compile(r"\{\d+\}")
_OPTIONAL = ("?", "{0,1}", "{,1}")


@dataclass(slots=True)
class _Group:
    has_alternatives: bool = False
    varies: bool = False


def is_too_wide(pattern: str) -> bool:
    """Whether something of varying length is optional, or in an alternative."""
    text = _OPENING.sub("(", _ATOM.sub("x", pattern))
    groups = [_Group()]
    for match in _TOKEN.finditer(text):
        match match.group():
            case "(":
                groups.append(_Group())
            case "|":
                groups[-1].has_alternatives = True
            case ")" if len(groups) > 1:
                ended = groups.pop()
                following = _QUANTIFIER.match(text, match.end())
                is_optional = following is not None and following.group() in _OPTIONAL
                if ended.varies and (ended.has_alternatives or is_optional):
                    return True
                groups[-1].varies |= ended.varies
            case quantifier:
                groups[-1].varies |= not _EXACT.fullmatch(quantifier)
    return groups[0].has_alternatives and groups[0].varies
