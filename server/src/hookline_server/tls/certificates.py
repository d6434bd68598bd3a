"""A server's TLS contexts, which follow their files while it runs."""

import asyncio
import logging
import ssl
from dataclasses import dataclass

from hookline.exceptions import ConfigError
from hookline_server.auth.key_file import file_stamp
from hookline_server.tls.context import complaint, server_context
from hookline_server.tls.settings import TlsSettings

REFRESH_SECONDS = 1.0
"""Time between two looks at the files."""

logger = logging.getLogger(__name__)

Stamps = tuple[tuple[int, int, int] | None, ...]


class Certificates:
    """The contexts of new connections, made of files that may change.

    Open connections keep theirs. Files are followed through links, such as those by
    which Kubernetes exchanges a whole folder at once.
    """

    def __init__(self, settings: TlsSettings) -> None:
        """Reads the files.

        Raises:
            ConfigError: As `server_context`.
        """
        self._settings = settings
        self._stamps = self._look()
        self._contexts = self._read()

    def context(self, *, asks_clients: bool) -> ssl.SSLContext:
        """Returns the context for a new connection."""
        return self._contexts[asks_clients]

    def warn(self) -> None:
        """Logs a warning if clients will refuse the certificate."""
        certfile = self._settings.ssl_certfile
        assert certfile is not None
        why = complaint(self._contexts[False], certfile)
        if why is not None:
            logger.warning(
                "clients will refuse the certificate in %s: %s", certfile, why
            )

    async def follow(self) -> None:
        """Reads files again that have changed, if the settings want that."""
        if not self._settings.enable_ssl_refresh:
            return
        seen = self._stamps
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            # In threads, because files may be on a network.
            before, seen = seen, await asyncio.to_thread(self._look)
            # A key and its certificate are written one after the other.
            if seen != self._stamps and seen == before:
                self._stamps = seen
                await asyncio.to_thread(self._refresh)

    def _refresh(self) -> None:
        try:
            self._contexts = self._read()
        except ConfigError as error:
            logger.error("TLS goes on with the certificate that it had: %s", error)  # noqa: TRY400
            return
        logger.info("reloaded the certificate from %s", self._settings.ssl_certfile)
        self.warn()

    def _look(self) -> Stamps:
        return tuple(map(file_stamp, self._settings.files))

    def _read(self) -> dict[bool, ssl.SSLContext]:
        return {
            asks: server_context(self._settings, asks_clients=asks)
            for asks in (True, False)
        }


@dataclass(frozen=True, slots=True)
class Tls:
    """How the connections of a socket are encrypted.

    Attributes:
        certificates: The contexts.
        asks_clients: Whether clients' certificates are asked for.
    """

    certificates: Certificates
    asks_clients: bool = True

    @property
    def context(self) -> ssl.SSLContext:
        """The context for a new connection."""
        return self.certificates.context(asks_clients=self.asks_clients)

    def without_clients(self) -> "Tls":
        """Returns the same for pages: probes and Prometheus have no certificate."""
        return Tls(self.certificates, asks_clients=False)

    @property
    def is_guarded(self) -> bool:
        """Whether nobody gets in without a certificate."""
        return self.context.verify_mode is ssl.CERT_REQUIRED


def tls_of(settings: TlsSettings) -> Tls | None:
    """Returns how connections are encrypted; None if they are not.

    Raises:
        ConfigError: As `server_context`.
    """
    return None if settings.ssl_certfile is None else Tls(Certificates(settings))
