"""Queries and keys are rotated in place, and keys and values are cached."""

from dataclasses import dataclass
from itertools import cycle, product

import pytest
import torch

from hookline_kernels import KernelError, new_keys, new_values
from hookline_kernels.cpu.rotary_cache import RotaryCache
from hookline_kernels.head_shape import HeadNorms, HeadShape
from hookline_kernels.layers import rms_norm_reference, rotate_reference
from hookline_testing.essential import essential

DTYPES = [torch.bfloat16, torch.float32]
TOLERANCES = {torch.bfloat16: 2**-8, torch.float32: 2e-6}
"""Of a result that is rounded once: a last place."""
NORMED_TOLERANCES = {torch.bfloat16: 2**-5, torch.float32: 1e-5}
"""Of the largest result: before it is turned, a number may fall to either side."""
EPSILON = 1e-5
POSITIONS = 3000
SHAPES = (
    # heads, KV heads, dim, block size
    (4, 2, 16, 16),
    (4, 2, 24, 4),
    (3, 3, 64, 16),
    (8, 1, 128, 32),
)


def random_values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@dataclass
class Case:
    """A step's tensors, its cache full of not-a-numbers, and its slots."""

    shape: HeadShape
    norms: HeadNorms | None
    heads: torch.Tensor
    rotary: tuple[torch.Tensor, torch.Tensor]
    positions: torch.Tensor
    slots: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor

    def run(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        kernel = RotaryCache(self.shape, self.norms)
        kernel.bind(self.keys, self.values)
        return kernel(
            self.heads,
            rotary=self.rotary,
            positions=self.positions,
            slots=self.slots,
        )


def make_case(
    sizes: tuple[int, int, int, int], dtype: torch.dtype, tokens: int, *, normed: bool
) -> Case:
    """Tokens at random positions, in random slots."""
    shape = HeadShape(
        num_heads=sizes[0],
        num_kv_heads=sizes[1],
        dim=sizes[2],
        block_size=sizes[3],
        dtype=dtype,
    )
    source = torch.Generator().manual_seed(tokens)
    turns = random_values(POSITIONS, shape.dim // 2) * 9
    weights = [random_values(shape.dim).add(side).to(dtype) for side in (1, -2)]
    blocks = tokens // shape.block_size + 3
    cache = (blocks, shape.block_size, shape.num_kv_heads, shape.dim, dtype)
    return Case(
        shape=shape,
        norms=HeadNorms(weights[0], weights[1], EPSILON) if normed else None,
        heads=random_values(tokens, shape.width).to(dtype),
        rotary=(turns.cos(), turns.sin()),
        positions=torch.randint(POSITIONS, (tokens,), generator=source),
        slots=torch.randperm(blocks * shape.block_size, generator=source)[:tokens],
        keys=new_keys(*cache).fill_(torch.nan),
        values=new_values(*cache).fill_(torch.nan),
    )


def expected_heads(case: Case) -> list[torch.Tensor]:
    """Queries, keys and values, rotated in float32."""
    shape = case.shape
    rows = case.heads.view(len(case.heads), -1, shape.dim).clone()
    counts = (shape.num_heads, shape.num_kv_heads, shape.num_kv_heads)
    query, key, value = rows.split(counts, 1)
    if case.norms is not None:
        query, key = (
            rms_norm_reference(side, weight, EPSILON, unit_offset=False)
            for side, weight in ((query, case.norms.query), (key, case.norms.key))
        )
    cosines, sines = (side[case.positions] for side in case.rotary)
    angles = cosines.repeat(1, 2), sines.repeat(1, 2)
    return [*(rotate_reference(s.float(), *angles) for s in (query, key)), value]


@pytest.mark.parametrize(
    ("sizes", "dtype", "normed"),
    # Each case compiles a kernel.
    essential(
        product(SHAPES, DTYPES, (False, True)),
        *zip(SHAPES, cycle(DTYPES), (False, False, True, True), strict=False),
    ),
    ids=str,
)
@pytest.mark.parametrize("tokens", [1, 17, 600])
def test_heads_are_turned_and_cached(
    sizes: tuple[int, int, int, int], dtype: torch.dtype, tokens: int, normed: bool
) -> None:
    """Results are in place and in the tokens' slots, and nowhere else."""
    case = make_case(sizes, dtype, tokens, normed=normed)
    wanted = expected_heads(case)

    found = case.run()

    rows = case.heads.view(tokens, -1, case.shape.dim)
    assert torch.equal(torch.cat(found, 1), rows)
    for side, exact in zip(found[:2], wanted[:2], strict=True):
        if normed:
            limit = NORMED_TOLERANCES[dtype] * exact.abs().max()
            assert (side.float() - exact).abs().max() <= limit
        else:
            rtol = TOLERANCES[dtype]
            torch.testing.assert_close(side.float(), exact, rtol=rtol, atol=2e-6)
    assert torch.equal(found[2], wanted[2])
    block, place = case.slots // sizes[3], case.slots % sizes[3]
    for cache, side in ((case.keys, found[1]), (case.values, found[2])):
        assert torch.equal(cache[block, place], side)
        cache[block, place] = torch.nan
        assert cache.isnan().all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_several_threads_give_what_one_gives(dtype: torch.dtype) -> None:
    """Each token is computed exactly once."""
    before = torch.get_num_threads()
    found = []

    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            case = make_case(SHAPES[3], dtype, 601, normed=True)
            case.run()
            found.append((case.heads, case.keys, case.values))
    finally:
        torch.set_num_threads(before)

    for one, several in zip(*found, strict=True):
        assert torch.equal(one.nan_to_num(9.0), several.nan_to_num(9.0))


def test_another_cache_may_be_bound() -> None:
    """A kernel that has served one cache writes only to the next."""
    case, other = (
        make_case(SHAPES[0], torch.float32, 5, normed=False) for _ in range(2)
    )
    kernel = RotaryCache(case.shape)

    for each in (case, other):
        kernel.bind(each.keys, each.values)
    kernel(
        other.heads,
        rotary=other.rotary,
        positions=other.positions,
        slots=other.slots,
    )

    assert case.keys.isnan().all()
    assert case.values.isnan().all()
    assert not other.keys.isnan().all()


def test_a_dtype_without_a_kernel_is_refused() -> None:
    """The caller falls back."""
    shape = HeadShape(
        num_heads=2, num_kv_heads=1, dim=8, block_size=4, dtype=torch.float16
    )

    with pytest.raises(KernelError, match="float16"):
        RotaryCache(shape)
