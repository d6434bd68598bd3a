"""Holds Kubernetes objects against the schemas that an API server has of them.

Those of Kubernetes itself are kubernetes-validate's. Those of custom resources are cut
down from their definitions: `python -m hookline_testing.manifests DEFINITION FOLDER`.
"""

import json
import sys
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

KUBERNETES = "1.35"
"""The version whose schemas are meant."""

Json = Mapping[str, Any]

_DEFINITIONS = "file://_definitions.json"
_POD_TEMPLATE = {"$ref": f"{_DEFINITIONS}#/$defs/io.k8s.api.core.v1.PodTemplateSpec"}
_KEPT = (
    *("enum", "format", "maxItems", "maxLength", "maxProperties", "maximum"),
    *("minItems", "minLength", "minProperties", "minimum", "pattern", "required"),
    "type",
)
_ANY_INT = {"type": ["integer", "string"]}
_OPEN = "x-kubernetes-preserve-unknown-fields"


def problem_of(manifest: Json, schemas: Path) -> str:
    """Returns why an API server would refuse an object; empty if it would not.

    Rules in the Common Expression Language are not evaluated.

    Args:
        manifest: An object of a manifest.
        schemas: A folder of schemas of custom resources.

    Raises:
        FileNotFoundError: There is no schema for this kind.
    """
    group, _, version = manifest["apiVersion"].rpartition("/")
    kind = str(manifest["kind"]).lower()
    own = schemas / f"{kind}-{group}-{version}.json"
    if own.exists():
        schema = json.loads(own.read_text("utf-8"))
    else:
        name = f"{kind}-{group.partition('.')[0]}-{version}.json".replace("--", "-")
        schema = json.loads(_builtin(name))
    error = best_match(
        Draft202012Validator(schema, registry=_registry()).iter_errors(manifest)
    )
    return "" if error is None else f"{error.json_path}: {error.message}"


def compact(definition: Json) -> tuple[str, Json]:
    """Returns a name and a JSON schema for the newest version that a definition serves.

    Descriptions are left out, and templates of pods refer to Kubernetes' own schema.

    Args:
        definition: A CustomResourceDefinition.
    """
    spec = definition["spec"]
    version = next(each for each in spec["versions"] if each["storage"])
    schema = _closed(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    schema["properties"].pop("status", None)
    kind, group = spec["names"]["kind"].lower(), spec["group"]
    return f"{kind}-{group}-{version['name']}.json", schema


def _closed(schema: Json) -> dict[str, Any]:
    """Returns a schema that refuses fields that nobody knows."""
    if schema.get("x-kubernetes-int-or-string"):
        return dict(_ANY_INT)
    properties: Json = schema.get("properties", {})
    pod: Json = properties.get("spec", {}).get("properties", {})
    if "containers" in pod and "restartPolicy" in pod:
        return dict(_POD_TEMPLATE)
    closed: dict[str, Any] = {key: schema[key] for key in _KEPT if key in schema}
    if properties:
        closed["properties"] = {k: _closed(v) for k, v in properties.items()}
        if not schema.get(_OPEN):
            closed["additionalProperties"] = False
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        closed["additionalProperties"] = _closed(more)
    if "items" in schema:
        closed["items"] = _closed(schema["items"])
    return closed


def _builtin(name: str) -> str:
    folder = f"kubernetes-json-schema/v{KUBERNETES}.0-local-strict"
    return (files("kubernetes_validate") / folder / name).read_text("utf-8")


@cache
def _registry() -> Registry[Any]:
    definitions = json.loads(_builtin("_definitions.json"))
    resource = Resource.from_contents(definitions, default_specification=DRAFT202012)
    registry: Registry[Any] = Registry().with_resource(_DEFINITIONS, resource)
    return registry


if __name__ == "__main__":
    name, found = compact(yaml.safe_load(Path(sys.argv[1]).read_text("utf-8")))
    text = json.dumps(found, sort_keys=True, separators=(",", ":"))
    (Path(sys.argv[2]) / name).write_text(f"{text}\n", "utf-8")
