"""The owner of an engine learns what other clients' requests demand."""

from hookline.events import (
    Finished,
    NewTokens,
    Preempted,
    Scheduled,
    StepOutput,
)
from hookline.finish_cause import Aborted, LengthReached
from hookline.request_ids import first_id
from hookline_cluster.clients.other_clients_load import (
    OTHERS_WORK,
    OtherClientsLoad,
)
from hookline_cluster.clients.output_split import split_output
from hookline_metrics.saturation import OthersWork
from hookline_testing.payloads import make_output

OWN = first_id(0)
ONE, OTHER = first_id(1), first_id(2)


def output(**events: object) -> StepOutput:
    return make_output(5, **events)


def scheduled(request_id: int, local: int = 0, external: int = 0) -> Scheduled:
    return Scheduled(request_id, 4, local, external, 0, is_resumed=False)


def test_each_request_of_others_begins_and_ends_once() -> None:
    """With the tokens that a cache held; the owner's own are left out."""
    tally = OtherClientsLoad(0)
    first = tally.on_output(
        output(
            scheduled=[scheduled(OWN, 7), scheduled(ONE, 16), scheduled(OTHER, 32, 8)],
            new_tokens=[NewTokens(OWN, 5, [1]), NewTokens(ONE, 5, [1])],
        )
    )
    second = tally.on_output(
        output(new_tokens=[NewTokens(ONE, 5, [1]), NewTokens(OTHER, 5, [1])])
    )
    third = tally.on_output(output(new_tokens=[NewTokens(OTHER, 5, [2])]))
    last = tally.on_output(
        output(
            finished=[
                Finished(OWN, 5, LengthReached(), 1),
                Finished(ONE, 5, LengthReached(), 2),
                Finished(OTHER, 5, Aborted("client"), 2),
            ]
        )
    )

    assert first == OthersWork(begun=1, cached_tokens=16, ended=0)
    assert second == OthersWork(begun=1, cached_tokens=40, ended=0)
    assert third is None
    assert last == OthersWork(begun=0, cached_tokens=0, ended=2)
    assert not tally._begun
    assert not tally._cached


def test_what_was_loaded_in_vain_is_not_cached() -> None:
    """A failed load is computed; an end without a token is none."""
    tally = OtherClientsLoad(0)
    tally.on_output(output(scheduled=[scheduled(ONE, 16, 8), scheduled(OTHER)]))
    tally.on_output(output(preempted=[Preempted(ONE, 5, 24, failed_external_tokens=8)]))
    begun = tally.on_output(
        output(
            scheduled=[scheduled(ONE, 24)],
            new_tokens=[NewTokens(ONE, 5, [1])],
            finished=[Finished(OTHER, 5, Aborted("client"), 0)],
        )
    )

    assert begun == OthersWork(begun=1, cached_tokens=16, ended=0)
    assert not tally._cached


def test_only_the_owner_is_told() -> None:
    """With its own part of the output."""
    work = OthersWork(1, 2, 3)

    parts = dict(split_output(output(), [0, 1], (), work))

    assert OTHERS_WORK.read(parts[0].sections) == work
    assert OTHERS_WORK.read(parts[1].sections) is None
