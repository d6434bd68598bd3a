"""What compiles schemas in schema_coverage.py, and what judges the outputs."""

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import numpy as np
from coverage_schemas import Case
from llguidance import LLMatcher

from hookline import StructuredOutputsParams
from hookline.tokenizer import Tokenizer
from hookline_grammars.backend import BackendContext, GrammarMatcher
from hookline_grammars.compiling_process import CompileLimits, CompilingProcess
from hookline_grammars.config import StructuredOutputsConfig
from hookline_grammars.loading import chosen_backends, make_backend
from hookline_grammars.messages import Compiled, Refused, Setup
from hookline_grammars.spec import spec_of
from hookline_grammars.spelling import LongestTokens
from hookline_grammars.vocabulary import token_bytes
from hookline_llguidance import LLGuidanceBackend
from hookline_llguidance.backend import LLGuidanceMatcher
from hookline_registry import Failure, isolate
from hookline_xgrammar import XGrammarBackend
from hookline_xgrammar.matcher import XGrammarMatcher

Make = Callable[[], GrammarMatcher]
WALKS = 3
MOST_TOKENS = 120
CALM = 40
"""Tokens after which a walk ends strings, objects and arrays where it can."""
_CLOSING = (b'"', b"}", b"]", b'"}', b'"]', b"0", b"1", b"null")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What has become of one schema on one side.

    Attributes:
        seconds: How long it took to compile; None if it was refused.
        wrong: An output that the grammar allows, and the schema does not.
    """

    seconds: float | None
    wrong: str | None = None


def context_of(model: Path) -> BackendContext:
    """Returns a model's vocabulary for backends."""
    tokenizer = Tokenizer.load(model)
    config = json.loads((model / "config.json").read_text())
    size, eos = config["vocab_size"], config["eos_token_id"]
    return BackendContext(
        tokens=token_bytes(tokenizer, size),
        vocab_size=size,
        eos_token_ids=tuple(eos) if isinstance(eos, list) else (eos,),
        options={},
    )


def compiling_process(
    names: tuple[str, ...], context: BackendContext
) -> CompilingProcess:
    """Starts the process in which a server of default options compiles grammars."""
    own = StructuredOutputsConfig()
    setup = Setup(
        names, {}, [*context.tokens], context.vocab_size, (*context.eos_token_ids,)
    )
    limits = CompileLimits(
        cpu_seconds=own.compile_seconds, memory_bytes=own.compile_memory
    )
    with tempfile.TemporaryFile() as file:
        file.write(msgspec.msgpack.encode(setup))
        file.flush()
        process = CompilingProcess(file.fileno(), limits)
        if problem := process.wait_until_ready():
            raise RuntimeError(problem)
    return process


class Sides:
    """All sides for one vocabulary; the libraries compile in this process."""

    def __init__(self, context: BackendContext) -> None:
        self._context = context
        self._stops = context.eos_token_ids
        self._spelling = LongestTokens(context.tokens)
        names = chosen_backends("auto")
        self._ours = [make_backend(name, context) for name in names]
        self._process = compiling_process(names, context)
        self._xgrammar: Any = XGrammarBackend(context)
        self._llguidance: Any = LLGuidanceBackend(context)
        self.by_name: Mapping[str, Callable[[Case], Make]] = {
            "hookline": self._hookline,
            "xgrammar": self._plain_xgrammar,
            "llguidance": self._plain_llguidance,
        }
        self._closing = [
            token_id
            for token_id, token in enumerate(context.tokens)
            if token in _CLOSING
        ]

    def compile(self, side: str, case: Case) -> tuple[Make | None, float | None]:
        """Compiles a schema; returns what makes its matchers, and the seconds.

        Both are None if it is refused, in whatever words.
        """
        begun = time.perf_counter()
        make = isolate(self.by_name[side], case)
        if isinstance(make, Failure):
            return None, None
        return make, time.perf_counter() - begun

    def wrong(self, make: Make, case: Case) -> str | None:
        """Returns an output that the grammar allows and that is not an instance."""
        newest = jsonschema.Draft202012Validator
        validator = jsonschema.validators.validator_for(case.schema, default=newest)
        is_valid = validator(case.schema).is_valid
        for value in case.values:
            text = json.dumps(value, ensure_ascii=False)
            if not _valid(is_valid, text) and self._takes(make(), text):
                return text
        generator = np.random.default_rng(0)
        for _ in range(WALKS):
            found = self._walk(make(), generator)
            if found is not None and not _valid(is_valid, found):
                return found
        return None

    def _hookline(self, case: Case) -> Make:
        spec = spec_of(StructuredOutputsParams(json=case.schema))
        match self._process.compile(spec):
            case Refused(reason):
                raise ValueError(reason)
            case Compiled(data, _, index):
                return lambda: self._ours[index].matcher(data, self._stops)

    def _plain_xgrammar(self, case: Case) -> Make:
        """The library as it is, without the checks of Hookline's backend."""
        library = self._xgrammar._library  # noqa: SLF001 - the same, without checks
        compiler = library.GrammarCompiler(
            self._xgrammar._info,  # noqa: SLF001
            max_threads=1,
            cache_enabled=False,
        )
        grammar = compiler.compile_json_schema(json.dumps(case.schema))
        stops = list(self._stops)
        vocabulary = replace(self._xgrammar._vocabulary, long_tokens={})  # noqa: SLF001

        def make() -> GrammarMatcher:
            inner = library.GrammarMatcher(grammar, override_stop_tokens=stops)
            return XGrammarMatcher(inner, vocabulary, stops, may_force=False)

        return make

    def _plain_llguidance(self, case: Case) -> Make:
        text = LLMatcher.grammar_from_json_schema(case.schema)

        def make() -> GrammarMatcher:
            inner = self._llguidance._made(text)  # noqa: SLF001
            if problem := inner.get_error():
                raise ValueError(problem)
            return LLGuidanceMatcher(
                inner,
                self._context.vocab_size,
                self._stops,
                self._spelling,
                lambda: None,
            )

        make()
        return make

    def _takes(self, matcher: GrammarMatcher, text: str) -> bool:
        spelled = self._spelling.spell(text.encode("utf-8", "replace"), len(text) * 4)
        return all(map(matcher.accept, [*spelled, self._stops[0]]))

    def _walk(
        self, matcher: GrammarMatcher, generator: np.random.Generator
    ) -> str | None:
        """Returns a random output; None if it has not ended in time."""
        size = self._context.vocab_size
        mask = np.zeros(-(-size // 32), np.int32)
        written = b""
        for at in range(MOST_TOKENS):
            mask[:] = 0
            matcher.fill(mask)
            bits = np.unpackbits(mask.view(np.uint8), count=size, bitorder="little")
            allowed = np.flatnonzero(bits)
            others = np.setdiff1d(allowed, self._stops)
            may_end = len(others) < len(allowed)
            if may_end and (not len(others) or at > CALM or generator.random() < 0.3):
                return written.decode("utf-8", "replace")
            if at > CALM and len(closing := np.intersect1d(others, self._closing)):
                others = closing
            if not len(others):
                return None
            token_id = int(generator.choice(others))
            if not matcher.accept(token_id):
                return None
            written += self._context.tokens[token_id]
        return None


def _valid(is_valid: Callable[[object], bool], text: str) -> bool:
    try:
        value = json.loads(text)
    except ValueError:
        return False
    verdict = isolate(is_valid, value)
    # The judge cannot read some schemas, nor resolve some references.
    return True if isinstance(verdict, Failure) else verdict
