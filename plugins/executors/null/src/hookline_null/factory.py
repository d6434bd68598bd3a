"""The executor `null`, without the imports that it needs once it is chosen."""

from hookline.engine.worker.executor import Executor, ExecutorContext
from hookline.engine_setup.executor_factory import ExecutorFactory
from hookline_models.importing import import_torch
from hookline_simulated.factory import simulated_shape


def create(context: ExecutorContext) -> Executor:
    """Builds the executor.

    Raises:
        ModelLoadError: The model's description is missing, damaged or incomplete.
        ConfigError: A plugin's logits processor cannot be created.
    """
    with context.timer.phase("read config"):
        shape = simulated_shape(context.config)
    with context.timer.phase("import torch"):
        import_torch(context.config)
        from hookline_null.executor import NullExecutor  # noqa: PLC0415
    return NullExecutor(context.config, shape)


NULL = ExecutorFactory(create)
