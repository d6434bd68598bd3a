"""Compiles grammars by xgrammar, and makes matchers of them."""

import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from hookline.config.checks import refuse_unknown
from hookline.structured_outputs import GrammarKind
from hookline_grammars.backend import (
    BackendContext,
    GrammarMatcher,
    RefusedGrammarError,
)
from hookline_grammars.json_schemas import formats_as_patterns, most_space
from hookline_grammars.json_text import JsonText, JsonTextMatcher
from hookline_grammars.pattern_parts import without_line_ends
from hookline_grammars.spec import GrammarSpec
from hookline_xgrammar import forced_length
from hookline_xgrammar.grammar_text import choices, modern_tag
from hookline_xgrammar.library_warnings import warnings_into
from hookline_xgrammar.light_import import import_xgrammar
from hookline_xgrammar.matcher import Vocabulary, XGrammarMatcher
from hookline_xgrammar.schema_check import check_schema, check_tag

_KEPT_BYTES = 256 * 2**20
"""Memory of compiled grammars that are kept ready for further requests.

To make one takes milliseconds, which a step would have to wait for.
"""
_QUICK_SECONDS = 0.03
"""A grammar that compiles in this time is compiled again by the engine.

A compiled grammar is a hundred times as long as what it was compiled from. To write and
read it takes longer than to compile it, except where compiling is very slow.
"""
_ANY_OBJECT = '{"type": "object"}'
_JSON, _TEXT = b"J", b"T"
"""First byte of a compiled grammar: whether the whole text is JSON."""
_FORCED, _FREE = b"F", b"N"
"""Its second byte: whether the matcher may be asked for what is forced."""
_RULES, _COMPILED = b"R", b"C"
"""Its third byte: whether rules follow, which compile quickly, or all of it."""
_HEAD_BYTES = 3
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
        self._vocabulary = Vocabulary.of(context.tokens, self._library)
        self._compiler = self._library.GrammarCompiler(
            self._info, max_threads=1, cache_enabled=False
        )
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        self._kept_bytes = 0

    def compile(self, spec: GrammarSpec) -> bytes:
        warnings: list[str] = []
        try:
            with warnings_into(warnings):
                rules = self._rules(spec)
                begun = time.thread_time()
                compiled = self._compiler.compile_grammar(rules)
                is_quick = time.thread_time() - begun < _QUICK_SECONDS
                text: str = rules.serialize_json()
                is_bounded = forced_length.is_bounded(text)
                if not is_quick:
                    text = compiled.serialize_json()
        except MemoryError:
            raise
        except Exception as error:
            reason = _ORIGIN.sub("", str(error).strip()).strip()
            raise RefusedGrammarError(f"xgrammar: {reason}") from error
        if warnings:  # it has left something out
            raise RefusedGrammarError(f"xgrammar: {warnings[0]}")
        head = _JSON if spec.kind.is_json else _TEXT
        head += _FORCED if is_bounded else _FREE
        data = head + (_RULES if is_quick else _COMPILED) + text.encode()
        self._keep(data, compiled)  # to be tried next
        return data

    def _rules(self, spec: GrammarSpec) -> Any:
        """Returns the library's grammar of a specification, not compiled."""
        grammar, source = self._library.Grammar, spec.source
        if spec.whitespace_pattern is not None:
            raise ValueError("whitespace_pattern is not supported; llguidance has it")
        match spec.kind:
            case GrammarKind.JSON | GrammarKind.JSON_OBJECT:
                schema = json.loads(source or _ANY_OBJECT)
                return grammar.from_json_schema(
                    _checked(source or _ANY_OBJECT),
                    any_whitespace=spec.any_whitespace,
                    max_whitespace_cnt=most_space(schema),
                )
            case GrammarKind.REGEX:
                return grammar.from_regex(without_line_ends(source))
            case GrammarKind.CHOICE:
                return grammar.from_ebnf(choices(source))
            case GrammarKind.GRAMMAR if "::=" in source:
                return grammar.from_ebnf(source)
            case GrammarKind.GRAMMAR:
                return grammar.from_lark(source, tokenizer_info=self._info)
            case GrammarKind.STRUCTURAL_TAG:
                check_tag(json.loads(source))
                return grammar.from_structural_tag(modern_tag(source))

    def matcher(self, data: bytes, stop_token_ids: Sequence[int]) -> GrammarMatcher:
        inner = self._library.GrammarMatcher(
            self._grammar(data), override_stop_tokens=list(stop_token_ids)
        )
        matcher = XGrammarMatcher(
            inner,
            self._vocabulary,
            stop_token_ids,
            may_force=data[1:2] == _FORCED,
        )
        if data.startswith(_JSON):
            return JsonTextMatcher(matcher, self._json_text)
        return matcher

    def _grammar(self, data: bytes) -> Any:
        """Returns a compiled grammar; those of the last requests are kept."""
        with self._lock:
            if (known := self._kept.get(data)) is not None:
                self._kept.move_to_end(data)
                return known
        made = self._made(data)
        self._keep(data, made)
        return made

    def _made(self, data: bytes) -> Any:
        text = data[_HEAD_BYTES:].decode()
        if data[2:3] == _COMPILED:
            return self._library.CompiledGrammar.deserialize_json(text, self._info)
        rules = self._library.Grammar.deserialize_json(text)
        return self._compiler.compile_grammar(rules)

    def _keep(self, data: bytes, made: Any) -> None:
        with self._lock:
            if data not in self._kept:
                self._kept[data] = made
                self._kept_bytes += _size(data, made)
            while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
                self._kept_bytes -= _size(*self._kept.popitem(last=False))


def _size(data: bytes, made: Any) -> int:
    """Returns the memory of a kept grammar, with the bytes that it was made from."""
    return len(data) + int(made.memory_size_bytes)


def _checked(source: str) -> str:
    """Returns a schema as xgrammar follows it; raises `ValueError` if it does not."""
    schema = json.loads(source)
    check_schema(schema)
    return json.dumps(schema) if formats_as_patterns(schema) else source
