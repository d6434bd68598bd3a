"""An engine of another distribution is named, and shared, like Hookline's own."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig
from hookline.engine.commands import Call, IsSleeping, TellExtensions
from hookline.events import Finished, Queued, StepEvents, StepOutput
from hookline.exceptions import CommandError, ConfigError
from hookline.finish_cause import LengthReached, Rejected
from hookline.request import FinishReason
from hookline.stats.scheduler_stats import EngineTotals, SchedulerStats
from hookline.transport.engine_client import refusal
from hookline.transport.native import is_driven
from hookline_process_engine.counted import CountedEngine
from hookline_server.cli.options.arguments import engine_config, read_arguments
from hookline_server.cli.options.engine import engine_options
from hookline_testing.plugin_site import PluginSite
from hookline_testing.server_process import Server, serving
from hookline_testing.waiting import wait_until

TOY = Path(__file__).parent / "toy_engine"
PARAMS = SamplingParams(max_tokens=4, ignore_eos=True)


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Path]:
    """The toy engine, installed; yields the folder of its metadata."""
    with PluginSite(tmp_path) as installed:
        installed.install_project(TOY)
        yield tmp_path


def config(**options: object) -> EngineConfig:
    return EngineConfig.from_options(engine="toy", model="no/where", **options)


def test_its_model_and_options_are_its_own(toy: Path) -> None:  # noqa: ARG001
    """The engine gets its options, and says where the tokenizer of its model is."""
    with LLM.from_config(config(engine_option={"shift": "1"})) as llm:
        [given] = llm.generate([[3, 4, 5]], PARAMS, use_tqdm=False)

    assert list(given.outputs[0].token_ids) == [4, 5, 6, 4]
    assert given.outputs[0].finish_reason is FinishReason.LENGTH


def test_processors_are_the_engines_own(
    toy: Path,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What Hookline's own engine lacks without them is not refused."""
    lacks = "hookline.frontend.input_processor.usual_missing"
    monkeypatch.setattr(lacks, lambda: ("logit_bias",))
    biased = SamplingParams(max_tokens=1, logit_bias={5: 1.0})

    with LLM.from_config(config()) as llm:
        [given] = llm.generate([[3]], biased, use_tqdm=False)

    assert list(given.outputs[0].token_ids) == [3]


def test_a_wrong_option_is_told(toy: Path) -> None:  # noqa: ARG001
    """By the engine that gets it; Hookline's own engine has none."""
    with pytest.raises(ConfigError, match="the toy has one option: shift"):
        LLM.from_config(config(engine_option={"color": "red"}))
    with pytest.raises(ConfigError, match="engine-option: the engine native takes"):
        EngineConfig.from_options(engine_option={"shift": "1"})
    with pytest.raises(ConfigError, match="engine-argument: the engine native takes"):
        EngineConfig.from_options(engine_argument=["-x"])


def test_arguments_after_two_dashes_are_the_engines() -> None:
    """They keep their spelling, and nothing of them is taken for Hookline's."""
    typed = ["--engine", "toy", "M", "--seed", "3", "--", "--max_num_seqs", "9", "-q"]

    read = read_arguments(
        "serve", "", engine_options(), typed, default_loggers=(), operand="model"
    )
    made = engine_config(read, in_process=False)

    assert made.engine_arguments == ("--max_num_seqs", "9", "-q")
    assert (made.model.model, made.model.seed) == ("M", 3)
    assert made.scheduler == EngineConfig().scheduler


def test_commands_are_refused_or_its_own(toy: Path) -> None:  # noqa: ARG001
    """What it does not know it refuses by name; a section is its own command."""
    with LLM.from_config(config()) as llm:
        front_end = llm.front_end
        known = front_end.call(TellExtensions({"toy": {"word": "hello"}}))
        unknown = front_end.call(IsSleeping())
        while not unknown[0].done():
            if (received := front_end.engines.client.receive(1.0)) is not None:
                front_end.on_message(received)

    assert known[0].result().sections == {"toy": {"heard": "hello"}}
    error = unknown[0].exception()
    assert isinstance(error, CommandError)
    assert error.reason == "the engine toy does not know IsSleeping"


def test_refusal_names_engine_and_command() -> None:
    """The reply goes to the call's client, under its number."""
    reply = refusal(Call(2, 7, IsSleeping()), "parrot")

    assert (reply.client, reply.number, reply.value) == (2, 7, None)
    assert reply.error == "the engine parrot does not know IsSleeping"


