"""The plugin `cluster`: what Hookline's core asks of this package."""

import msgspec

from hookline.config import EngineConfig
from hookline.frontend.extension import FrontEndParts
from hookline.transport.engine_client import EngineClient
from hookline_cluster.clients.attached_client import AttachedClient
from hookline_cluster.clients.messages import AttachDetails
from hookline_cluster.connecting import connect, connect_shared
from hookline_cluster.extension import ClusterExtension, extend
from hookline_cluster.machines.headless_node import HeadlessNode
from hookline_server.engine_sharing import AttachInfo


class InstalledCluster:
    """The `Cluster`, and what `ExtendsFrontEnds`."""

    def connect(self, config: EngineConfig) -> EngineClient:
        return connect(config)

    def connect_shared(self, config: EngineConfig) -> EngineClient:
        return connect_shared(config)

    def attach(self, info: AttachInfo) -> EngineClient:
        return AttachedClient(msgspec.msgpack.decode(info.details, type=AttachDetails))

    def headless_node(self, config: EngineConfig) -> HeadlessNode:
        return HeadlessNode(config)

    def extend(self, config: EngineConfig, parts: FrontEndParts) -> ClusterExtension:
        return extend(config, parts)
