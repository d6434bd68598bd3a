"""Keys and values that are no numbers reach only those who attend to their token."""

from dataclasses import dataclass, replace

import pytest
import torch

from hookline_kernels import choose_attention, reference_attention
from hookline_kernels.attention import write_slots
from hookline_testing.attention_steps import Shape, Step, make_step
from hookline_testing.essential import essential

USUAL = (2, 2, 64, 64, 16)
LENGTHS = [(1, 20), (1, 45), (40, 45), (33, 33)]
"""New and all tokens of each request; the third one's has a broken one."""
FIRST, BROKEN = 2, 21
"""First row of that request, and the broken one of its new tokens."""


@dataclass(frozen=True)
class Case:
    """A cache and a layer."""

    shape: Shape = USUAL
    dtype: torch.dtype = torch.float32
    cache_dtype: torch.dtype | None = None
    window: int | None = None
    softcap: float | None = None


CASES = [
    Case(),
    Case(dtype=torch.bfloat16),
    Case(window=7),
    Case(softcap=1.5),
    Case(cache_dtype=torch.int8),
    Case(cache_dtype=torch.float8_e4m3fn),
    Case(shape=(2, 1, 20, 20, 24)),
]


def attend(case: Case, step: Step, *, compiled: bool) -> torch.Tensor:
    group, kv_heads, key_dim, value_dim, block = case.shape
    layer = step.layer(0.3, case.window, case.softcap)
    inputs = step.query, step.key, step.value, layer, step.metadata
    if compiled:
        chosen = choose_attention(
            num_heads=group * kv_heads,
            num_kv_heads=kv_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            block_size=block,
            dtype=case.dtype,
            cache_dtype=layer.keys.dtype,
        )
        assert chosen.name == "compiled"
        return chosen.attend(*inputs)
    return reference_attention(*inputs)


def with_nan(numbers: torch.Tensor, row: int) -> torch.Tensor:
    broken = numbers.clone()
    broken[row] = torch.nan
    return broken


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "torch"])
@pytest.mark.parametrize("case", essential(CASES, CASES[1], CASES[5]), ids=str)
def test_a_broken_new_token_reaches_those_after_it(case: Case, compiled: bool) -> None:
    """Not those before it in its request, in tiles or not, and no other request."""
    step = make_step(case.shape, LENGTHS, case.dtype, 3, cache_dtype=case.cache_dtype)
    clean = attend(case, step, compiled=compiled)
    row = FIRST + BROKEN
    broken = replace(step, key=with_nan(step.key, row), value=with_nan(step.value, row))

    found = attend(case, broken, compiled=compiled)

    end = FIRST + 40
    last = end if case.window is None else row + case.window
    assert found[row:last].isnan().any(-1).all()
    torch.testing.assert_close(found[FIRST:row], clean[FIRST:row])
    others = torch.tensor([*range(FIRST), *range(end, len(found))])
    assert torch.equal(found[others], clean[others])


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "torch"])
@pytest.mark.parametrize("case", essential(CASES, CASES[1], CASES[5]), ids=str)
def test_a_broken_cached_token_reaches_its_own_request(
    case: Case, compiled: bool
) -> None:
    """The token that it generates next, and no other's."""
    step = make_step(
        case.shape, [(1, 20), (1, 45)], case.dtype, 3, cache_dtype=case.cache_dtype
    )
    clean = attend(case, step, compiled=compiled)
    block = case.shape[4]
    slot = step.metadata.block_tables[1, 42 // block] * block + 42 % block
    for side in (step.keys, step.values):
        numbers = torch.full((1, *side.shape[2:]), torch.nan, dtype=case.dtype)
        write_slots(side, numbers, slot[None])

    found = attend(case, step, compiled=compiled)

    assert torch.equal(found[0], clean[0])
    assert found[1].isnan().any(-1).all()
