"""Configuration of engines on several machines: which run where, and how they meet."""

from dataclasses import dataclass, field

from hookline.config.option_fields import check_options
from hookline.config.options import option
from hookline.exceptions import ConfigError

HIGHEST_PORT = 65535
LOOPBACK = "127.0.0.1"
RPC_PORT = 29550
OWN_PROCESSES = "mp"
"""The backend whose engines are processes that were started on their machine."""


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
    backend: str = field(
        default=OWN_PROCESSES,
        metadata=option(
            "What starts the engines of other machines: mp expects them to be started "
            "there with --headless; ray starts them as actors on a Ray cluster, all "
            "engines unless data-parallel-size-local says how many are this machine's.",
            flag="data-parallel-backend",
            metavar="NAME",
        ),
    )
    ray_address: str | None = field(
        default=None,
        metadata=option(
            "Ray cluster, as its host and port, or auto for the one that runs on this "
            "machine.",
            metavar="ADDRESS",
            shown_default="RAY_ADDRESS, if set; else one is started on this machine",
        ),
    )
    address: str | None = field(
        default=None,
        metadata=option(
            "Address of the head node, where it listens for engines of other machines.",
            flag="data-parallel-address",
            metavar="HOST",
            shown_default="127.0.0.1; with ray, this machine's in the cluster",
        ),
    )
    rpc_port: int | None = field(
        default=None,
        metadata=option(
            "Port of the head node for engines of other machines.",
            flag="data-parallel-rpc-port",
            minimum=1,
            maximum=HIGHEST_PORT,
            shown_default="29550; with ray, a free one",
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
        if self.ray_address is not None and self.backend != "ray":
            raise ConfigError("ray-address", "requires --data-parallel-backend ray")

    @property
    def is_placed(self) -> bool:
        """Whether a backend starts the engines that are not on this machine."""
        return self.backend != OWN_PROCESSES

    @property
    def num_local(self) -> int | None:
        """Number of engines on this machine; None for all that are left."""
        return 0 if self.size_local is None and self.is_placed else self.size_local
