"""Renders `python -m hookline_metrics.deviation_document > docs/deviations.md`."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from string import ascii_uppercase

from hookline_metrics.catalogue import CATALOGUE, DIALECTS
from hookline_metrics.dialects import NOT_APPLICABLE
from hookline_metrics.metric import OWN_DIALECT, Alias, Metric

_HEAD = """\
# Names of vLLM and SGLang

Made from the catalogue in `metrics/src/hookline_metrics/` by
`python -m hookline_metrics.deviation_document > docs/deviations.md`; do not edit by
hand.

For each name: the metric of Hookline that it shows, or its own help text, with the
differences of labels, buckets and units; then how the value deviates from the other
engine's (vLLM 0.33, SGLang 0.5), if it does. Letters stand for the remarks at the top.
*Hidden* names are deprecated and appear only with
`--show-hidden-metrics-for-version 0.0`. Names that do not apply are last, by the
reason. `hookline metrics list` and `describe` say the same.

**Done in another way:**

"""

_WAYS = """\
- Pages come from one recorder's counts, rendered here: `prometheus_client` took six
  times as long. So PROMETHEUS_MULTIPROC_DIR, `multiprocess_mode` and collector
  classes have no use; engines send their numbers with their outputs.
- Help texts are Hookline's own, as they say from where to where it measures.
- Loggers run in lanes, not in the output loop, which they would delay. The front end
  calls them, once a step: the engine knows no plugin.
- Gauges are computed for each page, not every so many steps; intervals are on
  monotonic clocks.
- Buckets of `sglang:` are those of SGLang 0.5, finer ones added.
- Preempted requests are recomputed, never swapped.
- Dashboards of `vllm:` show prompt tokens by source instead of their sum; names that
  vLLM has replaced are hidden.
- A model that the Hugging Face cache has is used without asking the hub for a newer
  one, which `hookline models pull` does. `LLM` keeps its engine in
  its process unless `in_process=False`.
- Prefix hashes are SHA-256 or BLAKE2b: for Python's `hash` collisions can be made.
- An engine process has one loop, without threads for input and output. Engines that
  share no experts need neither waves nor a coordinator.
- Paths of the API begin with /v1, as OpenAI's do.
"""
"""What has no name of its own, and why it is so."""

_LETTERED = 3
"""A remark that as many names have, or more, stands at the top once."""
_SHORT = 3
"""The number of words up to which a remark is as short as a letter's explanation."""

_Parts = list[tuple[Metric, Alias]]


def deviation_document() -> str:
    """Returns the page as Markdown."""
    others = [dialect for dialect in DIALECTS if dialect != OWN_DIALECT]
    return "\n".join((_HEAD + _WAYS, *(_section(dialect) for dialect in others)))


def _section(dialect: str) -> str:
    """Returns the dialect's names, sorted, and those that do not apply."""
    families = _families(dialect)
    letters = _letters(families.values())
    lines = [f"## `{dialect}`", ""]
    lines += [f"- {letter}: {remark}" for remark, letter in letters.items()]
    lines += ["", f"### Names of `{dialect}`", ""]
    lines += [_entry(name, families[name], letters) for name in sorted(families)]
    return "\n".join((*lines, *_absent(dialect), ""))


def _absent(dialect: str) -> Iterable[str]:
    """Yields the names that do not apply, those with the same reason together."""
    yield f"### Names of `{dialect}` that do not apply"
    yield ""
    names: dict[str, list[str]] = {}
    for name, reason in sorted(NOT_APPLICABLE.get(dialect, {}).items()):
        names.setdefault(reason, []).append(name)
    for reason, those in names.items():
        yield f"- {reason}: {_quoted(those)}"


def _families(dialect: str) -> dict[str, _Parts]:
    """Returns the aliases by exposed name; several metrics can share one."""
    found: dict[str, _Parts] = {}
    for metric in CATALOGUE:
        for alias in metric.aliases(dialect):
            found.setdefault(metric.exposed(alias.name), []).append((metric, alias))
    return found


def _letters(families: Iterable[_Parts]) -> dict[str, str]:
    """Returns a letter for each long remark that several names have."""
    uses = Counter(
        remark
        for parts in families
        for remark in dict.fromkeys(
            each
            for metric, alias in parts
            for each in (*_differences(metric, alias), *_deviations(alias))
        )
    )
    repeated = [
        remark
        for remark, count in uses.most_common()
        if count >= _LETTERED and len(remark.split()) > _SHORT
    ]
    return dict(zip(repeated, ascii_uppercase, strict=False))


def _entry(name: str, parts: _Parts, letters: Mapping[str, str]) -> str:
    _, alias = parts[0]
    hidden = " *hidden*" if alias.hidden_since else ""
    shows = "; ".join(_shown(*part, letters) for part in parts)
    deviation = "; ".join(letters.get(each, each) for each in _deviations(alias))
    deviates = f" **Deviates:** {deviation}" if deviation else ""
    return f"`{name}`{hidden}: {shows}{deviates}\n"


def _shown(metric: Metric, alias: Alias, letters: Mapping[str, str]) -> str:
    source = f"`{metric.exposed(metric.name)}`" if metric.is_own else metric.help
    remarks = [letters.get(each, each) for each in _differences(metric, alias)]
    return f"{source} ({'; '.join(remarks)})" if remarks else source


def _deviations(alias: Alias) -> list[str]:
    return alias.deviation.split("; ") if alias.deviation else []


def _differences(metric: Metric, alias: Alias) -> list[str]:
    """Says how an alias's labels, buckets, unit and kind differ from its metric's."""
    parts = _labels(alias)
    if alias.buckets:
        parts.append(f"buckets `{alias.buckets}`")
    if alias.scale != 1:
        parts.append(f"{alias.scale:g} times the value")
    if alias.kind:
        parts.append(f"a {alias.kind}")
    if metric.feature:
        parts.append(f"requires `--{metric.feature}`{metric.feature.note}")
    return parts


def _labels(alias: Alias) -> list[str]:
    """Says how labels differ: first the engine's and constant ones, as one remark."""
    common = [
        f"label `{ours}` is `{name}`"
        for ours, name in alias.rename.items()
        if ours == "engine"
    ]
    gone = sorted(alias.drop - set(alias.values))
    if "engine" in gone:
        gone.remove("engine")
        common.append("without `engine`")
    if alias.add:
        pairs = ", ".join(f"`{name}={value}`" for name, value in alias.add.items())
        common.append(f"always {pairs}")
    parts = [", ".join(common)] if common else []
    if gone:
        parts.append(f"without {_quoted(gone)}")
    parts += [
        f"label `{ours}` is `{name}`"
        for ours, name in alias.rename.items()
        if ours != "engine"
    ]
    for label, values in alias.values.items():
        if label in alias.drop:
            parts.append(f"only `{label}` {_quoted(values)}")
        else:
            parts.append(f"`{label}`: {', '.join(_renamed(values))}")
    for label, contained in alias.without.items():
        parts.append(f"without values of `{label}` that contain {_quoted(contained)}")
    return parts


def _renamed(values: Mapping[str, str]) -> Iterable[str]:
    for ours, name in values.items():
        yield f"`{ours}`" if ours == name else f"`{ours}` is `{name}`"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(deviation_document())
