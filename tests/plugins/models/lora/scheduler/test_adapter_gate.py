"""Requests wait at the gate until their adapter has a slot; others go on."""

import pytest

from hookline.config import CacheConfig
from hookline.engine.commands import SleepMode
from hookline.finish_cause import Aborted, Failed, LengthReached, TimedOut
from hookline.stats.scheduler_stats import Residue
from hookline.step import SleepLevel
from hookline_lora.config import AdapterSource, LoraConfig
from hookline_metrics.adapters import LORA, AdapterCounts
from hookline_testing.adapter_engine import AdapterEngine


def modules(*names: str) -> tuple[AdapterSource, ...]:
    return tuple(AdapterSource(name=name, path=f"/adapters/{name}") for name in names)


def config(*names: str, slots: int = 1, memory: int | None = None) -> LoraConfig:
    return LoraConfig(modules=modules(*names), max_loras=slots, max_cpu_loras=memory)


def assert_all_ended(engine: AdapterEngine) -> None:
    """Every request has ended by its length, and nothing of any is left."""
    stats = engine.core.stats
    assert engine.sent_at.keys() == engine.finished.keys()
    causes = {each.cause for each in engine.finished.values()}
    assert causes == {LengthReached()}
    assert stats.totals.residue == Residue()
    assert stats.kv_blocks_used == 0
    assert engine.stats.adapters == {}


def test_adapters_of_the_start_are_in_slots_before_any_request() -> None:
    """What the configuration names is read while the engine is still idle."""
    engine = AdapterEngine(config("a", "b", slots=2))

    engine.run()

    assert engine.worker.slots == {0: "a", 1: "b"}


def test_a_request_waits_while_its_adapter_is_read_and_others_run() -> None:
    """A cold load takes as long as it takes, beside steps of the base model."""
    engine = AdapterEngine(config("a", "b"), load_seconds=5.0)
    engine.run()
    engine.send(1, None, max_tokens=10)
    engine.send(2, "b")

    engine.step()
    held = engine.core.stats.held
    engine.run()

    assert held == {"adapter": 1}
    assert engine.finished[1].at - engine.sent_at[1] == 10e9
    (wait,) = engine.waits
    assert (wait.request_id, wait.adapter) == (2, "b")
    assert wait.loading_seconds >= 5.0
    assert_all_ended(engine)


def test_an_adapter_in_memory_gets_its_slot_in_the_step_that_needs_it() -> None:
    """A slot that is free or idle costs a request no step."""
    engine = AdapterEngine(config("a", "b", memory=2))
    engine.run()
    engine.send(1, "b", max_tokens=1)

    engine.run()

    assert engine.finished[1].at - engine.sent_at[1] == 1e9
    assert engine.worker.slots == {0: "b"}
    assert engine.waits == []


def test_a_running_adapter_keeps_its_slot_until_its_requests_have_ended() -> None:
    """The wait names the adapter that had the slot."""
    engine = AdapterEngine(config("a", "b"))
    engine.run()
    engine.send(1, "a", max_tokens=3)
    engine.steps(1)
    engine.send(2, "b", max_tokens=3)
    engine.steps(1)

    counts = engine.stats.adapters
    engine.run()

    assert counts == {
        "a": AdapterCounts(running=1),
        "b": AdapterCounts(no_slot=1, holder="a"),
    }
    (wait,) = engine.waits
    assert wait.holder == "a"
    assert wait.loading_seconds < (wait.ended_at - wait.began_at) / 1e9
    assert engine.finished[1].at < engine.finished[2].at
    assert_all_ended(engine)


def test_the_adapter_that_was_used_least_recently_leaves_its_slot() -> None:
    """Others stay where they are."""
    engine = AdapterEngine(config("a", "b", "c", slots=2, memory=3))
    engine.run()
    for number, name in enumerate("aba"):
        engine.send(number, name)
        engine.run()

    engine.send(3, "c")
    engine.run()

    assert set(engine.worker.slots.values()) == {"a", "c"}
    assert engine.stats.totals.slot_evictions == 1
    assert engine.stats.totals.memory_evictions == 0


def test_an_adapter_that_waits_for_too_long_has_another_one_drained() -> None:
    """Later requests of an adapter with a slot let it go first, and then come back."""
    engine = AdapterEngine(
        LoraConfig(modules=modules("a", "b"), max_loras=1, max_wait=5.0)
    )
    engine.run()
    engine.send(0, "b", max_tokens=2)
    for number in range(1, 20):
        engine.send(number, "a", max_tokens=4)
        engine.steps(2)
    engine.run()

    assert engine.finished[0].at - engine.sent_at[0] < 16e9
    assert_all_ended(engine)


def test_requests_with_one_adapter_of_two_names_share_its_slot() -> None:
    """What computes them is the same, and each name is counted for itself."""
    engine = AdapterEngine(config())
    engine.files.contents |= {"/x": "same", "/y": "same"}
    engine.send(1, "a", path="/x", max_tokens=5)
    engine.steps(3)
    engine.send(2, "b", path="/y", max_tokens=5)
    engine.steps(2)

    counts = engine.stats.adapters
    engine.run()

    assert counts == {"a": AdapterCounts(running=1), "b": AdapterCounts(running=1)}
    assert len([each for each in engine.worker.orders if each.load]) == 1
    assert_all_ended(engine)


