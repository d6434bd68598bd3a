"""Instances of both roles come and go, and signals say how many of each are wanted."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from hookline.exceptions import ConfigError
from hookline_faults.scripted_instances import FakeInstance, numbers_of, routed, until
from hookline_gateway.upstreams.instance import Instance
from hookline_gateway.upstreams.load import Load, read_load
from hookline_pd_proxy.app import create_route
from hookline_pd_proxy.numbers import Numbers
from hookline_pd_proxy.pools import Role
from hookline_pd_proxy.settings import RouteSettings

PATH = "/v1/completions"
BODY = {"model": "m", "prompt": "Hello", "max_tokens": 7}
PAGE = """\
hookline_requests_running{engine="0"} 2.0
hookline_requests_waiting{engine="0"} 3.0
hookline_kv_cache_usage_ratio{engine="0"} 0.25
"""
SATURATIONS = """\
hookline_saturation_ratio{engine="0"} 0.5
hookline_saturation_ratio{engine="1"} 1.0
"""


class Clock:
    """A clock that the test advances."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_signals_of_each_instance_are_on_the_page() -> None:
    """What it said last, and for how long the proxy's requests have been there."""
    clock = Clock()
    instance = Instance(Role.PREFILL, "http://p:1", clock=clock)
    instance.add_request()
    clock.now += 2
    instance.add_request()
    clock.now += 3
    instance.record_load(read_load(PAGE + SATURATIONS))

    page = Numbers().page([instance])

    labels = '{role="prefill",instance="p:1"}'
    for line in (
        f"busy_seconds_total{labels} 8.0",
        f"in_flight{labels} 2.0",
        f"instance_requests{labels} 5.0",
        f"instance_kv_cache_usage_ratio{labels} 0.25",
        f"instance_saturation_ratio{labels} 0.75",
    ):
        assert f"hookline_route_{line}\n" in page
    instance.record_load(Load(0, 0.0))
    assert "saturation_ratio{" not in Numbers().page([instance])


async def test_whole_requests_are_measured() -> None:
    """From their arrival to their last byte, if they were completed."""
    prefill, decode = FakeInstance(), FakeInstance()
    async with routed([prefill], [decode]) as client:
        await (await client.post(PATH, json=BODY)).read()
        await (await client.get("/version")).read()
        decode.status = 400
        await (await client.post(PATH, json=BODY)).read()

        assert (await numbers_of(client))["request_seconds_count"] == 1


def write(file: Path, prefill: Sequence[str], decode: Sequence[str]) -> None:
    """Replaces the file as a whole, as whoever scales instances should."""
    new = file.with_suffix(".new")
    new.write_text(json.dumps({"prefill": prefill, "decode": decode}))
    new.rename(file)


def up(instance: FakeInstance, role: str) -> str:
    return f'instance_up{{role="{role}",instance="{instance.url[7:]}"}}'


async def test_instances_of_the_file_come_and_go(tmp_path: Path) -> None:
    """
    Requests go to those that are there; one that stays keeps its requests, and what is
    no list of instances changes nothing.
    """
    file = tmp_path / "instances.json"
    first, second, prefill = FakeInstance(), FakeInstance(), FakeInstance()
    async with first.served(), second.served(), prefill.served():
        write(file, [], [first.url])
        async with routed([], [], instances_file=str(file)) as client:
            first.gate.clear()
            first.free_pieces = 1
            held = await client.post(PATH, json=BODY)
            write(file, [prefill.url], [first.url, second.url])
            numbers = await until(client, up(prefill, "prefill"), up(second, "decode"))
            kept = up(first, "decode").replace("instance_up", "in_flight")
            assert numbers[kept] == 1

            file.write_text("{")
            await second.looks()
            assert up(second, "decode") in await numbers_of(client)
            write(file, [prefill.url], [second.url])
            numbers = await until(client, gone=[up(first, "decode")])
            assert up(second, "decode") in numbers
            await (await client.post(PATH, json=BODY)).read()
            first.gate.set()
            assert (await held.read()).endswith(b"data: [DONE]\n\n")

    assert len(prefill.received) == len(second.received) == len(first.received) == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "No such file"),
        ('{"decode": []}', "at least one"),
        ('{"decode": ["http://a:1"], "prefil": []}', "prefil"),
        ('{"decode": ["ftp://a:1"]}', "URL"),
    ],
)
def test_invalid_file_is_refused(
    tmp_path: Path, text: str | None, complaint: str
) -> None:
    """Before anything is served; so is a file beside instances by name."""
    file = tmp_path / "instances.json"
    if text is not None:
        file.write_text(text)

    with pytest.raises(ConfigError, match=complaint):
        create_route(RouteSettings(instances_file=str(file)))
    with pytest.raises(ConfigError, match="excludes"):
        RouteSettings(instances_file=str(file), decode=["http://a:1"])
