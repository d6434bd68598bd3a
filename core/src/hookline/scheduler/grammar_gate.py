"""The readiness gate of requests whose grammar is being compiled."""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import msgspec

from hookline.config.structured_outputs import StructuredOutputsConfig
from hookline.finish_cause import Failed, FinishCause, Rejected
from hookline.request import Request, RequestStatus
from hookline.scheduler.readiness import Readiness
from hookline.stats import GrammarCompiling, GrammarStats
from hookline.structured.cache import GrammarCache, Outcome
from hookline.structured.grammar_service import Ended
from hookline.structured_outputs import (
    REFUSED,
    CompiledGrammar,
    GrammarSpec,
    StructuredOutputsParams,
)


class Grammars(Protocol):
    """Compiles grammars in the background: a `GrammarService`."""

    def begin(self, key: bytes, spec: GrammarSpec, client: str) -> None:
        """Queues a grammar that is not under way; `take_ended` returns it."""

    def drop(self, key: bytes) -> bool:
        """Takes a grammar back; returns False if it is being compiled already."""

    def take_ended(self) -> Sequence[Ended]:
        """Returns the grammars whose compiling has ended since the last call."""

    def close(self) -> None:
        """Ends whatever compiles."""


class GrammarGate:
    """A `ReadinessGate`: open for requests with a compiled grammar, or without any.

    Requests with the same grammar wait for it together. What has been compiled, or
    refused, is kept for later requests.
    """

    status = RequestStatus.WAITING_FOR_GRAMMAR
    timeout_ns = None
    """Each grammar has its own deadline."""

    def __init__(self, grammars: Grammars, config: StructuredOutputsConfig) -> None:
        self._grammars = grammars
        self._config = config
        self._cache = GrammarCache(config.cache_size)
        self._waiting: dict[bytes, dict[int, Request]] = {}
        self._known: list[Readiness] = []
        self._hits = self._misses = 0
        self._compilings: list[GrammarCompiling] = []
        self._num_ended: Counter[str] = Counter()

    def is_open(self, request: Request) -> bool:
        """Returns whether the request's grammar is there; has it compiled if not."""
        params = request.params.structured_outputs
        if params is None or request.grammar is not None:
            return True
        spec = self._spec(params)
        key = spec.key
        outcome = self._cache.get(key)
        self._hits += outcome is not None
        self._misses += outcome is None
        if isinstance(outcome, CompiledGrammar):
            request.grammar = outcome
            return True
        if outcome is not None:
            self._known.append(Readiness(request, _refusal(outcome)))
            return False
        if key not in self._waiting:
            self._grammars.begin(key, spec, request.facts.tenant or "")
        self._waiting.setdefault(key, {})[request.request_id] = request
        return False

    def take_ready(self) -> Sequence[Readiness]:
        """Returns requests whose grammar has been compiled, or cannot be."""
        found, self._known = self._known, []
        for ended in self._grammars.take_ended():
            waiting = self._waiting.pop(ended.key, {})
            self._num_ended[ended.word] += 1
            self._compilings.append(GrammarCompiling(ended.seconds))
            if not ended.is_broken:
                self._cache.put(ended.key, ended.outcome)
            for request in waiting.values():
                found.append(Readiness(request, _take(request, ended)))
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

    @property
    def grammar_stats(self) -> GrammarStats:
        """Totals since the engine's start."""
        return GrammarStats(
            self._hits,
            self._misses,
            dict(self._num_ended),
            self._cache.num_bytes,
        )

    def take_compilings(self) -> list[GrammarCompiling]:
        """Returns what was compiled since the last call."""
        taken, self._compilings = self._compilings, []
        return taken

    def close(self) -> None:
        """Ends the compiling of grammars."""
        self._grammars.close()

    def _spec(self, params: StructuredOutputsParams) -> GrammarSpec:
        """Returns what to compile; the configuration may be stricter than a request."""
        spec, config = params.spec, self._config
        return msgspec.structs.replace(
            spec,
            any_whitespace=spec.any_whitespace and not config.disable_any_whitespace,
            additional_properties=spec.additional_properties
            and not config.disable_additional_properties,
        )


def _take(request: Request, ended: Ended) -> FinishCause | None:
    """Gives a request its grammar; returns why it ends if there is none."""
    if isinstance(ended.outcome, CompiledGrammar):
        request.grammar = ended.outcome
        return None
    return Failed(ended.outcome) if ended.is_broken else _refusal(ended.outcome)


def _refusal(outcome: Outcome) -> Rejected:
    assert isinstance(outcome, str)
    return Rejected(kind=REFUSED, message=outcome)
