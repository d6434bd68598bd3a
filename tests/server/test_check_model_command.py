"""`hookline check-model`: what loading would say, in a page and as JSON."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from hookline_server.cli import main
from hookline_testing.oracle import Oracle, make_oracle

WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(llama: Oracle, tmp_path: Path) -> Path:
    """A copy of a small model, free to be damaged."""
    return shutil.copytree(llama.folder, tmp_path / "model")


def checked(
    capsys: pytest.CaptureFixture[str], folder: Path, *more: str
) -> tuple[int, dict[str, Any]]:
    """The exit status and the report."""
    status = main(["check-model", str(folder), "--json", *more])
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, report


def errors(report: dict[str, Any]) -> list[str]:
    return [each["text"] for each in report["problems"] if each["severity"] == "error"]


def change(folder: Path, file: str, **values: object) -> None:
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **values}))


def test_a_sound_model_is_described(
    capsys: pytest.CaptureFixture[str], llama: Oracle
) -> None:
    """In numbers that follow from its sizes."""
    status, report = checked(capsys, llama.folder)

    numbers = sum(math.prod(each.shape) for each in llama.model.parameters())
    assert status == 0
    assert report["can_be_served"] is True
    assert errors(report) == []
    assert report["architecture"] == "LlamaForCausalLM"
    assert report["runs"] == {
        "forward": "decoder",
        "reason": "",
        "is_tried": True,
        "layers": 3,
        "sliding_windows": {},
        "kv_bytes_per_token": 3 * 2 * 2 * 16 * 4,
    }
    assert report["files"]["shares"] == [
        {
            "dtype": "F32",
            "tensors": len(llama.model.state_dict()),
            "numbers": numbers,
            "nbytes": 4 * numbers,
        }
    ]
    assert report["files"]["checked"] is True
    assert report["context"]["served"] == report["context"]["most"] == 256
    assert report["cache"]["tokens"] % 16 == 0
    assert report["tokenizer"]["tokens"] == 256


def test_the_page_has_what_the_json_has(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    """One line a fact, and one a problem."""
    change(folder, "config.json", eos_token_id=[2, None])
    change(folder, "generation_config.json", eos_token_id=2, temperature=0.7)
    template = "{{ messages }}<tool_call></think>"
    (folder / "chat_template.jinja").write_text(template)

    status = main(["check-model", str(folder), "--no-weights"])

    page = capsys.readouterr().out
    assert status == 0
    for line in (
        "runs with       decoder, 3 layers, not tried",
        "context         256 tokens served; at most 256: max_position_embeddings 256",
        "(generation_config.json, config.json)",
        "sampling        temperature 0.7 where requests are silent",
        "probably --tool-call-parser hermes",
        "probably --reasoning-parser qwen3 or deepseek_r1",
        "weights         not read",
        "warning: config.json: eos_token_id has a null",
        "nothing keeps it from being served",
    ):
        assert line in page


@pytest.mark.parametrize(
    ("family", "forward"),
    [
        ("gpt2", "modules"),
        ("gemma3", "modules"),
        ("gpt-oss", "decoder"),
        ("qwen3-moe", "decoder"),
        ("deepseek-v3", "modules"),
        ("falcon-alibi", "modules"),
    ],
)
def test_each_family_is_sketched(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, family: str, forward: str
) -> None:
    """Its modules run without numbers; what the cache takes is what loading says."""
    make_oracle(family, tmp_path)

    status, report = checked(capsys, tmp_path, "--no-weights")

    assert (status, errors(report)) == (0, [])
    assert report["runs"]["forward"] == forward
    numbers = {"gpt2": 128, "falcon-alibi": 128, "deepseek-v3": 40}.get(family, 64)
    assert report["runs"]["kv_bytes_per_token"] == 3 * numbers * 4
    windows = {"gemma3": {"12": 2}, "gpt-oss": {"12": 2}}
    assert report["runs"]["sliding_windows"] == windows.get(family, {})


def spoil(folder: Path, name: str) -> None:
    tensors = load_file(folder / WEIGHTS)
    tensors[name][4] = torch.nan
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def lose_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    del tensors["model.norm.weight"]
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a weight": (
        lambda folder: spoil(folder, "model.layers.1.mlp.up_proj.weight"),
        "all tokens need are infinite or NaN: model.layers.1.mlp.up_proj.weight (64 of",
    ),
    "a tensor": (lose_a_tensor, "1 missing keys, such as model.norm.weight"),
    "a file": (lambda folder: (folder / WEIGHTS).unlink(), "no safetensors file"),
    "a pointer": (
        lambda folder: (folder / WEIGHTS).write_text(
            "version https://git-lfs.github.com/spec/v1\n"
        ),
        "model.safetensors is a Git LFS pointer",
    ),
    "the end": (
        lambda folder: change(folder, "config.json", eos_token_id=[2.5]),
        "config.json: eos_token_id is [2.5]",
    ),
    "the tokenizer": (
        lambda folder: (folder / "tokenizer.json").write_text("{"),
        "tokenizer.json is refused",
    ),
    "the architecture": (
        lambda folder: change(folder, "config.json", model_type="hal9000"),
        "hal9000",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_keeps_a_model_from_being_served_is_an_error(
    capsys: pytest.CaptureFixture[str], folder: Path, name: str
) -> None:
    """Once, with the exit status 1; the rest of the report is there all the same."""
    damage, reason = DAMAGES[name]
    damage(folder)

    status, report = checked(capsys, folder)

    assert status == 1
    assert report["can_be_served"] is False
    assert [reason in each for each in errors(report)] == [True]


def test_a_tokens_row_is_a_warning(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    """Requests without the token are answered."""
    spoil(folder, "model.embed_tokens.weight")

    status, report = checked(capsys, folder)
    unread = checked(capsys, folder, "--no-weights")[1]

    assert status == 0
    [row] = report["files"]["non_finite"]
    assert row.startswith("model.embed_tokens.weight (64 of 20480 numbers")
    assert any(row in each["text"] for each in report["problems"])
    assert unread["files"]["non_finite"] == []


def test_options_change_what_is_said(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    """A length beyond the model's is refused as `serve` refuses it."""
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    change(folder, "config.json", rope_parameters=rope)

    usual = checked(capsys, folder)[1]
    longer = checked(capsys, folder, "--max-model-len", "1024")[1]
    status, too_long = checked(capsys, folder, "--max-model-len", "1025")

    assert usual["context"]["served"] == 256
    assert "for up to 1024, give max-model-len" in usual["problems"][0]["text"]
    assert longer["context"]["served"] == 1024
    assert status == 1
    assert "1025 is more than the model's 1024" in errors(too_long)[0]


def test_no_folder_is_no_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It is the error of every command."""
    assert main(["check-model", str(tmp_path)]) == 1
    assert "not a folder with config.json" in capsys.readouterr().err
