"""Norms, rotary embedding, gates and cache writes on the GPU are right."""

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from hookline_kernels import new_keys, new_values
from hookline_kernels.gpu.cache import write_cache
from hookline_kernels.gpu.gated import silu_mul
from hookline_kernels.gpu.norm import add_rms_norm, rms_norm
from hookline_kernels.gpu.rotary import rotate, rotate_and_write
from hookline_kernels.head_shape import HeadNorms
from hookline_kernels.layers import (
    gated_reference,
    rms_norm_reference,
    rotate_reference,
)

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
EPSILON = 1e-6


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    chosen: torch.dtype = request.param
    return chosen


def randn(
    *shape: int, dtype: torch.dtype, device: torch.device, seed: int = 0
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + seed)
    return torch.randn(shape, generator=generator).to(dtype).to(device)


def assert_same(found: torch.Tensor, wanted: torch.Tensor, units: int = 4) -> None:
    """Equal up to the last bits of a few numbers: sums have another order.

    Args:
        found: The kernel's result.
        wanted: The reference's.
        units: Largest error, in units of the last place.
    """
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    error = (found.double() - wanted.double()).abs()
    spacing = torch.finfo(found.dtype).eps * wanted.double().abs().clamp(min=1e-3)
    assert (error <= units * spacing).all()
    if found.dtype != torch.float32:
        assert int((error > 0).sum()) <= 0.01 * error.numel() + 1


@pytest.mark.parametrize("unit_offset", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (3, 20), (17, 64), (5, 1024), (2, 5120)])
def test_norm_rounds_as_models_do(
    shape: tuple[int, int], unit_offset: bool, dtype: torch.dtype, device: torch.device
) -> None:
    """Short and long rows, with both kinds of scaling."""
    values = randn(*shape, dtype=dtype, device=device) * 3
    weight = randn(shape[1], dtype=dtype, device=device)

    found = rms_norm(values, weight, EPSILON, unit_offset=unit_offset)

    wanted = rms_norm_reference(values, weight, EPSILON, unit_offset=unit_offset)
    assert_same(found, wanted)


def test_norm_takes_heads_anyhow_in_memory(
    dtype: torch.dtype, device: torch.device
) -> None:
    """Parts of a larger tensor, heads outermost, and more dimensions."""
    heads = randn(5, 7, 48, dtype=dtype, device=device)
    weight = randn(24, dtype=dtype, device=device)
    views = (
        heads[:, 2:6, 8:32],
        heads[:, :, :24].transpose(0, 1),
        heads[None, :, :, 24:],
        heads[:, :, ::2],
        heads[0, 0, :24],
        heads[:0, :, :24],
    )

    for view in views:
        wanted = rms_norm_reference(view, weight, EPSILON, unit_offset=False)
        assert_same(rms_norm(view, weight, EPSILON), wanted)


@pytest.mark.parametrize("shape", [(1, 64), (9, 100), (3, 4096)])
def test_residual_is_added_rounded_and_normed(
    shape: tuple[int, int], dtype: torch.dtype, device: torch.device
) -> None:
    """The sum is rounded as in torch, and the rounded sum is normed."""
    values = randn(*shape, dtype=dtype, device=device)
    residual = randn(*shape, dtype=dtype, device=device, seed=1)
    weight = randn(shape[1], dtype=dtype, device=device)
    total = values + residual

    found = add_rms_norm(values, residual, weight, EPSILON)

    assert torch.equal(residual, total)
    wanted = rms_norm_reference(total, weight, EPSILON, unit_offset=False)
    assert_same(found, wanted)


def test_what_cannot_be_normed_is_refused(device: torch.device) -> None:
    """Different dtypes, different widths, and strided rows raise errors."""
    values = randn(2, 8, dtype=torch.float32, device=device)
    weight = randn(8, dtype=torch.float32, device=device)

    with pytest.raises(ValueError, match="bfloat16"):
        rms_norm(values, weight.bfloat16(), EPSILON)
    with pytest.raises(ValueError, match=r"\(7,\)"):
        rms_norm(values, weight[:7], EPSILON)
    with pytest.raises(ValueError, match="contiguous"):
        add_rms_norm(values.repeat(1, 2)[:, ::2], values, weight, EPSILON)


@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (2, 1024), (5, 1500)])
def test_silu_rounds_as_models_do(
    shape: tuple[int, int], dtype: torch.dtype, device: torch.device
) -> None:
    """Also where the exponential would overflow, and with strided rows.

    A device's fast exponential of −12 is wrong by some 12 units of float32.
    """
    tokens, width = shape
    gate_up = randn(tokens, 2 * width, dtype=dtype, device=device) * 40
    units = 16 if dtype == torch.float32 and device.type == "cuda" else 4

    for rows in (gate_up, gate_up[:, None, :].expand(-1, 2, -1)[:, 0]):
        assert_same(silu_mul(rows), gated_reference(rows), units)


