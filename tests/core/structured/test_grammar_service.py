"""The service that has grammars compiled: with scripted backends, in real processes."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hookline.structured_outputs import GrammarKind
from hookline_grammars import compiling_process
from hookline_grammars.compiled import CompiledGrammar
from hookline_grammars.compiling_process import CompileLimits
from hookline_grammars.grammar_service import Ended, GrammarService
from hookline_grammars.settings import GrammarSettings
from hookline_grammars.spec import GrammarSpec
from hookline_testing.byte_tokenizer import save_byte_tokenizer
from hookline_testing.plugin_site import PluginSite

GROUP = "hookline.structured_output_backends"
BACKEND = """
import os
import numpy as np
from hookline_grammars.backend import RefusedGrammarError

IMPORTED_BY = os.getpid()


class Matcher:
    is_terminated = False

    def fill(self, mask):
        mask[:] = -1

    def accept(self, token_id):
        return True


class Backend:
    def __init__(self, context):
        assert context.tokens[65] == b"A"
        if context.options:
            raise ValueError("it wants no options")

    def compile(self, spec):
        if spec.source.startswith("loop"):
            while True:
                pass
        if spec.source == "end":
            os._exit(3)
        if spec.source == "memory":
            bytearray(2**40)
        if spec.source.startswith("other"):
            raise RefusedGrammarError("not by this one")
        if "uniqueItems" in spec.source:
            raise RefusedGrammarError("it has uniqueItems")
        if spec.source == "wrong":
            raise ValueError("it is wrong")
        return f"{os.getpid()} {IMPORTED_BY} {spec.source}".encode()

    def matcher(self, data, stop_token_ids):
        return Matcher()
"""

OTHER = """
from hookline_grammars.backend import RefusedGrammarError


class Matcher:
    is_terminated = False

    def fill(self, mask):
        mask[:] = 1

    def accept(self, token_id):
        return token_id % 32 == 0


class Other:
    def __init__(self, context):
        pass

    def compile(self, spec):
        if spec.source == "nothing":
            return b"nothing"
        if spec.source == "others":
            raise RefusedGrammarError("nor by that one")
        return b"other"

    def matcher(self, data, stop_token_ids):
        return Matcher()
