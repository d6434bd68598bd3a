"""Adapters add B·(A·x) to the rows that have them, whatever else the step computes."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline_kernels import KernelError
from hookline_kernels.cpu import isa
from hookline_kernels.cpu.panels import lay_panels
from hookline_kernels.cpu.recording import Arena, Recorder, recording
from hookline_kernels.cpu.vector_gemm import VectorGemm
from hookline_kernels.cpu.vector_panels import has_pairs
from hookline_lora.kernels.cpu_kernel import FEW, MOST_RANKS
from hookline_lora.kernels.cpu_site import CpuSite
from hookline_lora.kernels.parts import Parts
from hookline_lora.kernels.reference import add_reference
from hookline_lora.kernels.rows import StepRows
from hookline_lora.kernels.site import AdaptedSite
from hookline_lora.kernels.slices import Slice, slices_of

Slices = Sequence[tuple[int, ...]]
SLOTS = 5
BELOW = [
    each.value
    for each in isa.host_isas()
    if each not in {isa.Isa.AMX, isa.current_isa()}
]
HEADS = [(0, 96), (96, 32), (128, 32)]
ALTERNATING = [(0, 64, 16, 32), (16, 64, 16, 32)]
PRODUCTS: list[Slices] = [
    *(HEADS, ALTERNATING, [(0, 1)], [(2, 77), (80, 20)], [(0, 200)]),
    [(0, 40, 8, 16), (8, 40, 8, 16)],
]
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 0.01}
"""Of the norm of what is added."""


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    source = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=source)


def adapter(inputs: int, slices: Slices, ranks: list[int]) -> Parts:
    """Random matrices; no rank is a layer that the adapter leaves alone."""
    return [
        (numbers(rank, inputs, seed=index) / inputs**0.5, numbers(each[1], rank))
        if rank
        else None
        for index, (each, rank) in enumerate(zip(slices, ranks, strict=True))
    ]


def step(*slots: int) -> StepRows:
    rows = StepRows(max(len(slots), 1), SLOTS)
    rows.fill(np.array(slots, np.int64))
    return rows


def assert_adds(  # noqa: PLR0917 - a case
    site: AdaptedSite | CpuSite,
    slots: dict[int, Parts],
    rows: StepRows,
    tokens: int,
    slices: Slices,
    inputs: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Compares with the reference; columns behind the slices belong to others."""
    places = slices_of(slices)
    width = max(each.end for each in places) + 3
    values = numbers(tokens, inputs).to(dtype)
    before = numbers(tokens, width, seed=1).to(dtype)
    found, expected = before.clone(), before.clone()
    add_reference(expected, values, rows, places, slots)

    site.add(found, values, rows)

    added = (expected.float() - before.float()).norm()
    assert (found.float() - expected.float()).norm() <= TOLERANCES[dtype] * added
    untouched = expected == before
    untouched &= (expected == before).all(1, keepdim=True)
    assert torch.equal(found[untouched], before[untouched])
    return found


@settings(max_examples=60)
@given(data=st.data())
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_any_adapters_are_added_to_any_rows(
    dtype: torch.dtype, data: st.DataObject
) -> None:
    """Ranks, slots, numbers of rows, and sizes that fill no vectors."""
    tokens = data.draw(st.one_of(st.integers(0, 40), st.integers(41, 600)))
    inputs = data.draw(st.sampled_from([1, 31, 64, 96, 100, 160]))
    slices = data.draw(st.sampled_from(PRODUCTS))
    ranks = st.lists(
        st.one_of(st.integers(0, 8), st.integers(9, 64)),
        min_size=len(slices), max_size=len(slices),
    )  # fmt: skip
    slots = {
        slot: adapter(inputs, slices, data.draw(ranks))
        for slot in data.draw(st.sets(st.integers(0, SLOTS - 1)))
    }
    source = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows = step(*source.integers(-1, data.draw(st.integers(0, SLOTS)), tokens))
    site = AdaptedSite(inputs, slices, dtype, SLOTS)
    for slot, parts in slots.items():
        site.set(slot, parts)

    assert_adds(site, slots, rows, tokens, slices, inputs, dtype)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("pairs", [False, True] if has_pairs() else [False])
