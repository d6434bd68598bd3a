"""Serves the demo model in this process and records the calls of requests.

`python -m hookline_testing.structure.traced_server ROOT FILE FUNCTION KERNELS` prints
`Traces` as JSON. Features are off; the loggers are those of `hookline serve`, but each
gets each step by itself, and there are no heartbeats. With the kernels `torch`, calls
do not depend on what has been compiled when.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    Kernels,
    ModelConfig,
    ObserverConfig,
)
from hookline.frontend.observing import Observing
from hookline.frontend.starting import observe
from hookline_demo_model import folder
from hookline_server.app import create_app
from hookline_server.cli.options.loggers import default_loggers
from hookline_server.settings import ServerSettings
from hookline_server.texts.engine import TextEngine
from hookline_testing.paced_client import PacedClient, paced_connect
from hookline_testing.structure.calls import Called, CallRecorder, Calls
from hookline_testing.structure.forms import Forms
from hookline_testing.structure.traces import Traces

Client = TestClient[Request, Application]

FIRST_WORDS = ("One", "Two", "Six", "Ten", "For")
TEXTS = [f"{word} days the river is long" for word in FIRST_WORDS]
"""Prompts of as many tokens, of which none is in the prefix cache at first."""
STEPS = 24
FIRST_STEP, LAST_STEP = 6, 20
"""Steps of the decode that are recorded: in its middle."""
_IDLE_TURNS = 5
_FLUSH_SECONDS = 30.0
_POLL_SECONDS = 0.001


class Tracer:
    """Cuts the recorder's calls into steps."""

    def __init__(self, recorder: CallRecorder) -> None:
        self._recorder = recorder
        self._observers: list[Observing] = []
        self._event_loop = asyncio.get_running_loop()
        self._idle_turns = 0
        self._is_idle = asyncio.Event()
        self.engine = ""
        self.steps: list[Calls] = []
        self.is_cutting = False

    def observe(self, config: EngineConfig, *more: object) -> Observing:
        """Loads the loggers, and keeps them."""
        del more
        self._observers.append(observe(config))
        return self._observers[-1]

    def before_step(self, has_commands: bool) -> None:
        """Ends a step's record when all threads have done what is to be done.

        What the engine does while it has nothing to do is not recorded.
        """
        self.engine = threading.current_thread().name
        self._idle_turns = 0 if has_commands else self._idle_turns + 1
        if not self.is_cutting:
            if self._idle_turns > _IDLE_TURNS:
                self._recorder.forget()
                self._event_loop.call_soon_threadsafe(self._is_idle.set)
            return
        with self._recorder.unseen():
            for each in self._observers:
                each.flush(_FLUSH_SECONDS)
            self._wait_for_others()
            self.steps.append(self._recorder.stop())
            self._recorder.record()

    async def idle(self) -> None:
        """Waits until the engine has had nothing to do for some turns."""
        self._idle_turns = 0
        self._is_idle.clear()
        await self._is_idle.wait()

    def _wait_for_others(self) -> None:
        """Waits until no other thread runs code of ours, nor has since."""
        seen = -1
        while seen != (seen := self._recorder.count) or not _others_wait():
            time.sleep(_POLL_SECONDS)


def _others_wait() -> bool:
    own = threading.get_ident()
    frames = sys._current_frames()  # noqa: SLF001
    return not any(_is_ours(frame) for ident, frame in frames.items() if ident != own)


def _is_ours(frame: FrameType) -> bool:
    return "hookline" in Path(frame.f_code.co_filename).parts[-1]


async def trace(root: Path, end: Called, kernels: Kernels) -> Traces:
    """Serves a few requests.

    Args:
        root: The checkout.
        end: The function of the model runner at which a prompt has arrived.
        kernels: The kernels to use.

    Raises:
        LookupError: The engine did not call this function.
    """
    recorder = CallRecorder(root)
    tracer = Tracer(recorder)
    paced = paced_connect(asyncio.get_running_loop(), tracer.before_step)

    def connect(config: EngineConfig) -> PacedClient:
        client = paced(config)
        recorder.watch()  # now that all is imported; the threads start after this
        return client

    engine = await TextEngine.start(
        _config(kernels), observe=tracer.observe, connect=connect
    )
    recorder.watch()
    try:
        async with TestClient(TestServer(create_app(engine, ServerSettings()))) as it:
            warm, shown, *texts = TEXTS
            await _complete(it, warm)  # makes what is made once, knows its tokens
            forms = Forms(shown, await _tokens(it, shown))
            await tracer.idle()
            recorder.record(until=end, look=forms.look)
            await _complete(it, shown, max_tokens=1)
            recorder.stop()
            prompts = []
            for text in texts:
                await tracer.idle()
                recorder.record(until=end)
                await _complete(it, text, max_tokens=1)
                prompts.append(recorder.stop())
                if prompts[-1][tracer.engine][-1] != end:
                    raise LookupError(f"no prompt came to {end.name} in {end.file}")
            await tracer.idle()
            tracer.is_cutting = True
            await _complete(it, warm)
            tracer.is_cutting = False
    finally:
        recorder.remove()
        await engine.close()
    steps = tracer.steps[FIRST_STEP:LAST_STEP]
    here = threading.current_thread().name
    return Traces(here, tracer.engine, prompts, forms.found, steps)


async def _complete(client: Client, prompt: str, max_tokens: int = STEPS) -> None:
    body = {
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
    }
    async with client.post("/v1/completions", json=body) as answer:
        await answer.read()


async def _tokens(client: Client, text: str) -> list[int]:
    async with client.post("/tokenize", json={"prompt": text}) as answer:
        found: Any = await answer.json()
        return list(found["tokens"])


def _config(kernels: Kernels) -> EngineConfig:
    return EngineConfig(
        model=ModelConfig(model=str(folder()), max_model_len=256),
        cache=CacheConfig(num_kv_blocks=64),
        executor=ExecutorConfig(kernels=kernels, threads=1),
        observers=ObserverConfig(
            stat_loggers=default_loggers(),
            linger_seconds=0.0,
            heartbeat_seconds=3600.0,
        ),
        in_process=True,
    )


def main(arguments: Sequence[str]) -> None:
    root, file, name, kernels = arguments
    end = Called(file, name)
    traces = asyncio.run(trace(Path(root), end, Kernels(kernels)))
    sys.stdout.buffer.write(msgspec.json.encode(traces))


if __name__ == "__main__":
    main(sys.argv[1:])
