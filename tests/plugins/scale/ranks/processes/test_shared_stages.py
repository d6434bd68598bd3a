"""Hidden states that go from stage to stage through shared memory."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from hookline.exceptions import RankError
from hookline_ranks.processes.links import StagePath
from hookline_ranks.processes.ring import make_bell
from hookline_ranks.processes.shared_memory import make_memory
from hookline_ranks.processes.shared_stages import SharedStages
from hookline_ranks.stages.stage_links import PassedFeatures, StageStates

WIDTH, MAX_TOKENS, SLOTS = 16, 40, 2
LATE = 0.05
"""Seconds after which a neighbour counts as gone."""


def neighbours(
    dtype: torch.dtype = torch.float32,
    deadline_seconds: float = 60.0,
    layers: tuple[int, ...] = (),
) -> tuple[SharedStages, SharedStages]:
    """A first and a last stage, in one process."""
    path = StagePath(ring=make_memory(), bell=make_bell(), states=make_memory())
    first, last = (
        SharedStages(
            before,
            after,
            rank=rank,
            num_slots=SLOTS,
            max_tokens=MAX_TOKENS,
            deadline_seconds=deadline_seconds,
        )
        for rank, (before, after) in enumerate([(None, path), (path, None)])
    )
    first.open(WIDTH, dtype, PassedFeatures(after=layers))
    last.open(WIDTH, dtype, PassedFeatures(before=layers))
    return first, last


def states_of(step: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    count = 1 + 7 * step % MAX_TOKENS
    return torch.full((count, WIDTH), float(step)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_states_arrive_in_order_and_whole(dtype: torch.dtype) -> None:
    """Each step's, in its own dtype, also of the largest step."""
    first, last = neighbours(dtype)

    def send() -> None:
        for step in range(60):
            first.send(StageStates(states_of(step, dtype), 1000 * step))

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send)
        found = [last.receive() for _ in range(60)]
        sending.result()

    for step, (hidden, forward_ns, _) in enumerate(found):
        assert hidden.dtype == dtype
        assert torch.equal(hidden, states_of(step, dtype))
        assert forward_ns == 1000 * step
    assert last.forward_ns == 59_000


def test_features_pass_with_the_states() -> None:
    """Each under its layer's index, in memory of its own."""
    first, last = neighbours(layers=(0, 4))
    sent = {layer: states_of(3) + layer for layer in (4, 2, 0)}

    first.send(StageStates(states_of(3), 0, sent))
    found = last.receive()
    first.send(StageStates(states_of(3) + 50, 0, sent | {0: states_of(3)}))
    last.receive()

    assert torch.equal(found.hidden_states, states_of(3))
    assert found.features.keys() == {0, 4}
    for layer, states in found.features.items():
        assert torch.equal(states, sent[layer])
        assert states.is_contiguous()


def test_what_was_received_is_nobody_elses() -> None:
    """The next stage may overwrite it, and later steps do not."""
    first, last = neighbours()
    first.send(StageStates(states_of(1), 0))
    hidden = last.receive().hidden_states

    for step in range(2, 6):
        first.send(StageStates(states_of(step), 0))
        last.receive()

    assert torch.equal(hidden, states_of(1))


def test_a_stage_runs_ahead_by_the_number_of_slots() -> None:
    """It then waits until the next stage has taken a step."""
    first, last = neighbours()
    sent = threading.Event()

    def send_one_more() -> None:
        first.send(StageStates(states_of(9), 0))
        sent.set()

    for step in range(SLOTS):
        first.send(StageStates(states_of(step), 0))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(send_one_more)
        was_sent = sent.wait(LATE)
        last.receive()
        waiting.result()

    assert not was_sent
    found = [last.receive().hidden_states for _ in range(SLOTS)]
    assert torch.equal(found[-1], states_of(9))


def test_neighbours_that_do_not_come_are_an_error() -> None:
    """No stage waits for ever, in either direction."""
    first, last = neighbours(deadline_seconds=LATE)

    with pytest.raises(RankError, match="rank 1: the stage before sends nothing"):
        last.receive()

    for step in range(SLOTS):
        first.send(StageStates(states_of(step), 0))
    with pytest.raises(RankError, match="rank 0: the next stage takes nothing"):
        first.send(StageStates(states_of(SLOTS), 0))


def test_opening_again_keeps_what_is_under_way() -> None:
    """As a rank does that wakes up."""
    first, last = neighbours()
    first.send(StageStates(states_of(3), 0))

    for each in (first, last):
        each.open(WIDTH, torch.float32)

    assert torch.equal(last.receive().hidden_states, states_of(3))
