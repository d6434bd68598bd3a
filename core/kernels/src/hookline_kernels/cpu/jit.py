"""Compiles kernels with numba, and keeps them on disk for the next start.

A folder of the user's holds them, so that an installation nobody may write to is as
quick. One file a variant: processes that compile at once cannot take one another's. A
change of any source of this package makes a new folder, and the oldest go.
"""

import hashlib
import itertools
import os
import pickle
import secrets
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import registry, types
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.ccallback import CFunc
from numba.core.errors import NumbaError
from numba.core.sigutils import normalize_signature

from hookline_kernels.failure import KernelError

FOLDERS_KEPT = 4
_CACHE_ERRORS = (OSError, EOFError, pickle.PickleError, ValueError, RuntimeError)


def compile_kernel(
    body: Callable[..., Any], signature: types.Type, variant: str
) -> Any:
    """A C function of the body, from disk if it was compiled before.

    Args:
        body: Compiles without Python objects.
        signature: Of numba's.
        variant: Names all that the body was made for; letters, digits and dashes.

    Raises:
        KernelError: It cannot be compiled here.
    """
    options = {"error_model": "numpy", "nopython": True}
    _number_functions_anew()
    try:
        kernel: Any = CFunc(body, normalize_signature(signature), {}, options)
        kernel._cache = _VariantCache(body, variant)  # noqa: SLF001 - no other way
        kernel.compile()
    except _CACHE_ERRORS:
        return _compile_afresh(body, signature, options)
    except NumbaError as error:
        raise KernelError(f"numba cannot compile it: {error}") from error
    return kernel


def _number_functions_anew() -> None:
    """The next functions get names that no process has given to others.

    Numba tells functions of one name, but of other closures, apart by a number that
    counts up from 1 in each process. Of two kernels from disk that different processes
    compiled, functions could thus have one name, and the linker takes the first it
    knows for both: the second kernel would run parts of the first.
    """
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(48))  # noqa: SLF001


def _compile_afresh(
    body: Callable[..., Any], signature: types.Type, options: dict[str, Any]
) -> Any:
    """Without the disk, which cannot be read or written."""
    try:
        kernel = CFunc(body, normalize_signature(signature), {}, options)
        kernel.compile()
    except (NumbaError, RuntimeError, OSError) as error:
        raise KernelError(f"numba cannot compile it: {error}") from error
    return kernel


class _VariantCache(FunctionCache):
    """Numba's cache of one function, in one file for one variant."""

    def __init__(self, body: Callable[..., Any], variant: str) -> None:
        self._variant = variant
        own = {"_locator_classes": [_Locator.of(variant)]}
        files: Any = type("_VariantFiles", (CompileResultCacheImpl,), own)
        self._impl_class = files
        super().__init__(body)  # type: ignore[no-untyped-call]

    def _index_key(self, sig: object, codegen: Any) -> tuple[object, ...]:
        """Numba's would change in each process: the body holds functions."""
        return (sig, codegen.magic_tuple(), self._variant)


class _Locator(_CacheLocator):
    """Says where a variant lies."""

    variant = ""

    @classmethod
    def of(cls, variant: str) -> type["_Locator"]:
        return type("_VariantLocator", (cls,), {"variant": variant})

    @classmethod
    def from_function(cls, _: object, __: str) -> "_Locator":
        return cls()

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return source_stamp()

    def get_disambiguator(self) -> str:
        return self.variant


@cache
def cache_folder() -> Path:
    """Where kernels of these sources lie; the oldest folders of others are removed."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME")
    base = Path(given or home or Path.home() / ".cache") / "hookline" / "kernels"
    folder = base / source_stamp()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    others = sorted(base.iterdir(), key=lambda path: path.stat().st_mtime)
    for old in [path for path in others if path != folder][: -(FOLDERS_KEPT - 1)]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


@cache
def source_stamp() -> str:
    """Changes with any source of this package, and with numba and the processor."""
    digest = hashlib.sha256(numba.__version__.encode())
    target = registry.cpu_target.target_context.codegen().magic_tuple()
    digest.update(repr(target).encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
