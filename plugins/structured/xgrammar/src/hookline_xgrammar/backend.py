"""Compiles grammars by xgrammar, and matches outputs with them."""

import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hookline.json_options import refuse_unknown
from hookline.structured.backend import (
    BackendContext,
    GrammarMatcher,
    RefusedGrammarError,
)
from hookline.structured.json_schemas import formats_as_patterns
from hookline.structured.json_text import JsonText, JsonTextMatcher
from hookline.structured.spelling import LongestTokens
from hookline.structured_outputs import GrammarKind, GrammarSpec
from hookline_xgrammar import forced_length
from hookline_xgrammar.grammar_text import choices, modern_tag
from hookline_xgrammar.library_warnings import warnings_into
from hookline_xgrammar.light_import import import_xgrammar
from hookline_xgrammar.schema_check import check_schema, check_tag

_MOST_WHITESPACE = 32
"""Characters between two of JSON's tokens: enough to indent eight levels by four."""
_KEPT_BYTES = 256 * 2**20
"""Memory of compiled grammars that are kept ready for further requests.

To read one takes tens of milliseconds, which a step would have to wait for.
"""
_PIECE_BYTES = 16
"""Of a long token that are accepted before the time is looked at."""
_MOST_ACCEPT_NS = 100_000_000
"""Processor time for one token, which usually takes microseconds."""
_JSON, _TEXT = b"J", b"T"
"""First byte of a compiled grammar: whether the whole text is JSON."""
_FORCED, _FREE = b"F", b"N"
"""Its second byte: whether the matcher may be asked for what is forced."""
_HEAD_BYTES = 2
_CONTROLS = bytes(code for code in range(32) if code != ord("\n"))
"""Bytes that JSON never needs; xgrammar allows them in strings of limited length."""
_ORIGIN = re.compile(r"^(\[[\d:]+\] )?\S+\.(cc|h):\d+: ")
"""Where in its source xgrammar has found an error."""


class XGrammarBackend:
    """A `GrammarBackend`."""

    def __init__(self, context: BackendContext) -> None:
        """Reads the vocabulary; raises `ConfigError` for options, which it lacks."""
        option = "structured-outputs-config"
        refuse_unknown("xgrammar", option, context.options, ())
        self._library = import_xgrammar()
        self._info = self._library.TokenizerInfo(
            list(context.tokens),
            self._library.VocabType.RAW,
            vocab_size=context.vocab_size,
            stop_token_ids=list(context.eos_token_ids),
        )
        self._json_text = JsonText(context, banned=_CONTROLS)
        self._long_tokens = {
            token_id: token
            for token_id, token in enumerate(context.tokens)
            if len(token) > _PIECE_BYTES
        }
        self._spelling = LongestTokens(context.tokens)
        self._compiler: Any = None
        self._lock = threading.Lock()
        self._read: OrderedDict[bytes, Any] = OrderedDict()
        self._read_bytes = 0

    def compile(self, spec: GrammarSpec) -> bytes:
        if self._compiler is None:
            self._compiler = self._library.GrammarCompiler(
                self._info, max_threads=1, cache_enabled=False
            )
        warnings: list[str] = []
        try:
            with warnings_into(warnings):
                compiled = self._compiled(spec)
                text: str = compiled.serialize_json()
                is_bounded = forced_length.is_bounded(compiled.grammar.serialize_json())
        except MemoryError:
            raise
        except Exception as error:
            reason = _ORIGIN.sub("", str(error).strip()).strip()
            raise RefusedGrammarError(f"xgrammar: {reason}") from error
        if warnings:  # it has left something out
            raise RefusedGrammarError(f"xgrammar: {warnings[0]}")
        head = _JSON if spec.kind.is_json else _TEXT
        return head + (_FORCED if is_bounded else _FREE) + text.encode()

    def _compiled(self, spec: GrammarSpec) -> Any:
        compiler, source = self._compiler, spec.source
        if spec.whitespace_pattern is not None:
            raise ValueError("whitespace_pattern is not supported; llguidance has it")
        match spec.kind:
            case GrammarKind.JSON | GrammarKind.JSON_OBJECT:
                return compiler.compile_json_schema(
                    _checked(source or '{"type": "object"}'),
                    any_whitespace=spec.any_whitespace,
                    max_whitespace_cnt=_MOST_WHITESPACE,
                )
            case GrammarKind.REGEX:
                return compiler.compile_regex(source)
            case GrammarKind.CHOICE:
                return compiler.compile_grammar(choices(source))
            case GrammarKind.GRAMMAR if "::=" in source:
                return compiler.compile_grammar(source)
            case GrammarKind.GRAMMAR:
                return compiler.compile_lark(source)
            case GrammarKind.STRUCTURAL_TAG:
                check_tag(json.loads(source))
                return compiler.compile_structural_tag(modern_tag(source))

    def matcher(self, data: bytes, stop_token_ids: Sequence[int]) -> GrammarMatcher:
        inner = self._library.GrammarMatcher(
            self._grammar(data), override_stop_tokens=list(stop_token_ids)
        )
        long_tokens = self._long_tokens
        if not long_tokens.keys().isdisjoint(stop_token_ids):
            long_tokens = {
                token_id: text
                for token_id, text in long_tokens.items()
                if token_id not in stop_token_ids
            }
        spelling = self._spelling if data[1:_HEAD_BYTES] == _FORCED else None
        matcher = XGrammarMatcher(inner, long_tokens, spelling)
        if data.startswith(_JSON):
            return JsonTextMatcher(matcher, self._json_text)
        return matcher

    def _grammar(self, data: bytes) -> Any:
        """Reads a compiled grammar; those of the last requests are kept."""
        with self._lock:
            if (known := self._read.get(data)) is not None:
                self._read.move_to_end(data)
                return known
        read = self._library.CompiledGrammar.deserialize_json(
            data[_HEAD_BYTES:].decode(), self._info
        )
        with self._lock:
            if data not in self._read:
                self._read[data] = read
                self._read_bytes += _size(data, read)
            while self._read_bytes > _KEPT_BYTES and len(self._read) > 1:
                self._read_bytes -= _size(*self._read.popitem(last=False))
        return read


