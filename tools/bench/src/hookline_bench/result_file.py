"""Writes results to files."""

import json
import math
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from hookline_bench.serve_settings import ServeSettings
from hookline_processes.private_files import open_private
from hookline_server.cli.errors import UsageError


def write_json(path: Path, fields: Mapping[str, object]) -> None:
    """Writes a JSON file that only this user may read, and makes its folder.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_private(path) as file:
            file.write(json.dumps(fields, indent=4).encode() + b"\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error}") from error


def serve_fields(
    settings: ServeSettings,
    model: str,
    tokenizer: str,
    now: datetime,
    *,
    num_prompts: int,
) -> dict[str, object]:
    """Returns the fields that describe the run."""
    arrivals = settings.arrivals
    fields: dict[str, object] = {
        "date": now.strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": settings.backend,
        "backend": settings.backend,
        "label": settings.result.label,
        "model_id": model,
        "tokenizer_id": tokenizer,
        "dataset_name": settings.dataset.name,
        "dataset_path": settings.dataset.path,
        "num_prompts": num_prompts,
        **settings.result.metadata,
        "request_rate": _rate(settings),
        "burstiness": arrivals.burstiness,
        "max_concurrency": settings.max_concurrency,
    }
    if settings.dataset.has_times:
        fields["mooncake_slowdown_factor"] = settings.dataset.slowdown
    if arrivals.ramp_up_strategy is not None:
        fields["ramp_up_strategy"] = arrivals.ramp_up_strategy
        fields["ramp_up_start_rps"] = arrivals.ramp_up_start_rps
        fields["ramp_up_end_rps"] = arrivals.ramp_up_end_rps
    return fields


def serve_path(settings: ServeSettings, model: str, now: datetime) -> Path:
    """Returns the path of the result of `hookline bench serve`."""
    name = settings.result.result_filename
    if name is None:
        parts = [settings.result.label or settings.backend, _load(settings)]
        parts += [model.rsplit("/", maxsplit=1)[-1], now.strftime("%Y%m%d-%H%M%S")]
        name = "-".join(parts) + ".json"
    return Path(settings.result.result_dir) / name


def _rate(settings: ServeSettings) -> float | str:
    """Returns the requested rate, or what takes its place."""
    if settings.dataset.has_times:
        return "trace"
    rate = settings.arrivals.request_rate
    return "inf" if math.isinf(rate) else rate


def _load(settings: ServeSettings) -> str:
    arrivals = settings.arrivals
    load = f"{arrivals.request_rate:g}qps"
    if settings.dataset.has_times:
        load = "trace"
    if arrivals.ramp_up_strategy is not None:
        ends = (arrivals.ramp_up_start_rps, arrivals.ramp_up_end_rps)
        load = f"ramp-up-{arrivals.ramp_up_strategy}-{ends[0]:g}qps-{ends[1]:g}qps"
    if settings.max_concurrency is not None:
        load += f"-concurrency{settings.max_concurrency}"
    return load
