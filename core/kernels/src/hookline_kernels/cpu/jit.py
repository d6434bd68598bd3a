"""Compiles kernels with numba, and caches them on disk for the next start.

The cache is a folder of the user's, so that read-only installations start as fast; what
only can be read in a better place, such as an image's, is found there, too. Each
variant has its own file, so that processes that compile at the same time do not mix
theirs up. A change of any source of this package makes a new folder; those that were
not used for longest are removed.
"""

import hashlib
import itertools
import logging
import os
import pickle
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config, registry, types
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.ccallback import CFunc
from numba.core.errors import NumbaError
from numba.core.sigutils import normalize_signature

from hookline_host.cache_folders import KeptCache, keep_cache
from hookline_kernels.cpu.isa import (
    compile_features,
    emulates_tiles,
    emulator_path,
    is_lowered,
)
from hookline_kernels.cpu.tile_emulation import tile_emulator
from hookline_kernels.failure import KernelError, KernelNotKeptError
from hookline_kernels.missing import current_handler

_ROOM_BYTES = 16 * 2**20
"""A model's kernels take some 3 MB."""
_log = logging.getLogger(__name__)
_OPTIONS = {"error_model": "numpy", "nopython": True}
_CACHE_ERRORS = (OSError, EOFError, pickle.PickleError, ValueError, RuntimeError)

config._config_fname = os.devnull  # noqa: SLF001 - settings in the working directory
config.reload_config()


def compile_kernel(
    body: Callable[..., Any], signature: types.Type, variant: str
) -> Any:
    """Compiles a body to a C function, or reads it from the disk cache.

    Within `when_missing`, a handler decides about kernels that are not in the cache.

    Args:
        body: Must compile without Python objects.
        signature: The type of the function.
        variant: Unique name of the body and its shapes; letters, digits and dashes.

    Raises:
        KernelError: numba cannot compile it.
    """
    _target()
    if emulates_tiles():
        tile_emulator().publish_key()  # kernels from disk need it, too
    handler = current_handler()
    if handler is None or _is_cached(body, signature, variant):
        return _compile(body, signature, variant)
    return handler.take(variant, lambda: _compile_for_others(body, signature, variant))


def _compile(body: Callable[..., Any], signature: types.Type, variant: str) -> Any:
    """Compiles and writes to the disk cache, or reads from it.

    Raises:
        KernelError: numba cannot compile it.
    """
    _number_functions_anew()
    try:
        kernel = _cfunc(body, signature, variant)
        kernel.compile()
    except _CACHE_ERRORS:
        return _compile_afresh(body, signature)
    except NumbaError as error:
        raise KernelError(f"numba cannot compile it: {error}") from error
    return kernel


def _compile_for_others(
    body: Callable[..., Any], signature: types.Type, variant: str
) -> Any:
    """Compiles what another process is to read from the disk cache, or reads it.

    Raises:
        KernelError: numba cannot compile it, or it cannot be kept.
    """
    kernel = _compile(body, signature, variant)
    if not kernel.cache_hits and not _is_cached(body, signature, variant):
        raise KernelNotKeptError(f"{variant} cannot be kept")
    return kernel


def _cfunc(body: Callable[..., Any], signature: types.Type, variant: str) -> Any:
    """Returns a function that is not compiled yet.

    Raises:
        OSError: The cache's folder is not this user's any more.
    """
    kernel: Any = CFunc(body, normalize_signature(signature), {}, _OPTIONS)
    if kept_cache().folder is not None:
        kernel._cache = _VariantCache(body, variant)  # noqa: SLF001 - no other way
    return kernel


def _is_cached(body: Callable[..., Any], signature: types.Type, variant: str) -> bool:
    """Whether the disk cache has the kernel, and it can be read."""
    try:
        kernel = _cfunc(body, signature, variant)
        target = kernel._targetdescr.target_context  # noqa: SLF001 - no other way
        return kernel._cache.load_overload(kernel._sig, target) is not None  # noqa: SLF001
    except _CACHE_ERRORS:
        return False


