"""Model folders that would run code, loop or fill the memory: each is one error."""

import base64
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookline.model_description import find_folder
from hookline_server.cli import main

pytestmark = pytest.mark.hostile

Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the demo model without its weights."""
    return shutil.copytree(
        find_folder("demo"),
        tmp_path / "m",
        ignore=shutil.ignore_patterns("*.safetensors", "medusa", "eagle"),
    )


def change(path: Path, edit: Change) -> None:
    described = json.loads(path.read_text("utf-8"))
    edit(described)
    path.write_text(json.dumps(described))


Refusal = Callable[..., str]


@pytest.fixture
def refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Refusal:
    """Returns the only line of `hookline generate`'s error.

    It runs here, with an answer at standard input: what ended its process would end
    the test's.
    """

    def find(folder: Path, *more: str, answer: str = "") -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        command = ["generate", "--prompt=a", f"--model={folder}", "--max-tokens=1"]
        status = main([*command, *more])
        told = capsys.readouterr()
        assert status == 1, told
        [line] = [each for each in told.err.splitlines() if "hookline: error" in each]
        assert "Traceback" not in told.err
        return line

    return find


def test_code_of_a_model_folder_never_runs(
    folder: Path, tmp_path: Path, refusal: Refusal
) -> None:
    """Nobody is asked for permission either: a waiting `y` changes nothing."""
    marker = tmp_path / "it-ran"
    (folder / "own.py").write_text(
        f"open({str(marker)!r}, 'w')\n"
        "from transformers import LlamaForCausalLM as OwnModel\n"
    )
    change(
        folder / "config.json",
        lambda config: config.update(
            model_type="distilbert",
            architectures=["OwnModel"],
            auto_map={"AutoModelForCausalLM": "own.OwnModel"},
        ),
    )

    line = refusal(folder, "--load-format=dummy", answer="y\n" * 20)

    assert "DistilBertConfig" in line
    assert not marker.exists()


def charsmap(content: bytes) -> dict[str, str]:
    encoded = base64.b64encode(content).decode()
    return {"type": "Precompiled", "precompiled_charsmap": encoded}


HOSTILE_TOKENIZERS: dict[str, dict[str, object]] = {
    "a table that ends the process": {"normalizer": charsmap(b"\xff\xff\xff\x7fx")},
    "a table that is too short": {"normalizer": charsmap(b"\x01\x00\x00\x00x")},
    "a pattern that backtracks": {
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": "(a+)+$"},
            "behavior": "Isolated",
            "invert": False,
        }
    },
    "text that explodes": {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 64}
            ]
            * 6,
        }
    },
}


@pytest.mark.parametrize("name", HOSTILE_TOKENIZERS)
def test_a_hostile_tokenizer_is_refused(
    folder: Path, name: str, refusal: Refusal
) -> None:
    """The server does not abort, loop or fill the memory with it."""
    hostile = HOSTILE_TOKENIZERS[name]
    change(folder / "tokenizer.json", lambda described: described.update(hostile))

    line = refusal(folder, "--executor=simulated")

    assert "tokenizer.json is refused" in line


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('"hidden_size": 1000000000', "hidden_size is 1000000000"),
        ('"hidden_size": -64', "hidden_size is -64"),
        ('"hidden_size": 1e9', "hidden_size is 1000000000.0, not an integer"),
        ('"rope_theta": NaN', "NaN is not a number of JSON"),
        ('"x": ' + "[" * 100_000 + "]" * 100_000, "nested too deeply"),
    ],
    ids=["huge", "negative", "fraction", "not a number", "deep"],
)
def test_absurd_configurations_are_refused(
    folder: Path, text: str, reason: str, refusal: Refusal
) -> None:
    """Before anything is allocated, and without a traceback."""
    path = folder / "config.json"
    path.write_text(path.read_text("utf-8").rstrip().rstrip("}") + "," + text + "}")

    assert reason in refusal(folder, "--executor=simulated")


@pytest.mark.parametrize("name", ["chat_template.jinja", "config.json"])
@pytest.mark.parametrize("option", ["--model", "--tokenizer"])
def test_a_link_to_a_private_file_is_refused(
    folder: Path, tmp_path: Path, name: str, option: str, refusal: Refusal
) -> None:
    """Clients could read it as a part of their prompts; the error has where it is."""
    private = tmp_path / "private"
    private.write_bytes((folder / "config.json").read_bytes())
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(private)
    chosen = folder if option == "--model" else find_folder("demo")

    line = refusal(chosen, "--executor=simulated", f"{option}={folder}")

    assert f"{name} is a link that leads out of the folder, to {private}" in line
