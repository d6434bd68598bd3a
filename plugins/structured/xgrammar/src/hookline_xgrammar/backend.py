"""Compiles grammars by xgrammar, and matches outputs with them."""

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hookline.json_options import refuse_unknown
from hookline.structured.backend import BackendContext, RefusedGrammarError
from hookline.structured.spelling import LongestTokens
from hookline.structured_outputs import GrammarKind, GrammarSpec
from hookline_xgrammar.grammar_text import choices, modern_tag
from hookline_xgrammar.light_import import import_xgrammar
from hookline_xgrammar.schema_check import check_schema, check_tag

_MOST_WHITESPACE = 32
"""Characters between two of JSON's tokens: enough to indent eight levels by four."""
_KEPT_BYTES = 64 * 2**20
"""Of compiled grammars, as bytes, that are kept ready for further requests."""
_JSON, _TEXT = b"J", b"T"
"""First byte of a compiled grammar: whether the whole text is JSON."""
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
        self._printable = _printable(context)
        self._spelling = LongestTokens(context.tokens)
        self._compiler: Any = None
        self._lock = threading.Lock()
        self._read: OrderedDict[bytes, Any] = OrderedDict()

    def compile(self, spec: GrammarSpec) -> bytes:
        if self._compiler is None:
            self._compiler = self._library.GrammarCompiler(
                self._info, max_threads=1, cache_enabled=False
            )
        try:
            text: str = self._compiled(spec).serialize_json()
        except MemoryError:
            raise
        except Exception as error:
            reason = _ORIGIN.sub("", str(error).strip()).strip()
            raise RefusedGrammarError(f"xgrammar: {reason}") from error
        is_json = spec.kind in {GrammarKind.JSON, GrammarKind.JSON_OBJECT}
        return (_JSON if is_json else _TEXT) + text.encode()

    def _compiled(self, spec: GrammarSpec) -> Any:
        compiler, source = self._compiler, spec.source
        if spec.whitespace_pattern is not None:
            raise ValueError("whitespace_pattern is not supported; llguidance has it")
        match spec.kind:
            case GrammarKind.JSON | GrammarKind.JSON_OBJECT:
                check_schema(json.loads(source or "{}"))
                return compiler.compile_json_schema(
                    source or '{"type": "object"}',
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

    def matcher(self, data: bytes, stop_token_ids: Sequence[int]) -> "XGrammarMatcher":
        inner = self._library.GrammarMatcher(
            self._grammar(data), override_stop_tokens=list(stop_token_ids)
        )
        kept = self._printable if data.startswith(_JSON) else None
        return XGrammarMatcher(inner, kept, self._spelling)

    def _grammar(self, data: bytes) -> Any:
        """Reads a compiled grammar; those of the last requests are kept."""
        with self._lock:
            if (known := self._read.get(data)) is not None:
                self._read.move_to_end(data)
                return known
        read = self._library.CompiledGrammar.deserialize_json(
            data[1:].decode(), self._info
        )
        with self._lock:
            self._read[data] = read
            while sum(map(len, self._read)) > _KEPT_BYTES and len(self._read) > 1:
                self._read.popitem(last=False)
        return read


class XGrammarMatcher:
    """A `GrammarMatcher`."""

    def __init__(
        self,
        inner: Any,
        kept: npt.NDArray[np.int32] | None,
        spelling: LongestTokens,
    ) -> None:
        """Follows a grammar; `kept` is a mask of tokens that may occur, if not all."""
        self._inner = inner
        self._kept = kept
        self._spelling = spelling

    def fill(self, mask: npt.NDArray[np.int32]) -> None:
        if not self._inner.fill_next_token_bitmask(mask.reshape(1, -1)):
            mask[:] = -1
        if self._kept is not None:
            mask &= self._kept

    def accept(self, token_id: int) -> bool:
        return bool(self._inner.accept_token(token_id))

    def rollback(self, count: int) -> None:
        self._inner.rollback(count)

    @property
    def is_terminated(self) -> bool:
        return bool(self._inner.is_terminated())

    def forced(self, most: int) -> list[int]:
        if self._inner.is_terminated():
            return []
        text: str = self._inner.find_jump_forward_string()
        return self._spelling.spell(text.encode(), most) if text else []


def _printable(context: BackendContext) -> npt.NDArray[np.int32]:
    """Returns a mask without tokens that have control characters but line feeds.

    JSON never needs them, and xgrammar allows them in strings of limited length, where
    they are errors.
    """
    is_kept = np.ones(32 * -(-context.vocab_size // 32), np.bool_)
    for token_id, token in enumerate(context.tokens):
        is_kept[token_id] = not any(byte < 32 and byte != 10 for byte in token)
    return np.packbits(is_kept, bitorder="little").view(np.int32)
