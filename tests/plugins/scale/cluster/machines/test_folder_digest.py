"""A model's digest tells it from other models, wherever its folder is."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline_cluster.machines.folder_digest import digest_of_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text("{}")
    (made / "tokenizer.json").write_text('{"version": 1}')
    (made / "model.safetensors").write_bytes(bytes(1_000_000))
    return made


def change_description(folder: Path) -> None:
    (folder / "config.json").write_text('{"a": 1}')


def change_first_weights(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as file:
        file.write(b"\1")


def change_last_weights(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\1")


def add_weights(folder: Path) -> None:
    (folder / "more.safetensors").write_bytes(b"")


CHANGES = (change_description, change_first_weights, change_last_weights, add_weights)


def test_a_copy_has_the_same_digest(folder: Path, tmp_path: Path) -> None:
    """The place and other files do not count."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "README.md").write_text("hello")

    assert digest_of_folder(copy) == digest_of_folder(folder)


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
def test_another_model_has_another_digest(
    folder: Path, change: Callable[[Path], None]
) -> None:
    """Descriptions and samples of the weights count."""
    before = digest_of_folder(folder)

    change(folder)

    assert digest_of_folder(folder) != before
