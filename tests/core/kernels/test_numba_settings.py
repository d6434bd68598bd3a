"""numba takes no settings from the working directory."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")
pytest.importorskip("yaml")

PRINT = (
    "import hookline_kernels.cpu.jit\n"
    "from numba.core import config\n"
    "print(config.DISABLE_JIT, config.FUNCTION_CACHE_SIZE)"
)


def test_a_file_of_settings_has_no_effect(tmp_path: Path) -> None:
    """A model's folder may have one."""
    settings = "disable_jit: 1\nfunction_cache_size: 7\n"
    (tmp_path / ".numba_config.yaml").write_text(settings)

    printed = [
        subprocess.check_output(
            [sys.executable, "-P", "-c", PRINT], cwd=folder, text=True
        )
        for folder in (tmp_path, Path("/"))
    ]

    assert printed[0] == printed[1]
    assert printed[0] != "1 7\n"
