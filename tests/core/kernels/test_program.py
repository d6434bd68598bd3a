"""Recorded kernels are replayed in order, by all threads."""

import pytest
import torch

from hookline_kernels.cpu.norm import RmsNorm
from hookline_kernels.cpu.recording import Arena, Recorder, Recording, recording
from hookline_kernels.metadata import AttentionMetadata

WIDTH = 64
METADATA = AttentionMetadata(
    slot_mapping=torch.zeros(0, dtype=torch.int64),
    block_tables=torch.zeros(0, 1, dtype=torch.int64),
    query_lens=[],
    seq_lens=[],
    num_decodes=0,
    seq_lens_tensor=torch.zeros(0, dtype=torch.int64),
)
"""Of no attention."""


def norms(count: int) -> list[RmsNorm]:
    """Norms with different weights, so that their order matters."""
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
    recorder = Recorder(Arena())
    with recording(recorder):
        found = chain(values, parts)
    assert not recorder.is_refused
    return recorder.recording(), found


@pytest.mark.parametrize("rows", [3, 2000], ids=["by one thread", "by all"])
def test_recorded_kernels_are_replayed(rows: int, threads: int) -> None:
    """With current inputs; each kernel sees all results of the one before."""
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
    """Small kernels between large ones wait, and are waited for."""
    del threads
    values, parts = torch.rand(2000, WIDTH), norms(12)

    def mixed() -> list[torch.Tensor]:
        found = [values]
        for large, small in zip(parts[::2], parts[1::2], strict=True):
            found += [large(found[0]), small(found[-1][:2]), small(found[-1][-2:])]
        return found[1:]

    recorder = Recorder(Arena())
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
    """A kernel that starts twice has different arguments each time."""
    values, [part] = torch.rand(3, WIDTH), norms(1)
    program, found = recorded(values, [part, part])
    expected = found.clone()
    part(torch.rand(5, WIDTH))
    found.fill_(0)

    program.run(METADATA)

    assert torch.equal(found, expected)


def test_what_torch_computes_is_refused() -> None:
    """It would be missing from the recording; views are not."""
    for compute, is_refused in (
        (lambda x: x + 1, True),
        (lambda x: x.t().contiguous(), True),
        (torch.empty_like, True),
        (lambda x: x[1:].view(-1, 2), False),
        (lambda x: x.contiguous(), False),
    ):
        recorder = Recorder(Arena())
        with torch.inference_mode():
            values = torch.rand(4, WIDTH)
            with recording(recorder):
                compute(values)
        assert recorder.is_refused == is_refused


def test_unused_memory_is_reused() -> None:
    """A view keeps it allocated; programs of other sizes reuse it."""
    arena = Arena()

    def address(rows: int) -> int:
        return arena.new((rows, 5), torch.bfloat16).data_ptr()

    first = arena.new((100, 5), torch.bfloat16)
    look, place = first[3:].view(-1), first.data_ptr()
    del first
    other = arena.new((100, 5), torch.bfloat16)
    assert other.data_ptr() != place
    assert place % 64 == other.data_ptr() % 64 == 0
    look.fill_(1)
    del look

    assert address(100) == address(60) == address(102) == place
    assert address(1000) not in {place, other.data_ptr()}


def test_a_result_can_be_retained() -> None:
    """The tensor has the same address, and does not keep it allocated."""
    arena = Arena()
    result = arena.new((3, 5), torch.float32)
    again, place = arena.retain(result), result.data_ptr()
    result.fill_(2)
    assert torch.equal(again, result)
    del result

    assert arena.new((3, 5), torch.float32).data_ptr() == place
    with pytest.raises(ValueError, match="outside of the arena"):
        arena.retain(torch.zeros(2))
