"""Binds what a server's settings name, before the model loads."""

from contextlib import ExitStack

from hookline_server.listening import Bound, Listening, listen_on
from hookline_server.settings import ServerSettings
from hookline_server.tls.certificates import tls_of
from hookline_server.unix_socket import unix_socket


def bound(settings: ServerSettings, stack: ExitStack) -> Listening:
    """Returns listening sockets; the stack closes them.

    Raises:
        ConfigError: A certificate cannot be used.
        CommandFailedError: An address or a file is taken or wrong.
    """
    tls = tls_of(settings.tls)
    if settings.uds is None:
        sockets = listen_on(settings.host, settings.port)
    else:
        sockets = (stack.enter_context(unix_socket(settings.uds, settings.uds_mode)),)
    api = Bound(sockets, tls)
    stack.callback(api.close)
    if settings.metrics_port is None:
        return Listening(api)
    pages = Bound(
        listen_on(settings.pages_hosts, settings.metrics_port),
        None if tls is None else tls.without_clients(),
    )
    stack.callback(pages.close)
    return Listening(api, pages)
