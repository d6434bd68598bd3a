"""Kernels are cached on disk where possible, and compiled elsewhere."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHOOSE = """
import logging
import sys

import torch

logging.basicConfig()
for name in sys.argv[1:]:
    sys.modules[name] = None

import pytest
from hookline_kernels import choose_attention

chosen = choose_attention(
    num_heads=2, num_kv_heads=1, key_dim=8, value_dim=8, block_size=4,
    dtype=torch.float32,
)
print(chosen.name)
if chosen.name == "compiled":
    from hookline_kernels.cpu import attention

    print(attention._kernel(chosen.attend._shape).cache_hits)
"""

COUNT = """
import ctypes
import sys

import numpy as np
from numba import njit
from numba.core import types

from hookline_kernels.cpu.elements import array_at
from hookline_kernels.cpu.jit import compile_kernel

def counting(weight):
    @njit
    def leaves(depth):
        # calls of itself stay calls, by name
        return weight if depth < 2 else leaves(depth - 1) + leaves(depth - 2)

    def body(numbers):
        found = array_at(numbers, 1, np.int64)
        found[0] = leaves(found[0])

    return body

for each in sys.argv[1:]:
    kernel = compile_kernel(counting(int(each)), types.void(types.intp), each)
    numbers = (ctypes.c_int64 * 1)(5)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(ctypes.addressof(numbers))
    print(kernel.cache_hits, numbers[0])
"""


def run(script: str, cache: Path, *arguments: str) -> tuple[list[str], str]:
    """Words that a separate process prints, and its log."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split(), done.stderr


def choose(cache: Path, *missing: str) -> tuple[list[str], str]:
    """Kernels that a separate process chooses, and its log."""
    return run(CHOOSE, cache, *missing)


@pytest.mark.exhaustive
def test_a_second_process_finds_the_first_ones_kernel(tmp_path: Path) -> None:
    """It is compiled once, into a folder that only its owner can open."""
    first, _ = choose(tmp_path)
    second, _ = choose(tmp_path)

    assert first == ["compiled", "0"]
    assert second == ["compiled", "1"]
    (folder,) = (tmp_path / "hookline" / "kernels").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.exhaustive
def test_kernels_of_several_processes_are_not_taken_for_one_another(
    tmp_path: Path,
) -> None:
    """Functions of one name with different closures can be loaded together."""
    for number in ("10", "20"):
        assert run(COUNT, tmp_path, number)[0] == ["0", str(8 * int(number))]

    found, _ = run(COUNT, tmp_path, "10", "20")

    assert found == ["1", "80", "1", "160"]


@pytest.mark.exhaustive
def test_the_next_folder_is_taken_if_the_first_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second process finds the kernel there, too."""
    file, home = tmp_path / "file", tmp_path / "home"
    file.touch()
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))

    found = [choose(file)[0] for _ in range(2)]

    assert found == [["compiled", "0"], ["compiled", "1"]]
    assert (home / ".cache/hookline/kernels").is_dir()


@pytest.mark.exhaustive
def test_a_damaged_file_is_passed_over(tmp_path: Path) -> None:
    """A kernel that was truncated by a full disk is compiled again."""
    choose(tmp_path)
    for path in tmp_path.rglob("*.nb?"):
        path.write_bytes(path.read_bytes()[:100])

    chosen, _ = choose(tmp_path)

    assert chosen == ["compiled", "0"]


@pytest.mark.exhaustive
def test_old_sources_kernels_are_removed(tmp_path: Path) -> None:
    """The folder does not grow with each version that was ever installed."""
    for number in range(9):
        (tmp_path / "hookline" / "kernels" / str(number)).mkdir(parents=True)

    choose(tmp_path)

    assert len(list((tmp_path / "hookline" / "kernels").iterdir())) == 4


def test_without_the_compiler_torch_is_used_with_a_warning(
    tmp_path: Path,
) -> None:
    """Nothing falls back silently."""
    chosen, log = choose(tmp_path, "numba")

    assert chosen == ["torch"]
    warning = "WARNING:hookline_kernels.choosing:attention falls back to torch: "
    assert f"{warning}numba is not installed" in log
