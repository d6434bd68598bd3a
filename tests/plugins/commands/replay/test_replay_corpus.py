"""Every recording of the corpus is repeated, and a changed scheduler is found."""

from pathlib import Path

import pytest

import hookline.engine.scheduler.queue
import hookline_fair.fair_queue
import hookline_ranks.pipeline
from hookline_replay.replaying import Replay
from hookline_testing.replay_corpus.__main__ import CORPUS
from hookline_testing.replay_corpus.scenarios import SCENARIOS

FILES = sorted(CORPUS.glob("*.rec"))
MOST_BYTES = 3_000_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_decision_is_as_recorded(path: Path) -> None:
    """If one is not: `python -m hookline_testing.replay_corpus` tells all of them, and
    takes the new ones with `--accept`."""
    outcome = Replay(path).run()

    assert outcome.difference is None, str(outcome.difference)
    assert outcome.steps > 50
    assert outcome.decisions > 2 * outcome.steps - 10


def test_each_scenario_has_a_small_recording() -> None:
    """And no recording is left of a scenario that is gone."""
    names = {path.stem for path in FILES}

    assert set(SCENARIOS) <= names
    assert {name.removesuffix("_1") for name in names} == set(SCENARIOS)
    assert sum(path.stat().st_size for path in FILES) <= MOST_BYTES


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("prefix_hits", {"max_num_seqs": 7}),
        ("prefix_hits", {"enable_prefix_caching": False}),
        ("preemption", {"num_kv_blocks": 25}),
        ("chunked_prompts", {"max_num_batched_tokens": 25}),
        ("chunked_prompts", {"long_prefill_token_threshold": 13}),
        ("whole_prompts", {"enable_chunked_prefill": True}),
        ("priorities", {"priority_aging": 0.3}),
        ("priorities", {"policy": "fcfs"}),
        ("fair_queue", {"policy": "fcfs"}),
        ("steps_ahead", {"async_scheduling": False}),
        ("eviction", {"num_kv_blocks": 41}),
    ],
)
def test_another_option_is_found(name: str, changes: dict[str, object]) -> None:
    """The first decision that it changes is told."""
    outcome = Replay(CORPUS / f"{name}.rec", changes=changes).run()

    assert outcome.difference is not None
    assert outcome.difference.recorded != outcome.difference.replayed


@pytest.mark.parametrize(
    ("name", "module", "constant", "value"),
    [
        ("fair_queue", hookline_fair.fair_queue, "OUTPUT_COST", 1.9),
        ("fair_queue", hookline_fair.fair_queue, "PROMPT_COST", 1.1),
        ("priorities", hookline.engine.scheduler.queue, "MOST_LEVELS", 1),
        ("pipeline", hookline_ranks.pipeline, "LEAST_TOKENS", 8),
    ],
)
def test_a_changed_constant_is_found(
    name: str,
    module: object,
    constant: str,
    value: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mutants of a scheduler do not repeat what it decided."""
    monkeypatch.setattr(module, constant, value)

    outcome = Replay(CORPUS / f"{name}.rec").run()

    assert outcome.difference is not None
    assert outcome.difference.recorded != outcome.difference.replayed
