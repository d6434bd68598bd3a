"""Front ends turn the names of adapters into what computes requests."""

import msgspec
import pytest

from hookline.exceptions import RequestError
from hookline.payloads import ExtensionFacts
from hookline.request import GenerateRequest, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline_lora import create_extension_facts
from hookline_lora.adapter import AdapterRef, AdapterUse
from hookline_lora.facts import KnownAdapters, LoraFacts


def ref(name: str, digest: str) -> AdapterRef:
    return AdapterRef(
        name=name,
        digest=digest,
        path=f"/adapters/{name}",
        rank=8,
        alpha=16.0,
        targets=("q_proj",),
        num_bytes=64,
    )


def request(adapter: str | None) -> GenerateRequest:
    return GenerateRequest(
        prompt_token_ids=[1],
        params=SamplingParams(),
        facts=RequestFacts(lora=adapter),
    )


def facts(version: int = 1, **digests: str) -> LoraFacts:
    refs = {name: ref(name, digest) for name, digest in digests.items()}
    known = KnownAdapters(version, refs)
    return LoraFacts(max_loras=8, max_lora_rank=16, known=known)


def test_a_name_becomes_the_digest_and_the_folder_of_its_adapter() -> None:
    """Blocks are known by the digest; a request of the base model gets nothing."""
    known = facts(sql="d1")

    part = known.prepared(None, request("sql"))

    assert part is not None
    assert part.adapter == "d1"
    assert part.section == AdapterUse("d1", "sql", "/adapters/sql")
    assert known.prepared(None, request(None)) is None


def test_an_unknown_name_is_refused() -> None:
    """The field is the one in which clients name it; long names are cut."""
    with pytest.raises(RequestError) as raised:
        facts(sql="d1").prepared(None, request("x" * 1000))

    assert raised.value.param == "model"
    assert len(str(raised.value)) < 200


def test_adapters_are_replaced_as_a_whole_unless_by_older_ones() -> None:
    """Requests see those of before or of after."""
    known, old = facts(2, sql="d1"), facts(1, legal="d0").known

    known.replace(old)
    before = known.adapters
    known.replace(facts(3, legal="d2").known)

    assert before == ("sql",)
    assert (known.adapters, known.version) == (("legal",), 3)


def test_facts_cross_processes() -> None:
    """What manages adapters in a front end stays there."""
    known = facts(5, sql="d1")
    assert known.manager() is known.manager()
    plain = msgspec.msgpack.decode(msgspec.msgpack.encode(known))

    found = create_extension_facts(ExtensionFacts(section=plain))

    assert found == known
