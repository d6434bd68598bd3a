"""KV connector `cpu_offload`: cache tiers in host memory and on disk."""

from hookline.hookspecs import hookimpl
from hookline_cpu_offload.options import OffloadOptions, check_role
from hookline_cpu_offload.scheduler_side import SchedulerSide
from hookline_cpu_offload.worker_side import WorkerSide
from hookline_kv_transfer import ConnectorContext

__all__ = ["OffloadOptions", "SchedulerSide", "WorkerSide", "create_kv_connector"]


@hookimpl
def create_kv_connector(context: ConnectorContext) -> SchedulerSide | WorkerSide:
    """Raises `ConfigError` for an option that it does not have or cannot use."""
    check_role(context.transfer)
    options = OffloadOptions.from_mapping(context.options)
    if context.role == "scheduler":
        return SchedulerSide(options)
    return WorkerSide(options)
