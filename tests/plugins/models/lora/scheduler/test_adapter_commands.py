"""Adapters are loaded, replaced, unloaded and pinned while requests run."""

import msgspec
import pytest

from hookline.exceptions import ConfigError
from hookline.finish_cause import Aborted, Failed, FinishCause, LengthReached, Rejected
from hookline_lora.config import AdapterSource, LoraConfig
from hookline_lora.messages import (
    AbandonAdapter,
    CommitAdapter,
    ListAdapters,
    LoadingState,
    PinAdapter,
    PrepareAdapter,
    UnloadAdapter,
    UnloadMode,
)
from hookline_lora.scheduler.commands import ABORTED_BY, MOST_LOADINGS
from hookline_lora.scheduler.registry import LOADING_NS
from hookline_metrics.adapters import AdapterLevel
from hookline_testing.adapter_engine import AdapterEngine, AdapterFiles


def load(engine: AdapterEngine, name: str, path: str, *, pins: bool = False) -> None:
    """Loads an adapter as a front end does, and commits it."""
    ticket = f"{name} from {path}"
    prepare = PrepareAdapter(ticket=ticket, name=name, path=path, is_pinned=pins)
    assert engine.tell(prepare).error is None
    engine.run()
    assert engine.tell(CommitAdapter(ticket)).error is None
    engine.run()


def test_an_adapter_is_there_once_its_loading_is_committed() -> None:
    """Until then requests cannot use it, and its weights are in memory already."""
    engine = AdapterEngine()
    before = engine.tell(PrepareAdapter(ticket="t", name="a", path="/adapters/a"))
    engine.run()
    prepared = engine.tell(ListAdapters())
    engine.tell(CommitAdapter("t"))
    committed = engine.tell(ListAdapters())

    assert before.loading == {"t": LoadingState()}
    assert prepared.adapters == {}
    assert prepared.loading["t"].is_ready
    assert engine.worker.memory == {"a"}
    assert committed.loading == {}
    assert committed.version > prepared.version
    assert committed.adapters["a"].ref.path == "/adapters/a"
    assert committed.adapters["a"].level is AdapterLevel.MEMORY


def test_a_loading_that_is_abandoned_leaves_nothing_behind() -> None:
    """Before its files were read, while weights are read, and afterwards."""
    for num_steps in range(4):
        engine = AdapterEngine(load_seconds=0.5)
        engine.tell(PrepareAdapter(ticket="t", name="a", path="/adapters/a"))
        for _ in range(num_steps):
            if engine.core.has_work:
                engine.step()
        engine.tell(AbandonAdapter("t"))
        engine.run()

        answer = engine.tell(ListAdapters())
        assert (answer.adapters, answer.loading) == ({}, {})
        assert engine.worker.memory == set()
        assert engine.stats.in_memory == engine.stats.loading == 0


def test_a_loading_that_nobody_ends_is_given_up_at_last() -> None:
    """A front end that has died leaves no adapter in memory for ever."""
    engine = AdapterEngine()
    engine.tell(PrepareAdapter(ticket="t", name="a", path="/adapters/a"))
    engine.run()
    engine.clock.sleep(LOADING_NS / 1e9 + 1)
    engine.tell(ListAdapters())
    engine.run()

    assert engine.tell(ListAdapters()).loading == {}
    assert engine.worker.memory == set()


def test_a_loading_of_wrong_files_fails_and_the_old_adapter_goes_on() -> None:
    """The reason is told to whoever asks, and nothing can be committed."""
    engine = AdapterEngine()
    load(engine, "a", "/adapters/a")
    engine.files.contents["/adapters/a"] = "broken"
    engine.tell(PrepareAdapter(ticket="t", name="a", path="/adapters/a"))
    engine.run()
    answer = engine.tell(ListAdapters())
    refused = engine.tell(CommitAdapter("t"))
    engine.send(1, "a", path="/adapters/a", digest="a")
    engine.run()

    error = "/adapters/a: q_proj.lora_A is not finite"
    assert answer.loading == {"t": LoadingState(error=error)}
    assert refused.error == error
    assert engine.finished[1].cause == LengthReached()


