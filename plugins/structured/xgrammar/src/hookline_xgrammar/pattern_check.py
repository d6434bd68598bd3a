"""Refuses patterns that xgrammar matches without regard to JSON's escapes.

JSON escapes quotes, backslashes and line feeds. xgrammar removes them from classes of
ASCII characters, but leaves them in everywhere else in a pattern.
"""

from collections.abc import Iterator

from hookline_grammars.pattern_parts import CharacterSet, parts
from hookline_xgrammar.pattern_loops import is_too_wide

_ESCAPED = frozenset('"\\') | frozenset(map(chr, range(32)))
"""Characters that JSON escapes."""
_LAST_ASCII = "\x7f"


def pattern_problems(pattern: object) -> Iterator[str]:
    """Yields why a pattern would be matched wrongly."""
    if not isinstance(pattern, str):
        return
    if is_too_wide(pattern):
        yield "a repetition in an optional part or an alternative of a pattern"
    for part in parts(pattern):
        if isinstance(part, CharacterSet):
            if _is_wrong(part):
                yield f"the set {part.text!r} in a pattern"
        elif part in _ESCAPED:
            yield f"{part!r} in a pattern"


def _is_wrong(part: CharacterSet) -> bool:
    if not part.ranges and part.text in {"[]", "[^]"}:
        return True
    is_ascii = all(high <= _LAST_ASCII for _, high in part.ranges)
    if part.is_negated:
        return not is_ascii
    return any(
        low in _ESCAPED or (not is_ascii and any(low <= c <= high for c in _ESCAPED))
        for low, high in part.ranges
    )
