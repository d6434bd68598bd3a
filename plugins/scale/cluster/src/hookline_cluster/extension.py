"""What a front end of several engines does beyond one of a single engine."""

import logging
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar, cast

from hookline.config import EngineConfig
from hookline.frontend.client_request import ClientRequest
from hookline.frontend.engine_set import EngineState
from hookline.frontend.engine_vitals import Stall
from hookline.frontend.extension import FrontEndParts, Post
from hookline.frontend.reporting import ReadPart
from hookline.frontend.router import EngineRouter
from hookline.transport.engine_client import EngineDied, News
from hookline_cluster.balancing.router import BalancedRouter
from hookline_cluster.capabilities import (
    ElasticEngines,
    EngineAttachments,
    EngineLinks,
    SecondaryClientNews,
)
from hookline_cluster.clients.observation import SecondaryClientObservers
from hookline_cluster.config.cluster import ClusterConfig
from hookline_cluster.machines.remote_engine import processes_of
from hookline_cluster.migration import RequestMigration
from hookline_cluster.news import (
    EngineJoined,
    EngineLeaving,
    EngineNumberNews,
    EngineVerdict,
    SecondaryClientCall,
)
from hookline_cluster.scaling.autoscaler import start_autoscaling
from hookline_cluster.scaling.engine_following import EngineFollowing
from hookline_cluster.scaling.engine_scaling import EngineScaling
from hookline_cluster.scaling.saturation_watch import SaturationWatch
from hookline_cluster.scaling.scaling import Scaling
from hookline_process_engine.supervision.extension import SupervisingExtension
from hookline_process_engine.supervision.supervisor import Sent
from hookline_server.engine_number import EngineNumber

T = TypeVar("T")
_log = logging.getLogger(__name__)