def test_after_a_reload_running_requests_end_with_the_weights_they_began_with() -> None:
    """New ones, and those that come late with the old digest, get the new weights."""
    engine = AdapterEngine(LoraConfig(max_loras=2, max_cpu_loras=2))
    load(engine, "a", "/adapters/a")
    engine.send(1, "a", path="/adapters/a", max_tokens=12)
    engine.steps(2)
    engine.files.contents["/adapters/a"] = "a2"
    engine.tell(PrepareAdapter(ticket="t", name="a", path="/adapters/a"))
    engine.steps(3)
    engine.tell(CommitAdapter("t"))
    engine.send(2, "a", path="/adapters/a", max_tokens=12)
    engine.send(3, "a", path="/adapters/a", digest="a", max_tokens=12)
    engine.steps(3)

    rows = dict(engine.worker.rows)
    engine.run()

    assert rows == {1: "a", 2: "a2", 3: "a2"}
    assert engine.worker.memory == {"a2"}
    assert {each.cause for each in engine.finished.values()} == {LengthReached()}


@pytest.mark.parametrize(
    ("command", "cause"), [(CommitAdapter, LengthReached), (AbandonAdapter, Failed)]
)
def test_requests_that_wait_for_replaced_weights_get_the_new_ones(
    command: type[CommitAdapter | AbandonAdapter], cause: type[FinishCause]
) -> None:
    """The old ones cannot be read any more: new ones are in their place.

    A request waits until they are committed; it fails if they never are.
    """
    engine = AdapterEngine(LoraConfig(max_loras=1, max_cpu_loras=2))
    for name in "abc":
        load(engine, name, f"/adapters/{name}")
    engine.send(0, "c", path="/adapters/c", max_tokens=12)
    engine.files.contents["/adapters/a"] = "a2"
    engine.tell(PrepareAdapter(ticket="t", name="a", path="/adapters/a"))
    engine.steps(3)
    engine.send(1, "a", path="/adapters/a", digest="a")
    engine.steps(12)
    failures = engine.stats.totals.load_failures
    waiting = dict(engine.core.stats.held)
    engine.tell(command("t"))
    engine.run()

    assert failures == 1
    assert waiting == {"adapter": 1}
    assert type(engine.finished[1].cause) is cause


def test_unload_waits_for_requests_and_frees_slot_and_memory() -> None:
    """The adapter is leaving meanwhile, and takes no new requests."""
    engine = AdapterEngine()
    load(engine, "a", "/adapters/a")
    engine.send(1, "a", path="/adapters/a", max_tokens=5)
    engine.steps(2)
    leaving = engine.tell(UnloadAdapter("a"))
    engine.send(2, "a", path="/adapters/a")
    engine.run()

    assert leaving.adapters["a"].is_leaving
    assert leaving.adapters["a"].running == 1
    assert engine.finished[1].cause == LengthReached()
    assert engine.finished[2].cause == Rejected(
        kind="model_not_found", message="adapter 'a' has been unloaded"
    )
    assert engine.tell(ListAdapters()).adapters == {}
    assert engine.worker.memory == set()
    assert engine.worker.slots == {}


def test_unload_can_abort_requests_wherever_they_are() -> None:
    """Those of other names with the same weights go on."""
    engine = AdapterEngine(LoraConfig(max_loras=1))
    engine.files.contents |= {"/x": "same", "/y": "same", "/z": "other"}
    for name, path in (("a", "/x"), ("b", "/y"), ("c", "/z")):
        load(engine, name, path)
    engine.send(1, "a", path="/x", max_tokens=9)
    engine.send(2, "b", path="/y", max_tokens=9)
    engine.steps(1)
    engine.send(3, "c", path="/z", max_tokens=9)
    engine.steps(1)

    engine.tell(UnloadAdapter("a", UnloadMode.ABORT))
    engine.tell(UnloadAdapter("c", UnloadMode.ABORT))
    engine.run()

    causes = {number: each.cause for number, each in engine.finished.items()}
    aborted = Aborted(ABORTED_BY)
    assert causes == {1: aborted, 2: LengthReached(), 3: aborted}
    assert set(engine.tell(ListAdapters()).adapters) == {"b"}
    assert engine.worker.memory == {"same"}


def test_an_unloaded_adapter_can_be_loaded_again() -> None:
    """It is then as good as new."""
    engine = AdapterEngine()
    load(engine, "a", "/adapters/a")
    engine.tell(UnloadAdapter("a"))
    engine.run()
    load(engine, "a", "/adapters/a")
    engine.send(1, "a", path="/adapters/a")
    engine.run()

    assert engine.finished[1].cause == LengthReached()


