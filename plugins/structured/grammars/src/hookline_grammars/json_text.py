r"""Keeps JSON text free of escapes that it does not need, and valid as UTF-8.

A grammar tells names apart by how they are written. Where "a" has a schema and all
other names have another one, `"\u0061"` would be one of the others, and the reader of
the text finds "a" all the same. Escapes of half a character, which many readers do not
take, are not needed, either.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hookline_grammars.backend import BackendContext, GrammarMatcher
from hookline_grammars.many_matchers import accept_tokens, fill_masks

if TYPE_CHECKING:  # what only compiles need not load numpy
    import numpy as np
    import numpy.typing as npt

_NEEDED = re.compile(rb'\\(?:["\\bfnrt]|u(?:0(?:0(?:[01][0-9a-fA-F]?|7[fF]?)?)?)?)?')
"""An escape, or its beginning, of a character that cannot stand for itself."""
_UNICODE_ESCAPE = 6
"""Bytes of one."""
_SURROGATES = re.compile(rb"\xed[\xa0-\xbf]")
"""How UTF-8 would write them, which it does not."""
_LEAD = b"\xed"


class JsonText:
    """Which tokens may come next in JSON text, whatever its grammar.

    All that matters of the text before is its end: an escape that has begun, or the
    first byte of a character. Most texts end in neither.
    """

    def __init__(self, context: BackendContext, banned: bytes = b"") -> None:
        """Sorts the vocabulary; `banned` are bytes that are not to occur at all."""
        self._tokens = context.tokens
        self._words = -(-context.vocab_size // 32)
        self._by_start: dict[int, list[int]] = defaultdict(list)
        always = re.compile(b"[" + re.escape(banned) + b"]") if banned else None
        self._never: list[int] = []
        for token_id, token in enumerate(context.tokens):
            if not token:
                continue
            self._by_start[token[0]].append(token_id)
            if (always is not None and always.search(token)) or _is_needless(token):
                self._never.append(token_id)
        self._masks: dict[bytes, npt.NDArray[np.int32]] = {}

    def mask(self, tail: bytes) -> "npt.NDArray[np.int32]":
        """Returns a mask like `GrammarMatcher.fill`'s, of what may follow a tail."""
        if (known := self._masks.get(tail)) is None:
            known = self._masks[tail] = self._made(tail)
        return known

    def after(self, tail: bytes, token_id: int) -> bytes:
        """Returns the tail behind one more token."""
        token = self._tokens[token_id] if token_id < len(self._tokens) else b""
        if not tail and b"\\" not in token:
            return _LEAD if token.endswith(_LEAD) else b""
        return _tail(tail + token)

    def _made(self, tail: bytes) -> "npt.NDArray[np.int32]":
        import numpy as np  # noqa: PLC0415 - see above

        is_kept = np.ones(32 * self._words, np.bool_)
        is_kept[self._never] = False
        if tail:
            for start, token_ids in self._by_start.items():
                if _is_needless(tail + bytes([start])):
                    is_kept[token_ids] = False
                    continue
                for token_id in token_ids:
                    if _is_needless(tail + self._tokens[token_id]):
                        is_kept[token_id] = False
        return np.packbits(is_kept, bitorder="little").view(np.int32)


class JsonTextMatcher:
    """A `GrammarMatcher` of JSON, which also keeps to `JsonText`."""

    def __init__(self, inner: GrammarMatcher, text: JsonText) -> None:
        self._inner = inner
        self._text = text
        self._tails = [b""]

    def fill(self, mask: "npt.NDArray[np.int32]") -> None:
        self._inner.fill(mask)
        mask &= self._text.mask(self._tails[-1])

    @classmethod
    def fill_many(
        cls,
        matchers: "Sequence[JsonTextMatcher]",
        masks: "npt.NDArray[np.int32]",
        rows: Sequence[int],
    ) -> None:
        fill_masks([each._inner for each in matchers], masks, rows)  # noqa: SLF001
        by_mask: dict[int, list[int]] = defaultdict(list)
        kept = [each._text.mask(each._tails[-1]) for each in matchers]  # noqa: SLF001
        for at, mask in enumerate(kept):
            by_mask[id(mask)].append(at)
        for chosen in by_mask.values():  # nearly all have the same one
            masks[[rows[at] for at in chosen]] &= kept[chosen[0]]

    @classmethod
    def accept_many(
        cls, matchers: "Sequence[JsonTextMatcher]", token_ids: Sequence[int]
    ) -> Sequence[bool]:
        accepted = accept_tokens([each._inner for each in matchers], token_ids)  # noqa: SLF001
        for matcher, token_id, is_allowed in zip(
            matchers, token_ids, accepted, strict=True
        ):
            if is_allowed:
                matcher._note(token_id)  # noqa: SLF001
        return accepted

    def accept(self, token_id: int) -> bool:
        if not self._inner.accept(token_id):
            return False
        self._note(token_id)
        return True

    def _note(self, token_id: int) -> None:
        self._tails.append(self._text.after(self._tails[-1], token_id))

    def rollback(self, count: int) -> None:
        self._inner.rollback(count)
        del self._tails[len(self._tails) - count :]

    @property
    def is_terminated(self) -> bool:
        return self._inner.is_terminated

    def forced(self, most: int) -> Sequence[int]:
        return self._inner.forced(most)


def _escapes(text: bytes) -> list[bytes]:
    """Returns the escapes of a text that begins outside of any."""
    found, at = [], text.find(b"\\")
    while at >= 0:
        is_long = text[at + 1 : at + 2] == b"u"
        end = at + (_UNICODE_ESCAPE if is_long else 2)
        found.append(text[at:end])
        at = text.find(b"\\", end)
    return found


def _is_needless(text: bytes) -> bool:
    """Whether a text has something that JSON does without."""
    if _LEAD in text and _SURROGATES.search(text):
        return True
    if b"\\" not in text:
        return False
    return not all(_NEEDED.fullmatch(each) for each in _escapes(text))


def _tail(text: bytes) -> bytes:
    """Returns what a text ends in, if that is not complete."""
    if text.endswith(_LEAD):
        return _LEAD
    escapes = _escapes(text)
    if not escapes or not text.endswith(escapes[-1]):
        return b""
    last = escapes[-1]
    is_long = last[1:2] == b"u"
    return last if len(last) < (_UNICODE_ESCAPE if is_long else 2) else b""
