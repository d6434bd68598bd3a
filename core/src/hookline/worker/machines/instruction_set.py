"""The CPU's instruction set, to which the variable HOOKLINE_CPU_ISA limits a worker."""

from hookline.exceptions import ConfigError
from hookline_kernels import KernelError, import_compiled


def limited_isa() -> str:
    """Limits compilers and libraries, and returns the name of the tier.

    Call it before code of models is imported. The name is empty if there are no kernels
    for this CPU.

    Raises:
        ConfigError: The variable names no tier of this machine.
    """
    try:
        isa = import_compiled("hookline_kernels.cpu.isa")
        return str(isa.current_isa().value)
    except KernelError:
        return ""
    except ValueError as error:
        raise ConfigError("environment", str(error)) from error
