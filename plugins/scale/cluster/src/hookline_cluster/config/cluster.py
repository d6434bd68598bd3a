"""The engines of a server: their number, their machines, and who gets a request."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from hookline.config.engine import EngineConfig
from hookline.config.executor import Device
from hookline.config.options import check_options, option, section
from hookline.config.sections import ConfigSection
from hookline.exceptions import ConfigError
from hookline_cluster.config.engine_range import EngineRange, read_engine_range
from hookline_cluster.config.expert_spread import check_expert_spread
from hookline_cluster.config.machines import MachinesConfig
from hookline_server.engine_number import MOST_ENGINES

_RAY = "ray"
"""Name of a data-parallel backend and of an executor."""


class LoadBalancing(StrEnum):
    """How an engine is chosen for a request."""

    SCORE = "score"
    ROUND_ROBIN = "round-robin"
    PREFIX = "prefix"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig(ConfigSection):
    """The engines of a server, and how requests are divided among them."""

    key: ClassVar = "cluster"
    group: ClassVar = "executor"
    is_of_machine: ClassVar = True

    data_parallel_size: int | None = option(
        "Number of engines, each a process with the whole model and its own KV "
        "cache, among which requests are divided. Each has a GPU of its own, or its "
        "share of one.",
        default=None,
        metavar="ENGINES",
        minimum=1,
        maximum=MOST_ENGINES,
        shown_default="1, or the least number of --autoscale",
    )
    load_balancing: LoadBalancing = option(
        "How an engine is chosen for a request: the one with the least load, one "
        "after another, or the one that has cached most of the prompt unless its "
        "load is far above the least.",
        default=LoadBalancing.SCORE,
    )
    autoscale: EngineRange | None = option(
        "Start and end engines by load, from MIN to MAX of them; MIN unless "
        "data-parallel-size says how many there are at first. They divide cores "
        "and memory as MAX engines do. On CPUs.",
        default=None,
        metavar="MIN:MAX",
        read=read_engine_range,
    )
    autoscale_target: float = option(
        "Saturation (hookline_saturation_ratio) of the mean engine above which "
        "there should be more engines.",
        default=0.7,
        metavar="RATIO",
        above=0,
        maximum=1,
    )
    autoscale_quiet: float = option(
        "Time for which fewer engines must have been enough before some end.",
        default=180.0,
        metavar="SECONDS",
        minimum=0,
    )
    machines: MachinesConfig = section("several machines", MachinesConfig)

    def __post_init__(self) -> None:
        check_options(self)
        self._check_autoscale()
        self._check_machines()

    def _check_autoscale(self) -> None:
        if (limits := self.autoscale) is None:
            return
        if not 1 <= limits.minimum <= limits.maximum <= MOST_ENGINES:
            raise ConfigError(
                "autoscale",
                f"{limits} must be MIN:MAX with 1 <= MIN <= MAX <= {MOST_ENGINES}",
            )
        if not limits.minimum <= self.num_engines <= limits.maximum:
            raise ConfigError(
                "autoscale",
                f"{limits} does not include data-parallel-size, {self.num_engines}",
            )

    def _check_machines(self) -> None:
        size, local = self.num_engines, self.local_indices
        if local.start >= size:
            is_one = self.machines.rank is not None
            raise ConfigError(
                "data-parallel-rank" if is_one else "data-parallel-start-rank",
                f"{local.start} is not below data-parallel-size, {size}",
            )
        if local.stop > size:
            raise ConfigError(
                "data-parallel-size-local",
                f"{len(local)} engines from {local.start} on are more than "
                f"data-parallel-size, {size}",
            )

    def check(self, config: EngineConfig) -> None:
        """Checks balancing, the backend and shared experts; raises `ConfigError`."""
        is_caching = config.cache.enable_prefix_caching
        if self.load_balancing is LoadBalancing.PREFIX and not is_caching:
            raise ConfigError("load-balancing", "prefix requires enable-prefix-caching")
        machines, places_ranks = self.machines, config.executor_name == _RAY
        places_engines = machines.backend == _RAY
        if machines.ray_address is not None and not (places_engines or places_ranks):
            raise ConfigError(
                "ray-address", "requires --data-parallel-backend ray or --executor ray"
            )
        if places_engines and places_ranks:
            raise ConfigError(
                "data-parallel-backend",
                "ray cannot be combined with the executor ray: the one keeps the ranks "
                "of an engine on one node, the other places each rank",
            )
        check_expert_spread(
            config,
            self.machines,
            self.num_engines,
            has_autoscale=self.autoscale is not None,
        )
        if self.autoscale is not None:
            with _as_autoscale():
                self.check_scalable(config)

    def check_scalable(self, config: EngineConfig) -> None:
        """Raises `ConfigError`, which names the option, if the number is fixed."""
        machines = self.machines
        if config.engine != "native":
            raise ConfigError(
                "engine", f"{config.engine} has a fixed number of engines"
            )
        if config.parallel.enable_expert_parallel:
            raise ConfigError(
                "enable-expert-parallel",
                "engines that share experts cannot come and go",
            )
        if machines.is_one_of_many:
            raise ConfigError(
                machines.mode, "other servers have the engines of all other numbers"
            )
        if self.remote_indices and (not machines.is_placed or self.local_indices):
            raise ConfigError(
                "data-parallel-size-local",
                "engines of other machines are started there, and one server cannot "
                "have engines come and go on its machine and on others",
            )
        if config.executor.device is Device.CUDA:
            raise ConfigError("device", "engines on GPUs cannot come and go")

    def derived(self, config: EngineConfig) -> Mapping[str, object]:
        """Returns what the core has to know of the other engines."""
        indices = self.local_indices
        if not self.machines.is_one_of_many:
            first = config.engine_index
            indices = range(first, first + self.num_engines)
        is_placed = self.machines.is_placed
        return {
            "server_indices": tuple(indices),
            "engines_here": self.most_local,
            "prefers_processes": (
                self.num_engines > 1 or self.autoscale is not None or is_placed
            ),
            "server_option": "" if self.autoscale is None else "autoscale",
        }

    @property
    def num_engines(self) -> int:
        """Number of engines, of all machines and, behind a load balancer, servers."""
        if self.data_parallel_size is not None:
            return self.data_parallel_size
        return 1 if self.autoscale is None else self.autoscale.minimum

    @property
    def local_indices(self) -> range:
        """The indices of the engines on this machine."""
        size, start = self.num_engines, self.machines.start_rank
        if (rank := self.machines.rank) is not None:
            return range(rank, rank + 1)
        local = self.machines.num_local
        return range(start, size if local is None else start + local)

    @property
    def remote_indices(self) -> list[int]:
        """The indices of the engines on other machines that this server has, too."""
        if self.machines.is_one_of_many:
            return []
        local = self.local_indices
        return [index for index in range(self.num_engines) if index not in local]

    @property
    def most_local(self) -> int:
        """Number of engines that divide this machine, by `autoscale` the greatest."""
        limits, machines = self.autoscale, self.machines
        if limits is None or machines.is_placed or machines.size_local is not None:
            return len(self.local_indices)
        return limits.maximum


def check_scalable(config: EngineConfig) -> None:
    """Raises `ConfigError`, which names the option, if the number is fixed."""
    if config.in_process:
        raise ConfigError(
            "in-process",
            "engines in the front end's process cannot come and go: they need "
            "processes of their own",
        )
    ClusterConfig.of(config).check_scalable(config)


def check_autoscale(config: EngineConfig) -> None:
    """Raises `ConfigError` if engines are to come and go, and cannot."""
    if ClusterConfig.of(config).autoscale is not None:
        with _as_autoscale():
            check_scalable(config)


@contextmanager
def _as_autoscale() -> Iterator[None]:
    """Blames `--autoscale` for options that do not fit."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(
            "autoscale", f"is not possible with --{error.option}: {error.detail}"
        ) from error


def local_engines(config: EngineConfig) -> list[EngineConfig]:
    """Returns the configurations of this machine's engines."""
    return [config.of_engine(index) for index in ClusterConfig.of(config).local_indices]
