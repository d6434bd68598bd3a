"""The document as a self-contained HTML page."""

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

Document = Mapping[str, Any]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em;
  padding: 0 1em; color: #222; background: #fff; }
code { font-family: ui-monospace, monospace; font-size: 90%; }
h2 { border-bottom: 1px solid #ccc; margin-top: 2em; }
summary { cursor: pointer; padding: .3em 0; }
summary b { display: inline-block; min-width: 4em; }
table { border-collapse: collapse; margin: .5em 0 1em; width: 100%; }
th, td { border: 1px solid #ddd; padding: .25em .6em; text-align: left;
  vertical-align: top; }
section { margin-left: 1.5em; }
"""

_HIDDEN = {"$ref", "anyOf", "description", "items", "properties", "required"}
_HIDDEN |= {"title", "type", "additionalProperties", "discriminator", "enum", "const"}
"""Schema keywords that are shown in words, or not at all."""


def html_page(document: Document) -> str:
    """Returns the page of a document."""
    return "\n".join(_lines(document))


def _lines(document: Document) -> Iterator[str]:
    info = document["info"]
    title = escape(f"{info['title']} {info['version']}")
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<title>{title}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>{title}</h1><p>{escape(info['description'])}</p>"
    yield '<p>The same for programs: <a href="openapi.json">openapi.json</a></p>'
    for tag in document["tags"]:
        yield f"<h2>{escape(tag['name'])}</h2>"
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    yield from _operation(document, method, path, operation)
    yield "<h2>Messages</h2>"
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f'<details id="{escape(name)}"><summary><code>{escape(name)}</code> '
        yield f"{escape(_first(schema))}</summary><section>"
        yield from _fields(schema)
        yield "</section></details>"
    yield "</body></html>"


def _operation(
    document: Document, method: str, path: str, operation: Document
) -> Iterator[str]:
    yield f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> "
    yield f"{escape(operation['summary'])}</summary><section>"
    if "description" in operation:
        yield f"<p>{escape(operation['description'])}</p>"
    if "security" in operation:
        scopes = next(iter(operation["security"][0].values()))
        yield f"<p>Needs a key with the scope <code>{escape(scopes[0])}</code>.</p>"
    known = document["components"]["parameters"]
    given = [
        known[each["$ref"].rsplit("/", 1)[1]] if "$ref" in each else each
        for each in operation["parameters"]
    ]
    yield from _table(
        ("parameter", "in", "type", "meaning"),
        (
            (_code(each["name"]), each["in"], _type(each["schema"]), _meaning(each))
            for each in given
        ),
    )
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]["application/json"]
        yield f"<p>Body: {_type(content['schema'])}</p>"
    yield from _table(
        ("status", "meaning", "content"),
        (
            (_code(status), escape(each["description"]), _content(each["content"]))
            for status, each in operation["responses"].items()
        ),
    )
    yield "</section></details>"


def _fields(schema: Document) -> Iterator[str]:
    required = schema.get("required", ())
    yield from _table(
        ("field", "type", "required"),
        (
            (_code(name), _type(each), "yes" if name in required else "")
            for name, each in schema.get("properties", {}).items()
        ),
    )


def _content(content: Document) -> str:
    return "<br>".join(
        f"{_code(media)} {_type(each.get('x-event-schema', each.get('schema', {})))}"
        for media, each in content.items()
    )


def _type(schema: Document) -> str:
    """Returns a schema in one line."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f'<a href="#{escape(name)}">{escape(name)}</a>'
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if values:
        return ", ".join(_code(each) for each in values)
    kind = schema.get("type", "any")
    shown = escape(kind if isinstance(kind, str) else " or ".join(kind))
    if "items" in schema:
        shown = f"list of {_type(schema['items'])}"
    limits = [f"{key} {schema[key]}" for key in schema if key not in _HIDDEN]
    return f"{shown} <small>({escape(', '.join(limits))})</small>" if limits else shown


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    body = ["<tr>" + "".join(f"<td>{each}</td>" for each in row) for row in rows]
    if body:
        yield "<table><tr>" + "".join(f"<th>{each}</th>" for each in heads)
        yield from body
        yield "</table>"


def _code(text: object) -> str:
    return f"<code>{escape(str(text))}</code>"


def _meaning(parameter: Document) -> str:
    return escape(parameter.get("description", ""))


def _first(schema: Document) -> str:
    """Returns the first sentence of a schema's description."""
    return str(schema.get("description", "")).split("\n")[0]
