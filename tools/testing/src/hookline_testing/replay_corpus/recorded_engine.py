"""An engine of a recording to be made: simulated, on a virtual clock, and recorded."""

import secrets
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.engine.commands import Call, Command, EngineCommand, Finish
from hookline.engine.engine_core import EngineCore
from hookline.engine.engine_loop import EngineLoop
from hookline.engine.tap import TapContext
from hookline.events import StepOutput
from hookline.finish_cause import Aborted, FinishCause
from hookline_recording.config import MIB, Content
from hookline_recording.hashing import PromptHasher
from hookline_recording.recorder import Recorder
from hookline_recording.stores import FileStore
from hookline_recording.taps import header_of

IDLE_SECONDS = 1.0
MOST_BYTES = 64 * MIB


def recorder_of(
    core: EngineCore, path: Path, *, content: Content, salt: bytes | None = None
) -> Recorder:
    """Makes a recorder of an engine, whose file has no process ids.

    Args:
        core: The engine.
        path: The file.
        content: What it has of prompts and outputs.
        salt: Salt of its hashes; None draws one.
    """
    context = TapContext(
        config=core.config,
        facts=core.facts,
        clock=core.clock_pair(),
        scheduler=core.scheduler,
    )
    header = msgspec.structs.replace(
        header_of(context, content),
        salt=salt or secrets.token_bytes(16),
        pid=0,
        owner_pid=0,
    )
    store = FileStore(path, MOST_BYTES, header)
    hasher = PromptHasher(header, core.config.cache.hash_algorithm)
    return Recorder(store, content, hasher, core.scheduler)


class RecordedEngine:
    """Gives an engine commands at their times, and records what it does.

    Attributes:
        core: Its core.
        clock: Its clock.
    """

    def __init__(
        self,
        core: EngineCore,
        path: Path,
        *,
        content: Content = Content.HASHES,
        salt: bytes | None = None,
    ) -> None:
        """Begins a recording.

        Args:
            core: The engine, whose clock is a virtual one.
            path: The file.
            content: What it has of prompts and outputs.
            salt: Salt of its hashes; None draws one.
        """
        assert isinstance(core.clock, VirtualClock)
        self.core, self.clock = core, core.clock
        recorder = recorder_of(core, path, content=content, salt=salt)
        self._loop = EngineLoop(core, IDLE_SECONDS, recorder)
        self._calls = 0

    def serve(self, arrivals: Sequence[tuple[float, Command]]) -> list[StepOutput]:
        """Gives commands at their times in seconds; runs to the end of all requests."""
        waiting = sorted(arrivals, key=lambda each: each[0])
        outputs: list[StepOutput] = []

        def receive(timeout_seconds: float) -> Command | None:
            if waiting and waiting[0][0] * NANOSECONDS <= self.clock.now():
                return waiting.pop(0)[1]
            if timeout_seconds:
                self.clock.sleep(timeout_seconds)
            return None

        while waiting or self.core.has_work:
            messages = self._loop.run_once(receive, 0.01)
            outputs += (each for each in messages if isinstance(each, StepOutput))
        for _ in range(3):
            self._loop.run_once(receive, 0.01)
        return outputs

    def call(self, command: EngineCommand[object]) -> Call:
        """Makes a call of a command."""
        self._calls += 1
        return Call(0, self._calls, command)  # type: ignore[arg-type]

    def close(self) -> None:
        """Ends engine and recording."""
        self._loop.close()


def finish(*request_ids: int, cause: FinishCause | None = None) -> Finish:
    """Ends requests."""
    return Finish(list(request_ids), cause or Aborted("client_disconnect"))
