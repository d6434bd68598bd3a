"""Kernels that were noted are started again, in their order, by all threads."""

from collections.abc import Iterator

import pytest
import torch

from hookline_kernels.cpu.norm import RmsNorm
from hookline_kernels.cpu.recording import Arena, Recorder, Recording, fresh, recording
from hookline_kernels.metadata import PagedMetadata

WIDTH = 64
METADATA = PagedMetadata(
    slots=torch.zeros(0, dtype=torch.int64),
    block_tables=torch.zeros(0, 1, dtype=torch.int64),
    query_lens=[],
    seq_lens=[],
    num_single=0,
    seq_lens_tensor=torch.zeros(0, dtype=torch.int64),
)
"""Of no attention."""


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Also more than there are cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def norms(count: int) -> list[RmsNorm]:
    """Each with a weight of its own, so that their order is to be seen."""
    torch.manual_seed(3)
    weights = [torch.rand(WIDTH) + 0.5 for _ in range(count)]
    return [RmsNorm(weight, 1e-5, unit_offset=False) for weight in weights]


def chain(values: torch.Tensor, parts: list[RmsNorm]) -> torch.Tensor:
    for part in parts:
        values = part(values)
    return values


def recorded(
    values: torch.Tensor, parts: list[RmsNorm]
) -> tuple[Recording, torch.Tensor]:
    recorder = Recorder((Arena(),))
    with recording(recorder):
        found = chain(values, parts)
    assert not recorder.is_refused
    return recorder.recording(), found


@pytest.mark.parametrize("rows", [3, 2000], ids=["by one thread", "by all"])
def test_what_was_noted_is_done_again(rows: int, threads: int) -> None:
    """With what lies there now; each kernel sees all that the one before it made."""
    del threads
    values, parts = torch.rand(rows, WIDTH), norms(40)
    program, found = recorded(values, parts)
    assert torch.equal(found, chain(values, parts))

    for _ in range(5):
        values.copy_(torch.rand(rows, WIDTH))
        found.fill_(float("nan"))
        assert program.run(METADATA)
        assert torch.equal(found, chain(values, parts))


def test_one_and_all_threads_in_turn(threads: int) -> None:
    """Small kernels between large ones are waited for, and wait."""
    del threads
    values, parts = torch.rand(2000, WIDTH), norms(12)

    def mixed() -> list[torch.Tensor]:
        found = [values]
        for large, small in zip(parts[::2], parts[1::2], strict=True):
            found += [large(found[0]), small(found[-1][:2]), small(found[-1][-2:])]
        return found[1:]

    recorder = Recorder((Arena(),))
    with recording(recorder):
        found = mixed()
    program = recorder.recording()
    for _ in range(5):
        values.copy_(torch.rand(2000, WIDTH))
        for each in found:
            each.fill_(float("nan"))
        assert program.run(METADATA)
        expected = mixed()
        assert all(map(torch.equal, found, expected))


def test_arguments_are_kept_as_they_were() -> None:
    """A kernel that was started twice had other arguments each time."""
    values, [part] = torch.rand(3, WIDTH), norms(1)
    program, found = recorded(values, [part, part])
    expected = found.clone()
    part(torch.rand(5, WIDTH))
    found.fill_(0)

    program.run(METADATA)

    assert torch.equal(found, expected)


def test_what_torch_computes_is_refused() -> None:
    """It would be missing; looks at the same memory are not."""
    for compute, is_refused in (
        (lambda x: x + 1, True),
        (lambda x: x.t().contiguous(), True),
        (torch.empty_like, True),
        (lambda x: x[1:].view(-1, 2), False),
        (lambda x: x.contiguous(), False),
    ):
        recorder = Recorder((Arena(),))
        with torch.inference_mode():
            values = torch.rand(4, WIDTH)
            with recording(recorder):
                compute(values)
        assert recorder.is_refused == is_refused


def test_memory_of_two_layers_ago_is_used_again() -> None:
    """What the last layer made is not."""
    arenas = (Arena(), Arena())

    def addresses() -> list[int]:
        recorder, found = Recorder(arenas), []
        with recording(recorder):
            for _ in range(4):
                found += [fresh((3, 5), torch.bfloat16).data_ptr() for _ in range(2)]
                recorder.turn()
        return found

    addresses()
    first = addresses()

    assert len(set(first)) == 4
    assert first[:4] == first[4:]
    assert all(each % 64 == 0 for each in first)
    assert addresses() == first


def test_memory_that_is_too_small_is_left_out() -> None:
    """Nothing of an earlier program moves."""
    arena = Arena()
    small = arena.new((10,), torch.float32)
    large = arena.new((1 << 22,), torch.float32)
    arena.rewind()

    assert arena.new((10,), torch.float32).data_ptr() == small.data_ptr()
    assert arena.new((1 << 22,), torch.float32).data_ptr() == large.data_ptr()
