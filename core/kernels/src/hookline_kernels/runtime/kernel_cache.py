"""The folder in which compiled kernels are kept."""

import tempfile
from pathlib import Path

from hookline_kernels import KernelError, import_compiled


def writable_cache() -> Path:
    """Returns the folder.

    Raises:
        KernelError: It cannot be written, or no compiler is installed.
    """
    jit = import_compiled("hookline_kernels.cpu.jit")
    try:
        folder: Path = jit.cache_folder()
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise KernelError(
            f"compiled kernels cannot be kept: {error}; set XDG_CACHE_HOME to a folder "
            "that can be written"
        ) from error
