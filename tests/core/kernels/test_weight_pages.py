"""Pages of weight files that have been read are given back, where that is worth it."""

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from hookline_kernels.runtime import weight_pages
from hookline_kernels.runtime.weight_pages import give_back_clean_pages


def resident_bytes(file: Path) -> int:
    """How much of a mapped file is in this process's memory."""
    _, _, behind = Path("/proc/self/smaps").read_text("utf-8").partition(f"{file}\n")
    [line] = [each for each in behind.splitlines()[:8] if each.startswith("Rss:")]
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("worth", [1, 1 << 30])
def test_clean_pages_are_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worth: int
) -> None:
    """
    Files of few bytes are left alone; tensors are the same in either case.
    """
    file = tmp_path / "model.safetensors"
    weights = torch.arange(1 << 18, dtype=torch.float32)
    save_file({"weights": weights}, file)
    monkeypatch.setattr(weight_pages, "_WORTH_BYTES", worth)

    with safe_open(file, framework="pt") as opened:
        mapped = opened.get_tensor("weights")
        assert torch.equal(mapped, weights)
        before = resident_bytes(file)
        give_back_clean_pages()
        after = resident_bytes(file)

        assert before >= weights.nbytes
        assert after == (0 if worth == 1 else before)
        assert torch.equal(mapped, weights)
