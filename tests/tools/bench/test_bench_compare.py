"""`hookline bench compare` from files to its exit status."""

import json
from pathlib import Path

import pytest

from hookline_server.cli import main

QUICK = "--num-resamples=200"


def serve_file(path: Path, *, ttft: float = 0.1, failures: int = 0) -> str:
    """Writes a result with forty requests, the given number of them failed."""
    spread = [1 + (number % 5) / 100 for number in range(40)]
    fields = {
        "completed": 40 - failures,
        "output_throughput": 100.0,
        "ttfts": [ttft * each for each in spread],
        "itls": [[0.01 * each, 0.02 * each] for each in spread],
        "output_lens": [3] * 40,
        "errors": ["gone"] * failures + [""] * (40 - failures),
    }
    path.write_text(json.dumps(fields))
    return str(path)


def compare(*argv: str) -> int:
    return main(["bench", "compare", *argv, QUICK])


def test_equal_results_are_no_regression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    A result compared with itself is unchanged, with status 0.
    """
    file = serve_file(tmp_path / "a.json")

    assert compare(file, file) == 0

    shown = capsys.readouterr().out
    assert shown.endswith("B is worse in nothing.\n")
    assert "Output token throughput (tok/s): 100.00 -> 100.00" in shown


def test_regressions_have_a_status_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    A slower prefill is named, makes the status 1, and decode is not accused. The way
    back is no regression.
    """
    before = serve_file(tmp_path / "a.json")
    after = serve_file(tmp_path / "b.json", ttft=0.15)
    written = tmp_path / "new" / "comparison.json"

    status = compare(before, after, f"--output-json={written}")

    shown = capsys.readouterr().out
    found = json.loads(written.read_text())
    verdicts = {
        (each["metric"], each["statistic"]): each["verdict"]
        for each in found["changes"]
    }
    assert status == 1
    assert "B is worse in TTFT mean, TTFT P90, E2EL mean, E2EL P90." in shown
    assert found["benchmark"] == "serve"
    assert found["regression"] is True
    assert verdicts["TTFT", "mean"] == verdicts["E2EL", "P90"] == "worse"
    assert verdicts["TPOT", "mean"] == verdicts["decode", "P90"] == "within noise"
    assert compare(after, before) == 0


def test_failures_are_a_regression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Requests that fail are found even if the others are as quick as before.
    """
    before = serve_file(tmp_path / "a.json")
    after = serve_file(tmp_path / "b.json", failures=20)

    assert compare(before, after) == 1
    assert "B is worse in failed mean." in capsys.readouterr().out


def test_options_decide_what_matters(tmp_path: Path) -> None:
    """
    A smallest change that matters lets the same change pass.
    """
    before = serve_file(tmp_path / "a.json")
    after = serve_file(tmp_path / "b.json", ttft=0.15)

    assert compare(before, after, "--min-change=60") == 0


@pytest.mark.parametrize(
    ("benchmark", "argv"),
    [
        ("latency", ["--num-iters=10", "--num-iters-warmup=0", "--output-len=2"]),
        (
            "throughput",
            ["--num-prompts=10", "--random-input-len=4", "--random-output-len=2"],
        ),
    ],
)
def test_offline_results_tell_the_phases(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    benchmark: str,
    argv: list[str],
) -> None:
    """
    What offline benchmarks write can be compared phase by phase.
    """
    file = str(tmp_path / "result.json")
    engine = ["--executor=simulated", "--simulated-step-seconds=0", "--disable-tqdm"]
    assert main(["bench", benchmark, *argv, *engine, f"--output-json={file}"]) == 0
    capsys.readouterr()

    assert compare(file, file, "--metric-percentiles=50") == 0

    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    for metric in ("queue", "prefill", "decode", "latency"):
        assert [metric, "mean"] in rows
        assert [metric, "P50"] in rows


def test_starts_are_compared_by_phase(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Whole starts and their phases are compared; few of them are not judged.
    """
    fields = {"avg_warm_startup_time": 2.0, "warm_startup_times": [2.0] * 3}
    file = tmp_path / "startup.json"
    file.write_text(json.dumps(fields | {"warm_load_model_times": [1.0] * 12}))

    assert compare(str(file), str(file)) == 0

    shown = capsys.readouterr().out
    assert "warm startup mean (s)     total       2.000" in shown
    assert "too few values" in shown
    assert "warm load model mean (s)  load model  1.000" in shown


def test_nothing_judged_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Results too short to judge anything do not pass for results without a change.
    """
    file = tmp_path / "startup.json"
    file.write_text(
        json.dumps({"avg_warm_startup_time": 2.0, "warm_startup_times": [2.0] * 3})
    )

    assert compare(str(file), str(file)) == 3

    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "The results have too few values to judge a change."


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "cannot read"),
        ("[1]", "cannot read"),
        ("{}", "is not a result of `hookline bench`"),
        ('{"completed": 3}', "--save-detailed"),
        ('{"elapsed_time": 3}', "--output-json"),
        ('{"avg_latency": 3, "latencies": ["x"]}', "cannot compare"),
        ('{"avg_latency": 3, "latencies": [1]}', "A is a result of `bench serve`"),
    ],
)
def test_wrong_files_are_one_clear_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: str,
    complaint: str,
) -> None:
    """
    A file that cannot be compared ends the command with one line and status 2.
    """
    file = tmp_path / "b.json"
    file.write_text(content)

    status = compare(serve_file(tmp_path / "a.json"), str(file))

    error = capsys.readouterr().err
    assert status == 2
    assert error.count("\n") == 1
    assert complaint in error


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        ([], "required: A, B"),
        (["no-such", "no-such"], "cannot read no-such: No such file or directory"),
        (["a", "b", "--confidence-level=1"], "confidence-level: must be less than 1"),
        (["a", "b", "--min-change=-1"], "min-change: must be at least 0"),
        (
            ["a", "b", "--metric-percentiles=101"],
            "metric-percentiles: must be 0 to 100",
        ),
        (["a", "b", "--num-resamples=9"], "num-resamples: must be at least 100"),
    ],
    ids=" ".join,
)
def test_wrong_options_are_one_clear_line(
    capsys: pytest.CaptureFixture[str], argv: list[str], complaint: str
) -> None:
    """
    A wrong command line ends with one line and status 2.
    """
    status = main(["bench", "compare", *argv])

    error = capsys.readouterr().err
    assert status == 2
    assert error.count("\n") == 1
    assert complaint in error
