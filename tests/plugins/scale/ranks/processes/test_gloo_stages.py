"""Hidden states that go from stage to stage over gloo."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from hookline.exceptions import RankError
from hookline_ranks.processes import gloo
from hookline_ranks.processes.gloo_stages import GlooStages
from hookline_ranks.stages.stage_links import PassedFeatures, StageStates
from hookline_testing.gloo_threads import process_groups

WIDTH, MOST, SLOTS = 16, 40, 2


def neighbours(
    dtype: torch.dtype = torch.float32,
    layers: tuple[int, ...] = (),
    deadline_seconds: float = 60.0,
) -> tuple[GlooStages, GlooStages]:
    """A first and a last stage, in one process."""
    first, last = (
        GlooStages(each, stride=1, num_slots=SLOTS)
        for each in process_groups(2, deadline_seconds)
    )
    first.open(WIDTH, dtype, PassedFeatures(after=layers))
    last.open(WIDTH, dtype, PassedFeatures(before=layers))
    return first, last


def states_of(step: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    count = 1 + 7 * step % MOST
    return torch.full((count, WIDTH), float(step)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_states_arrive_in_order_and_whole(dtype: torch.dtype) -> None:
    """Each step's, in its own dtype."""
    first, last = neighbours(dtype)

    def send() -> None:
        for step in range(60):
            first.send(StageStates(states_of(step, dtype), 1000 * step))

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send)
        found = [last.receive() for _ in range(60)]
        sending.result()

    for step, each in enumerate(found):
        assert torch.equal(each.hidden_states, states_of(step, dtype))
        assert each.forward_ns == 1000 * step
    assert last.forward_ns == 59_000


def test_features_arrive_by_their_layers() -> None:
    """Beside the hidden states."""
    first, last = neighbours(layers=(1, 4))
    sent = states_of(3)

    first.send(StageStates(sent, 0, {4: sent + 4, 1: sent + 1}))
    found = last.receive()

    assert torch.equal(found.hidden_states, sent)
    assert sorted(found.features) == [1, 4]
    assert all(torch.equal(each, sent + at) for at, each in found.features.items())


def test_a_stage_may_run_ahead() -> None:
    """By as many steps as there are slots; what it has sent may change then."""
    first, last = neighbours()
    states = states_of(1)

    for _ in range(SLOTS):
        first.send(StageStates(states, 0))
    states.zero_()

    for _ in range(SLOTS):
        assert torch.equal(last.receive().hidden_states, states_of(1))


def test_each_stage_knows_its_neighbours() -> None:
    """Ranks that share a layer are in between."""
    groups = process_groups(4)

    stages = [GlooStages(each, stride=2, num_slots=2) for each in groups]

    assert [each.has_before for each in stages] == [False, False, True, True]
    assert [each.has_after for each in stages] == [True, True, False, False]


def test_a_stage_that_does_not_come_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once the deadline has passed."""
    monkeypatch.setattr(gloo, "_NOTICE_SECONDS", 0.0)
    first, last = neighbours(deadline_seconds=0.5)

    with pytest.raises(RankError, match="rank 1: its exchange with others failed"):
        last.receive()

    assert first.has_after  # it lived until here
