"""The fields of a request log line."""

import dataclasses
import json

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from hookline.clock import NANOSECONDS
from hookline.finish_cause import Aborted, Failed, LengthReached, Rejected
from hookline.request import RequestFacts, Slo
from hookline.sampling_params import SamplingParams
from hookline.stats.finished_request import FinishedRequest, RequestTimes
from hookline_request_log.encoding import encode
from hookline_request_log.line import make_line
from hookline_testing.payloads import FINISHED

NOW = 1_800_000_000 * NANOSECONDS
WHOLE = dataclasses.replace(
    FINISHED,
    facts=RequestFacts(
        client_id="a",
        tenant="acme",
        lora="sql",
        priority=-1,
        trace_id="0af7651916cd43dd8448eb211c80319c",
        operation="chat",
        slo=Slo(ttft=0.5),
    ),
    params=SamplingParams(max_tokens=30, temperature=0.5, top_k=40, n=2, seed=7),
    tpot_seconds=4 / 3,
    preempted_prefill_seconds=0.25,
    forward_seconds=2.5,
    execute_seconds=3.0,
    times=RequestTimes(arrived=NOW, ended=NOW + 6_000_123_999),
    is_streamed=True,
    completion_index=1,
)


def written(
    request: FinishedRequest, *, max_prompt_tokens: int | None = None
) -> dict[str, object]:
    """The line of a request, read back."""
    line = make_line(
        request, model="tiny", engine=3, now=NOW, max_prompt_tokens=max_prompt_tokens
    )
    found = json.loads(encode(line))
    assert isinstance(found, dict)
    return found


def test_line_of_a_request_that_went_through_everything() -> None:
    """Every field of the schema, in its order, and nothing else."""
    line = written(WHOLE)

    assert line == {
        "ts": "2027-01-15T08:00:06.000123Z",
        "v": 1,
        "model": "tiny",
        "engine": 3,
        "request_id": "a",
        "internal_id": 1,
        "completion_index": 1,
        "tenant": "acme",
        "lora": "sql",
        "lora_digest": None,
        "priority": -1,
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "operation": "chat",
        "streamed": True,
        "decodes_elsewhere": False,
        "reason": "stop",
        "cause": "0",
        "error": None,
        "tokens": {
            "prompt": 12,
            "computed": 7,
            "local_cached": 4,
            "external_cached": 1,
            "transferred": 0,
            "generated": 5,
            "recomputed": 9,
            "drafted": 0,
            "accepted": 0,
        },
        "seconds": {
            "queue": 0.5,
            "prefill": 1.0,
            "decode": 4.0,
            "inference": 5.0,
            "preempted": 0.75,
            "preempted_prefill": 0.25,
            "ttft": 1.5,
            "tpot": 1.333333,
            "e2e": 6.0,
            "forward": 2.5,
            "execute": 3.0,
            "adapter": None,
        },
        "preemptions": 2,
        "sampling": {
            "max_tokens": 30,
            "temperature": 0.5,
            "top_p": 1.0,
            "top_k": 40,
            "n": 2,
            "seed": 7,
        },
        "slo": {
            "judged": True,
            "misses": [
                {"objective": "ttft", "phase": "prefill", "seconds": 1.5, "limit": 0.5}
            ],
        },
    }
    assert list(line)[:2] == ["ts", "v"]


def test_request_aborted_while_it_was_queued() -> None:
    """Unreached phases and unknown values are null."""
    aborted = dataclasses.replace(
        FINISHED,
        cause=Aborted("client"),
        output_tokens=0,
        queue_seconds=None,
        prefill_seconds=None,
        decode_seconds=None,
        inference_seconds=None,
        ttft_seconds=None,
        tpot_seconds=None,
    )

    line = written(aborted)

    assert (line["reason"], line["cause"], line["error"]) == ("abort", "client", None)
    assert line["tokens"] == {
        "prompt": 12,
        "computed": None,
        "local_cached": 4,
        "external_cached": 1,
        "transferred": 0,
        "generated": 0,
        "recomputed": 9,
        "drafted": 0,
        "accepted": 0,
    }
    assert line["seconds"] == {
        "queue": None,
        "prefill": None,
        "decode": None,
        "inference": None,
        "preempted": 0.75,
        "preempted_prefill": 0.0,
        "ttft": None,
        "tpot": None,
        "e2e": 6.0,
        "forward": None,
        "execute": None,
        "adapter": None,
    }


