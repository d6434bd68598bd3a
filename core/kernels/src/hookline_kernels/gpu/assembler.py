"""Keeps Triton from an assembler that miscompiles attention."""

import logging
import os

import triton  # type: ignore[import-untyped]

_log = logging.getLogger(__name__)
_FIRST_SOUND = (12, 9)
_PATH = "TRITON_PTXAS_PATH"


def choose_assembler() -> None:
    """Makes Triton use its ptxas for newer devices where the usual one is unsound.

    The one of CUDA 12.8, which Triton 3.6 brings, reads an uninitialised register where
    two products of a kernel read tiles of different widths that take turns in the same
    shared memory, as latent attention's do; the kernel then reads outside of it. A
    path that the environment names is left alone.
    """
    tools = triton.knobs.nvidia
    if _PATH in os.environ or _release(tools.ptxas) >= _FIRST_SOUND:
        return
    newer = getattr(tools, "ptxas_blackwell", None)
    if newer is None or _release(newer) < _FIRST_SOUND:
        _log.warning(
            "Triton's ptxas %s may miscompile kernels: set %s to one of CUDA 12.9 or "
            "later",
            tools.ptxas.version,
            _PATH,
        )
        return
    os.environ[_PATH] = newer.path


def _release(tool: object) -> tuple[int, ...]:
    """Returns a tool's release, such as (12, 9)."""
    version: str = getattr(tool, "version", "0")
    return tuple(int(part) for part in version.split("."))
