"""`hookline generate` from end to end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hookline_server.cli import main

QUICK = ["--executor=simulated", "--simulated-step-seconds=0", "--max-tokens=4"]


def test_generate_prints_json_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Prompts typed and prompts from files are completed, one JSON object a line.
    """
    file = tmp_path / "prompt.txt"
    file.write_text("class")
    argv = ["--prompt=def", f"--prompt-file={file}", "--n=2", "--json", "--ignore-eos"]

    status = main(["generate", *argv, *QUICK])

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert status == 0
    assert [row["prompt"] for row in rows] == ["def", "class"]
    for row in rows:
        assert [len(each["token_ids"]) for each in row["completions"]] == [4, 4]


def test_generate_reads_standard_input() -> None:
    """
    A prompt that is piped into the command is completed.
    """
    command = [sys.executable, "-m", "hookline_server", "generate"]

    done = subprocess.run(
        [*command, "--prompt-file=-", "--json", *QUICK],
        input="import os",
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["prompt"] == "import os"


def test_generate_prints_text(capsys: pytest.CaptureFixture[str]) -> None:
    """
    Without --json the prompt is printed with its completion.
    """
    status = main(["generate", "--prompt=import os", *QUICK])

    assert status == 0
    assert capsys.readouterr().out.startswith("import os")


def test_generate_refuses_unsupported_requests(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """
    A prompt that does not fit is one line of error and status 2.
    """
    status = main(["generate", f"--prompt={'word ' * 5000}", *QUICK])

    last = capsys.readouterr().err.splitlines()[-1]
    assert status == 2
    assert last.startswith("hookline: error: This model's maximum context length is ")
