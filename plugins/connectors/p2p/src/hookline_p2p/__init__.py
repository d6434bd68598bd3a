"""KV connector `p2p`: transfers KV blocks directly between engines."""

from dataclasses import replace

from hookline.hookspecs import hookimpl
from hookline_kv_transfer import ConnectorContext
from hookline_p2p.options import P2POptions, port_of_engine
from hookline_p2p.scheduler_side import SchedulerSide
from hookline_p2p.transport import Message, Peer, Transport
from hookline_p2p.transports import make_transport
from hookline_p2p.worker_side import WorkerSide

__all__ = [
    "Message",
    "P2POptions",
    "Peer",
    "SchedulerSide",
    "Transport",
    "WorkerSide",
    "create_kv_connector",
    "make_transport",
]


@hookimpl
def create_kv_connector(context: ConnectorContext) -> SchedulerSide | WorkerSide:
    """Raises `ConfigError` for an option that it does not have or cannot use."""
    options = P2POptions.from_mapping(context.options)
    if context.role == "scheduler":
        return SchedulerSide(options)
    parallel = context.config.parallel
    index = context.config.engine_index * parallel.world_size + parallel.rank
    options = replace(options, port=port_of_engine(options.port, index))
    return WorkerSide(
        options,
        make_transport(options),
        rank=parallel.rank,
        num_ranks=parallel.world_size,
        takes_pushed=context.transfer.loads,
    )
