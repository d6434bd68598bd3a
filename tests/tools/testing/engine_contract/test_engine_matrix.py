"""The suite for engines, with all that tell Hookline's loggers something."""

from collections.abc import Mapping

import pytest

from hookline.plugins.kinds import ENGINE_TELLS
from hookline_faults.contract_engines import engines
from hookline_registry import installed
from hookline_testing.engine_contract import Case, Outcome, Trial
from hookline_testing.oracle import Oracle

NAMES = ("native", "simulated", "gateway", "vllm-attached")
ELSEWHERE = {"vllm"}
"""Engines that only `make test-vllm` has."""


@pytest.fixture(scope="module")
def trials(llama: Oracle) -> Mapping[str, Trial]:
    """An engine of each kind, each scene of which is played once."""
    return {each.name: Trial(each) for each in engines(str(llama.folder))}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", Case)
def test_what_is_told_is_so(trials: Mapping[str, Trial], case: Case, name: str) -> None:
    """Each case passes, or what it needs is declared not to be told."""
    trial = trials[name]

    outcome = trial.check(case)

    if name in ("native", "simulated"):
        assert outcome is Outcome.PASSED


def test_every_engine_that_declares_itself_is_in_the_suite() -> None:
    """None tells loggers something that is not checked."""
    assert {each.name for each in installed(ENGINE_TELLS.group)} - ELSEWHERE == set(
        NAMES
    )
