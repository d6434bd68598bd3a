"""Options of TLS, by vLLM's names."""

from dataclasses import dataclass

from hookline.config.options import check_options, option
from hookline.exceptions import ConfigError

TLS = "TLS"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Which certificate a server has, and which ones it wants of clients."""

    ssl_keyfile: str | None = option(
        "Private key in PEM form.",
        default=None,
        metavar="FILE",
        shown_default="in --ssl-certfile",
    )
    ssl_certfile: str | None = option(
        "Certificate and intermediates in PEM form; turns on TLS.",
        default=None,
        metavar="FILE",
    )
    ssl_ca_certs: str | None = option(
        "Authorities of clients' certificates.", default=None, metavar="FILE"
    )
    ssl_cert_reqs: int = option(
        "Whether clients need a certificate: 0 no, 1 optional, 2 yes.",
        default=0,
        metavar="NUMBER",
        minimum=0,
        maximum=2,
    )
    ssl_ciphers: str | None = option(
        "Ciphers of TLS 1.2, by OpenSSL's names.", default=None, metavar="CIPHERS"
    )
    enable_ssl_refresh: bool = option("Follow changes of these files.", default=False)

    def __post_init__(self) -> None:
        check_options(self)
        if self.ssl_certfile is None:
            for flag, value in (
                ("ssl-keyfile", self.ssl_keyfile),
                ("ssl-ca-certs", self.ssl_ca_certs),
                ("ssl-cert-reqs", self.ssl_cert_reqs),
                ("ssl-ciphers", self.ssl_ciphers),
                ("enable-ssl-refresh", self.enable_ssl_refresh),
            ):
                if value:
                    raise ConfigError(flag, "requires ssl-certfile")
        if self.ssl_cert_reqs and self.ssl_ca_certs is None:
            raise ConfigError("ssl-cert-reqs", "requires ssl-ca-certs")
        if self.ssl_ca_certs is not None and not self.ssl_cert_reqs:
            raise ConfigError(
                "ssl-ca-certs",
                "has no effect without ssl-cert-reqs 1 or 2; intermediates of the "
                "server's own certificate belong into ssl-certfile",
            )

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read."""
        named = (self.ssl_certfile, self.ssl_keyfile, self.ssl_ca_certs)
        return tuple(each for each in named if each is not None)