class ClusterExtension(SupervisingExtension):
    """A `FrontEndExtension`: balancing, migration, scaling, and other clients.

    It is the `Neighbours` of each engine.

    Attributes:
        observers: The loggers, and what stands before them.
        router: Chooses engines for requests; one engine that stays alone needs no
            balancer.
        look: Called after each message of an engine; None if their number is fixed.
        scaling: Adds engines and lets others leave, or follows who does.
        saturations: The saturation of each engine; None unless it is followed.
    """

    def __init__(
        self, config: EngineConfig, parts: FrontEndParts, *, follows_saturation: bool
    ) -> None:
        """Extends a front end whose engines are ready.

        Args:
            config: Its configuration.
            parts: What it consists of.
            follows_saturation: Whether to compute the engines' saturation.
        """
        self._client = client = parts.engines.client
        observers = parts.observers
        if not client.owns_engines:
            observers = SecondaryClientObservers(observers)
        self.saturations = SaturationWatch(observers) if follows_saturation else None
        self._balanced = BalancedRouter(
            parts.engines, ClusterConfig.of(config).load_balancing
        )
        is_fixed = client.owns_engines and client.capability(ElasticEngines) is None
        is_alone = is_fixed and len(parts.engines) == 1
        super().__init__(
            config,
            parts,
            observers=self.saturations or observers,
            router=EngineRouter(parts.engines) if is_alone else self._balanced,
            neighbours=self,
        )
        self.scaling = self._make_scaling()
        self.look = None if is_fixed else self.scaling.look
        self._migration = RequestMigration(
            parts.engines, self._balanced, self.observers
        )
        self._number: Scaling | None = None

    def _make_scaling(self) -> EngineScaling | EngineFollowing:
        parts, router = self._parts, self._balanced
        if (visits := self._client.capability(EngineAttachments)) is None:
            return EngineScaling(
                parts.engines, router, parts.calls, self.observers, parts.clock
            )
        return EngineFollowing(
            parts.engines,
            router,
            parts.calls,
            parts.clock,
            visits=visits,
            end=self.ending.fail,
        )

    # -- news ----------------------------------------------------------------------

    def on_news(self, news: EngineDied | News) -> None:
        """Takes the news of engines that come and go, and of other clients."""
        super().on_news(news)
        if isinstance(news, EngineNumberNews):
            self.scaling.on_news(news)
            if isinstance(news, EngineJoined):
                self._migration.gather()
        elif (engine := self._parts.engines.get(news.engine_index)) is not None:
            self._take_of(engine, news)

    def _take_of(self, engine: EngineState, news: News) -> None:
        match news:
            case SecondaryClientCall(is_open=is_open):
                engine.vitals.num_slow_calls += 1 if is_open else -1
            case EngineLeaving():
                engine.is_leaving = True
            case EngineVerdict():
                self.ending.take_stall(engine.index, _stall(news))
            case _:
                pass  # an engine's end, or of another distribution's client

    # -- deaths and stalls -----------------------------------------------------------

    def leaving(self, engine: EngineState) -> list[ClientRequest]:
        return self._migration.leaving(engine)

    def move(self, source: EngineState, requests: Collection[ClientRequest]) -> None:
        self._migration.move(source, requests)

    def gathered(self) -> Collection[Sent]:
        return self._migration.gathered()

    def returns(self, death: EngineDied) -> bool:
        links = self._client.capability(EngineLinks)
        return death.returns or (
            links is not None and links.returns(death.engine_index)
        )

    def ended(self, death: EngineDied, *, is_replaced: bool) -> None:
        """Tells other clients, and the log if a machine has to start it again."""
        if (others := self._client.capability(SecondaryClientNews)) is not None:
            others.tell_death(death, is_replaced=is_replaced)
        if is_replaced and self._client.owns_engines and self.returns(death):
            _log.error(
                "engine %d has ended: %s; it serves again once its machine starts it "
                "again",
                death.engine_index,
                death.reason,
            )

    def judged(self, engine_index: int, stall: Stall | None) -> None:
        """Tells other clients of a verdict; an engine that works gets requests."""
        if (others := self._client.capability(SecondaryClientNews)) is not None:
            others.tell_verdict(_verdict(engine_index, stall))
        if stall is None:
            self._migration.gather()

    # -- on the event loop -------------------------------------------------------------

    def serve(self, resized: Callable[[int], None], post: Post) -> Sequence[ReadPart]:
        super().serve(resized, post)
        engines, scaling = self._parts.engines, self.scaling
        reads: list[ReadPart] = []
        if isinstance(scaling, EngineFollowing):
            scaling.changed = lambda: resized(engines.most)
        else:
            number = Scaling(engines, scaling, self._config, resized=resized)
            self._number = number
            reads.append(lambda: number.stats)
            self._autoscale(number)
        if (links := self._client.capability(EngineLinks)) is not None:
            reads.append(lambda: links.links)
            reads.append(lambda: processes_of(links.links))
        return reads

    def _autoscale(self, number: Scaling) -> None:
        if self.saturations is not None:
            start_autoscaling(
                number,
                self._parts.engines,
                self.saturations.value,
                ClusterConfig.of(self._config),
                self._parts.clock,
            )

    def capability(self, kind: type[T]) -> T | None:
        return cast("T", self._number) if kind is EngineNumber else None

    def stop(self) -> None:
        if self._number is not None:
            self._number.stop()

    async def close(self) -> None:
        if self._number is not None:
            await self._number.close()


def extend(config: EngineConfig, parts: FrontEndParts) -> ClusterExtension:
    """Returns the extension of a new front end."""
    is_ours = parts.engines.client.owns_engines
    follows = is_ours and ClusterConfig.of(config).autoscale is not None
    return ClusterExtension(config, parts, follows_saturation=follows)


def _verdict(engine_index: int, stall: Stall | None) -> EngineVerdict:
    if stall is None:
        return EngineVerdict(engine_index, None, 0.0, is_final=False)
    return EngineVerdict(engine_index, stall.reason, stall.seconds, stall.is_final)


def _stall(verdict: EngineVerdict) -> Stall | None:
    if verdict.reason is None:
        return None
    return Stall(verdict.reason, verdict.seconds, verdict.is_final)
