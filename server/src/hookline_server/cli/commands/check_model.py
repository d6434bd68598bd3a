"""`hookline check-model`: what is known of a model folder before it is served."""

import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hookline_description.locating import located
from hookline_server.cli.options.arguments import engine_config, read_arguments
from hookline_server.cli.options.engine import engine_options
from hookline_server.cli.options.option import JSON, Kind, Option
from hookline_server.cli.output import say

if TYPE_CHECKING:  # it imports torch
    from hookline_models.checking.report import ModelReport, StoredFiles

_OPTIONS = {
    "model",
    "tokenizer",
    "dtype",
    "quantization",
    "max-model-len",
    "kv-cache-dtype",
    "block-size",
    "max-num-seqs",
    "revision",
    "download-dir",
    "offline",
}
"""The engine's options that change what is said."""
_NO_WEIGHTS = Option(
    flag="no-weights",
    target="run.no_weights",
    group="check",
    kind=Kind.FLAG,
    help="Read only the headers of the weights: do not look for infinite numbers and "
    "NaN.",
)
_GIB = 2**30
_NAME = 16
"""Width of the names of facts."""


def run(argv: list[str]) -> int:
    """Prints what was found; returns 1 if the model cannot be served."""
    options = [each for each in engine_options() if each.flag in _OPTIONS]
    arguments = read_arguments(
        "check-model",
        "Says what is known of a model folder, and what is wrong with it.",
        [_NO_WEIGHTS, JSON, *options],
        argv,
        default_loggers=(),
        operand="model",
    )
    from hookline_models.checking.checking import check_model  # noqa: PLC0415 - torch

    config = located(engine_config(arguments, in_process=True))
    reads_weights = "run.no_weights" not in arguments.given
    report = check_model(config, reads_weights=reads_weights)
    if "run.json" in arguments.given:
        whole = {**dataclasses.asdict(report), "can_be_served": report.can_be_served}
        say(json.dumps(whole, indent=2))
    else:
        say("\n".join(_page(report)))
    return int(not report.can_be_served)


def _page(report: "ModelReport") -> Iterator[str]:
    """Yields the lines of the page."""
    for name, value in _facts(report):
        first, *others = value.splitlines() or ["-"]
        yield f"{name:<{_NAME}}{first}"
        yield from (f"{'':<{_NAME}}{line}" for line in others)
    yield ""
    for each in report.problems:
        yield f"{each.severity}: {' '.join(each.text.split())}"
    if report.can_be_served:
        yield "nothing keeps it from being served"
    else:
        yield "it cannot be served"


def _facts(report: "ModelReport") -> Iterator[tuple[str, str]]:
    yield "model", report.model
    yield "folder", report.folder
    yield "architecture", report.architecture or "not known"
    yield "runs with", _runs(report)
    yield "parameters", _parameters(report.files)
    yield "quantization", report.quantization or "none"
    yield "context", _context(report)
    yield "rope", _ropes(report)
    yield "sliding window", _windows(report)
    yield "ends texts", _end_tokens(report)
    yield "tokenizer", _tokenizer(report)
    yield "chat", _chat(report)
    yield "sampling", _sampling(report)
    yield "files", _files(report.files)
    yield "weights", _weights(report.files)
    yield "KV cache", _cache(report)


def _runs(report: "ModelReport") -> str:
    if report.runs is None:
        return "not known"
    reason = f" ({report.runs.reason})" if report.runs.reason else ""
    tried = "" if report.runs.is_tried else ", not tried"
    return f"{report.runs.forward}{reason}, {report.runs.layers} layers{tried}"


def _parameters(files: "StoredFiles | None") -> str:
    if files is None:
        return "not known"
    shares = ", ".join(
        f"{each.dtype} {each.numbers} ({_size(each.nbytes)})" for each in files.shares
    )
    return f"{files.numbers} in {_size(files.nbytes)}: {shares}"


def _context(report: "ModelReport") -> str:
    if report.context is None:
        return "not known"
    served, context = report.context.served, report.context
    shown = "none" if served is None else f"{served} tokens"
    return f"{shown} served; at most {context.most}: {context.source}"


def _ropes(report: "ModelReport") -> str:
    if report.context is None or not report.context.ropes:
        return "as the architecture has it"
    return "\n".join(
        f"{each.layers and each.layers + ': '}{each.kind}"
        + ("" if each.factor is None else f", factor {each.factor:g}")
        + ("" if each.original is None else f", original length {each.original}")
        for each in report.context.ropes
    )


def _windows(report: "ModelReport") -> str:
    if report.runs is None or not report.runs.sliding_windows:
        return "none"
    return ", ".join(
        f"{window} tokens in {count} layers"
        for window, count in report.runs.sliding_windows.items()
    )


def _end_tokens(report: "ModelReport") -> str:
    return (
        "\n".join(
            f"{each.token_id} {each.text!r} ({', '.join(each.sources)})"
            for each in report.end_tokens
        )
        or "nothing: texts end at max_tokens or a stop string"
    )


def _tokenizer(report: "ModelReport") -> str:
    if report.tokenizer is None:
        return "not known"
    special = " ".join(report.tokenizer.special) or "none"
    tokens = f"{report.tokenizer.tokens} tokens, the model has {report.vocab_size}"
    return f"{tokens}\nspecial: {special}"


def _chat(report: "ModelReport") -> str:
    tokenizer = report.tokenizer
    if tokenizer is None or not tokenizer.has_chat_template:
        return "no chat template"
    wanted = [
        f"probably --{option} {' or '.join(names)}"
        for option, names in (
            ("tool-call-parser", tokenizer.tool_parsers),
            ("reasoning-parser", tokenizer.reasoning_parsers),
        )
        if names
    ]
    return "\n".join(["chat template", *wanted])


def _sampling(report: "ModelReport") -> str:
    found = ", ".join(f"{name} {value}" for name, value in report.generation.items())
    return f"{found} where requests are silent" if found else "nothing is recommended"


def _files(files: "StoredFiles | None") -> str:
    if files is None:
        return "not known"
    many = f" … {files.read[-1]} ({len(files.read)})" if len(files.read) > 1 else ""
    unused = f"\nnot read: {', '.join(files.unused)}" if files.unused else ""
    return f"{files.read[0]}{many}{unused}"


def _weights(files: "StoredFiles | None") -> str:
    if files is None:
        return "not known"
    if not files.checked:
        return "not read"
    return "\n".join(files.non_finite) or "all numbers are finite"


def _cache(report: "ModelReport") -> str:
    if report.runs is None:
        return "not known"
    each = f"{report.runs.kv_bytes_per_token} bytes per token"
    if report.cache is None:
        return each
    return (
        f"{each}; {report.cache.tokens} tokens fit beside the weights, of "
        f"{_size(report.cache.free_bytes)} that are free now"
    )


def _size(nbytes: int) -> str:
    if nbytes < _GIB:
        return f"{nbytes / 2**20:.2f} MiB"
    return f"{nbytes / _GIB:.2f} GiB"
