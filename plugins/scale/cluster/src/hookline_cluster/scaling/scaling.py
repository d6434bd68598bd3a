"""The number of a server's engines on its event loop: calls that change it."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from hookline.config import EngineConfig
from hookline.exceptions import ConfigError, EngineDeadError, RequestError
from hookline.frontend.engine_set import EngineSet
from hookline.transport.engine_client import EngineClient
from hookline_cluster.capabilities import ElasticEngines
from hookline_cluster.config.cluster import ClusterConfig, check_scalable
from hookline_cluster.scaling.engine_scaling import EngineScaling
from hookline_metrics.front_end_parts import ScalingCause, ScalingStats
from hookline_server.engine_number import (
    MOST_ENGINES,
    DrainTimeoutError,
    ScalingBusyError,
    ScalingReport,
    ScalingState,
    StartFailedError,
)

DRAIN_SECONDS = 300.0
"""Default time for the requests of engines that leave."""
START_SECONDS = 600.0
"""Time after which an engine that is still starting is given up."""
_STOPPED = "the server is shutting down"
_log = logging.getLogger(__name__)


class Scaling:
    """Changes the number of engines, one change at a time; call `close` at the end.

    Attributes:
        wanted: Number of engines that was chosen last.
    """

    def __init__(
        self,
        engines: EngineSet,
        scaling: EngineScaling,
        config: EngineConfig,
        *,
        resized: Callable[[int], None],
    ) -> None:
        """Takes charge of a front end's engines.

        Args:
            engines: The engines.
            scaling: Adds and removes them.
            config: The front end's configuration.
            resized: Called with one more than the highest index, after each change.
        """
        self._engines = engines
        self._scaling = scaling
        self._scaling.changed = self._take_change
        self._config = config
        self._limits = ClusterConfig.of(config).autoscale  # reading it checks it all
        self._resized = resized
        self._changed = asyncio.Event()
        self._changing: asyncio.Task[ScalingState] | None = None
        self._decisions: Counter[ScalingCause] = Counter()
        self._is_stopped = False
        self._adopted: list[asyncio.Task[None]] = []
        self.wanted = len(self._engines)

    @property
    def state(self) -> ScalingState:
        """The engines by what they do."""
        return self._scaling.state

    @property
    def is_changing(self) -> bool:
        """Whether a call of `scale` is being carried out, or engines come or go."""
        is_called = self._changing is not None and not self._changing.done()
        return is_called or not self.state.is_settled

    async def report(self) -> ScalingReport:
        """Returns the engines, and whether their number is being changed."""
        return ScalingReport(self.state, self.wanted, self.is_changing)

    @property
    def stats(self) -> ScalingStats:
        """The state in numbers."""
        state, counts = self.state, self._scaling.counts
        limits = self._limits
        return ScalingStats(
            serving=len(state.serving),
            starting=len(state.starting),
            leaving=len(state.leaving),
            wanted=self.wanted,
            minimum=None if limits is None else limits.minimum,
            maximum=None if limits is None else limits.maximum,
            decisions=tuple(sorted(self._decisions.items())),
            added=counts.added,
            removed=counts.removed,
            failed=counts.failed,
            start_seconds=counts.start_seconds,
        )

    async def scale(
        self, number: int, *, drain_seconds: float = DRAIN_SECONDS
    ) -> ScalingState:
        """Brings the engines to a number, and waits until they are there.

        It goes on if the caller leaves. If an engine cannot be started, those that have
        joined stay. If requests of engines that leave have not ended in time, these
        engines stay.

        Args:
            number: Number of engines.
            drain_seconds: Time for the requests of engines that leave.

        Raises:
            RequestError: It is not a possible number.
            ConfigError: The number is fixed, by the option that the error names.
            ScalingBusyError: Another change is being carried out, or engines sleep.
            StartFailedError: An engine cannot be started.
            DrainTimeoutError: Requests have not ended in time.
            EngineDeadError: The server is being stopped, or all engines have ended.
        """
        self._check(number)
        self._check_free()
        changing = asyncio.create_task(self._change(number, drain_seconds))
        changing.add_done_callback(_log_failure)
        self._changing = changing
        return await asyncio.shield(changing)

    def want(self, number: int, cause: ScalingCause) -> None:
        """Begins to bring the engines to a number, and notes why."""
        self._decisions[cause] += 1
        self.wanted = number
        if number == self.state.staying:
            return
        _log.info("engines: from %d to %d (%s)", self.state.staying, number, cause)
        self._scaling.want(number)

    def give_up_late(self) -> None:
        """Gives up engines that take too long to start."""
        self._scaling.give_up_late(START_SECONDS)

    def adopt(self, task: "asyncio.Task[None]") -> None:
        """Ends a task that uses this together with it."""
        self._adopted.append(task)

    @property
    def is_stopped(self) -> bool:
        """Whether nothing changes any more, because the server ends."""
        return self._is_stopped

    @property
    def last_start_seconds(self) -> float | None:
        """How long the last engine took to start; None before the first."""
        return self._scaling.counts.last_start_seconds

    def stop(self) -> None:
        """Has whoever waits for a change get an error; refuses more."""
        self._is_stopped = True
        self._changed.set()

    async def close(self) -> None:
        """Ends; waits for whoever waits for a change."""
        self.stop()
        for task in self._adopted:
            task.cancel()
        tasks = [each for each in (*self._adopted, self._changing) if each is not None]
        if tasks:
            await asyncio.wait(tasks)

    def _check(self, number: int) -> None:
        check_scalable(self._config)
        check_owner(self._engines.client)
        if self._limits is not None:
            raise ConfigError(
                "autoscale", f"{self._limits} chooses the number of engines by load"
            )
        if not 1 <= number <= MOST_ENGINES:
            raise RequestError(
                f"data_parallel_size must be 1 to {MOST_ENGINES}, not {number}",
                param="data_parallel_size",
            )

    def _check_free(self) -> None:
        self._check_open()
        if self.is_changing:
            raise ScalingBusyError("the number of engines is being changed already")
        if any(each.is_asleep for each in self._engines.running):
            raise ScalingBusyError("engines sleep: wake them up before")
        if any(each.vitals.num_slow_calls for each in self._engines.running):
            raise ScalingBusyError("engines go to sleep or wake up; try again later")

    def _check_open(self) -> None:
        if self._is_stopped:
            raise EngineDeadError(_STOPPED)
        if (failure := self._engines.failure) is not None:
            raise EngineDeadError(failure)

    async def _change(self, number: int, drain_seconds: float) -> ScalingState:
        self._scaling.failure = None
        is_growing = number > self.state.staying
        self.want(number, "request")
        try:
            async with asyncio.timeout(START_SECONDS if is_growing else drain_seconds):
                await self._wait()
        except TimeoutError:
            leaving = self.state.leaving
            self._keep()
            if is_growing:
                raise StartFailedError(f"not ready in {START_SECONDS:g} s") from None
            raise DrainTimeoutError(leaving, drain_seconds) from None
        return self.state

    async def _wait(self) -> None:
        while not self.state.is_settled:
            self._changed.clear()
            await self._changed.wait()
            self._check_open()
            if (reason := self._scaling.failure) is not None:
                self._keep()
                raise StartFailedError(reason)

    def _keep(self) -> None:
        self._scaling.keep()
        self.wanted = self.state.staying

    def _take_change(self) -> None:
        self._changed.set()
        self._resized(self._engines.most)


def _log_failure(changing: "asyncio.Task[ScalingState]") -> None:
    """Whoever asked may have left."""
    if not changing.cancelled() and (error := changing.exception()) is not None:
        _log.error("the number of engines was not changed as asked: %s", error)


def check_owner(client: EngineClient) -> None:
    """Raises `ConfigError` if a client cannot add and remove engines."""
    if not client.owns_engines:
        raise ConfigError("api-server-count", "another process owns the engines")
    if client.capability(ElasticEngines) is None:
        raise ConfigError("engine", "it has a fixed number of engines")