class Told:
    """An engine that tells what it is given."""

    facts = bell = None
    has_work = False

    def __init__(self, *outputs: StepOutput) -> None:
        self.outputs = list(outputs)

    def run_once(self, receive: object, timeout_seconds: float) -> list[StepOutput]:
        del receive, timeout_seconds
        return [self.outputs.pop(0)]


def output(stats: SchedulerStats, **events: Any) -> StepOutput:
    return StepOutput(0, 1, "step", stats, events=StepEvents(**events))


QUEUED = [Queued(1, 1, 5), Queued(2, 1, 5)]
ENDED = [Finished(1, 2, LengthReached(), 0)]


@pytest.mark.parametrize(
    ("second", "residue"),
    [
        (SchedulerStats(running=1), 0),
        (SchedulerStats(running=2), 1),
        (SchedulerStats(running=1, totals=EngineTotals(2, finished={"length": 1})), 0),
        (SchedulerStats(running=1, totals=EngineTotals(3, finished={"length": 2})), 2),
    ],
    ids=["silent", "one too many", "right", "wrong"],
)
def test_totals_are_counted_where_all_requests_are_seen(
    second: SchedulerStats, residue: int
) -> None:
    """What an engine leaves out is added; what it has wrong is residue."""
    inner = Told(
        output(SchedulerStats(waiting=2), queued=QUEUED),
        output(second, finished=ENDED),
    )
    engine = CountedEngine(inner)  # type: ignore[arg-type]

    engine.run_once(lambda _: None, 0)
    [told] = engine.run_once(lambda _: None, 0)

    assert isinstance(told, StepOutput)
    totals = told.stats.totals
    assert (totals.received, dict(totals.finished)) == (2, {"length": 1})
    assert totals.residue.requests == residue


def test_what_an_engine_refuses_has_never_come() -> None:
    """Front ends count it alone, as they do what they refuse themselves."""
    refused = [Finished(1, 2, Rejected("invalid_grammar", "it is wrong"), 0)]
    inner = Told(output(SchedulerStats(waiting=1), queued=QUEUED, finished=refused))

    [told] = CountedEngine(inner).run_once(lambda _: None, 0)  # type: ignore[arg-type]

    assert isinstance(told, StepOutput)
    totals = told.stats.totals
    assert (totals.received, dict(totals.finished)) == (1, {})
    assert totals.residue.requests == 0


def test_only_driven_engines_are_shared(
    toy: Path,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """An engine that connects by itself has one API server."""
    with PluginSite(tmp_path_factory.mktemp("own")) as site:
        source = "def connect(context): ..."
        site.install("own", source, group="hookline.engines", attribute="connect")

        assert is_driven("native")
        assert is_driven("toy")
        assert not is_driven("own")


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Server]:
    paths = (str(folder), str(TOY / "src"), os.environ.get("PYTHONPATH", ""))
    with serving(
        *("--port", "0", "--engine", "toy", "--engine-option", "shift=1"),
        *("--model", "no/where", *options),
        environment={"PYTHONPATH": os.pathsep.join(filter(None, paths))},
    ) as server:
        yield server


BODY = {"model": "where", "prompt": [3, 4, 5], "max_tokens": 4, "ignore_eos": True}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_several_servers_share_it(toy: Path) -> None:
    """Each gets its own requests' tokens, and the totals of all are conserved."""
    wanted = {**BODY, "return_token_ids": True}
    options = ("--api-server-count", "2", "--enable-sleep-mode")
    with served(toy, *options, "--page-wait-seconds", "20") as server:
        with ThreadPoolExecutor(8) as pool:
            answers = list(
                pool.map(lambda _: server.post("/v1/completions", wanted), range(16))
            )
        server.wait_for("hookline_requests_received_total", 16)
        residue = server.metric("hookline_conservation_residue", kind="requests")
        slept = server.post("/sleep", {})

    tokens = {tuple(answer["choices"][0]["token_ids"]) for _, answer in answers}
    assert tokens == {(4, 5, 6, 4)}
    assert residue == 0
    assert slept[0] >= 400
    assert "the engine toy does not know Sleep" in str(slept[1])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_it_is_replaced_after_its_death(toy: Path) -> None:
    """An error that it raises ends its process, and a new one answers."""
    with served(toy, "--engine-restart", "2") as server:
        status, _ = server.post("/v1/completions", {**BODY, "prompt": [9] * 7})
        wait_until(lambda: server.get("/health/ready")[0] == 200, "no new engine")
        later = server.post("/v1/completions", BODY)
        residue = server.metric("hookline_conservation_residue", kind="requests")

    assert status >= 500
    assert residue == 0
    assert later[0] == 200
