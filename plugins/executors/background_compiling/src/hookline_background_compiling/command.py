"""The command `hookline warm-up`; importing it is cheap."""

from hookline_server.cli.command import Command

COMMAND = Command(
    "compile the kernels that a model needs",
    "hookline_background_compiling.warm_up",
    completes=True,
)
