"""`hookline warm-up`: compiles the kernels that a model needs, ahead of its server."""

import time

from hookline.config import EngineConfig, Kernels
from hookline_background_compiling.compiler_process import CompilerProcess
from hookline_background_compiling.messages import CompilationRefused, KernelCompiled
from hookline_description.locating import located
from hookline_server.cli.errors import CommandFailedError, UsageError
from hookline_server.cli.options.arguments import engine_config, read_arguments
from hookline_server.cli.options.engine import engine_options
from hookline_server.cli.output import say


def run(argv: list[str]) -> int:
    """Compiles what is missing and prints each kernel."""
    arguments = read_arguments(
        "warm-up",
        "Compiles the kernels that a model needs into the cache, several at a time.",
        engine_options(),
        argv,
        default_loggers=(),
    )
    config = located(engine_config(arguments, in_process=True))
    if config.executor.kernels is Kernels.TORCH:
        raise UsageError("--kernels torch has nothing to compile")
    compiler = CompilerProcess(config, is_background=False)
    try:
        return _print(compiler, config)
    finally:
        compiler.close()


def _print(compiler: CompilerProcess, config: EngineConfig) -> int:
    """Prints the reports.

    Raises:
        CommandFailedError: The kernels cannot be compiled or kept.
    """
    started, done = time.monotonic(), 0
    for message in compiler.messages():
        if isinstance(message, CompilationRefused):
            raise CommandFailedError(message.reason)
        if isinstance(message, KernelCompiled):
            done += message.succeeded
            word = "compiled" if message.succeeded else "could not compile"
            say(f"{word} {message.variant} in {message.seconds:.1f} s")
            continue
        say(
            f"{config.model.served_name}: compiled {done} kernels in "
            f"{time.monotonic() - started:.1f} s; all that were asked for are in "
            f"{message.folder}\ncomputed by {message.kernels}"
        )
    return 0