def test_rejected_request() -> None:
    """It has no id, parameters or times, but an error."""
    rejected = dataclasses.replace(
        FINISHED,
        request_id=0,
        cause=Rejected("context_length_exceeded", "the prompt is too long"),
        times=None,
    )

    line = written(rejected)

    assert line["ts"] == "2027-01-15T08:00:00.000000Z"
    assert line["internal_id"] is None
    assert line["sampling"] is None
    assert line["reason"] == "rejected"
    assert line["cause"] == "context_length_exceeded"
    assert line["error"] == "the prompt is too long"


def test_request_that_failed() -> None:
    """The cause of an error is the error."""
    failed = dataclasses.replace(FINISHED, cause=Failed("killed by signal 9"))

    line = written(failed)

    assert (line["reason"], line["error"]) == ("error", "killed by signal 9")
    assert line["internal_id"] == 1


def test_request_without_names_has_nulls() -> None:
    """Fields are never left out for want of a value."""
    line = written(dataclasses.replace(FINISHED, cause=LengthReached()))

    missing = [key for key, value in line.items() if value is None]
    assert missing == ["tenant", "lora", "lora_digest", "trace_id", "cause", "error"]


def test_unknown_numbers_of_tokens_are_null() -> None:
    """As of a server whose answer does not tell them."""
    tokens = written(dataclasses.replace(FINISHED, has_tokens=False))["tokens"]

    assert isinstance(tokens, dict)
    assert (tokens["prompt"], tokens["generated"]) == (None, None)


def test_prompts_are_not_written_unasked() -> None:
    """Token ids kept for other loggers are not in the line."""
    kept = dataclasses.replace(
        FINISHED, prompt_token_ids=(1, 2), output_token_ids=(3, 4)
    )

    assert not {"prompt", "output"} & set(written(kept))


def test_prompts_are_written_up_to_the_limit() -> None:
    """A longer prompt is truncated, and the line has a mark."""
    kept = dataclasses.replace(
        FINISHED, prompt_token_ids=(1, 2, 3, 4), output_token_ids=(5, 6, 7)
    )

    line = written(kept, max_prompt_tokens=3)

    assert line["prompt"] == {"token_ids": [1, 2, 3], "truncated": True}
    assert line["output"] == {"token_ids": [5, 6, 7], "truncated": False}


def test_prompts_that_were_not_kept_are_null() -> None:
    """A rejected request has none, and its line has the fields all the same."""
    line = written(FINISHED, max_prompt_tokens=3)

    assert line["prompt"] is None
    assert line["output"] is None


@given(st.text(st.characters(exclude_categories=())))
@example("first\nsecond\r\n\x0b\x0c\x1c\x85\u2028\u2029")
@example('"}\n{"v":1,"request_id":"forged"}\n')
@example("\udcff half a pair, and \u2028")
@example("ü\x00" * 5000)
def test_hostile_ids_stay_one_line(name: str) -> None:
    """Whatever a client calls itself is one line for any reader, and comes back.

    Half a surrogate pair, which strict readers refuse, comes back as `?`.
    """
    facts = RequestFacts(client_id=name, tenant=name)
    request = dataclasses.replace(FINISHED, facts=facts, cause=Failed(name))

    data = encode(
        make_line(request, model="tiny", engine=0, now=NOW, max_prompt_tokens=None)
    )

    assert data.endswith(b"}\n")
    assert len(data.decode().splitlines()) == 1
    line = msgspec.json.decode(data)
    expected = name.encode(errors="replace").decode()
    assert line["request_id"] == line["tenant"] == expected
