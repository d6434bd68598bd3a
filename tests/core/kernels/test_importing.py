"""Only a missing compiler is a reason to fall back; other import errors surface."""

from pathlib import Path

import pytest
import torch

from hookline_kernels import KernelError, choose_attention, import_compiled


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that can be imported as `kernels_of_a_test`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "kernels_of_a_test.py"


@pytest.mark.parametrize("compiler", ["numba", "llvmlite", "triton"])
def test_a_missing_compiler_is_named(module: Path, compiler: str) -> None:
    """The logged reason names the package to install."""
    module.write_text(f"raise ModuleNotFoundError('no', name={compiler!r})")

    with pytest.raises(KernelError, match=f"^{compiler} is not installed$"):
        import_compiled("kernels_of_a_test")


@pytest.mark.parametrize(
    "source",
    [
        "import a_module_that_is_not_there",
        "from json import a_name_that_is_not_there",
        "raise ImportError('libLLVM.so: cannot open shared object file')",
        "raise ModuleNotFoundError('no', name='numba.core.registry')",
    ],
)
def test_other_import_errors_surface(module: Path, source: str) -> None:
    """A broken installation or a renamed module is a fault, not a slow engine."""
    module.write_text(source)

    with pytest.raises(ImportError):
        import_compiled("kernels_of_a_test")


def test_attention_does_not_hide_a_broken_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The choice of kernels raises what their import raised."""

    def broken(_: str) -> None:
        raise ImportError("undefined symbol")

    monkeypatch.setattr("hookline_kernels.choosing.import_compiled", broken)

    with pytest.raises(ImportError, match="undefined symbol"):
        choose_attention(
            num_heads=2,
            num_kv_heads=1,
            key_dim=32,
            value_dim=32,
            block_size=16,
            dtype=torch.float32,
        )
