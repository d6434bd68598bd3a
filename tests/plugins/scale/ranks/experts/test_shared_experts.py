"""Tokens and results on their way between ranks of several engines."""

from collections.abc import Sequence
from functools import partial

import pytest
import torch

from hookline.exceptions import RankError
from hookline_ranks.experts import memory
from hookline_ranks.experts.expert_group import ExpertTokens
from hookline_ranks.experts.expert_placement import ExpertPlace
from hookline_ranks.experts.shared_experts import SharedExperts
from hookline_testing.rank_threads import on_ranks
from hookline_testing.sharing_engines import expert_links

EXPERTS, WIDTH, CHOSEN = 8, 16, 3
LATE = 0.02
"""Seconds after which a rank that does not come counts as gone."""


def factors(place: ExpertPlace) -> dict[int, float]:
    """What this rank's experts multiply hidden states by."""
    each = EXPERTS // place.size
    return {
        expert: 1.0 + expert
        for expert in range(each * place.rank, each * (place.rank + 1))
    }


def scaled(own: dict[int, float], given: ExpertTokens) -> torch.Tensor:
    summed = torch.zeros_like(given.hidden, dtype=torch.float32)
    for expert, factor in own.items():
        weights = (given.weights * (given.chosen == expert)).sum(1).float()
        summed += factor * weights[:, None] * given.hidden.float()
    return summed


def tokens(count: int, seed: int, dtype: torch.dtype) -> ExpertTokens:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(count, EXPERTS, generator=generator)
    weights, chosen = scores.topk(CHOSEN, dim=1)
    hidden = torch.randn(count, WIDTH, generator=generator)
    return ExpertTokens(hidden.to(dtype), chosen, weights.to(dtype))


def ranks_of(
    descriptor: int, engines: int, size: int, dtype: torch.dtype, **options: float
) -> list[SharedExperts]:
    found = []
    for rank in range(engines * size):
        place = ExpertPlace(rank=rank, size=engines * size, engines=engines)
        experts = SharedExperts(descriptor, place, max_tokens=1 << 16, **options)
        experts.add_layer(partial(scaled, factors(place)))
        experts.open(WIDTH, dtype)
        experts.join()
        found.append(experts)
    return found


def step(experts: SharedExperts, given: Sequence[ExpertTokens]) -> torch.Tensor:
    own = given[experts.place.engine]
    return experts.exchange(own, partial(scaled, factors(experts.place)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("engines", "size"), [(2, 1), (2, 2), (4, 1)])
def test_each_engine_gets_the_results_of_its_tokens(
    engines: int, size: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of more tokens than pass at a time, and if others have fewer, or none."""
    monkeypatch.setattr(memory, "SLOT_BYTES", 40 * WIDTH * 4)
    every = {expert: 1.0 + expert for expert in range(EXPERTS)}
    tolerance = 1e-5 if dtype is torch.float32 else 0.05

    with expert_links(engines) as links:
        ranks = ranks_of(links[0].tokens, engines, size, dtype)
        for counts in ((1, 1, 1, 1), (130, 3, 40, 0), (0, 41, 80, 7)):
            given = [tokens(count, at, dtype) for at, count in enumerate(counts)]
            found = on_ranks([partial(step, each, given) for each in ranks])

            for engine in range(engines):
                parts = found[engine * size : (engine + 1) * size]
                summed = torch.stack([part.float() for part in parts]).sum(0)
                expected = scaled(every, given[engine])
                assert parts[0].dtype is dtype
                assert torch.allclose(summed, expected, tolerance, tolerance)


def assist(experts: SharedExperts) -> torch.Tensor:
    experts.assist()
    return torch.zeros(0)


def test_an_engine_without_tokens_assists() -> None:
    """It computes its experts, and has no step of its own."""
    given = [tokens(5, 0, torch.float32)]

    with expert_links(2) as links:
        first, second = ranks_of(links[0].tokens, 2, 1, torch.float32)
        found, _ = on_ranks([partial(step, first, given), partial(assist, second)])

    every = {expert: 1.0 + expert for expert in range(EXPERTS)}
    assert torch.allclose(found, scaled(every, given[0]))


def count_and_step(experts: SharedExperts, pairs: int) -> tuple[int, ...]:
    def compute(given: ExpertTokens) -> torch.Tensor:
        experts.count(pairs)
        return torch.zeros_like(given.hidden)

    experts.exchange(tokens(2, 0, torch.float32), compute)
    use = experts.end_step()
    return (*use.expert_tokens, use.expert_busiest_tokens, int(use.expert_wait_ns > 0))


def test_a_step_tells_what_the_engine_has_computed() -> None:
    """And what its ranks could have, in the time of the busiest rank of all engines."""
    with expert_links(2) as links:
        ranks = ranks_of(links[0].tokens, 2, 2, torch.float32)
        pairs = (3, 5, 7, 1)
        found = on_ranks(
            [
                partial(count_and_step, each, own)
                for each, own in zip(ranks, pairs, strict=True)
            ]
        )

    assert [each[:3] for each in found] == [
        (3, 5, 14),
        (3, 5, 14),
        (7, 1, 14),
        (7, 1, 14),
    ]
    assert ranks[0].end_step().expert_busiest_tokens == 0


def test_nothing_counts_before_a_rank_has_joined() -> None:
    """A model that is tried computes in its experts, too."""
    with expert_links(1) as links:
        [rank] = ranks_of(links[0].tokens, 1, 1, torch.float32)
        rank.leave()
        rank.count(4)
        rank.join()
        rank.count(3)

        assert rank.end_step().expert_tokens == (3,)


def test_a_rank_that_does_not_come_is_named() -> None:
    """With its engine: it is not a rank of the engine that says so."""
    with expert_links(2) as links:
        ranks = ranks_of(links[0].tokens, 2, 2, torch.float32, deadline_seconds=LATE)
        with pytest.raises(RankError, match=r"rank 1: that of engine 0, .*not compute"):
            ranks[0].assist()
