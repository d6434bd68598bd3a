"""Refuses patterns that xgrammar follows without regard to JSON.

It takes quotes, backslashes and line feeds out of sets of ASCII characters, for JSON
writes them otherwise, and leaves them in wherever else a pattern has them.
"""

from collections.abc import Iterator

from hookline.structured.pattern_parts import CharacterSet, parts
from hookline_xgrammar.pattern_loops import is_too_wide

_ESCAPED = frozenset('"\\') | frozenset(map(chr, range(32)))
"""Characters that JSON escapes."""
_LAST_ASCII = "\x7f"


def pattern_problems(pattern: object) -> Iterator[str]:
    """Yields why a pattern would be followed wrongly."""
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
