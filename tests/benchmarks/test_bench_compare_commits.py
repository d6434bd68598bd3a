"""The nightly benchmarks, and how their runs of two commits are put together."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import bench_compare
import pytest
from bench_compare import (
    ROOT,
    Case,
    Clock,
    environment,
    measure,
    merged,
    read_cases,
    read_options,
    verdict,
)

from hookline_bench import BENCHMARKS
from hookline_bench.comparison.read_result import LISTS
from hookline_testing.essential import essential


def test_cases_are_benchmarks_whose_results_can_be_compared() -> None:
    """Each has a name of its own, and only those of servers have one."""
    cases = read_cases([])

    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        name, *options = case.benchmark
        assert name in BENCHMARKS
        assert name in LISTS or name == "startup"
        assert (case.server is not None) == (name == "serve")
        command = case.command(Path("out.json"), "--model", "demo")
        assert command[-2:] == ["--model", "demo"]
        assert [*options, "--output-json", "out.json"] == command[6:-3]


def test_unknown_case_ends_with_the_known_ones() -> None:
    """The name and what there is instead."""
    with pytest.raises(SystemExit, match="no case 'latensy'; there are latency"):
        read_cases(["latensy"])


def test_values_of_all_runs_are_judged_together() -> None:
    """Lists follow one another, numbers become their means, words stay."""
    runs = [
        {"latencies": [1.0, 2.0], "avg_latency": 1.5, "model_id": "demo", "n": 2},
        {"latencies": [3.0, 4.0], "avg_latency": 3.5, "model_id": "demo", "n": 2},
    ]

    assert merged(runs) == {
        "latencies": [1.0, 2.0, 3.0, 4.0],
        "avg_latency": 2.5,
        "model_id": "demo",
        "n": 2,
    }


def test_modules_of_a_tree_precede_the_installed_ones() -> None:
    """Each folder of sources stands once, those of plugins and tools included."""
    found = environment(ROOT)["PYTHONPATH"].split(os.pathsep)

    assert len(set(found)) == len(found)
    for name in ("core", "server", "tools/bench", "plugins/scale/cluster"):
        assert str(ROOT / name / "src") in found


def test_a_quick_comparison_is_bounded() -> None:
    """Three cases, two pairs, five minutes; each can be given, and then counts."""
    quick = read_options(["main", "--quick"])
    other = read_options(["main", "--quick", "--pairs", "4", "--minutes", "9"])
    whole = read_options(["main"])

    assert len(read_cases(quick.cases)) == 3
    assert (quick.pairs, quick.minutes) == (2, 5)
    assert (other.pairs, other.minutes) == (4, 9)
    assert (whole.cases, whole.pairs, whole.minutes) == ([], 3, None)


def test_no_pair_begins_that_would_end_late() -> None:
    """The first pair of a case shows how long one takes."""
    clock = Clock(runs=8, seconds=100.0)
    clock.begun -= 60.0

    clock.end_pair("a", 50.0)
    clock.end_pair("b", 10.0)

    assert [clock.has_time(case) for case in "abc"] == [False, True, True]
    clock.begun -= 60.0
    assert not clock.has_time("c")


def test_each_run_is_announced_and_sides_alternate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every case has a pair before any has a second."""

    def run_once(case: Case, model: str, tree: Path, output: Path) -> None:
        output.write_text(json.dumps({"of": [case.name, model, tree.name]}))

    monkeypatch.setattr(bench_compare, "run_once", run_once)
    options = read_options(["main", "--pairs", "2", "--out", str(tmp_path)])

    found = measure(read_cases(["latency", "startup"]), options, Path("old"))

    assert [len(each) for each in found["latency"].values()] == [2, 2]
    said = [line.split(",")[0] for line in capsys.readouterr().err.splitlines()]
    order = [line.split("] ")[1] for line in said]
    assert order == [*["latency"] * 2, *["startup"] * 2] * 2


@pytest.mark.parametrize(
    ("second", "is_worse"),
    essential([(2.0, True), (1.0, False)], (2.0, True), slow=[(1.0, False)]),
)
def test_a_case_is_worse_if_it_is_in_each_pair(
    tmp_path: Path, second: float, is_worse: bool
) -> None:
    """What ran beside one of the pairs is no verdict about this tree."""
    [case] = read_cases(["latency"])
    factors = {"base": (1.0, 1.0), "head": (3.0, second)}
    results: dict[str, list[Mapping[str, object]]] = {}
    for side, each in factors.items():
        results[side] = []
        for pair, factor in enumerate(each):
            times = [factor * (1 + index / 100) for index in range(15)]
            result = {"latencies": times, "avg_latency": factor, "model_id": "demo"}
            results[side].append(result)
            bench_compare.result_file(tmp_path, case, side, pair).write_text(
                json.dumps(result)
            )

    assert verdict(case, results, tmp_path) == is_worse
