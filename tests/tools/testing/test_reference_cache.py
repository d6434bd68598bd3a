"""What `transformers` generates is kept on disk, and used for the same model alone."""

from pathlib import Path

import pytest
import torch

from hookline_host.cache_folders import VERSIONS_KEPT
from hookline_testing import oracle as oracle_module
from hookline_testing.oracle import Oracle, make_oracle
from hookline_testing.reference_cache import (
    Generated,
    ReferenceCache,
    reference_folder,
)

PROMPT = [5, 6, 7]


@pytest.fixture
def references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of outputs."""
    folder = tmp_path / "references"
    monkeypatch.setattr(oracle_module, "_references", lambda: folder)
    return folder


def made(folder: Path) -> Oracle:
    return make_oracle("llama", folder / "model")


def never(*_: object) -> list[int]:
    raise AssertionError("generated again")


@pytest.mark.usefixtures("references")
def test_an_output_is_generated_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another oracle of the same weights, as in another process, reads it."""
    first = made(tmp_path).greedy(PROMPT, 6)
    monkeypatch.setattr(Oracle, "_generate", never)

    assert made(tmp_path).greedy(PROMPT, 6) == first
    assert made(tmp_path).greedy(PROMPT, 2) == first[:2]
    with pytest.raises(AssertionError, match="generated again"):
        made(tmp_path).greedy(PROMPT, 7)
    with pytest.raises(AssertionError, match="generated again"):
        made(tmp_path).greedy(PROMPT, 6, repetition_penalty=1.3)


@pytest.mark.usefixtures("references")
def test_other_weights_have_other_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that a test has changed."""
    made(tmp_path).greedy(PROMPT, 6)
    changed = made(tmp_path)
    with torch.no_grad():
        next(changed.model.parameters())[0, 0] += 1
    monkeypatch.setattr(Oracle, "_generate", never)

    with pytest.raises(AssertionError, match="generated again"):
        changed.greedy(PROMPT, 6)


def test_the_longest_output_counts(tmp_path: Path, references: Path) -> None:
    """However they were appended."""
    model = made(tmp_path).model
    for count in (2, 4, 3):
        tokens = list(range(count))
        ReferenceCache(model, references).add(Generated(1.0, PROMPT, count, tokens))

    found = ReferenceCache(model, references)

    assert found.find(PROMPT, 4, 1.0) == [0, 1, 2, 3]
    assert found.find(PROMPT, 3, 1.0) == [0, 1, 2]
    assert found.find(PROMPT, 5, 1.0) is None
    assert found.find([5], 1, 1.0) is None


def test_few_folders_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each state of the code; the ones that were not used for longest go."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code, folders = tmp_path / "code.py", []
    for number in range(VERSIONS_KEPT + 1):
        code.write_text(f"NUMBER = {number}")
        folders.append(reference_folder(code))

    assert len(set(folders)) == VERSIONS_KEPT + 1
    assert [each.exists() for each in folders] == [False] + [True] * VERSIONS_KEPT
