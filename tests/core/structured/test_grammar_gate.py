"""Requests wait for their grammars aside, together, and delay nobody."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from hookline import SamplingParams, StructuredOutputsParams
from hookline.config import EngineConfig
from hookline.engine.scheduler.readiness import Readiness
from hookline.finish_cause import Failed, Rejected
from hookline.request import GenerateRequest, Request
from hookline_grammars.cache import GrammarCache
from hookline_grammars.compiled import CompiledGrammar
from hookline_grammars.config import StructuredOutputsConfig
from hookline_grammars.gate import GrammarGate
from hookline_grammars.grammar_service import Ended
from hookline_grammars.spec import GrammarSpec, spec_of
from hookline_processes.fair_queue import Client


@dataclass
class ScriptedGrammars:
    """Compiles when told."""

    begun: list[bytes] = field(default_factory=list)
    dropped: list[bytes] = field(default_factory=list)
    is_compiling: bool = False
    is_closed: bool = False
    _ended: list[Ended] = field(default_factory=list)

    def begin(self, key: bytes, spec: GrammarSpec, client: Client) -> None:
        assert spec.key == key
        assert client == ("", "")
        self.begun.append(key)

    def drop(self, key: bytes) -> bool:
        self.dropped.append(key)
        return not self.is_compiling

    def take_ended(self) -> Sequence[Ended]:
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        self.is_closed = True

    def end(self, key: bytes, reason: str = "", *, is_broken: bool = False) -> None:
        outcome = reason or CompiledGrammar(key, b"compiled")
        self._ended.append(Ended(key, outcome, 0.5, is_broken))


def request(number: int, **fields: Any) -> Request:
    structured = StructuredOutputsParams(**fields) if fields else None
    inner = GenerateRequest(
        request_id=number,
        prompt_token_ids=[1],
        params=SamplingParams(structured_outputs=structured),
    )
    return Request(inner, sequence=number, queued_at=0, max_tokens=4)


def gate_of(grammars: ScriptedGrammars, **options: Any) -> GrammarGate:
    return GrammarGate(grammars, StructuredOutputsConfig(**options))


def test_requests_with_one_grammar_wait_for_it_together() -> None:
    """
    It is compiled once; later requests need not wait.
    """
    grammars = ScriptedGrammars()
    gate = gate_of(grammars)
    first, second = request(2, regex="a"), request(3, regex="a")

    assert gate.param == "structured_outputs"  # it is not asked for other requests
    assert not gate.is_open(first)
    assert not gate.is_open(second)
    assert gate.take_ready() == []
    [key] = grammars.begun
    grammars.end(key)
    ready = gate.take_ready()

    assert [each.request for each in ready] == [first, second]
    assert all(each.cause is None for each in ready)
    assert gate.is_open(first)
    assert gate.is_open(later := request(4, regex="a"))
    compiled = {"grammars": CompiledGrammar(key, b"compiled")}
    assert later.sections == first.sections == compiled
    assert grammars.begun == [key]


def test_a_refused_grammar_rejects_its_requests_also_later() -> None:
    """
    What does not compile is not compiled again.
    """
    grammars = ScriptedGrammars()
    gate = gate_of(grammars)
    first, second = request(1, regex="("), request(2, regex="(")

    assert not gate.is_open(first)
    grammars.end(grammars.begun[0], "it is open")
    [ready] = gate.take_ready()
    assert ready.cause == Rejected(kind="invalid_grammar", message="it is open")
    assert not gate.is_open(second)

    assert gate.take_ready() == [Readiness(second, ready.cause)]
    assert len(grammars.begun) == 1


def test_a_broken_backend_is_no_fault_of_the_grammar() -> None:
    """
    Its requests fail, and the next one tries again.
    """
    grammars = ScriptedGrammars()
    gate = gate_of(grammars)

    assert not gate.is_open(request(1, regex="a"))
    grammars.end(grammars.begun[0], "it is broken", is_broken=True)
    [ready] = gate.take_ready()
    assert not gate.is_open(request(2, regex="a"))

    assert ready.cause == Failed("it is broken")
    assert len(grammars.begun) == 2


@pytest.mark.parametrize("is_compiling", [False, True])
def test_a_grammar_that_nobody_waits_for_is_dropped(is_compiling: bool) -> None:
    """
    Unless it is being compiled already: then it is kept for later.
    """
    grammars = ScriptedGrammars(is_compiling=is_compiling)
    gate = gate_of(grammars)
    first, second = request(1, regex="a"), request(2, regex="a")
    gate.is_open(first)
    gate.is_open(second)

    gate.cancel(first)
    assert grammars.dropped == []
    gate.cancel(second)
    assert grammars.dropped == grammars.begun
    gate.is_open(request(3, regex="a"))

    assert len(grammars.begun) == (1 if is_compiling else 2)


def test_the_configuration_can_be_stricter_than_a_request() -> None:
    """
    It forbids whitespace for all, and what differs in nothing else is one grammar.
    """
    grammars = ScriptedGrammars()
    gate = gate_of(grammars, disable_any_whitespace=True)

    gate.is_open(request(1, json={}))
    gate.is_open(request(2, json={}, disable_any_whitespace=True))
    strict = StructuredOutputsParams(json={}, disable_any_whitespace=True)

    assert grammars.begun == [spec_of(strict).key]


def test_the_cache_keeps_what_was_used_last_within_its_bytes() -> None:
    """
    It neither grows nor takes what is larger than itself.
    """
    cache = GrammarCache(2000)
    grammars = [CompiledGrammar(bytes([each]), b"x" * 600) for each in range(3)]
    for grammar in grammars[:2]:
        cache.put(grammar.key, grammar)

    assert cache.get(grammars[0].key) is grammars[0]
    cache.put(grammars[2].key, grammars[2])
    cache.put(b"large", CompiledGrammar(b"large", b"x" * 3000))

    assert cache.get(grammars[1].key) is None
    assert cache.get(grammars[0].key) is grammars[0]
    assert cache.get(b"large") is None
    assert cache.num_bytes <= 2000


def test_options_are_checked() -> None:
    """
    Sizes may have units, and a wrong key names the known ones.
    """
    config = EngineConfig.from_options(
        structured_outputs_config={"backend": "none", "cache_size": "1MiB"}
    )

    read = StructuredOutputsConfig.from_mapping
    assert read(config.structured_outputs).cache_size == 2**20
    for wrong in ({"backen": "x"}, {"backend": ""}, {"compile_seconds": 0}):
        with pytest.raises(Exception, match="structured-outputs-config"):
            read(wrong)
