"""Imports torch into an engine's process, and sets what must be set at once."""

from importlib import import_module

from hookline.config.executor import Device, ExecutorConfig


def import_torch(config: ExecutorConfig) -> None:
    """Imports torch; nothing has computed, and no code of models is imported yet.

    An engine's own process on CPUs leaves out what it never uses.

    Raises:
        ConfigError: The environment asks for instructions that this machine lacks.
    """
    torch = import_module("torch")
    from hookline.worker.machines.instruction_set import limited_isa  # noqa: PLC0415

    limited_isa()  # before anything computes or compiles
    is_on_cpu = config.device is Device.CPU or not torch.cuda.is_available()
    if config.shares_cores and is_on_cpu:
        from hookline_kernels.runtime.unused_imports import (  # noqa: PLC0415
            leave_out_unused,
        )

        leave_out_unused()
