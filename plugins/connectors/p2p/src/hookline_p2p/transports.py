"""Makes the transport that the options name, and imports no other."""

from hookline_p2p.options import P2POptions, TransportKind
from hookline_p2p.transport import Transport


def make_transport(options: P2POptions) -> Transport:
    """Returns the transport, which does not listen yet.

    Raises:
        ConfigError: Its package is not installed.
    """
    if options.transport is TransportKind.NIXL:
        from hookline_p2p.nixl_transport import NixlTransport  # noqa: PLC0415

        return NixlTransport(options)
    from hookline_p2p.zmq_transport import ZmqTransport  # noqa: PLC0415

    return ZmqTransport(options)
