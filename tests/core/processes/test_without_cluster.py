"""Without the distribution hookline-cluster one engine serves, in either process."""

import os
import signal
from dataclasses import replace

import pytest

from hookline import LLM, AsyncEngine, SamplingParams
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline.frontend.output_stream import OutputStream
from hookline.outputs import RequestOutput
from hookline_process_engine.process_client import ProcessClient
from hookline_process_engine.supervision.config import SupervisionConfig
from hookline_process_engine.supervision.extension import SupervisingExtension
from hookline_server.engine_number import EngineNumber
from hookline_testing import PluginSite, assert_conserved

from .conftest import StartEngine

SHORT = SamplingParams(max_tokens=3, ignore_eos=True)


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKLINE_PLUGINS", "no:hookline-cluster")


def process_of(engine: AsyncEngine) -> int:
    client = engine._front_end.engines.client
    assert type(client) is ProcessClient
    return client.pids[0]


async def collect(stream: OutputStream) -> list[RequestOutput]:
    return [output async for output in stream]


@pytest.mark.parametrize("in_process", [True, False])
def test_one_engine_generates(*, in_process: bool) -> None:
    """The front end has no extension of a cluster, and the books balance."""
    with LLM(executor="simulated", in_process=in_process) as llm:
        outputs = llm.generate([[5], [6]], SHORT, use_tqdm=False)
        assert_conserved(llm)

        assert [each.outputs[0].output_tokens for each in outputs] == [3, 3]
        assert type(llm.front_end.extension) is SupervisingExtension
        assert llm.front_end.router.stats.requests == (("0", "only", 2),)


async def test_a_process_that_ends_is_replaced(
    start_engine: StartEngine, slow_process: EngineConfig, site: PluginSite
) -> None:
    """A request of which the client has got nothing begins again there."""
    supervised = SupervisionConfig(engine_restart=1)
    sections = {**slow_process.sections, "supervision": supervised}
    engine = await start_engine(replace(slow_process, sections=sections))
    stream = await engine.submit([5] * 4, SHORT, is_streamed=False)

    os.kill(process_of(engine), signal.SIGKILL)
    [output] = await collect(stream)

    assert output.outputs[0].output_tokens == 3
    assert engine.failure is None
    assert engine.capability(EngineNumber) is None
    assert site.calls()


@pytest.mark.parametrize(
    "options",
    [
        {"data_parallel_size": 2},
        {"data_parallel_size": 4, "data_parallel_rank": 2},
        {"data_parallel_backend": "ray"},
        {"autoscale": "1:2"},
    ],
)
def test_several_engines_need_it(options: dict[str, object]) -> None:
    """The error names the distribution and an option of the user."""
    flag = next(iter(options)).replace("_", "-")
    missing = f"{flag}: requires the distribution hookline-cluster"
    with pytest.raises(ConfigError, match=missing):
        EngineConfig.from_options(executor="simulated", **options)