def test_a_preempted_request_keeps_its_adapters_slot() -> None:
    """With too few blocks for all, each still ends, with one adapter at a time."""
    engine = AdapterEngine(
        config("a", "b"), cache=CacheConfig(block_size=4, num_kv_blocks=16)
    )
    engine.run()
    for number in range(8):
        engine.send(number, "ab"[number % 2], max_tokens=28)

    engine.run()

    assert engine.core.stats.totals.preemptions > 0
    assert_all_ended(engine)


def test_requests_that_wait_can_be_aborted_and_have_deadlines() -> None:
    """Nothing of them is left, and their adapter is not read for nobody."""
    engine = AdapterEngine(config("a", "b", "c"))
    engine.run()
    engine.send(1, "a", max_tokens=8)
    engine.steps(1)
    engine.send(2, "b", timeout_seconds=2.5)
    engine.send(3, "c")
    engine.steps(2)
    engine.core.finish([3], Aborted("client_disconnect"))
    engine.run()

    causes = {number: each.cause for number, each in engine.finished.items()}
    assert causes == {
        1: LengthReached(),
        2: TimedOut(),
        3: Aborted("client_disconnect"),
    }
    assert engine.worker.memory == {"a"}
    assert engine.core.stats.totals.residue == Residue()
    assert engine.core.stats.held == {}


@pytest.mark.parametrize("level", SleepLevel)
def test_sleep_keeps_the_adapters_and_the_requests(level: SleepLevel) -> None:
    """Running requests are preempted, and go on with their adapters afterwards."""
    engine = AdapterEngine(config("a", "b"))
    engine.run()
    engine.send(1, "a", max_tokens=5)
    engine.send(2, "b", max_tokens=5)
    engine.steps(2)

    engine.core.hold(SleepMode.KEEP)
    engine.core.sleep(level)
    engine.core.wake_up()
    engine.run()

    assert_all_ended(engine)


def test_a_load_that_fails_ends_the_requests_that_wait_for_it() -> None:
    """The error names the adapter; others go on, and the next request tries again."""
    engine = AdapterEngine(config("a", "b"))
    engine.run()
    engine.files.contents["/adapters/b"] = "other"
    engine.send(1, "b", path="/adapters/b", digest="b")
    engine.send(2, "a")
    engine.run()
    engine.files.contents["/adapters/b"] = "b"
    engine.send(3, "b", path="/adapters/b", digest="b")
    engine.run()

    assert engine.finished[1].cause == Failed("adapter 'b': /adapters/b has changed")
    assert engine.finished[2].cause == LengthReached()
    assert engine.finished[3].cause == LengthReached()
    assert engine.stats.totals.load_failures == 1


def test_an_adapter_that_is_not_known_is_read_from_where_the_request_says() -> None:
    """So an engine that was started later serves what others have loaded."""
    engine = AdapterEngine(config("a"))
    engine.run()
    engine.send(1, "new", path="/adapters/new")
    engine.send(2, "new", path="/adapters/new")
    engine.run()

    assert_all_ended(engine)
    assert engine.worker.slots == {0: "new"}


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("other", "its files have changed since"),
        ("broken", "/adapters/new: q_proj.lora_A is not finite"),
    ],
)
def test_unknown_adapters_whose_files_are_wrong_end_requests_with_an_error(
    content: str, error: str
) -> None:
    """Nothing is computed with other weights than those that were asked for."""
    engine = AdapterEngine(config("a"))
    engine.run()
    engine.files.contents["/adapters/new"] = content
    engine.send(1, "new", path="/adapters/new", digest="new")
    engine.run()

    assert engine.finished[1].cause == Failed(f"adapter 'new': {error}")


def test_weights_that_can_never_fit_end_their_requests_with_the_reason() -> None:
    """Pinned adapters take what they take."""
    engine = AdapterEngine(LoraConfig(max_loras=2, memory=100))
    engine.files.num_bytes["big"] = 101
    engine.send(1, "big")
    engine.send(2, "small")
    engine.run()

    cause = engine.finished[1].cause
    assert isinstance(cause, Failed)
    assert cause.detail == (
        "adapter 'big': its weights have 101 bytes; --lora-memory is 100, of which "
        "pinned adapters take 0"
    )
    assert engine.finished[2].cause == LengthReached()


def test_memory_is_bounded_in_bytes() -> None:
    """Adapters leave it for one that needs the bytes of two."""
    engine = AdapterEngine(LoraConfig(max_loras=4, memory=100))
    engine.files.num_bytes |= {"a": 50, "b": 40, "c": 60, "d": 10}
    for number, name in enumerate("abdc"):
        engine.send(number, name)
        engine.run()

    assert engine.worker.memory == {"c", "d"}
    assert engine.stats.totals.memory_evictions == 2


def test_requests_of_the_base_model_alone_give_no_orders() -> None:
    """An engine with adapters that nobody asks for sends its workers nothing."""
    engine = AdapterEngine(config())
    for number in range(4):
        engine.send(number, None)
    stats = engine.stats

    engine.run()

    assert engine.worker.orders == []
    assert engine.stats is stats
    assert all(LORA not in output.sections for output in engine.outputs)
    assert_all_ended(engine)
