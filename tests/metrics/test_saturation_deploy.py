"""The autoscaler examples name metrics that exist."""

import re
from pathlib import Path

import pytest
import yaml

from hookline_metrics import CATALOGUE

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
DOCS = ROOT / "docs" / "saturation.md"
NAMES = {metric.name for metric in CATALOGUE}
NAME = re.compile(r"\bhookline_[a-z0-9_]+")


def documents(name: str) -> list[dict[str, object]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text("utf-8")))


def test_examples_are_kubernetes_objects() -> None:
    """Every document of every example parses and has kind and version."""
    objects = [each for path in FOLDER.glob("*.yaml") for each in documents(path.name)]

    kinds = {str(each["kind"]) for each in objects}

    assert kinds >= {"ConfigMap", "HorizontalPodAutoscaler", "ScaledObject"}
    assert all(each["apiVersion"] and each["metadata"] for each in objects)


def test_the_adapters_rule_offers_what_the_autoscaler_reads() -> None:
    """The rule inside the ConfigMap is YAML, and both name the same metric."""
    config, autoscaler = documents("hpa.yaml")
    rule = yaml.safe_load(config["data"]["config.yaml"])["rules"][0]  # type: ignore[index]
    metric = autoscaler["spec"]["metrics"][0]["pods"]["metric"]  # type: ignore[index]

    assert rule["name"]["as"] == metric["name"] == "hookline_saturation_ratio"


def test_the_documented_rules_are_yaml() -> None:
    """The block of recording rules in the docs can be copied."""
    block = re.findall(
        r"^```yaml\n(.*?)^```$", DOCS.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )[0]

    rules = yaml.safe_load(block)["groups"][0]["rules"]

    assert [set(rule) for rule in rules] == [{"record", "expr"}] * 2


@pytest.mark.parametrize(
    "path", [FOLDER / "hpa.yaml", FOLDER / "keda.yaml", DOCS], ids=lambda p: p.name
)
def test_named_metrics_are_in_the_catalogue(path: Path) -> None:
    """No example reads a metric that is not there."""
    named = set(NAME.findall(path.read_text("utf-8")))

    assert named
    assert named <= NAMES
