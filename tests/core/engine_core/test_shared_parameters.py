"""The completions of a prompt: one message, one copy of prompt and parameters."""

import msgspec

from hookline import SamplingParams
from hookline.engine.commands import Add
from hookline.request import GenerateRequest

LONG = SamplingParams(
    n=128, max_tokens=4, seed=5, allowed_token_ids=tuple(range(50_000))
)
FIRST = GenerateRequest(
    request_id=7, prompt_token_ids=[1, 2, 3], params=LONG, eos_token_ids=(0,)
)


def completions_of(command: Add) -> list[GenerateRequest]:
    return [command.request, *command.siblings()]


def test_an_add_yields_a_request_for_each_completion() -> None:
    """Their ids are the given ones, and their indices follow the first one's."""
    completions = completions_of(Add(FIRST, [9, 8]))

    assert [each.request_id for each in completions] == [7, 9, 8]
    assert [each.completion_index for each in completions] == [0, 1, 2]


def test_completions_share_prompt_and_parameters() -> None:
    """Also after the transport: they are the same objects, whatever their size."""
    received = msgspec.msgpack.decode(
        msgspec.msgpack.encode(Add(FIRST, list(range(127)))), type=Add
    )

    completions = completions_of(received)

    assert len({id(each.params) for each in completions}) == 1
    assert len({id(each.prompt_token_ids) for each in completions}) == 1


def test_further_completions_cost_the_transport_only_their_ids() -> None:
    """A message for 128 completions is hardly longer than one for a single one."""
    one = len(msgspec.msgpack.encode(Add(FIRST)))
    many = len(msgspec.msgpack.encode(Add(FIRST, list(range(10**9, 10**9 + 127)))))

    assert many - one < 127 * 10 + 100


def test_resubmitted_completions_keep_their_index() -> None:
    """An `Add` may begin with a later completion: its seed stays its own."""
    third = msgspec.structs.replace(FIRST, completion_index=2)

    completions = completions_of(Add(third, [11]))

    assert [each.completion_index for each in completions] == [2, 3]
