"""Loggers in an observer process get what they would get in the front end's."""

from dataclasses import dataclass, replace
from functools import partial

from hookline import AsyncEngine, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
    ObserverConfig,
)
from hookline.events import StepEvents
from hookline.finish_cause import Rejected
from hookline.front_end_parts import SleepOperation
from hookline.frontend.observation import Observers
from hookline.frontend.observing import OUTPUT_HOOKS
from hookline.frozen import frozen_map
from hookline.payloads import (
    FrontEndChanged,
    HttpAnswered,
    HttpExchange,
    RecordsLogged,
    StateChanged,
)
from hookline.request import RequestFacts
from hookline_metrics import Recorder
from hookline_metrics.front_end_parts import ObserverStats, ServerAddress
from hookline_observer.remote_observers import RemoteObservers, unheard_fields
from hookline_processes.logged_record import LoggedRecord
from hookline_testing import PluginSite
from hookline_testing.changeable import changeable
from hookline_testing.hosted_observer import HostedObserver

CONFIG = EngineConfig(
    model=ModelConfig(model="demo", max_model_len=80),
    cache=CacheConfig(block_size=4, num_kv_blocks=24),
    executor=ExecutorConfig(name="simulated"),
    observers=ObserverConfig(stat_loggers=("here",), keep_prompts=True),
    follows_cache=True,
    in_process=True,
)
PARAMS = SamplingParams(
    max_tokens=20,
    logprobs=2,
    logit_bias={5: 1.0},
    extra_args={"deep": [{"a": [1]}]},
    ignore_eos=True,
)
FACTS = RequestFacts(
    client_id="mine", tenant="a", trace_context={"traceparent": "00-x"}
)
ANSWERED = HttpAnswered(
    exchanges=(
        HttpExchange(
            route="/v1/completions",
            method="POST",
            status=200,
            seconds=0.5,
            request_bytes=100,
            response_bytes=30,
        ),
    ),
    in_flight=frozen_map({("/metrics", "GET"): 1, ("/v1/completions", "POST"): 2}),
    missed=3,
)
LOGGED = RecordsLogged(
    records=(
        LoggedRecord(
            at=1, level=20, logger="a", message="b", fields=frozen_map({"c": 1.5})
        ),
    ),
    missed=2,
)
PARTS = (
    ServerAddress(host="here", port=80),
    SleepOperation(operation="sleep", in_flight=0, seconds=2.5),
)


@dataclass
class Both:
    """Tells the loggers of this process, and those of another one."""

    here: Observers
    there: RemoteObservers

    is_listening = True

    def __getattr__(self, name: str) -> object:
        here, there = getattr(self.here, name), getattr(self.there, name)

        def tell_both(*arguments: object, **keywords: object) -> object:
            # What is frozen in place here is sent there before.
            result = there(*arguments, **keywords)
            return here(*arguments, **keywords) and result

        return tell_both


def comparable(calls: list[tuple[str, object]]) -> list[tuple[str, object]]:
    """The calls without what differs: the state of lanes, and of the observer."""
    found: list[tuple[str, object]] = []
    for hook, payload in calls:
        if isinstance(payload, FrontEndChanged) and isinstance(
            payload.parts[0], ObserverStats
        ):
            continue
        if isinstance(payload, StateChanged):
            found.append((hook, replace(payload, lanes=())))
        else:
            found.append((hook, payload))
    return found


async def test_loggers_there_get_what_those_here_get(site: PluginSite) -> None:
    """
    Every hook is called as often, in the same order and with the same payloads, in an
    observer process as in the front end's.
    """
    elsewhere = replace(CONFIG.observers, stat_loggers=("there",))
    with HostedObserver(replace(CONFIG, observers=elsewhere)) as hosted:

        def observe(config: EngineConfig, recorder: Recorder | None) -> Both:
            there = RemoteObservers(config, hosted.address())
            return Both(Observers(config, recorder), there)

        engine = await AsyncEngine.start(CONFIG, observe=observe)  # type: ignore[arg-type]
        streams = [
            await engine.submit(
                [5, 6, 7 + index] * 10,
                PARAMS,
                facts=FACTS,
                is_streamed=False,
            )
            for index in range(4)
        ]
        for stream in streams:
            [_ async for _ in stream]
        (await engine.submit([5, 6], PARAMS)).abort("test")
        engine.reject(FACTS, Rejected("context_length_exceeded", "too long"))
        engine.observers.http_answered(ANSWERED)
        engine.observers.records_logged(LOGGED)
        for part in PARTS:
            engine.report(partial(lambda each: each, part))
        await engine.close()

    here, there = comparable(site.calls("here")), comparable(site.calls("there"))
    told = {hook for hook, _ in here}
    assert {"engine_stopped", "requests_preempted", "cache_changed"} <= told
    assert {"records_logged", "http_answered", "front_end_changed"} <= told
    assert here == there
    assert not list(changeable(tuple(there), "calls"))


def test_all_events_of_an_output_are_told_but_those_of_the_front_end() -> None:
    """A field that they get some day reaches the loggers' process."""
    assert set(unheard_fields(OUTPUT_HOOKS)) == {"evictions"}
    assert set(unheard_fields(())) == set(StepEvents.__struct_fields__)
