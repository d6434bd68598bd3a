"""Renders rules as Prometheus's YAML."""

from collections.abc import Iterable

import yaml

from hookline_dashboards.rule import Alert, Group, Recording

_HEAD = "# Made by `python -m hookline_dashboards`; do not edit by hand.\n"


class _Dumper(yaml.SafeDumper):
    """Writes multi-line expressions as literal blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def rule_file(groups: Iterable[Group]) -> str:
    """Returns a file for `rule_files` of Prometheus's configuration."""
    drawn = [
        {"name": group.name, "rules": [_drawn(rule) for rule in group.rules]}
        for group in groups
    ]
    text = yaml.dump({"groups": drawn}, Dumper=_Dumper, sort_keys=False, width=10_000)
    return _HEAD + text


def _drawn(rule: Recording | Alert) -> dict[str, object]:
    if isinstance(rule, Recording):
        return {"record": rule.name, "expr": rule.expression}
    return {
        "alert": rule.name,
        "expr": rule.expression,
        "for": rule.wait,
        "labels": {"severity": rule.severity.value},
        "annotations": {"summary": rule.summary, "description": rule.next_step},
    }