def _number_functions_anew() -> None:
    """Makes the names of the next functions unique across processes.

    Numba distinguishes functions of one name with different closures by a number that
    counts up from 1 in each process. Two kernels from disk that different processes
    compiled could thus contain functions of the same name, and the linker would use the
    first for both: the second kernel would run parts of the first.
    """
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(48))  # noqa: SLF001


def _compile_afresh(body: Callable[..., Any], signature: types.Type) -> Any:
    """Compiles without the disk cache, which cannot be read or written."""
    try:
        kernel = CFunc(body, normalize_signature(signature), {}, _OPTIONS)
        kernel.compile()
    except (NumbaError, RuntimeError, OSError) as error:
        raise KernelError(f"numba cannot compile it: {error}") from error
    return kernel


class _VariantCache(FunctionCache):
    """Numba's cache of one function, with one file per variant."""

    def __init__(self, body: Callable[..., Any], variant: str) -> None:
        self._variant = variant
        own = {"_locator_classes": [_Locator.of(variant)]}
        files: Any = type("_VariantFiles", (CompileResultCacheImpl,), own)
        self._impl_class = files
        super().__init__(body)  # type: ignore[no-untyped-call]

    def save_overload(self, sig: object, data: Any) -> None:
        """Writes a kernel; the disk may be full, or the folder gone, meanwhile."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError as error:
            _log_once(f"compiled kernels are not kept: {error.strerror or error}")

    def _index_key(self, sig: object, codegen: Any) -> tuple[object, ...]:
        """Replaces numba's key, which differs in each process."""
        return (sig, codegen.magic_tuple(), self._variant)


class _Locator(_CacheLocator):
    """Locates a variant's file."""

    variant = ""

    @classmethod
    def of(cls, variant: str) -> type["_Locator"]:
        return type("_VariantLocator", (cls,), {"variant": variant})

    @classmethod
    def from_function(cls, _: object, __: str) -> "_Locator":
        return cls()

    def get_cache_path(self) -> str:
        """Returns the folder; kernels are code, so it has to be this user's still."""
        kept = kept_cache()
        kept.check()
        return str(kept.folder)

    def ensure_cache_path(self) -> None:
        """Makes the folder again if it was removed."""
        Path(self.get_cache_path()).mkdir(mode=0o700, parents=True, exist_ok=True)

    def get_source_stamp(self) -> str:
        return source_stamp()

    def get_disambiguator(self) -> str:
        return self.variant


@cache
def kept_cache() -> KeptCache:
    """Finds the folder of these kernels.

    The log says once where it is, and why it is nowhere better.
    """
    kept = keep_cache(
        "kernels", source_stamp(), given=("NUMBA_CACHE_DIR",), room_bytes=_ROOM_BYTES
    )
    _log.info("compiled kernels are kept in %s", kept)
    if kept.folder is not None and kept.is_writable:
        for source in kept.readable:
            _link_all(source, kept.folder)
    return kept


def _link_all(source: Path, folder: Path) -> None:
    """Shows kernels that can only be read in a folder that can be written."""
    with suppress(OSError):
        for path in source.glob("*.nb?"):
            with suppress(FileExistsError):
                (folder / path.name).symlink_to(path)


@cache
def _log_once(warning: str) -> None:
    _log.warning(warning)


@cache
def source_stamp() -> str:
    """Returns a digest of these sources, numba's version, the CPU and its emulation."""
    digest = hashlib.sha256(numba.__version__.encode())
    digest.update(emulator_path().read_bytes() if emulates_tiles() else b"")
    digest.update(repr(_target()).encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def _target() -> tuple[str, ...]:
    """Returns the triple, CPU and features that numba compiles for.

    Raises:
        KernelError: This process compiled for a higher tier before.
    """
    target: tuple[str, ...] = registry.cpu_target.target_context.codegen().magic_tuple()
    if is_lowered() and target[2] != compile_features():
        raise KernelError("numba has compiled for all of the CPU's instructions before")
    return target
