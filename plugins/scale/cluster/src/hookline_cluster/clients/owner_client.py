"""Client of engine processes of this machine to which other clients can attach."""

from typing import TypeVar, cast

import msgspec

from hookline.transport.engine_client import DeathKind, EngineDied, EngineInfo, Received
from hookline_cluster.capabilities import SecondaryClientNews
from hookline_cluster.clients.messages import (
    AttachDetails,
    ForceDetach,
    OfSecondaryClients,
    Overrun,
    ToClient,
)
from hookline_cluster.clients.secondary_clients import (
    SecondaryClients,
    news_of_secondary_client,
)
from hookline_cluster.expert_memory import ExpertMemory
from hookline_cluster.news import EngineVerdict
from hookline_cluster.shared_engine import SharedEngine
from hookline_process_engine.capabilities import EngineProcesses
from hookline_process_engine.launched_engine import LaunchedEngine
from hookline_process_engine.process_client import ProcessClient
from hookline_process_engine.transport import Party, Role
from hookline_server.engine_sharing import AttachInfo, SharedEngines

T = TypeVar("T")


class OwnerClient(ProcessClient):
    """A `ProcessClient` of several engines, which other processes may use as well."""

    message_type = ToClient

    def capability(self, kind: type[T]) -> T | None:
        return (
            cast("T", self)
            if kind in {EngineProcesses, SecondaryClientNews, SharedEngines}
            else None
        )

    def tell_death(self, death: EngineDied, *, is_replaced: bool) -> None:
        self._secondary.ended(death, is_replaced=is_replaced)

    def tell_verdict(self, verdict: EngineVerdict) -> None:
        self._secondary.judged(verdict)

    @property
    def overrun_clients(self) -> frozenset[int]:
        """Clients that get no more outputs, because they did not take them."""
        return frozenset(self._secondary.overrun)

    def attach_info(self, client_index: int) -> AttachInfo:
        return self.invite(client_index).packed()

    def invite(self, client_index: int) -> AttachDetails:
        """Lets another process attach to the engines, as this client."""
        return self._secondary.invite(client_index)

    def force_detach(self, client_index: int) -> None:
        """Has the engines abort the requests of a secondary client that has ended."""
        self._secondary.forget(client_index)
        for index in list(self._launched):
            if index not in self._deaths:
                self._mailbox.post(Party(Role.ENGINE, index), ForceDetach(client_index))

    def close(self) -> None:
        is_first = not self._is_closed
        super().close()
        if is_first:
            self._experts.close()

    def _begin(self) -> None:
        configs = self._configs.values()
        sharing = [e.engine_index for e in configs if e.spreads_experts]
        self._experts = ExpertMemory(sharing)
        self._secondary = SecondaryClients(
            self._folder, self._me, self._transport, self._tell
        )

    def _is_ready(self, index: int, info: EngineInfo) -> None:
        self._secondary.started(index, info, self._launched[index].key)

    def _take_news(self, index: int, message: msgspec.Struct) -> Received | None:
        """Takes what an engine tells of other clients."""
        if isinstance(message, OfSecondaryClients):
            return news_of_secondary_client(index, message)
        if isinstance(message, Overrun):
            self._secondary.overrun.add(message.client)
        return None

    def _start_process(self, index: int) -> LaunchedEngine:
        links = self._experts.links(index)
        launched = SharedEngine(self._folder, index, self.index, links)
        self._experts.started()
        return launched

    def _death(self, index: int, reason: str) -> EngineDied:
        if (of_peer := self._experts.take_reason(index)) is not None:
            return EngineDied(index, of_peer, DeathKind.PEER)
        return super()._death(index, reason)

    def _mark_dead(self, death: EngineDied) -> EngineDied:
        marked = super()._mark_dead(death)
        for peer in self._experts.ended(death):
            self._launched[peer].kill()
        return marked

    def _key_of(self, peer: Party) -> bytes | None:
        if peer.role is Role.CLIENT:
            return self._secondary.key_of(peer)
        return super()._key_of(peer)

    def _tell(self, client: Party, news: msgspec.Struct) -> None:
        self._mailbox.post(client, news, waits=False)