@pytest.mark.parametrize("tokens", [1, 3, 16, FEW + 1, 200])
def test_all_forms_give_the_same(tokens: int, pairs: bool) -> None:
    """Of products, and whoever computes them."""
    slots = {0: adapter(96, HEADS, [16, 8, 8]), 3: adapter(96, HEADS, [7, 0, 33])}
    site = CpuSite(96, slices_of(HEADS), torch.bfloat16, SLOTS, pairs=pairs)
    whole = AdaptedSite(96, HEADS, torch.bfloat16, SLOTS)
    for slot, parts in slots.items():
        site.set(slot, whole.packed(parts))
    rows = step(*(np.arange(tokens) % 4))

    given = (slots, rows, tokens, HEADS, 96, torch.bfloat16)
    first = assert_adds(site, *given)

    for _ in range(20):
        assert torch.equal(assert_adds(site, *given), first)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_a_rows_result_does_not_depend_on_other_rows(dtype: torch.dtype) -> None:
    """It has the same bits, so that greedy tokens do not depend on the batch."""
    site = AdaptedSite(100, HEADS, dtype, SLOTS)
    site.set(2, adapter(100, HEADS, [16, 5, 9]))
    values, output = numbers(90, 100).to(dtype), numbers(90, 160).to(dtype)
    together = output.clone()
    site.add(together, values, step(*[2] * 90))

    for count in (1, 2, 3, 7):
        for first in range(0, 90 - count, 11):
            part = slice(first, first + count)
            alone = output[part].clone()
            site.add(alone, values[part], step(*[2] * count))
            assert torch.equal(alone, together[part])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_is_no_number_stays_in_its_row(bad: float) -> None:
    """Also where an adapter's ranks are odd, and inputs fill no step."""
    site = AdaptedSite(51, [(0, 17)], torch.bfloat16, SLOTS)
    site.set(0, adapter(51, [(0, 17)], [3]))
    values = numbers(6, 51).bfloat16()
    values[2, 50] = bad
    found = torch.zeros(6, 17).bfloat16()

    site.add(found, values, step(0, 0, 0, -1, 0, 0))

    assert not found[2].isfinite().any()
    assert found[[0, 1, 3, 4, 5]].isfinite().all()


def test_slots_change_between_steps() -> None:
    """An adapter leaves nothing behind, and may come to several slots."""
    first, second = adapter(64, HEADS, [64, 64, 64]), adapter(64, HEADS, [1, 0, 2])
    site = AdaptedSite(64, HEADS, torch.float32, SLOTS)
    rows, given = step(0, 1, -1, 0, 4), (5, HEADS, 64, torch.float32)
    packed = site.packed(second)
    site.set(0, first)
    site.set(1, packed)
    site.set(4, first)
    assert_adds(site, {0: first, 1: second, 4: first}, rows, *given)

    site.set(0, packed)
    site.clear(4)

    assert packed.ranks == (1, 0, 2)
    assert_adds(site, {0: second, 1: second}, rows, *given)


@pytest.mark.parametrize("tokens", [1, 5, 80])
def test_a_recorded_step_is_replayed_with_other_adapters(tokens: int) -> None:
    """Also with larger ranks, in other slots, for other rows."""
    linear = VectorGemm(lay_panels(numbers(64, 96).bfloat16()))
    site = AdaptedSite(96, [(0, 64)], torch.bfloat16, SLOTS)
    site.set(1, adapter(96, [(0, 64)], [8]))
    rows, values = StepRows(100, SLOTS), numbers(tokens, 96).bfloat16()
    rows.fill(np.full(tokens, 1))
    recorder = Recorder(arena := Arena())
    with recording(recorder):
        kept = linear(values)
        site.add(kept, values, rows)
    output = arena.retain(kept)
    program: Any = recorder.recording()  # without attention, it needs no batch
    assert not recorder.is_refused
    site.clear(1)
    other = adapter(96, [(0, 64)], [40])
    site.set(3, other)

    for slots in (np.arange(tokens) % 2 * 3, np.full(tokens, -1)):
        rows.fill(slots)
        arena.fill_with_nan()
        program.run(None)

        expected = linear(values)
        site.add(expected, values, rows)
        assert torch.equal(output, expected)


