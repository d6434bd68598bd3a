"""Whether the number of a server's engines can change while it serves."""

from hookline.config.engine import EngineConfig
from hookline.config.executor import Device
from hookline.exceptions import ConfigError

_AUTOSCALE = "autoscale"


def check_scalable(config: EngineConfig) -> None:
    """Raises `ConfigError`, which names the option, if the number is fixed."""
    machines = config.machines
    if config.engine != "native":
        raise ConfigError("engine", f"{config.engine} has a fixed number of engines")
    if config.in_process:
        raise ConfigError(
            "in-process",
            "engines in the front end's process cannot come and go: they need "
            "processes of their own",
        )
    if config.parallel.enable_expert_parallel:
        raise ConfigError(
            "enable-expert-parallel", "engines that share experts cannot come and go"
        )
    if machines.is_one_of_many:
        raise ConfigError(
            machines.mode, "other servers have the engines of all other numbers"
        )
    if config.remote_indices and (not machines.is_placed or config.local_indices):
        raise ConfigError(
            "data-parallel-size-local",
            "engines of other machines are started there, and one server cannot have "
            "engines come and go on its machine and on others",
        )
    if config.executor.device is Device.CUDA:
        raise ConfigError("device", "a GPU has one engine")


def check_autoscale(config: EngineConfig) -> None:
    """Raises `ConfigError` if engines are to come and go, and cannot."""
    if config.parallel.autoscale is None:
        return
    try:
        check_scalable(config)
    except ConfigError as error:
        raise ConfigError(
            _AUTOSCALE, f"is not possible with --{error.option}: {error.detail}"
        ) from error


def check_fixed(config: EngineConfig) -> None:
    """Raises `ConfigError` if engines are to come and go, offline."""
    if config.parallel.autoscale is not None:
        raise ConfigError(_AUTOSCALE, "is for servers")
