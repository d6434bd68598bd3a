"""Configuration of engines on several machines: which run where, and who meets whom."""

from dataclasses import dataclass

from hookline.config.options import check_options, option
from hookline.exceptions import ConfigError
from hookline_processes.addresses import LARGEST_PORT

LOOPBACK = "127.0.0.1"
RPC_PORT = 29550
OWN_PROCESSES = "mp"
"""The backend whose engines are processes that were started on their machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesConfig:
    """The engines of this machine, and where the head node listens for the others.

    Servers behind somebody else's load balancer do not meet: each has its own engines,
    which are some of all engines only by their numbers.
    """

    size_local: int | None = option(
        "Number of engines on this machine; the others run on other machines, with "
        "--headless, and connect to this one. 0 runs none here.",
        default=None,
        flag="data-parallel-size-local",
        metavar="ENGINES",
        minimum=0,
        shown_default="all from the start rank on",
    )
    start_rank: int = option(
        "Index of the first engine on this machine.",
        default=0,
        flag="data-parallel-start-rank",
        metavar="INDEX",
        minimum=0,
    )
    rank: int | None = option(
        "Index of this server's only engine, one of data-parallel-size behind "
        "another load balancer. Implies data-parallel-external-lb.",
        default=None,
        flag="data-parallel-rank",
        metavar="INDEX",
        minimum=0,
    )
    external_lb: bool = option(
        "Another load balancer divides requests among servers of one engine each; "
        "requires data-parallel-rank.",
        default=False,
        flag="data-parallel-external-lb",
    )
    hybrid_lb: bool = option(
        "Another load balancer divides requests among servers, one on each machine "
        "with the engines of that machine; requires data-parallel-size-local.",
        default=False,
        flag="data-parallel-hybrid-lb",
    )
    backend: str = option(
        "What starts the engines of other machines: mp expects them to be started "
        "there with --headless; ray starts them as actors on a Ray cluster, all "
        "engines unless data-parallel-size-local says how many are this machine's.",
        default=OWN_PROCESSES,
        flag="data-parallel-backend",
        metavar="NAME",
    )
    ray_address: str | None = option(
        "Ray cluster, as its host and port, or auto for the one that runs on this "
        "machine.",
        default=None,
        metavar="ADDRESS",
        shown_default="RAY_ADDRESS, if set; else one is started on this machine",
    )
    address: str | None = option(
        "Address of the head node, where it listens for engines of other machines.",
        default=None,
        flag="data-parallel-address",
        metavar="HOST",
        shown_default="127.0.0.1; with ray, this machine's in the cluster",
    )
    rpc_port: int | None = option(
        "Port of the head node for engines of other machines; 0 selects a free one.",
        default=None,
        flag="data-parallel-rpc-port",
        minimum=0,
        maximum=LARGEST_PORT,
        shown_default="29550; with ray, a free one",
    )
    secret_file: str | None = option(
        "File with a secret of at least 16 bytes, the same on all machines, with "
        "which they encrypt and authenticate their connections. Required unless "
        "the address is this machine's loopback.",
        default=None,
        flag="data-parallel-secret-file",
        metavar="FILE",
        shown_default="HOOKLINE_DATA_PARALLEL_SECRET, if set; else this user's own",
    )
    join_timeout: float = option(
        "Time that the head node waits at its start for engines of other machines, "
        "that these wait for the head node, and that ranks wait for a place on a "
        "Ray cluster.",
        default=600.0,
        flag="data-parallel-join-timeout",
        metavar="SECONDS",
        above=0,
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.external_lb and self.rank is None:
            raise ConfigError(
                "data-parallel-external-lb", "requires data-parallel-rank"
            )
        if self.rank is not None:
            self._check_rank(self.rank)
        if self.hybrid_lb and not self.size_local:
            raise ConfigError(
                "data-parallel-hybrid-lb",
                "requires data-parallel-size-local, at least 1",
            )
        if self.is_one_of_many:
            self._check_meets_nobody()

    @property
    def is_one_of_many(self) -> bool:
        """Whether another load balancer stands before this server and others."""
        return self.hybrid_lb or self.rank is not None

    @property
    def mode(self) -> str:
        """The option that puts this server behind another load balancer."""
        return "data-parallel-hybrid-lb" if self.hybrid_lb else "data-parallel-rank"

    @property
    def is_placed(self) -> bool:
        """Whether a backend starts the engines that are not on this machine."""
        return self.backend != OWN_PROCESSES

    @property
    def num_local(self) -> int | None:
        """Number of engines on this machine; None for all that are left."""
        return 0 if self.size_local is None and self.is_placed else self.size_local

    def _check_rank(self, rank: int) -> None:
        """Checks a server of one engine behind another load balancer."""
        if self.hybrid_lb:
            raise ConfigError(
                "data-parallel-hybrid-lb",
                "cannot be combined with data-parallel-rank: a server has the engines "
                "of a machine, or one engine",
            )
        if self.size_local not in (None, 1):
            raise ConfigError(
                "data-parallel-size-local",
                f"must be 1 with data-parallel-rank, not {self.size_local}",
            )
        if self.start_rank not in (0, rank):
            raise ConfigError(
                "data-parallel-start-rank",
                f"must be data-parallel-rank, {rank}, not {self.start_rank}",
            )

    def _check_meets_nobody(self) -> None:
        """Checks that nothing is said about other machines, which it does not meet."""
        if self.is_placed:
            raise ConfigError(
                "data-parallel-backend",
                f"{self.backend} cannot be combined with {self.mode}: all engines of "
                "the server run on this machine",
            )
        for flag, given in (
            ("data-parallel-address", self.address),
            ("data-parallel-rpc-port", self.rpc_port),
            ("data-parallel-secret-file", self.secret_file),
        ):
            if given is not None:
                raise ConfigError(
                    flag,
                    f"cannot be combined with {self.mode}: servers behind another load "
                    "balancer do not talk to each other",
                )
