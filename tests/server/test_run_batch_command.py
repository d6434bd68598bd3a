"""`hookline run-batch` as a process, with a simulated engine and the demo model."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hookline_testing.essential import essential, examples
from hookline_testing.server_process import engine_of

SIMULATED = ("--model=demo", "--executor=simulated")
FAST = (*SIMULATED, "--simulated-step-seconds=0.001")
COMPLETION: dict[str, Any] = {"prompt": "def f(", "max_tokens": 4}
CHAT: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Hi"}],
    "max_tokens": 4,
}


def request(name: str, url: str = "/v1/completions", **body: object) -> str:
    fields = {"custom_id": name, "method": "POST", "url": url}
    return json.dumps({**fields, "body": body or COMPLETION})


def start(source: Path, output: Path, *options: str) -> subprocess.Popen[str]:
    module = [sys.executable, "-m", "hookline_server", "run-batch"]
    files = ["-i", str(source), "-o", str(output)]
    return subprocess.Popen(
        [*module, *files, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, lines: list[str], *options: str) -> tuple[int, str, list[Any]]:
    """The exit status, standard error, and the results."""
    source, output = folder / "in.jsonl", folder / "out.jsonl"
    source.write_text("\n".join(lines), "utf-8")
    process = start(source, output, *options)
    _, complaints = process.communicate(timeout=240)
    return process.returncode, complaints, results(output)


def results(path: Path) -> list[Any]:
    return [json.loads(each) for each in path.read_text("utf-8").splitlines()]


def test_every_line_has_its_result(tmp_path: Path) -> None:
    """Responses of all endpoints, and one clear error for each wrong line."""
    lines = [
        request("completion"),
        request("chat", "/v1/chat/completions", **CHAT),
        request("message", "/v1/messages", **CHAT),
        request("response", "/v1/responses", input="Hi", max_output_tokens=4),
        request("embedding", "/v1/embeddings", input="ab"),
        "",
        "{",
        request("chat"),
        request("missing", "/v1/missing"),
        request("other", model="other", prompt="x"),
        request("streamed", **COMPLETION, stream=True),
        request("long", prompt="x" * 3000),
    ]

    status, complaints, found = run(
        tmp_path, lines, *FAST, "--convert=embed", "--max-body-bytes=2000"
    )

    assert (status, complaints) == (0, "")
    outcomes = [
        (
            each["custom_id"],
            each["response"] and each["response"]["status_code"],
            each["error"] and each["error"]["code"],
        )
        for each in found
    ]
    assert sorted(outcomes, key=str) == sorted(
        [
            ("completion", 200, None),
            ("chat", 200, None),
            ("message", 200, None),
            ("response", 200, None),
            ("embedding", 200, None),
            (None, None, "invalid_line"),
            ("chat", None, "duplicate_custom_id"),
            ("missing", None, "invalid_url"),
            ("other", 404, None),
            ("streamed", None, "stream_not_supported"),
            (None, None, "line_too_long"),
        ],
        key=str,
    )
    bodies = {each["custom_id"]: each["response"] for each in found if each["response"]}
    assert bodies["completion"]["body"]["usage"]["completion_tokens"] == 4
    assert bodies["message"]["body"]["type"] == "message"
    assert len({each["id"] for each in found}) == len(found)


@pytest.mark.slow
def test_requests_may_come_through_a_pipe(tmp_path: Path) -> None:
    """Standard input is a file like others, and is read to its end."""
    output = tmp_path / "out.jsonl"
    command = [sys.executable, "-m", "hookline_server", "run-batch"]
    files = ["-i", "/dev/stdin", "-o", str(output)]

    done = subprocess.run(
        [*command, *files, *FAST],
        input="\n".join(map(request, "abc")),
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(each["custom_id"] for each in results(output)) == ["a", "b", "c"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", essential([signal.SIGINT, signal.SIGTERM], signal.SIGTERM)
)
def test_an_interrupted_batch_goes_on(tmp_path: Path, number: int) -> None:
    """No response is lost and none comes twice, and nothing but the part is left."""
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    names = [f"r{index}" for index in range(60)]
    source.write_text("\n".join(map(request, names)))
    part = output.with_name("out.jsonl.part")

    slow = start(
        source, output, *SIMULATED, "--simulated-step-seconds=0.1", "--max-num-seqs=4"
    )
    while not (part.exists() and part.stat().st_size):
        assert slow.poll() is None
        time.sleep(0.05)
    os.kill(slow.pid, number)
    _, complaints = slow.communicate(timeout=60)
    is_partial = not output.exists()
    again = start(source, output, *FAST, "--resume")
    again.communicate(timeout=120)

    assert slow.returncode == 130
    assert "--resume" in complaints
    assert is_partial
    assert again.returncode == 0
    assert sorted(each["custom_id"] for each in results(output)) == sorted(names)
    assert {each["response"]["status_code"] for each in results(output)} == {200}
    assert not part.exists()


@pytest.mark.exhaustive
def test_a_batch_may_be_interrupted_before_its_first_response(tmp_path: Path) -> None:
    """It says that no request was done, and leaves nothing behind."""
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(request("a"))

    slow = start(source, output, *SIMULATED, "--simulated-step-seconds=60")
    while not output.with_name("out.jsonl.part").exists():
        assert slow.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)  # the engine starts, or the only request runs
    slow.send_signal(signal.SIGINT)
    _, complaints = slow.communicate(timeout=60)

    assert (slow.returncode, complaints) == (130, "interrupted; no request was done\n")
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.slow
def test_a_dead_engine_ends_the_batch(tmp_path: Path) -> None:
    """The error says so, and what was done can be resumed."""
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join(request(f"r{index}") for index in range(60)))
    part = output.with_name("out.jsonl.part")
    process = start(
        source, output, *SIMULATED, "--simulated-step-seconds=0.1", "--max-num-seqs=4"
    )
    while not (part.exists() and part.stat().st_size):
        assert process.poll() is None
        time.sleep(0.05)

    os.kill(engine_of(process.pid), signal.SIGKILL)
    _, complaints = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "hookline: error: " in complaints
    assert part.exists()
    assert not output.exists()


@pytest.mark.exhaustive
def test_thousands_of_requests(tmp_path: Path) -> None:
    """All come back once, however many more there are than may be open."""
    names = [f"r{index}" for index in range(examples(10_000))]

    status, _, found = run(
        tmp_path, [request(name) for name in names], *FAST, "--max-num-seqs=64"
    )

    assert status == 0
    assert sorted(each["custom_id"] for each in found) == sorted(names)
    assert {each["response"]["status_code"] for each in found} == {200}
