"""Copies of a small model, for tests that damage them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline_testing.oracle import Oracle

Damage = Callable[..., Path]


@pytest.fixture
def folder(llama: Oracle, tmp_path: Path) -> Path:
    """A copy of the model, free to be damaged."""
    return shutil.copytree(llama.folder, tmp_path / "model")


@pytest.fixture
def configured(folder: Path) -> Damage:
    """Changes values of the copy's config.json; None takes one out."""

    def change(**values: object) -> Path:
        path = folder / "config.json"
        config = {**json.loads(path.read_text("utf-8")), **values}
        kept = {key: value for key, value in config.items() if value is not None}
        path.write_text(json.dumps(kept))
        return folder

    return change