def test_many_ranks_need_little_memory() -> None:
    """Blocks of rows get smaller; more than the most are refused."""
    most = MOST_RANKS
    site = AdaptedSite(32, [(0, 16)], torch.float32, SLOTS)
    slots = {0: adapter(32, [(0, 16)], [most])}
    site.set(0, slots[0])

    rows = step(*[0] * 70)
    assert_adds(site, slots, rows, 70, [(0, 16)], 32, torch.float32)

    with pytest.raises(ValueError, match=f"at most {most} ranks together"):
        site.set(1, adapter(32, [(0, 16)], [most + 1]))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "a product of 1 layers, not 0"),
        ([(torch.ones(2, 31), torch.ones(16, 2))], "do not fit a layer of 32"),
        ([(torch.ones(2, 32), torch.ones(15, 2))], "do not fit a layer of 32"),
        ([(torch.ones(2, 32), torch.ones(16, 3))], "do not fit a layer of 32"),
        ([(torch.ones(0, 32), torch.ones(16, 0))], "do not fit a layer of 32"),
    ],
)
def test_other_shapes_are_refused(parts: Parts, message: str) -> None:
    """Before a slot changes."""
    site = AdaptedSite(32, [(0, 16)], torch.float32, SLOTS)
    with pytest.raises(ValueError, match=message):
        site.set(0, parts)


def test_wrong_rows_and_slots_are_refused() -> None:
    """Kernels read and write without looking."""
    site = AdaptedSite(32, [(0, 16)], torch.float32, SLOTS)
    good = torch.zeros(3, 16), torch.zeros(3, 32)
    rows = step(0, 0, 0)
    site.add(*good, rows)
    for output, values in (
        (torch.zeros(2, 16), good[1]),
        (torch.zeros(3, 15), good[1]),
        (good[0], torch.zeros(3, 31)),
        (good[0].bfloat16(), good[1]),
        (torch.zeros(16, 3).T, good[1]),
        (good[0], torch.zeros(32, 3).T),
    ):
        with pytest.raises(ValueError, match="are no rows of this product"):
            site.add(output, values, rows)
    with pytest.raises(ValueError, match="are no rows of this product"):
        site.add(*good, StepRows(3, SLOTS + 1))
    for slot in (-1, SLOTS):
        with pytest.raises(ValueError, match=f"slot {slot} is not one of {SLOTS}"):
            site.clear(slot)


@pytest.mark.parametrize("slices", [[], [(0, 0)], [(-1, 4)], [(0, 8, 4, 3)]], ids=str)
def test_slices_without_sense_are_refused(slices: Slices) -> None:
    """Instead of outputs that kernels write elsewhere."""
    with pytest.raises(ValueError, match="slice"):
        AdaptedSite(32, slices, torch.float32, SLOTS)


def test_other_dtypes_have_no_kernel() -> None:
    """The caller says so at the start."""
    with pytest.raises(KernelError, match=r"no kernel adds adapters in torch\.float16"):
        AdaptedSite(32, [(0, 16)], torch.float16, SLOTS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("tier", BELOW)
def test_lower_tiers_pass_the_same_tests(tier: str) -> None:
    """In a separate process, as a process has one tier."""
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-k", "not tiers"]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, __file__],
        env={**os.environ, isa.VARIABLE: tier},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-5_000:]


def test_blocks_of_a_slice_are_columns() -> None:
    """16 of one layer, and then as many of another."""
    columns = Slice(16, 40, 16, 32).columns()

    assert columns.tolist() == [*range(16, 32), *range(48, 64), *range(80, 88)]
    assert Slice(16, 40, 16, 32).end == 88