def test_a_pinned_adapter_stays_in_memory() -> None:
    """One place is left for others, and no pin is granted that takes it."""
    engine = AdapterEngine(LoraConfig(max_loras=1, max_cpu_loras=2))
    load(engine, "a", "/adapters/a", pins=True)
    load(engine, "b", "/adapters/b")
    refused = engine.tell(PinAdapter("b"))
    for number, name in enumerate("bcbc"):
        engine.send(number, name, path=f"/adapters/{name}")
        engine.run()
    pinned = set(engine.worker.memory)
    engine.tell(PinAdapter("a", is_pinned=False))
    engine.send(9, "b", path="/adapters/b")
    engine.run()

    assert refused.error == (
        "1 adapters are pinned, and main memory has room for 2: one place is for those "
        "that are not"
    )
    assert pinned == {"a", "c"}
    assert engine.worker.memory == {"b", "c"}


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (CommitAdapter("t"), "this loading is not known, or has been abandoned"),
        (UnloadAdapter("x"), "there is no adapter 'x'"),
        (PinAdapter("x"), "there is no adapter 'x'"),
    ],
)
def test_commands_about_what_is_not_there_are_refused(
    command: CommitAdapter | UnloadAdapter | PinAdapter, error: str
) -> None:
    """The answer says why."""
    assert AdapterEngine().tell(command).error == error


def test_the_number_of_loadings_is_bounded() -> None:
    """However many front ends ask."""
    engine = AdapterEngine()
    answers = [
        engine.tell(PrepareAdapter(ticket=str(number), name="a", path=f"/{number}"))
        for number in range(MOST_LOADINGS + 1)
    ]

    assert [each.error for each in answers[:-1]] == [None] * MOST_LOADINGS
    assert answers[-1].error == "too many adapters are being loaded"


def test_commands_come_from_other_processes_as_plain_data() -> None:
    """What is no command has an answer, too."""
    engine = AdapterEngine()
    load(engine, "a", "/adapters/a")
    plain = msgspec.to_builtins(UnloadAdapter("a"))

    answers = [engine.side.told(each) for each in (plain, {"type": "Reboot"})]

    assert answers[0].error is None
    assert answers[1].error is not None
    assert "Reboot" in answers[1].error


def test_adapters_that_have_not_changed_are_not_listed_again() -> None:
    """Whoever knows the version is told the loadings only."""
    engine = AdapterEngine(
        LoraConfig(modules=(AdapterSource(name="a", path="/adapters/a"),))
    )
    first = engine.tell(ListAdapters())
    again = engine.tell(ListAdapters({first.boot: first.version}))
    engine.tell(PinAdapter("a"))
    changed = engine.tell(ListAdapters({first.boot: first.version}))

    assert set(first.adapters) == {"a"}
    assert again.adapters == {}
    assert set(changed.adapters) == {"a"}


def test_an_adapter_that_is_pinned_is_read_at_once_if_there_is_room() -> None:
    """It need not wait for its first request."""
    modules = tuple(AdapterSource(name=each, path=f"/adapters/{each}") for each in "ab")
    engine = AdapterEngine(LoraConfig(modules=modules, max_loras=1, max_cpu_loras=2))
    engine.run()
    load(engine, "c", "/adapters/c")
    before = set(engine.worker.memory)
    engine.tell(UnloadAdapter("c"))
    engine.run()
    missing = ({"a", "b"} - before).pop()
    engine.tell(PinAdapter(missing))
    engine.run()

    assert engine.worker.memory == {"a", "b"}


@pytest.mark.parametrize("is_pinned", [False, True])
def test_adapters_of_the_start_that_cannot_be_served_end_it(is_pinned: bool) -> None:
    """The error names the adapter and the reason."""
    files = AdapterFiles()
    if not is_pinned:
        files.contents["/adapters/a"] = "broken"
    source = AdapterSource(name="a", path="/adapters/a", is_pinned=is_pinned)
    reason = "too many" if is_pinned else "a: /adapters/a: q_proj.lora_A is not finite"

    with pytest.raises(ConfigError, match=f"lora-modules: {reason}"):
        AdapterEngine(LoraConfig(modules=(source,), max_loras=1), files=files)


def test_loadings_that_are_not_committed_keep_no_others_waiting() -> None:
    """With room for one, several are ready to be committed, and requests run."""
    engine = AdapterEngine(LoraConfig(max_loras=1, max_cpu_loras=1))
    load(engine, "a", "/adapters/a")
    for name in "bc":
        engine.tell(PrepareAdapter(ticket=name, name=name, path=f"/adapters/{name}"))
    engine.send(1, "a", path="/adapters/a")
    engine.run()
    states = engine.tell(ListAdapters()).loading.values()

    assert engine.finished[1].cause == LengthReached()
    assert [each.is_ready for each in states] == [True, True]
    assert len(engine.worker.memory) == 1
