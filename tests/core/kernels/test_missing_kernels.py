import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numba.core import types

from hookline_kernels import KernelError
from hookline_kernels.compile_farm import CompileFarm
from hookline_kernels.cpu import jit
from hookline_kernels.missing import KernelMissingError, OnlyCached, when_missing

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

SIGNATURE: Any = types.int64(types.int64)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    jit.kept_cache.cache_clear()
    yield
    jit.kept_cache.cache_clear()


def _adding(number: int) -> Any:
    def add(value: int) -> int:
        return value + number

    return jit.compile_kernel(add, SIGNATURE, f"add-{number}")


def _broken() -> Any:
    def broken(value: int) -> object:
        return value.no_such_attribute  # type: ignore[attr-defined]

    return jit.compile_kernel(broken, SIGNATURE, "broken")


def _call(kernel: Any, value: int) -> int:
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(kernel.address)
    result: int = function(value)
    return result


def test_kernel_that_is_not_cached_is_refused_and_noted() -> None:
    """
    `OnlyCached` names the kernels that are missing, and lets those in the cache pass.
    """
    _adding(1)
    handler = OnlyCached()

    with when_missing(handler):
        assert _call(_adding(1), 5) == 6
        with pytest.raises(KernelMissingError, match="add-2"):
            _adding(2)

    assert handler.missing == ["add-2"]


def test_farm_compiles_in_processes_and_leaves_kernels_in_the_cache() -> None:
    """
    A farm's kernels work once they are needed, and are in the cache afterwards.
    """
    ended = []
    farm = CompileFarm(2, lambda variant, _, done: ended.append((variant, done)))

    with when_missing(farm):
        kernels = [_adding(number) for number in (1, 2, 3)]
        assert [_call(kernel, 10) for kernel in reversed(kernels)] == [13, 12, 11]
        farm.finish()

    assert sorted(ended) == [("add-1", True), ("add-2", True), ("add-3", True)]
    with when_missing(OnlyCached()):
        assert _call(_adding(2), 1) == 3


def test_farm_tells_of_a_kernel_that_cannot_be_compiled() -> None:
    """
    A kernel that does not compile raises at its first use, and harms no other.
    """
    ended = []
    farm = CompileFarm(1, lambda variant, _, done: ended.append((variant, done)))

    with when_missing(farm):
        broken, good = _broken(), _adding(4)
        with pytest.raises(KernelError, match="broken"):
            _ = broken.address
        assert _call(good, 1) == 5

    assert ended == [("broken", False), ("add-4", True)]


def test_closed_farm_leaves_no_process_and_no_kernel() -> None:
    """
    Closing ends the processes; what they had not finished is compiled when needed.
    """
    farm = CompileFarm(1, lambda *_: None)
    with when_missing(farm):
        _adding(6), _adding(7)

    farm.close()

    with when_missing(OnlyCached()), pytest.raises(KernelMissingError):
        _adding(7)
    assert _call(_adding(7), 1) == 8