"""


def spec_of(source: str) -> GrammarSpec:
    return GrammarSpec(GrammarKind.REGEX, source)


@pytest.fixture
def make_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., GrammarService]]:
    site, model = tmp_path / "site", tmp_path / "model"
    site.mkdir()
    save_byte_tokenizer(model)
    # for the compiling process
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    # so that only processor time counts, however busy this machine is
    monkeypatch.setattr(compiling_process, "_SLOWEST", 1000.0)
    made: list[GrammarService] = []

    def make(*others: str, **options: object) -> GrammarService:
        settings = GrammarSettings(
            backends=("scripted", *others),
            options=options,
            tokenizer=model,
            vocab_size=300,
            eos_token_ids=(299,),
            limits=CompileLimits(cpu_seconds=0.5, memory_bytes=2**30),
        )
        made.append(GrammarService(settings))
        return made[-1]

    with PluginSite(site) as plugins:
        plugins.install("scripted", BACKEND, group=GROUP, attribute="Backend")
        plugins.install("other", OTHER, group=GROUP, attribute="Other")
        yield make
        for service in made:
            service.close()


def ended(service: GrammarService, count: int) -> list[Ended]:
    """The next grammars whose compiling ends."""
    found: list[Ended] = []
    while len(found) < count:
        found += service.take_ended()
        time.sleep(0.01)
    return found


def compile_all(service: GrammarService, *sources: str) -> list[Ended]:
    for source in sources:
        service.begin(spec_of(source).key, spec_of(source), ("", ""))
    return ended(service, len(sources))


def by_source(service: GrammarService, *sources: str) -> list[Ended]:
    """The ends in the order of their sources; slow grammars end last."""
    found = {each.key: each for each in compile_all(service, *sources)}
    return [found[spec_of(source).key] for source in sources]


def pid_of(end: Ended) -> int:
    assert isinstance(end.outcome, CompiledGrammar)
    return int(end.outcome.data.split()[0])


def imported_by(end: Ended) -> int:
    assert isinstance(end.outcome, CompiledGrammar)
    return int(end.outcome.data.split()[1])


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_one_process_compiles_until_the_service_is_closed(
    make_service: Callable[..., GrammarService],
) -> None:
    """
    It is another process than this one and than the one that imports the backend, and
    it ends with the service.
    """
    service = make_service()

    first, second = compile_all(service, "a", "b")

    assert pid_of(first) == pid_of(second) != imported_by(first) != os.getpid()
    assert [each.key for each in (first, second)] == [
        spec_of("a").key,
        spec_of("b").key,
    ]
    assert service.matcher(first.outcome, ()).accept(1)  # type: ignore[arg-type]
    service.close()
    assert not is_alive(pid_of(first))
    assert not is_alive(imported_by(first))


def test_a_grammar_is_loosened_where_it_may_be(
    make_service: Callable[..., GrammarService],
) -> None:
    """
    What is compiled then lacks only what the backend refuses of that part; it counts
    apart. A pointer to nothing changes nothing.
    """
    source = (
        '{"$defs": {"a": {"minItems": 1, "uniqueItems": true}, "b": {"maxItems": 2}}}'
    )
    specs = [
        GrammarSpec(GrammarKind.JSON, source, loose=loose)
        for loose in ((), ("/$defs/b",), ("/$defs/a", "/$defs/b"), ("/nothing",))
    ]
    service = make_service()
    for spec in specs:
        service.begin(spec.key, spec, ("", ""))

    found = {each.key: each for each in ended(service, len(specs))}

    words = [found[spec.key].word for spec in specs]
    assert words == ["refused", "refused", "loosened", "refused"]
    outcome = found[specs[2].key].outcome
    assert isinstance(outcome, CompiledGrammar)
    made = json.loads(outcome.data.decode().split(" ", 2)[2])
    assert made == {"$defs": {"a": {"minItems": 1}, "b": {"maxItems": 2}}}


def test_a_grammar_that_ends_its_process_is_refused_alone(
    make_service: Callable[..., GrammarService], caplog: pytest.LogCaptureFixture
) -> None:
    """
    By the limit of time or by itself, which is logged; what comes next gets a new fork
    of a process that has imported everything.
    """
    service = make_service()

    first, loop, crash, memory, wrong = by_source(
        service, "a", "loop", "end", "memory", "wrong"
    )
    [last] = compile_all(service, "b")

    assert loop.outcome == "compiling it takes more than 0.5 s of processor time"
    assert crash.outcome == "it ends the process that compiles it"
    assert f"grammar compiler: crashed: {crash.outcome}" in caplog.text
    assert memory.outcome == "compiling it takes too much memory"
    assert wrong.outcome == "ValueError: it is wrong"
    words = [each.word for each in (first, loop, crash, memory, wrong, last)]
    assert words == ["compiled", "limit", "limit", "limit", "refused", "compiled"]
    assert not is_alive(pid_of(first))
    assert is_alive(pid_of(last))
    assert imported_by(first) == imported_by(last)


def test_a_grammar_that_is_dropped_in_the_queue_is_not_compiled(
    make_service: Callable[..., GrammarService],
) -> None:
    """
    And one that is wanted again is compiled once.
    """
    service = make_service()
    for source in ("a", "b", "c"):
        service.begin(spec_of(source).key, spec_of(source), ("", ""))

    assert service.drop(spec_of("b").key)
    assert service.drop(spec_of("c").key)
    service.begin(spec_of("c").key, spec_of("c"), ("", ""))

    found = ended(service, 2)
    assert [each.key for each in found] == [spec_of("a").key, spec_of("c").key]
    assert not service.drop(spec_of("a").key)


def test_a_slow_grammar_waits_for_quick_ones(
    make_service: Callable[..., GrammarService],
) -> None:
    """
    Even of the same client, and although it came first: it is tried for a moment, and
    has its whole time when nothing else waits.
    """
    service = make_service()

    found = compile_all(service, "loop", "a", "loop more", "b")

    sources = ("a", "b", "loop", "loop more")
    assert [each.key for each in found] == [spec_of(each).key for each in sources]
    assert [each.word for each in found] == ["compiled", "compiled", "limit", "limit"]


def test_a_grammar_is_not_given_more_time_that_nobody_waits_for(
    make_service: Callable[..., GrammarService],
) -> None:
    """
    One that is dropped while it is tried is forgotten if it turns out to be slow.
    """
    service = make_service()
    slow, last = spec_of("loop"), spec_of("b")
    compile_all(service, "a")
    service.begin(slow.key, slow, ("", ""))
    while service._on_trial != slow.key:
        time.sleep(0.001)

    assert service.drop(slow.key)
    service.begin(last.key, last, ("", ""))

    assert [each.key for each in ended(service, 1)] == [last.key]
    assert not service._queue.length


def test_a_backend_that_cannot_be_made_fails_its_grammars(
    make_service: Callable[..., GrammarService],
) -> None:
    """
    That is no fault of the grammar, and nothing hangs.
    """
    [end] = compile_all(make_service(wrong=True), "a")

    assert end.word == "failed"
    assert "it wants no options" in str(end.outcome)


def test_what_one_backend_refuses_the_next_one_compiles(
    make_service: Callable[..., GrammarService],
) -> None:
    """
    And follows; if all refuse it, their reasons are the refusal's.
    """
    service = make_service("other")

    first, second, neither = compile_all(service, "a", "other", "others")

    assert isinstance(first.outcome, CompiledGrammar)
    assert first.outcome.backend == 0
    assert isinstance(second.outcome, CompiledGrammar)
    assert (second.outcome.data, second.outcome.backend) == (b"other", 1)
    assert service.matcher(first.outcome, ()).accept(1)
    assert not service.matcher(second.outcome, ()).accept(1)
    assert neither.outcome == "not by this one; nor by that one"
    assert neither.word == "refused"


def test_what_explodes_in_one_backend_the_next_one_compiles(
    make_service: Callable[..., GrammarService],
) -> None:
    """
    Within what is left of the time; a backend that fails for other reasons is no limit.
    """
    service = make_service("other")

    loop, crash, memory, wrong = by_source(service, "loop", "end", "memory", "wrong")

    for end in (loop, crash, memory):
        assert isinstance(end.outcome, CompiledGrammar)
        assert end.outcome.backend == 1
    assert loop.seconds >= 0.5 * 0.7
    assert wrong.outcome == "ValueError: it is wrong"


def test_a_grammar_that_explodes_in_all_backends_is_a_limit(
    make_service: Callable[..., GrammarService],
) -> None:
    """
    The reason names each backend with its share of the time.
    """
    service = make_service("scripted")

    [end] = compile_all(service, "loop")

    assert end.word == "limit"
    assert str(end.outcome).startswith(
        "scripted: compiling it takes more than 0.35 s of processor time; scripted: "
    )


def test_compiler_that_cannot_be_started_at_first_is_started_later(
    make_service: Callable[..., GrammarService], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal of the kernel does not switch structured outputs off for good."""
    popen, refused = subprocess.Popen, [True]

    def refuse_first(*arguments: Any, **options: Any) -> object:
        if refused:
            refused.pop()
            raise BlockingIOError("no more processes")
        return popen(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", refuse_first)

    (only,) = compile_all(make_service(), "a")

    assert not refused
    assert only.word == "compiled"
