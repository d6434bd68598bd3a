"""The nightly benchmarks, and how their runs of two commits are put together."""

import os
from pathlib import Path

import pytest
from bench_compare import ROOT, environment, merged, read_cases

from hookline_bench.command import BENCHMARKS
from hookline_bench.comparison.read_result import LISTS


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
