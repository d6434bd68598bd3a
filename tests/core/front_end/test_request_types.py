"""Types of a request are checked as cheaply as can be, and as strictly as ever."""

import math
from collections.abc import Mapping
from types import MappingProxyType

import msgspec
import pytest

from hookline import sampling_params
from hookline.config.extensions import KV_TRANSFER
from hookline.exceptions import RequestError
from hookline.frontend.input_processor import check_types
from hookline.frozen import frozen_json, plain
from hookline.request import GenerateRequest, RequestFacts, Slo
from hookline.sampling_params import SamplingParams
from hookline.sections import present
from hookline.structured_outputs import StructuredOutputsParams

ODD: tuple[object, ...] = (
    *(None, True, False, 0, 1, -1, 16, 2**62, 2**63, 2**64, -(2**63), -(2**63) - 1),
    *(0.0, 1.0, 0.5, -0.5, 1e10, math.inf, math.nan, 0.0005),
    *("", "a", "é", "\ud800", b"a", "a b"),
    *((), (1,), (2**64,), ("a",), ("\ud800",), (1, "a"), [1], ["a"], {1}, {"a": 1}),
    *({1: 1.0}, {1: 1}, {"a": "b"}, {1: "b"}, {"a": ["b"]}, {"a": "\ud800"}),
    *(MappingProxyType({"a": "b"}), MappingProxyType({1: 0.5}), object(), 1 + 2j),
    *(Slo(), Slo(ttft=1.0), Slo(ttft="1"), RequestFacts(), SamplingParams()),  # type: ignore[arg-type]
    StructuredOutputsParams(regex="a"),
)
"""Values of which some fit each field, and most do not."""

USUAL_PARAMS = SamplingParams(
    n=2,
    max_tokens=32,
    temperature=0.7,
    top_k=20,
    top_p=0.9,
    presence_penalty=1,
    logit_bias={3: 1.5},
    stop=("\n", "User:"),
    stop_token_ids=(1, 2),
    logprobs=5,
    seed=7,
    ignore_eos=True,
)
USUAL_FACTS = RequestFacts(
    client_id="a",
    response_id="cmpl-1",
    tenant="b",
    priority=-1,
    trace_context={"traceparent": "00-1-2-01"},
    trace_id="0" * 32,
    slo=Slo(ttft=0.5),
    weight=2.0,
    session_id="c",
)


def with_value(
    of: type[SamplingParams] | type[RequestFacts], name: str, value: object
) -> SamplingParams | RequestFacts | None:
    """A struct with an odd value; None if it cannot be made."""
    try:
        return of(**{name: value})  # type: ignore[arg-type]
    except (RequestError, TypeError, ValueError, AttributeError):
        return None


def verdict(check: object, *arguments: object) -> str | None:
    """Why a request is refused; None if it is not."""
    assert callable(check)
    try:
        check(*arguments)
    except (RequestError, AttributeError) as error:
        return str(error)
    return None


def request(
    params: SamplingParams = USUAL_PARAMS,
    facts: RequestFacts = USUAL_FACTS,
    cache_salt: object = None,
    kv_transfer_params: object = None,
) -> GenerateRequest:
    return GenerateRequest(
        prompt_token_ids=[],
        params=params,
        facts=facts,
        cache_salt=cache_salt,  # type: ignore[arg-type]
        sections=present([(KV_TRANSFER, kv_transfer_params)]),
    )


def send(request: GenerateRequest) -> None:
    """Sends a request to an engine in another process, as far as that can fail."""
    try:
        for section in request.sections.values():
            if isinstance(section, Mapping):
                frozen_json(section)
        encoded = msgspec.msgpack.encode(request, enc_hook=plain)
        msgspec.msgpack.decode(encoded, type=GenerateRequest)
    except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
        raise RequestError(f"the request is malformed: {error}") from error


@pytest.mark.parametrize("of", [SamplingParams, RequestFacts])
def test_odd_values_are_refused_as_by_encoding(
    of: type[SamplingParams] | type[RequestFacts],
) -> None:
    """Whatever stands in a field, the verdict and its words are those of encoding."""
    verdicts = []
    for name in of.__struct_fields__:
        for value in ODD:
            if (made := with_value(of, name, value)) is None:
                continue
            if isinstance(made, SamplingParams):
                given = request(made)
            else:
                given = request(SamplingParams(), made)
            found = verdict(check_types, given)

            assert found == verdict(send, given), (name, value)
            verdicts.append(found)

    assert verdicts.count(None) > 40
    assert len(set(verdicts)) > 10


@pytest.mark.parametrize("salt", [None, "a", "é", "\ud800", 1, b"a"], ids=repr)
@pytest.mark.parametrize(
    "transfer",
    [None, {}, {"a": [1]}, {"a": object()}, {1: "a"}],
    ids=("none", "empty", "list", "object", "number as key"),
)
def test_salts_and_transfers_are_refused_as_by_encoding(
    salt: object, transfer: Mapping[object, object] | None
) -> None:
    """So it is with what a request has beside its parameters and facts."""
    given = request(cache_salt=salt, kv_transfer_params=transfer)

    assert verdict(check_types, given) == verdict(send, given)


def test_values_are_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters check themselves when they are made; engines trust what they get."""

    def fail(*_: object) -> None:
        raise AssertionError("checked again")

    monkeypatch.setattr(sampling_params, "check_words", fail)

    given = request(cache_salt="a")

    check_types(given)
    send(given)
