"""The table of a comparison, and when a goal is met."""

import pytest
from compare_isa import Isa
from compare_rows import ROWS
from compare_table import comparisons, markdown

CELLS = ("quiet", "one", "two", "bursts", "quota-150", "quota-50")


def beside(rate: float, of_quiet: float) -> dict[str, float]:
    return {"one: output tok/s": rate, "one: of quiet": of_quiet}


def test_a_goal_of_the_ratio() -> None:
    """The ratio is the median of the pairs, against the better binding."""
    runs = {
        "latency-90m-1": {
            "hookline": [{"output tok/s": each} for each in (130.0, 150.0, 90.0)],
            "vllm-default": [{"output tok/s": 50.0}] * 3,
            "vllm-all-cores": [{"output tok/s": 100.0}] * 3,
        }
    }

    [found] = [each for each in comparisons(runs) if each.goal.metric != "ms"]

    assert (found.peer, found.ratio, found.is_met) == ("vllm-all-cores", 1.3, True)
    assert list(found.ratios) == [0.9, 1.3, 1.5]


@pytest.mark.parametrize(("of_quiet", "word"), [(0.61, "met"), (0.59, "not met")])
def test_a_goal_of_the_own_value(of_quiet: float, word: str) -> None:
    """A limit of Hookline's own value holds without any peer, too."""
    alone = {"contended-90m-1": {"hookline": [beside(70.0, of_quiet)]}}

    [line] = markdown(alone).splitlines()[2:]

    assert line.endswith(
        f"| one: of quiet | {of_quiet} |  |  |  | own ≥ 0.6 | {word} |"
    )


def test_a_ratio_and_the_own_value() -> None:
    """Beside neighbours, both the ratio to the peer and that to quiet have goals."""
    runs = {
        "contended-90m-1": {
            "hookline": [beside(70.0, 0.5)],
            "vllm-default": [beside(50.0, 0.3)],
        }
    }

    found = {each.goal.metric: each for each in comparisons(runs)}

    assert found["one: output tok/s"].is_met is True
    assert found["one: of quiet"].is_met is False
    assert found["one: of quiet"].theirs == 0.3


def test_pairs_lack_what_a_run_lacks() -> None:
    """A run that failed, or had no quota, leaves its pair out."""
    runs = {
        "contended-90m-8": {
            "hookline": [{}, beside(60.0, 0.7)],
            "vllm-default": [beside(30.0, 0.3), beside(40.0, 0.4)],
        }
    }

    found = {each.goal.metric: each.ratios for each in comparisons(runs)}

    assert found == {"one: output tok/s": [1.5], "one: of quiet": [0.7 / 0.4]}


def test_goals_are_lower_on_avx2() -> None:
    """On AVX2, throughput is to be 1.1 times vLLM's; on AVX-512 goals stay."""
    runs = {
        "long-90m": {
            "hookline": [{"total tok/s": 115.0}],
            "vllm-default": [{"total tok/s": 100.0}],
        }
    }

    verdicts = {
        isa: [each.is_met for each in comparisons(runs, isa)] for isa in (None, *Isa)
    }

    assert verdicts == {
        None: [False],
        Isa.AVX512_BF16: [False],
        Isa.AVX512: [False],
        Isa.AVX2: [True],
    }


@pytest.mark.parametrize("requests", [1, 8, 64])
@pytest.mark.parametrize("cell", CELLS)
def test_each_cell_has_a_rate(requests: int, cell: str) -> None:
    """The contended rows measure beside all neighbours, and compare with vLLM."""
    goals = {goal.metric: goal for goal in ROWS[f"contended-90m-{requests}"].goals}

    assert goals[f"{cell}: output tok/s"].ratio == (None if cell == "quiet" else 1.3)
