"""What is copied field by field loses no field, whichever is added some day."""

from types import SimpleNamespace

import msgspec

from hookline.events import StepEvents, StepOutput
from hookline.frontend.input_processor import over
from hookline.outputs import CompletionOutput, RequestOutput
from hookline.request import Slo
from hookline.stats.step_work import RankUse
from hookline.step import ModelCost
from hookline_cluster.clients.output_split import split_output
from hookline_metrics.expert_stats import ExpertStats
from hookline_models.loading.cost import sum_of_costs

OWN_EVENTS = ("queued", "scheduled", "preempted", "new_tokens", "finished")
"""Fields of an output whose events belong to one client each."""
FOR_ALL = ("engine_index", "at", "cause", "stats", "clock")
"""Fields of an output that every client gets, with changes of the prefix cache."""


def filled_output() -> StepOutput:
    """An output none of whose fields has its default; its requests are client 0's."""
    made = {name: object() for name in StepOutput.__struct_fields__}
    told = {name: object() for name in StepEvents.__struct_fields__}
    own = {name: [SimpleNamespace(request_id=1)] for name in OWN_EVENTS}
    events = StepEvents(**{**told, **own})  # type: ignore[arg-type]
    return StepOutput(**{**made, "events": events, "sections": {"other": 1}})  # type: ignore[arg-type]


def test_an_output_is_divided_without_a_rest() -> None:
    """Each field reaches the first client; the others get what is for all of them."""
    output = filled_output()

    (_, first), (_, second) = split_output(output, [0, 1])

    assert first == output
    assert second == StepOutput(
        **{name: getattr(output, name) for name in FOR_ALL},
        events=StepEvents(cache_changes=output.events.cache_changes),
    )


def test_a_later_output_takes_the_place_of_an_earlier_one_in_all_fields() -> None:
    """Texts and tokens are joined, and all else is as it was last."""
    names = list(CompletionOutput.__struct_fields__)
    joined: dict[str, object] = {"text": "", "token_ids": [], "logprobs": None}
    last = {name: object() for name in names} | joined | {"index": 0}
    earlier = CompletionOutput(**(dict.fromkeys(names) | joined | {"index": 0}))  # type: ignore[arg-type]
    later = CompletionOutput(**last)  # type: ignore[arg-type]

    merged = earlier.followed_by(later)

    assert {name: getattr(merged, name) for name in names} == last


def test_a_later_request_output_takes_the_place_of_an_earlier_one() -> None:
    """Completions are joined, and all else is as it was last."""
    names = list(RequestOutput.__struct_fields__)
    last = {name: object() for name in names} | {"outputs": []}
    empty = dict.fromkeys(names) | {"outputs": []}
    earlier, later = RequestOutput(**empty), RequestOutput(**last)  # type: ignore[arg-type]

    merged = earlier.followed_by(later)

    assert {name: getattr(merged, name) for name in names} == last


def test_every_cost_is_added() -> None:
    """The cost of several ranks, or of several parts, has no field that is left out."""
    names = ModelCost.__struct_fields__
    one = ModelCost(**{name: at + 1 for at, name in enumerate(names)})
    three = ModelCost(**{name: 3 * (at + 1) for at, name in enumerate(names)})

    assert sum_of_costs([one, one, one]) == three


def test_every_objective_has_a_default() -> None:
    """Objectives that a request does not set are the server's, and others stay."""
    names = Slo.__struct_fields__
    base = Slo(**{name: at + 1.0 for at, name in enumerate(names)})

    assert over(Slo(), base) == base
    for name in names:
        own = Slo(**{name: 0.25})
        assert over(own, base) == msgspec.structs.replace(base, **{name: 0.25})


def test_counts_of_experts_go_on() -> None:
    """A step without work changes no count, whichever there are."""
    names = ExpertStats.__struct_fields__
    counts = {name: at + 1 for at, name in enumerate(names)} | {"tokens": (1, 2)}
    stats = ExpertStats(**counts)  # type: ignore[arg-type]

    assert stats.with_step(RankUse()) == stats
