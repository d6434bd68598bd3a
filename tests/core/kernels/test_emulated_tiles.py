"""The emulated matrix unit computes what the unit does, to the last bit."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest
import torch
from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu import amx, isa, vectors
from hookline_kernels.cpu.elements import array_at
from hookline_kernels.cpu.tile_emulation import tile_emulator
from hookline_kernels.cpu.vectors import Emit

EMULATOR = (
    Path(__file__).parents[3] / "tools/testing/src/hookline_testing/emulated_amx.py"
)
ALWAYS = f"always:{EMULATOR}"
HEIGHT = 5
"""Rows of the sums; rows below them stay untouched."""
Floats = npt.NDArray[np.float32]
Halves = npt.NDArray[np.uint16]

FILES = ["gemm", "bf16x3_gemm", "feed_forward", "tiled_prefill", "shared_prefixes"]
SELECTION = "not test_shared_prefixes or one"
"""Most cases of shared prefixes take long to compile."""


def _multiply(_: object, sums: Any, rows: Any, pairs: Any) -> tuple[Signature, Emit]:
    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        heights = {0: amx.INT8(HEIGHT), 1: amx.INT8(HEIGHT), 2: amx.INT8(16)}
        before = amx.configure_tiles(builder, heights)
        for tile, address in enumerate(args):
            amx.load_tile(builder, tile, address, 64)
        amx.multiply_tiles(builder, 0, 1, 2)
        amx.store_tile(builder, 0, args[0], 64)
        amx.restore_tiles(builder, before)
        return context.get_dummy_value()

    return types.void(sums, rows, pairs), emit


def products(sums: Floats, rows: Halves, pairs: Halves) -> Floats:
    """Returns the tile of sums after one instruction; compiles it anew."""
    multiply: Any = intrinsic(_multiply)

    def body(place: Any) -> None:
        given = array_at(place, 3, np.int64)
        multiply(given[0], given[1], given[2])

    kernel: Any = numba.cfunc(types.void(types.intp))(body)
    found = sums.copy()
    addresses = [each.ctypes.data for each in (found, rows, pairs)]
    given = (ctypes.c_int64 * 3)(*addresses)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(ctypes.addressof(given))
    return found


def operands(lowest: int, highest: int) -> tuple[Floats, Halves, Halves]:
    """Random tiles of all exponents in a range, 0 for denormal numbers."""
    source = np.random.default_rng(lowest)
    halves = source.integers(0, 1 << 16, (2, 512)) & 0x807F
    halves |= source.integers(lowest, highest, (2, 512)) << 7
    sums = source.standard_normal(256).astype(np.float32)
    rows, pairs = halves.astype(np.uint16)
    return sums * np.float32(2.0) ** (highest - 127), rows, pairs


def flushed(numbers: Floats) -> Floats:
    smallest = np.finfo(np.float32).smallest_normal
    return np.where(np.abs(numbers) < smallest, np.copysign(0, numbers), numbers)


def expected(sums: Floats, rows: Halves, pairs: Halves) -> Floats:
    """The same in numpy: products are exact, each sum is rounded and flushed."""
    own, other = (
        flushed((each.astype(np.uint32) << 16).view(np.float32)).reshape(16, 16, 2)
        for each in (rows, pairs)
    )
    apart = np.zeros((16, 16, 2), np.float32)
    for step in range(16):
        exact = own[:, step, None].astype(np.float64) * other[None, step]
        apart = flushed((apart + exact).astype(np.float32))
    total = sums.reshape(16, 16).copy()
    added = flushed(apart[..., 0] + apart[..., 1])
    total[:HEIGHT] = flushed(flushed(total) + added)[:HEIGHT]
    return total.ravel()


@pytest.mark.parametrize(
    ("lowest", "highest"), [(117, 133), (0, 127), (40, 90)], ids=str
)
def test_products_have_the_same_bits(
    lowest: int, highest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in numpy and, where there is one, as by the matrix unit."""
    given = operands(lowest, highest)
    monkeypatch.setenv(isa.EMULATION, ALWAYS)
    tile_emulator().publish_key()
    monkeypatch.setattr(amx, "emulates_tiles", lambda: True)

    found = products(*given)

    assert found.tobytes() == expected(*given).tobytes()
    if isa.has_matrix_unit():
        monkeypatch.setattr(amx, "emulates_tiles", lambda: False)
        assert found.tobytes() == products(*given).tobytes()


def _powers(_: object, source: Any, target: Any) -> tuple[Signature, Emit]:
    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        numbers = vectors.load(builder, args[0], 16)
        vectors.store(builder, vectors.power_of_2(builder, numbers), args[1])
        return context.get_dummy_value()

    return types.void(source, target), emit


def test_powers_of_2_need_no_avx_512(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of numbers whose power is infinite, denormal or not a number."""
    monkeypatch.setattr(vectors, "has_float_scaling", lambda: False)
    powers: Any = intrinsic(_powers)
    normal = [-126.5, -100.25, -1, -0.3, 0, 1e-9, 0.5, 1, 7.75, 127.9]
    others = [-1e35, -200, -torch.inf, 1e30, torch.inf, torch.nan]
    numbers = torch.tensor([*normal, *others])
    found = torch.zeros(16)

    def body(place: Any) -> None:
        given = array_at(place, 2, np.int64)
        powers(given[0], given[1])

    kernel: Any = numba.cfunc(types.void(types.intp))(body)
    given = (ctypes.c_int64 * 2)(numbers.data_ptr(), found.data_ptr())
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(ctypes.addressof(given))

    torch.testing.assert_close(found[:10], numbers[:10].exp2(), rtol=1e-4, atol=0.0)
    assert found[10:15].tolist() == [0.0, 0.0, 0.0, torch.inf, torch.inf]
    assert found[15].isnan()


@pytest.mark.exhaustive
@pytest.mark.skipif(isa.emulates_tiles(), reason="these tests are emulated anyway")
def test_kernels_pass_the_same_tests_in_emulation() -> None:
    """In a separate process, as a process emulates all tiles or none."""
    folder = Path(__file__).parent
    files = [str(folder / f"test_{each}.py") for each in FILES]
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-k", SELECTION]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        env={**os.environ, isa.EMULATION: ALWAYS},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]


def test_emulated_kernels_are_cached_apart(tmp_path: Path) -> None:
    """Others would run instructions that are not there, or no emulation."""
    script = "from hookline_kernels.cpu.jit import source_stamp; print(source_stamp())"

    stamps = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, isa.EMULATION: each, "HOME": str(tmp_path)},
            capture_output=True,
            check=True,
        ).stdout
        for each in ("", ALWAYS)
    }

    assert len(stamps) == 2


@pytest.mark.parametrize("value", ["1", "always", "never:emulated_amx.py"])
def test_an_unknown_value_is_refused(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt one would test less than it promises."""
    monkeypatch.setenv(isa.EMULATION, value)

    with pytest.raises(ValueError, match='"missing:FILE", "always:FILE" or unset'):
        isa.emulates_tiles.__wrapped__()
