"""The folder in which compiled kernels are kept."""

from pathlib import Path

from hookline_kernels import KernelError, import_compiled


def writable_cache() -> Path:
    """Returns the folder.

    Raises:
        KernelError: There is none that can be written, or no compiler is installed.
    """
    kept = import_compiled("hookline_kernels.cpu.jit").kept_cache()
    if not kept.is_writable:
        raise KernelError(
            f"compiled kernels cannot be kept: {'; '.join(kept.refusals)}; set "
            "XDG_CACHE_HOME to a folder that can be written"
        )
    folder: Path = kept.folder
    return folder
