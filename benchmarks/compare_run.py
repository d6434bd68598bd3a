"""Runs one side once in its processes, and ends them."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path

from compare_isa import Isa
from compare_sides import SERVED_NAME, Side
from compare_watched import loggers, viewers
from compare_work import Kind, Row
from contention import Neighbours
from llama_cpp import converted
from process_memory import memory_mib
from startup import empty_caches, free_port

MOST_SECONDS = 1800
READY_SECONDS = 300
END_SECONDS = 60

Result = dict[str, float]


class RunFailed(Exception):  # noqa: N818 - reads well in a raise
    """A side failed to do its work."""


@dataclass(frozen=True, slots=True)
class Setting:
    """In what a side runs.

    Attributes:
        model: The model's folder.
        log: File to which its output is appended.
        isa: The instruction set that it may use at most; None does not limit it.
        variables: Environment variables that differ from this process's, and win over
            the side's.
        neighbours: A row's other neighbours are left out.
    """

    model: Path
    log: Path
    isa: Isa | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    neighbours: Collection[Neighbours] = tuple(Neighbours)


def run_once(side: Side, row: Row, setting: Setting) -> Result:
    """Runs a side once and returns its result.

    Raises:
        RunFailed: The run failed; its log has the reason.
    """
    if row.kind is Kind.OFFLINE:
        return _offline(side, row, setting)
    with ExitStack() as stack:
        if row.is_cold:
            caches = stack.enter_context(empty_caches())
            setting = replace(setting, variables=caches)
        watched: list[str] = []
        if row.viewers and side.is_watched:
            watched = stack.enter_context(loggers())
        port, process, seconds = stack.enter_context(
            _serving(side, row, setting, watched)
        )
        if row.kind is Kind.READY:
            return {"ready s": seconds, "memory MiB": memory_mib(process.pid)}
        if watched:
            stack.enter_context(viewers(port, row.viewers))
        result = _load(row, setting, port)
        return {**result, "memory MiB": memory_mib(process.pid)}


def _offline(side: Side, row: Row, setting: Setting) -> Result:
    model = setting.model
    if side.driver is not None:
        quantization = row.options.get("quantization")
        try:
            model = converted(model, quantization, side.driver)
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
            raise RunFailed(f"no file for llama.cpp: {error}") from error
    work = {
        "model": str(model),
        "driver": str(side.driver or ""),
        "dtype": row.dtype,
        "requests": row.requests,
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "prefix_tokens": row.prefix_tokens,
        "iterations": row.iterations,
        "has_prefix_cache": side.has_prefix_cache,
        "repeats": bool(row.num_drafts),
        "num_drafts": row.num_drafts if side.has_drafts else 0,
        "schemas": row.schemas if side.has_schemas else 0,
        "options": dict(row.options) if side.has_options else {},
        "neighbours": [
            each.value for each in row.neighbours if each in setting.neighbours
        ],
    }
    script = Path(__file__).parent / "compare_offline.py"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        command = [str(side.python), str(script), side.engine, json.dumps(work)]
        with _started(side, [*command, str(file)], setting) as process:
            _wait(process, setting.log)
        return _read(file)


def _load(row: Row, setting: Setting, port: int) -> Result:
    """Sends load with Hookline's client, whatever the server."""
    log = setting.log
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-P", "-m", "hookline_server", "bench", "serve"]
        command += ["--port", str(port), "--model", SERVED_NAME]
        command += ["--tokenizer", str(setting.model), "--temperature", "0"]
        command += ["--num-prompts", str(row.requests)]
        command += ["--random-input-len", str(row.input_tokens)]
        command += ["--random-output-len", str(row.output_tokens)]
        command += ["--random-prefix-len", str(row.prefix_tokens)]
        command += ["--max-concurrency", str(row.concurrency)]
        command += ["--num-warmups", "16", "--disable-tqdm"]
        command += ["--result-dir", folder, "--result-filename", "result.json"]
        with log.open("a") as lines:
            done = subprocess.run(  # noqa: S603 - our own command
                [*command, "--save-result"], stdout=lines, stderr=lines, check=False
            )
        if done.returncode:
            raise RunFailed(f"the load failed; see {log}")
        found = _read(Path(folder) / "result.json")
    if found["failed"]:
        raise RunFailed(f"{found['failed']} requests failed; see {log}")
    return {
        "output tok/s": found["output_throughput"],
        "total tok/s": found["total_token_throughput"],
        "mean TTFT ms": found["mean_ttft_ms"],
        "mean ITL ms": found["mean_itl_ms"],
        "p99 ITL ms": found["p99_itl_ms"],
    }


@contextmanager
def _serving(
    side: Side, row: Row, setting: Setting, more: Sequence[str]
) -> Iterator[tuple[int, subprocess.Popen[bytes], float]]:
    port = free_port()
    began = time.perf_counter()
    command = [*side.serve_command(row, setting.model, port), *more]
    with _started(side, command, setting) as process:
        while not _is_healthy(port):
            if process.poll() is not None:
                raise RunFailed(f"the server ended; see {setting.log}")
            if time.perf_counter() - began > READY_SECONDS:
                raise RunFailed(f"not ready after {READY_SECONDS} s; {setting.log}")
            time.sleep(0.02)
        yield port, process, time.perf_counter() - began


def _is_healthy(port: int) -> bool:
    """Returns whether the server answers on a path that all servers have."""
    url = f"http://127.0.0.1:{port}/health"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, HTTPException):
        return False


@contextmanager
def _started(
    side: Side, command: Sequence[str], setting: Setting
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a process in a new process group, and kills the group at the end."""
    with setting.log.open("a") as lines:
        process = subprocess.Popen(  # noqa: S603 - our own command
            command,
            env={**side.environment(setting.isa), **setting.variables},
            stdout=lines,
            stderr=lines,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        process.wait()
        _end_group(process.pid)


def _end_group(group: int) -> None:
    """Kills the group: a peer's workers may outlive the process that made them."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _wait(process: subprocess.Popen[bytes], log: Path) -> None:
    try:
        status = process.wait(MOST_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise RunFailed(f"no end after {MOST_SECONDS} s; see {log}") from error
    if status:
        raise RunFailed(f"ended with status {status}; see {log}")


def _read(file: Path) -> Result:
    found: Result = json.loads(file.read_text())
    return found