class XGrammarMatcher:
    """A `GrammarMatcher`.

    In ambiguous grammars each character takes more time than the one before it, and
    nothing interrupts the library. Long tokens are therefore accepted in pieces.
    """

    def __init__(
        self,
        inner: Any,
        long_tokens: Mapping[int, bytes],
        spelling: LongestTokens | None,
    ) -> None:
        """Follows a grammar.

        Args:
            inner: The library's matcher.
            long_tokens: Bytes of the tokens that are accepted in pieces; stop tokens,
                whose text means nothing, are not among them.
            spelling: Spells what is forced; None if that may have no end.
        """
        self._inner = inner
        self._long_tokens = long_tokens
        self._spelling = spelling
        self._pieces: list[int] = []

    def fill(self, mask: npt.NDArray[np.int32]) -> None:
        if not self._inner.fill_next_token_bitmask(mask.reshape(1, -1)):
            mask[:] = -1

    def accept(self, token_id: int) -> bool:
        if (text := self._long_tokens.get(token_id)) is not None:
            return self._accept_pieces(text)
        if not self._inner.accept_token(token_id):
            return False
        self._pieces.append(1)
        return True

    def _accept_pieces(self, text: bytes) -> bool:
        begun, accepted = time.thread_time_ns(), 0
        for start in range(0, len(text), _PIECE_BYTES):
            if time.thread_time_ns() - begun > _MOST_ACCEPT_NS:
                raise TimeoutError("a token takes too much processor time")
            if not self._inner.accept_string(text[start : start + _PIECE_BYTES]):
                if accepted:
                    self._inner.rollback(accepted)
                return False
            accepted += 1
        self._pieces.append(accepted)
        return True

    def rollback(self, count: int) -> None:
        pieces = sum(self._pieces[len(self._pieces) - count :])
        del self._pieces[len(self._pieces) - count :]
        self._inner.rollback(pieces)

    @property
    def is_terminated(self) -> bool:
        return bool(self._inner.is_terminated())

    def forced(self, most: int) -> list[int]:
        if self._spelling is None or self._inner.is_terminated():
            return []
        text: str = self._inner.find_jump_forward_string()
        return self._spelling.spell(text.encode(), most) if text else []


def _size(data: bytes, read: Any) -> int:
    """Returns the memory of a kept grammar, with the bytes that it was read from."""
    return len(data) + int(read.memory_size_bytes)


def _checked(source: str) -> str:
    """Returns a schema as xgrammar follows it; raises `ValueError` if it does not."""
    schema = json.loads(source)
    check_schema(schema)
    return json.dumps(schema) if formats_as_patterns(schema) else source
