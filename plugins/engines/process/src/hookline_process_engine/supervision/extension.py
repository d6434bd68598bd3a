"""What a front end does about engines that die or stall."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from hookline.config import EngineConfig
from hookline.frontend.engine_vitals import Stall
from hookline.frontend.extension import FrontEndParts, Post
from hookline.frontend.observing import Observing
from hookline.frontend.reporting import ReadPart
from hookline.frontend.router import EngineRouter
from hookline.transport.engine_client import EngineDied, News
from hookline_process_engine.capabilities import EngineReplaced
from hookline_process_engine.supervision.config import SupervisionConfig
from hookline_process_engine.supervision.stall_watch import StallWatch
from hookline_process_engine.supervision.supervisor import Neighbours, Supervisor

T = TypeVar("T")


class SupervisingExtension:
    """A `FrontEndExtension`, also the base of one for several engines.

    Attributes:
        observers: The loggers.
        router: Chooses engines for requests.
        look: None, because nothing is to be done after each message.
        ending: Ends requests of engines, or begins them again.
    """

    look: Callable[[], None] | None = None

    def __init__(
        self,
        config: EngineConfig,
        parts: FrontEndParts,
        *,
        observers: Observing | None = None,
        router: EngineRouter | None = None,
        neighbours: Neighbours | None = None,
    ) -> None:
        """Extends a front end whose engines are ready.

        Args:
            config: Its configuration.
            parts: What it consists of.
            observers: What stands before its loggers; None for nothing.
            router: Chooses engines for requests; None for the first one.
            neighbours: Hear of deaths and stalls, and may take requests.
        """
        self._config = config
        self._parts = parts
        self._section = SupervisionConfig.of(config)
        self.observers = observers or parts.observers
        self.router = router or EngineRouter(parts.engines)
        self.ending = Supervisor(parts, self._section, self.observers, neighbours)
        self._stalls: StallWatch | None = None

    def on_news(self, news: EngineDied | News) -> None:
        """Takes the end and the replacement of an engine."""
        if not isinstance(news, EngineDied | EngineReplaced):
            return
        if self._parts.engines.get(news.engine_index) is None:
            return  # it has left
        self.router.cache_lost(news.engine_index)
        if isinstance(news, EngineDied):
            self.ending.take_death(news)
        else:
            self.ending.take_replacement(news)

    def serve(self, resized: Callable[[int], None], post: Post) -> Sequence[ReadPart]:
        del resized
        self._stalls = self._watch(post)
        return ()

    def _watch(self, post: Post) -> StallWatch | None:
        if not self._parts.engines.client.owns_engines:
            return None  # their owner watches them

        def changed(engine_index: int, stall: Stall | None) -> None:
            post(partial(self.ending.take_stall, engine_index, stall))

        return StallWatch(
            self._parts.engines,
            lambda health: self.observers.front_end_changed((health,)),
            self._section,
            self._config.observers.heartbeat_seconds,
            self._parts.clock,
            changed=changed,
        )

    def watch(self, seconds: float) -> None:
        """Looks at the engines, so long after the last look."""
        if self._stalls is not None:
            self._stalls.look(seconds)

    def capability(self, kind: type[T]) -> T | None:
        del kind
        return None

    def stop(self) -> None:
        pass

    async def close(self) -> None:
        pass
