"""The figures of the source tree, by name."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from hookline_testing.structure.calls import Called, Calls, moves
from hookline_testing.structure.definitions import (
    definitions,
    long_constructors,
    long_functions,
    num_fields,
)
from hookline_testing.structure.imports import circles, closure
from hookline_testing.structure.settings import Reading, Settings
from hookline_testing.structure.sources import Module, Sources, inside, read_sources
from hookline_testing.structure.traces import Traces

Figures = dict[str, int]
FUNCTION_LINES, CONSTRUCTOR_LINES, FILE_LINES = 80, 40, 400
_LANE = "hookline-lane-"
_SECONDS = 240.0
_SERVER = "hookline_testing.structure.traced_server"


def static_figures(root: Path, settings: Settings) -> Figures:
    """Measures the sources and the docs of a checkout.

    Modules and classes that it has not are left out.
    """
    sources = read_sources(root)
    core = inside(sources, settings.core)
    figures = {"core.files": len(core), "core.lines": _lines(core)}
    for name, reading in settings.reading.items():
        figures |= _reading(sources, name, reading, settings.kernels)
    figures |= {f"fields.{name}": num_fields(core, name) for name in settings.types}
    product = _product(root, sources, settings.elsewhere)
    for verb in settings.verbs:
        every, own = definitions(product.values(), verb)
        figures |= {f"verb.{verb}": every, f"verb.{verb}.no_protocol": own}
    modules = list(product.values())
    return figures | {
        "import_circles": len(circles(product)),
        "long.functions": long_functions(modules, FUNCTION_LINES),
        "long.constructors": long_constructors(modules, CONSTRUCTOR_LINES),
        "long.files": sum(each.lines > FILE_LINES for each in modules),
        "docs.words": _words((root / "docs").rglob("*.md")),
        "readme.lines": len((root / "README.md").read_text("utf-8").splitlines()),
    }


def traced(root: Path, settings: Settings, kernels: str = "torch") -> Traces:
    """Serves requests in another process, and returns what was called.

    Raises:
        subprocess.SubprocessError: The process failed, or took too long.
    """
    command = [sys.executable, "-m", _SERVER, str(root), *settings.prompt_ends_at]
    process = subprocess.run(  # noqa: S603 — our own module
        [*command, kernels], stdout=subprocess.PIPE, check=True, timeout=_SECONDS
    )
    return msgspec.json.decode(process.stdout, type=Traces)


def traced_figures(traces: Traces, settings: Settings) -> Figures:
    """Counts what each step of a decode calls, and each prompt on its way.

    What only some steps or prompts call, because time has passed, does not count.
    """
    threads = {name for step in traces.steps for name in step}
    steps = {
        thread: _always([step.get(thread, []) for step in traces.steps])
        for thread in sorted(threads)
    }
    engine, front_end = steps[traces.engine], steps[traces.front_end]
    figures = {
        "decode.engine": _calls(engine, settings.kernels),
        "decode.front_end": _calls(front_end, settings.kernels),
    }
    for thread, calls in steps.items():
        if thread.startswith(_LANE) and calls:  # or it only works now and then
            name = thread.removeprefix(_LANE)
            figures[f"decode.lane.{name}"] = _calls(calls, settings.kernels)
    features = by_feature(engine, settings.features)
    figures["decode.engine.features"] = sum(features.values())
    return figures | _prompt(traces)


def engine_step(traces: Traces) -> Counter[Called]:
    """Returns what the engine's thread calls in each step of a decode."""
    return _always([step.get(traces.engine, []) for step in traces.steps])


def by_feature(
    calls: Counter[Called], features: Mapping[str, Sequence[str]]
) -> Counter[str]:
    """Counts the calls that only a feature needs, by the first one that fits."""
    found = Counter(dict.fromkeys(features, 0))
    for called, count in calls.items():
        text = f"{called.file}:{called.name}".lower()
        for name, parts in features.items():
            if any(part in text for part in parts):
                found[name] += count
                break
    return found


def _prompt(traces: Traces) -> Figures:
    threads = (traces.front_end, traces.engine)
    always = {
        thread: _always([prompt.get(thread, []) for prompt in traces.prompts])
        for thread in threads
    }
    functions = {called for calls in always.values() for called in calls}
    return {
        "prompt.calls": sum(calls.total() for calls in always.values()),
        "prompt.functions": len(functions),
        "prompt.files": len({called.file for called in functions}),
        "prompt.moves": min(_moves(prompt, threads) for prompt in traces.prompts),
        "prompt.forms": len(traces.forms),
    }


def _moves(prompt: Calls, threads: Sequence[str]) -> int:
    return sum(moves(prompt.get(thread, [])) for thread in threads)


def _always(runs: Sequence[Sequence[Called]]) -> Counter[Called]:
    """Returns how often each run calls a function at least."""
    first, *others = map(Counter, runs)
    for other in others:
        first &= other
    return first


def _calls(calls: Counter[Called], kernels: Sequence[str]) -> int:
    apart = tuple(f"{each}/" for each in kernels)
    return sum(
        count for called, count in calls.items() if not called.file.startswith(apart)
    )


def _reading(
    sources: Sources, name: str, reading: Reading, kernels: Sequence[str]
) -> Figures:
    if not all(each in sources for each in reading.modules):
        return {}
    read = closure(sources, reading.modules, with_lazy=reading.lazy)
    ours = [each for each in read if each.top not in kernels]
    return {
        f"reading.{name}.files": len(ours),
        f"reading.{name}.lines": _lines(ours),
        f"reading.{name}.kernel_files": len(read) - len(ours),
    }


def _product(root: Path, sources: Sources, elsewhere: Sequence[str]) -> Sources:
    folders = [root / each for each in elsewhere]
    return {
        name: module
        for name, module in sources.items()
        if not any(module.path.is_relative_to(folder) for folder in folders)
    }


def _lines(modules: Iterable[Module]) -> int:
    return sum(each.lines for each in modules)


def _words(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text("utf-8").split()) for path in paths)
