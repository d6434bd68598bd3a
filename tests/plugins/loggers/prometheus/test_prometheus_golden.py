"""The whole `/metrics` page of each dialect is what it was, sample by sample.

Two pages each: of an engine with a script, on a virtual clock, and of payloads made by
hand that show something of everything. Families of the process are only named.
Run this file with `HOOKLINE_UPDATE_GOLDEN=1` to accept new pages.
"""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import CacheConfig, SchedulerConfig
from hookline.payloads import EngineStarted, StateChanged, StepFinished
from hookline.sampling_params import SamplingParams
from hookline_metrics import DIALECTS
from hookline_prometheus import PrometheusLogger
from hookline_testing.golden import check_golden
from hookline_testing.observed import ObservedEngine
from hookline_testing.payloads import FACTS, make_started
from hookline_testing.simulation import simulated_core

MakeLogger = Callable[..., PrometheusLogger]
Feed = Callable[[PrometheusLogger], None]
Scrape = Callable[[PrometheusLogger, str], tuple[str, str]]

GOLDEN = Path(__file__).with_name("golden")
ACCEPT = {"text": "text/plain", "openmetrics": "application/openmetrics-text"}
_PROCESS_SAMPLE = re.compile(r"^((?:process|python)_\w+)[{ ].*$", re.MULTILINE)


class ScriptedRun:
    """An engine with few blocks, whose front end feeds a logger."""

    def __init__(self, logger: PrometheusLogger) -> None:
        self._clock = VirtualClock(start=77 * NANOSECONDS)
        core = simulated_core(
            clock=self._clock,
            cache=CacheConfig(block_size=2, num_kv_blocks=8),
            scheduler=SchedulerConfig(max_num_seqs=3, long_prefill_token_threshold=4),
            max_model_len=16,
        )
        self._engine = ObservedEngine(core, self._clock, is_detailed=True)
        self._logger = logger
        facts = dataclasses.replace(core.facts, config_hash=FACTS.config_hash)
        logger.engine_started(EngineStarted(facts=facts, clock=core.clock_pair()))

    def play(self) -> None:
        """Prompts in chunks, a queue, preemptions, cached prefixes, and an abort."""
        submit = self._engine.submit
        submit([1, 2, 3, 4, 5, 6, 7, 8, 9], SamplingParams(max_tokens=7))
        submit([1, 2, 3, 4, 11], SamplingParams(max_tokens=6, n=2))
        submit([5], SamplingParams(max_tokens=9, stop=tuple("aeiourst")), priority=1)
        leaving = submit([6, 7], SamplingParams(max_tokens=14))
        self._turn(7)
        self._clock.sleep(0.25)
        self._engine.abort(leaving)
        self._turn(100)
        submit([1, 2, 3, 4, 5, 6], SamplingParams(max_tokens=1))
        self._turn(100)
        self._engine.reset_prefix_cache()
        self._turn(1)

    def _turn(self, most: int) -> None:
        for _ in range(most):
            output = self._engine.receive()
            if output is None:
                return
            iteration = self._engine.iterations[-1]
            if output.record is not None:
                step = StepFinished(
                    engine_index=0,
                    record=output.record,
                    iteration=iteration,
                    scheduler=output.stats,
                )
                self._logger.step_finished(step)
            else:
                state = StateChanged(
                    engine_index=0,
                    cause=output.cause,
                    at=output.at,
                    scheduler=output.stats,
                    iteration=iteration,
                )
                self._logger.state_changed(state)


def masked(page: str) -> str:
    """The page without the values of this process."""
    return _PROCESS_SAMPLE.sub(r"\1 …", page)


@pytest.mark.parametrize("form", ACCEPT)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_page_of_a_scripted_run_is_golden(
    make_logger: MakeLogger, scrape: Scrape, dialect: str, form: str
) -> None:
    """Names, help, labels and values of an engine's run are those of the file."""
    logger = make_logger(dialect)
    ScriptedRun(logger).play()

    _, page = scrape(logger, ACCEPT[form])

    check_golden(GOLDEN / f"scripted.{dialect}.{form}", masked(page))


@pytest.mark.parametrize("form", ACCEPT)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_page_with_everything_is_golden(
    make_logger: MakeLogger, feed: Feed, scrape: Scrape, dialect: str, form: str
) -> None:
    """Names, help, labels and values of all that there is are those of the file."""
    logger = make_logger(dialect)
    logger.engine_started(make_started(FACTS))
    feed(logger)

    _, page = scrape(logger, ACCEPT[form])

    check_golden(GOLDEN / f"everything.{dialect}.{form}", masked(page))
