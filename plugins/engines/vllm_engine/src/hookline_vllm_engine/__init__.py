"""Engine `vllm`: vLLM's scheduler and kernels below Hookline's front end."""

from hookline import hookimpl
from hookline.config.engine import EngineConfig


@hookimpl
def create_engine(context: EngineConfig) -> object:
    """Starts vLLM's engine core; imports vLLM only then.

    Raises:
        ConfigError: An option does not fit, or vLLM is missing or another one.
        ModelLoadError: vLLM cannot load the model.
    """
    from hookline_vllm_engine.starting import start  # noqa: PLC0415

    return start(context)
