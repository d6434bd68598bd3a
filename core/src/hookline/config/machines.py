"""Configuration of engines on several machines: which run where, and how they meet."""

from dataclasses import dataclass, field

from hookline.config.option_fields import check_options
from hookline.config.options import option

HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesConfig:
    """The engines of this machine, and where the head node listens for the others."""

    size_local: int | None = field(
        default=None,
        metadata=option(
            "Number of engines on this machine; the others run on other machines, with "
            "--headless, and connect to this one. 0 runs none here.",
            flag="data-parallel-size-local",
            metavar="ENGINES",
            minimum=0,
            shown_default="all from the start rank on",
        ),
    )
    start_rank: int = field(
        default=0,
        metadata=option(
            "Index of the first engine on this machine.",
            flag="data-parallel-start-rank",
            metavar="INDEX",
            minimum=0,
        ),
    )
    address: str = field(
        default="127.0.0.1",
        metadata=option(
            "Address of the head node, where it listens for engines of other machines.",
            flag="data-parallel-address",
            metavar="HOST",
        ),
    )
    rpc_port: int = field(
        default=29550,
        metadata=option(
            "Port of the head node for engines of other machines.",
            flag="data-parallel-rpc-port",
            minimum=1,
            maximum=HIGHEST_PORT,
        ),
    )
    secret_file: str | None = field(
        default=None,
        metadata=option(
            "File with a secret of at least 16 bytes, the same on all machines, with "
            "which they encrypt and authenticate their connections. Required unless "
            "the address is this machine's loopback.",
            flag="data-parallel-secret-file",
            metavar="FILE",
            shown_default="HOOKLINE_DATA_PARALLEL_SECRET, if set",
        ),
    )
    join_timeout: float = field(
        default=600.0,
        metadata=option(
            "Time that the head node waits at its start for engines of other machines, "
            "and that these wait for the head node.",
            flag="data-parallel-join-timeout",
            metavar="SECONDS",
            above=0,
        ),
    )

    def __post_init__(self) -> None:
        check_options(self)