@pytest.mark.parametrize("turned", [32, 24])
@pytest.mark.parametrize("tokens", [1, 17])
def test_rotary_turns_in_place(
    tokens: int, turned: int, dtype: torch.dtype, device: torch.device
) -> None:
    """Views of one QKV tensor, and partly rotated heads."""
    fused = randn(tokens, 5 + 3 + 3, 32, dtype=dtype, device=device)
    before = fused.clone()
    angles = randn(tokens, turned // 2, dtype=torch.float32, device=device).repeat(1, 2)
    cosines, sines = angles.cos().to(dtype), angles.sin().to(dtype)

    rotate(fused[:, :5], fused[:, 5:8], cosines, sines)

    assert_same(fused[:, :8], rotate_reference(before[:, :8], cosines, sines))
    assert torch.equal(fused[:, 8:], before[:, 8:])


def make_caches(
    rows: bool, dtype: torch.dtype, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """4 blocks of 6 tokens and 3 heads; keys of 32 numbers, values of 20."""
    keys = new_keys(4, 6, 3, 32, dtype).to(device)
    values = new_values(4, 6, 3, 20, dtype).to(device)
    return (keys.contiguous(), values.contiguous()) if rows else (keys, values)


@pytest.mark.parametrize("rows", [False, True])
def test_cache_is_written_at_the_slots(
    rows: bool, dtype: torch.dtype, device: torch.device
) -> None:
    """In both layouts, and nowhere else; negative slots are skipped."""
    keys, values = make_caches(rows, dtype, device)
    slots = torch.tensor([7, 0, 23, -1, 8], device=device)
    key = randn(3, 5, 32, dtype=dtype, device=device).transpose(0, 1)
    value = randn(5, 3, 20, dtype=dtype, device=device)

    write_cache(key, value, keys, values, slots)
    write_cache(key[:0], value[:0], keys, values, slots[:0])

    written = slots >= 0
    for cache, given in ((keys, key), (values, value)):
        wanted = torch.zeros(cache.shape, dtype=dtype, device=device)
        wanted.flatten(0, 1)[slots[written]] = given[written]
        assert torch.equal(cache, wanted)


@pytest.mark.parametrize("rows", [False, True])
def test_turning_and_writing_at_once_equals_both(
    rows: bool, dtype: torch.dtype, device: torch.device
) -> None:
    """Queries and keys are rotated in place, and rotated keys are written."""
    slots = torch.tensor([7, 0, 23, -1, 8], device=device)
    query = randn(5, 7, 32, dtype=dtype, device=device)
    key, value = randn(5, 3, 52, dtype=dtype, device=device).split([32, 20], -1)
    angles = randn(5, 16, dtype=torch.float32, device=device).repeat(1, 2)
    cosines, sines = angles.cos().to(dtype), angles.sin().to(dtype)
    two = query.clone(), key.clone(), *make_caches(rows, dtype, device)
    one = query.clone(), key.clone(), *make_caches(rows, dtype, device)

    rotate(two[0], two[1], cosines, sines)
    write_cache(two[1], value, two[2], two[3], slots)
    rotate_and_write(
        *(one[0], one[1], value, cosines, sines),
        keys=one[2],
        values=one[3],
        slots=slots,
    )

    assert not torch.equal(one[1], key)
    for found, wanted in zip(one, two, strict=True):
        assert torch.equal(found, wanted)


def test_heads_are_normed_before_they_are_turned(
    dtype: torch.dtype, device: torch.device
) -> None:
    """In one launch as by two, also where heads fill no power of two."""
    slots = torch.tensor([7, 0, 23, -1, 8], device=device)
    query, key, value = randn(5, 13, 24, dtype=dtype, device=device).split([7, 3, 3], 1)
    norms = HeadNorms(
        randn(24, dtype=dtype, device=device, seed=1),
        randn(24, dtype=dtype, device=device, seed=2),
        EPSILON,
    )
    angles = randn(5, 12, dtype=torch.float32, device=device).repeat(1, 2)
    cosines, sines = angles.cos().to(dtype), angles.sin().to(dtype)
    turned = [
        rotate_reference(
            rms_norm_reference(heads, weight, EPSILON, unit_offset=False),
            cosines,
            sines,
        )
        for heads, weight in ((query, norms.query), (key, norms.key))
    ]
    keys = torch.zeros(4, 6, 3, 24, dtype=dtype, device=device)

    rotate_and_write(
        *(query, key, value, cosines, sines),
        keys=keys,
        values=torch.zeros_like(keys),
        slots=slots,
        norms=norms,
    )

    for found, wanted in zip((query, key), turned, strict=True):
        # What cancels out in a rotation leaves errors of what it was made of.
        spacing = torch.finfo(dtype).eps * float(wanted.abs().max())
        torch.testing.assert_close(found, wanted, rtol=0.0, atol=2 * spacing)
    written = slots >= 0
    assert torch.equal(keys.flatten(0, 1)[slots[written]], key[written])


def test_what_cannot_be_turned_is_refused(device: torch.device) -> None:
    """Partly rotated heads with a cache write, and strided heads, raise errors."""
    heads = randn(2, 3, 8, dtype=torch.float32, device=device)
    angles = randn(2, 4, dtype=torch.float32, device=device)
    cache = torch.zeros(1, 4, 3, 8, device=device)
    slots = torch.arange(2, device=device)

    with pytest.raises(ValueError, match="8 numbers of which 4"):
        rotate_and_write(
            heads, heads, heads, angles, angles, keys=cache, values=cache, slots=slots
        )
    with pytest.raises(ValueError, match="one another"):
        rotate(heads.transpose(1, 2), heads, angles, angles)
