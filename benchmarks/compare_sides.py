"""The compared sides: how each is started, and in which environment."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from compare_isa import Isa, limits, peer_limits
from compare_work import (
    BASELINE,
    HOOKLINE,
    LLAMA_CPP,
    PLAIN,
    TRANSFORMERS,
    UNCACHED,
    UNDRAFTED,
    UNRECORDED,
    UNSTRUCTURED,
    UNWATCHED,
    VLLM,
    Kind,
    Row,
)

SERVED_NAME = "bench"
BINDINGS = ("vllm-default", "vllm-all-cores")
SIDES = (
    HOOKLINE,
    BASELINE,
    PLAIN,
    UNCACHED,
    UNDRAFTED,
    UNRECORDED,
    UNSTRUCTURED,
    UNWATCHED,
    *BINDINGS,
    TRANSFORMERS,
    LLAMA_CPP,
)

VLLM_ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "2",
    "VLLM_NO_USAGE_STATS": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One way to do a row's work.

    Attributes:
        name: Name in the table.
        engine: Engine of `compare_offline.py`.
        python: Interpreter of its environment.
        variables: Additional environment variables.
        has_prefix_cache: Whether equal prefixes are computed once.
        has_drafts: Whether it speculates in rows that ask for it.
        has_schemas: Whether its outputs follow schemas in rows that ask for it.
        has_options: Whether it has a row's options.
        has_recorder: Whether its servers have flight recorders.
        is_watched: Whether its servers have a row's viewers, and loggers.
        driver: Program that computes for it; None for Python's engines.
    """

    name: str
    engine: str
    python: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    has_prefix_cache: bool = True
    has_drafts: bool = True
    has_schemas: bool = True
    has_options: bool = False
    has_recorder: bool = True
    is_watched: bool = True
    driver: Path | None = None

    def environment(self, isa: Isa | None) -> dict[str, str]:
        """Returns the environment variables of its processes.

        Args:
            isa: The instruction set that it may use at most; None does not limit it.
        """
        limited: Mapping[str, str] = {}
        if isa is not None:
            peer = {} if self.engine == HOOKLINE else peer_limits(isa)
            limited = {**limits(isa), **peer}
        return {**os.environ, **self.variables, **limited}

    def serve_command(self, row: Row, model: Path, port: int) -> list[str]:
        """Returns the command of a server; all have the same API."""
        options = ["--port", str(port), "--dtype", row.dtype]
        options += ["--served-model-name", SERVED_NAME]
        if self.engine == VLLM:
            vllm = str(self.python.parent / "vllm")
            return [vllm, "serve", str(model), "--host", "127.0.0.1", *options]
        if row.kind is Kind.ONLINE and self.name != BASELINE:
            options.append("--no-serve-while-compiling")  # measure its kernels
        if not self.is_watched:
            options += ["--stat-logger", "none"]
        if not self.has_recorder:
            options += ["--flight-recorder-bytes", "0"]
        command = [str(self.python), "-m", "hookline_server", "serve"]
        return [*command, "--model", str(model), "--kv-cache-memory", "2GiB", *options]


def sides_of(
    row: Row,
    vllm: Path | None,
    baseline: Path | None,
    llama_cpp: Path | None = None,
) -> list[Side]:
    """Returns the installed sides of a row, Hookline first.

    Args:
        row: The work.
        vllm: The virtual environment of vLLM.
        baseline: Another checkout of Hookline, with its own virtual environment.
        llama_cpp: The folder of `install_llama_cpp.sh`.
    """
    ours = Path(sys.executable)
    known = {
        HOOKLINE: [Side(name=HOOKLINE, engine=HOOKLINE, python=ours, has_options=True)],
        PLAIN: [Side(name=PLAIN, engine=HOOKLINE, python=ours)],
        UNCACHED: [
            Side(name=UNCACHED, engine=HOOKLINE, python=ours, has_prefix_cache=False)
        ],
        UNDRAFTED: [
            Side(name=UNDRAFTED, engine=HOOKLINE, python=ours, has_drafts=False)
        ],
        UNRECORDED: [
            Side(name=UNRECORDED, engine=HOOKLINE, python=ours, has_recorder=False)
        ],
        UNWATCHED: [
            Side(
                name=UNWATCHED,
                engine=HOOKLINE,
                python=ours,
                has_recorder=False,
                is_watched=False,
            )
        ],
        UNSTRUCTURED: [
            Side(name=UNSTRUCTURED, engine=HOOKLINE, python=ours, has_schemas=False)
        ],
        TRANSFORMERS: [Side(name=TRANSFORMERS, engine=TRANSFORMERS, python=ours)],
        LLAMA_CPP: [] if llama_cpp is None else [_llama_cpp(ours, llama_cpp)],
        VLLM: [] if vllm is None else _vllm_sides(vllm / "bin" / "python"),
    }
    sides = [side for name in row.sides for side in known[name]]
    return sides if baseline is None else [sides[0], _baseline(baseline), *sides[1:]]


def _llama_cpp(python: Path, folder: Path) -> Side:
    driver = folder / "driver"
    return Side(name=LLAMA_CPP, engine=LLAMA_CPP, python=python, driver=driver)


def _baseline(checkout: Path) -> Side:
    return Side(
        name=BASELINE,
        engine=HOOKLINE,
        python=checkout / ".venv" / "bin" / "python",
    )


def _vllm_sides(python: Path) -> list[Side]:
    """Returns vLLM's two bindings: its own, and to all available cores."""
    cores = sorted(os.sched_getaffinity(0))
    bound = {"VLLM_CPU_OMP_THREADS_BIND": f"{cores[0]}-{cores[-1]}"}
    return [
        Side(
            name=name,
            engine=VLLM,
            python=python,
            variables=VLLM_ENVIRONMENT | binding,
        )
        for name, binding in zip(BINDINGS, ({}, bound), strict=True)
    ]
