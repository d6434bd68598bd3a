"""Files of a model's folder are regular ones that are really in it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline_processes.model_files import (
    MAX_TEXT_BYTES,
    ROOTS_VARIABLE,
    folder_refusal,
    read_model_file,
    real_model_file,
    tokenizer_files_refusal,
)

NAMES = (
    *("config.json", "generation_config.json", "tokenizer.json", "vocab.txt"),
    *("tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"),
    *("additional_chat_templates/tool_use.jinja", "model.safetensors", "modules.json"),
    *("model.safetensors.index.json", "1_Pooling/config.json", "eagle/config.json"),
    *("config_sentence_transformers.json", "adapter_config.json"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder, with something private beside it."""
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "private").write_text('{"secret": 1}')
    return folder


def link(folder: Path, name: str, target: Path) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(target)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_link_that_leads_out_is_refused(folder: Path, name: str) -> None:
    """Whatever the file is for; the reason names it, and where it leads."""
    private = folder.parent / "private"
    path = link(folder, name, private)

    reason = folder_refusal(folder)

    assert f"{name} is a link that leads out of the folder, to {private}" in reason
    with pytest.raises(ValueError, match="leads out"):
        read_model_file(path)
    with pytest.raises(ValueError, match="leads out"):
        real_model_file(folder, name)


def test_links_of_folders_and_chains_of_links_are_followed(folder: Path) -> None:
    """What counts is where it ends."""
    outside = folder.parent / "outside"
    outside.mkdir()
    link(folder, "a.json", folder / "b.json")
    link(folder, "b.json", folder / ".." / "model" / "c.json")
    (folder / "c.json").write_text("{}")

    assert folder_refusal(folder) == ""
    assert read_model_file(folder / "a.json") == b"{}"
    link(folder, "1_Pooling", outside)
    assert "1_Pooling is a link that leads out" in folder_refusal(folder)


def test_a_snapshot_of_the_hub_is_links_to_its_blobs(tmp_path: Path) -> None:
    """To those of the same repository, also from a folder inside, and no others."""
    for name in ("models--a", "models--b"):
        (tmp_path / name / "blobs").mkdir(parents=True)
        (tmp_path / name / "blobs" / "1234").write_text("{}")
    snapshot = tmp_path / "models--a" / "snapshots" / "c0ffee"
    snapshot.mkdir(parents=True)
    blob = Path("..", "..", "blobs", "1234")
    link(snapshot, "config.json", blob)
    inner = link(snapshot, "1_Pooling/config.json", ".." / blob)

    assert folder_refusal(snapshot) == ""
    assert read_model_file(inner) == b"{}"
    link(snapshot, "vocab.json", tmp_path / "models--b" / "blobs" / "1234")
    assert "vocab.json is a link that leads out" in folder_refusal(snapshot)


def test_folders_that_the_operator_names_may_hold_the_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder itself can be a link, too."""
    path = link(folder, "config.json", folder.parent / "private")
    (folder.parent / "other").symlink_to(folder)
    monkeypatch.setenv(ROOTS_VARIABLE, f"/nowhere{os.pathsep}{folder.parent}")

    assert folder_refusal(folder.parent / "other") == ""
    assert read_model_file(path) == b'{"secret": 1}'
    monkeypatch.setenv(ROOTS_VARIABLE, "/nowhere")
    assert ROOTS_VARIABLE in folder_refusal(folder.parent / "other")


def make_large(path: Path, size: int = MAX_TEXT_BYTES + 1) -> None:
    path.touch()
    os.truncate(path, size)


ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "is a pipe or a device"),
    "a link to a device": (lambda path: path.symlink_to("/dev/zero"), "leads out"),
    "far too large": (make_large, "is larger than 64 MiB"),
}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_usual_file_is_refused(folder: Path, kind: str) -> None:
    """It is neither waited for nor read."""
    make, reason = ODD[kind]
    make(path := folder / "chat_template.jinja")

    assert reason in folder_refusal(folder)
    with pytest.raises(ValueError, match=r"regular|larger|leads out"):
        read_model_file(path)


def test_what_nobody_reads_can_be_anything(folder: Path) -> None:
    """Hidden files, sockets, links to nothing, other files of any size."""
    link(folder, ".git/config", folder.parent / "private")
    link(folder, "missing.json", folder / "nothing")
    make_large(folder / "data.json", 2**40)

    assert folder_refusal(folder) == ""


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("vocab_file", "{out}"),
        ("vocab", "{out}"),
        ("merges", "../private"),
        ("gguf_file", "../private"),
        ("init_inputs", ["{out}"]),
        ("fast_tokenizer_files", ["../private"]),
        ("fast_tokenizer_files", ["tokenizer.4.0.json"]),
    ],
)
def test_arguments_of_tokenizers_name_no_other_files(
    folder: Path, file: str, key: str, value: object
) -> None:
    """`transformers` would open them: a vocabulary is readable by clients."""
    text = json.dumps({key: value}).replace("{out}", str(folder.parent / "private"))
    (folder / file).write_text(text)

    assert tokenizer_files_refusal(folder).startswith(f"{file}: {key} names ")


def test_usual_entries_of_tokenizers_are_accepted(folder: Path) -> None:
    """Among them paths on the machine of whoever made the checkpoint."""
    (folder / "vocab.json").write_text("{}")
    usual = {
        "vocab_file": "vocab.json",
        "special_tokens_map_file": "/etc/passwd",  # which nothing reads
        "tokenizer_file": "/home/somebody/.cache/tokenizer.json",
        "fast_tokenizer_files": ["tokenizer.json"],
        "init_inputs": [],
        "bos_token": "<s>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(usual))

    assert tokenizer_files_refusal(folder) == ""
