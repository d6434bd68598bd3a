"""The readiness gate of requests whose grammar is being compiled."""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import msgspec

from hookline.engine.scheduler.extension_port import SchedulerPort
from hookline.engine.scheduler.readiness import Readiness
from hookline.finish_cause import Failed, FinishCause, Rejected
from hookline.frozen import frozen_map
from hookline.request import Request
from hookline.structured_outputs import PARAM, STRUCTURED_OUTPUTS
from hookline_grammars.cache import GrammarCache, Outcome
from hookline_grammars.compiled import GRAMMAR, CompiledGrammar
from hookline_grammars.config import StructuredOutputsConfig
from hookline_grammars.grammar_service import Ended
from hookline_grammars.spec import REFUSED, GrammarSpec, spec_of
from hookline_metrics.grammars import GrammarCompiling, GrammarNews, GrammarStats
from hookline_processes.fair_queue import Client


class Grammars(Protocol):
    """Compiles grammars in the background: a `GrammarService`."""

    def begin(self, key: bytes, spec: GrammarSpec, client: Client) -> None:
        """Queues a grammar that is not under way; `take_ended` returns it."""

    def drop(self, key: bytes) -> bool:
        """Takes a grammar back; returns False if it is being compiled already."""

    def take_ended(self) -> Sequence[Ended]:
        """Returns the grammars whose compiling has ended since the last call."""

    def close(self) -> None:
        """Ends whatever compiles."""


class GrammarGate:
    """A `ReadinessGate`: open for requests with a compiled grammar.

    Requests with the same grammar wait for it together. What has been compiled, or
    refused, is kept for later requests.

    Attributes:
        is_pending: Whether a grammar is being compiled.
    """

    name = "grammar"
    param = PARAM
    timeout_ns = None
    """Each grammar has its own deadline."""

    def __init__(self, grammars: Grammars, config: StructuredOutputsConfig) -> None:
        self._grammars = grammars
        self._config = config
        self._cache = GrammarCache(config.cache_size)
        self._waiting: dict[bytes, dict[int, Request]] = {}
        self._known: list[Readiness] = []
        self.is_pending = False
        self._hits = self._misses = 0
        self._port: SchedulerPort | None = None
        self._num_ended: Counter[str] = Counter()

    def start(self, port: SchedulerPort) -> None:
        """Begins to report what happens to grammars."""
        self._port = port
        self._report()

    def is_open(self, request: Request) -> bool:
        """Returns whether the request's grammar is there; has it compiled if not."""
        if GRAMMAR.name in request.sections:
            return True
        params = request.params.structured_outputs
        assert params is not None, "the gate is not asked for others"
        spec = self._spec(params)
        key = spec.key
        outcome = self._cache.get(key)
        self._hits += outcome is not None
        self._misses += outcome is None
        self._report()
        if isinstance(outcome, CompiledGrammar):
            _give(request, outcome)
            return True
        if outcome is not None:
            self._known.append(Readiness(request, _refusal(outcome)))
            return False
        if key not in self._waiting:
            self._grammars.begin(key, spec, request.facts.client)
        self._waiting.setdefault(key, {})[request.request_id] = request
        self.is_pending = True
        return False

    def take_ready(self) -> Sequence[Readiness]:
        """Returns requests whose grammar has been compiled, or cannot be."""
        found, self._known = self._known, []
        if not self.is_pending:
            return found
        for ended in self._grammars.take_ended():
            waiting = self._waiting.pop(ended.key, {})
            self._num_ended[ended.word] += 1
            if not ended.is_broken:
                self._cache.put(ended.key, ended.outcome)
            self._report(GrammarCompiling(ended.seconds))
            for request in waiting.values():
                found.append(Readiness(request, _take(request, ended)))
        self.is_pending = bool(self._waiting)
        return found

    def cancel(self, request: Request) -> None:
        """Drops the grammar of a request that ends, if no other one waits for it."""
        params = request.params.structured_outputs
        assert params is not None, "others never wait here"
        key = self._spec(params).key
        if (waiting := self._waiting.get(key)) is None:
            return
        waiting.pop(request.request_id, None)
        if not waiting and self._grammars.drop(key):
            del self._waiting[key]
            self.is_pending = bool(self._waiting)

    def close(self) -> None:
        """Ends the compiling of grammars."""
        self._grammars.close()

    def _report(self, compiling: GrammarCompiling | None = None) -> None:
        """Tells observers the totals since the engine's start, and what has ended."""
        if self._port is None:
            return
        ended = frozen_map(dict(self._num_ended))
        stats = GrammarStats(self._hits, self._misses, ended, self._cache.num_bytes)
        self._port.report(stats)
        if compiling is not None:
            self._port.news(GrammarNews).compilings.append(compiling)

    def _spec(self, params: object) -> GrammarSpec:
        """Returns what to compile; the configuration may be stricter than a request."""
        spec, config = spec_of(STRUCTURED_OUTPUTS.typed(params)), self._config
        return msgspec.structs.replace(
            spec,
            any_whitespace=spec.any_whitespace and not config.disable_any_whitespace,
            additional_properties=spec.additional_properties
            and not config.disable_additional_properties,
        )


def _take(request: Request, ended: Ended) -> FinishCause | None:
    """Gives a request its grammar; returns why it ends if there is none."""
    if isinstance(ended.outcome, CompiledGrammar):
        _give(request, ended.outcome)
        return None
    return Failed(ended.outcome) if ended.is_broken else _refusal(ended.outcome)


def _give(request: Request, grammar: CompiledGrammar) -> None:
    """Gives a request its grammar, which goes to the workers with it."""
    request.sections = {**request.sections, GRAMMAR.name: grammar}


def _refusal(outcome: Outcome) -> Rejected:
    assert isinstance(outcome, str)
    return Rejected(kind=REFUSED, message=outcome)
