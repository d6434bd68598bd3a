"""A server behind another load balancer has some of all engines, by their numbers."""

from collections.abc import Mapping

import pytest

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig
from hookline.exceptions import RequestError
from hookline_testing import assert_conserved

SHORT = SamplingParams(max_tokens=2)
EXTERNAL: dict[str, object] = {"data_parallel_rank": 2}
HYBRID: dict[str, object] = {
    "data_parallel_hybrid_lb": True,
    "data_parallel_size_local": 2,
    "data_parallel_start_rank": 1,
}


def simulated(options: Mapping[str, object]) -> LLM:
    return LLM.from_config(
        EngineConfig.from_options(
            executor="simulated", data_parallel_size=4, in_process=True, **options
        )
    )


@pytest.mark.parametrize(
    ("options", "indices"), [(EXTERNAL, [2]), (HYBRID, [1, 2])], ids=["one", "some"]
)
def test_its_engines_have_their_numbers(
    options: Mapping[str, object], indices: list[int]
) -> None:
    """In facts and in every series; requests are divided among them alone."""
    with simulated(options) as llm:
        llm.generate([[5]] * 4, SHORT, use_tqdm=False)
        assert_conserved(llm)
        engines = list(llm.front_end.engines)
        shares = [each.stats.totals.received for each in engines]
        labels = {
            dict(zip(family.label_names, sample.labels, strict=True))["engine"]
            for family in llm.get_metrics()
            if family.name == "hookline_requests_received"
            for sample in family.samples
        }

    assert [each.facts.engine_index for each in engines] == indices
    assert {each.facts.data_parallel_size for each in engines} == {len(indices)}
    assert shares == [4 // len(indices)] * len(indices)
    assert labels == set(map(str, indices))


@pytest.mark.parametrize("rank", [0, 1, 3, 4])
def test_engines_of_other_servers_are_refused(rank: int) -> None:
    """A client that names one is told which there are."""
    with simulated(EXTERNAL) as llm:
        front_end = llm.front_end
        prepared = front_end.prepare([5], SHORT)

        assert front_end.router.place(prepared, 2).index == 2
        with pytest.raises(RequestError, match=f"no engine {rank}: .* must be 2"):
            front_end.router.place(prepared, rank)
