"""Writes grammars as llguidance reads them."""

import json
from typing import Any

from llguidance import LLMatcher, StructTag, grammar_from

from hookline.structured_outputs import GrammarKind
from hookline_grammars.json_schemas import (
    every_schema,
    formats_as_patterns,
    most_space,
)
from hookline_grammars.pattern_parts import without_line_ends
from hookline_grammars.spec import GrammarSpec
from hookline_llguidance.schema_check import check_schema

_FORMATS = (
    *("date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time"),
    *("uri", "uuid"),
)
"""Formats that llguidance enforces."""


def grammar_text(spec: GrammarSpec) -> str:
    """Returns the grammar in llguidance's own format.

    Raises:
        ValueError: It cannot be written in it.
    """
    return str(_grammar(spec))


def _grammar(spec: GrammarSpec) -> Any:
    source = spec.source
    match spec.kind:
        case GrammarKind.JSON | GrammarKind.JSON_OBJECT:
            return _of_schema(json.loads(source or '{"type": "object"}'), spec)
        case GrammarKind.REGEX:
            return LLMatcher.grammar_from_regex(without_line_ends(source))
        case GrammarKind.CHOICE:
            texts = json.loads(source)
            quoted = [json.dumps(each, ensure_ascii=False) for each in texts]
            # One terminal: as alternatives of a rule they would be too many items.
            return LLMatcher.grammar_from_lark(
                f"start: TEXT\nTEXT: {' | '.join(quoted)}"
            )
        case GrammarKind.GRAMMAR:
            return grammar_from("ebnf" if "::=" in source else "lark", source)
        case GrammarKind.STRUCTURAL_TAG:
            return _of_tag(json.loads(source), spec)


def _of_schema(schema: dict[str, Any], spec: GrammarSpec) -> Any:
    check_schema(schema)
    formats_as_patterns(schema)
    for each in every_schema(schema):
        if isinstance(pattern := each.get("pattern"), str):
            each["pattern"] = without_line_ends(pattern)
    _leave_unknown_formats(schema)
    if not spec.additional_properties:
        _close(schema)
    options: dict[str, Any] = {"whitespace_flexible": spec.any_whitespace}
    if spec.whitespace_pattern is not None:
        options["whitespace_pattern"] = spec.whitespace_pattern
    elif spec.any_whitespace:
        options["whitespace_pattern"] = _space(most_space(schema))
    return LLMatcher.grammar_from_json_schema(schema, overrides=options)


def _leave_unknown_formats(schema: object) -> None:
    """Removes formats that are only annotations here."""
    for each in every_schema(schema):
        if isinstance(name := each.get("format"), str) and name not in _FORMATS:
            del each["format"]


def _close(schema: object) -> None:
    """Forbids additional properties wherever a schema does not mention them."""
    if isinstance(schema, dict):
        if "properties" in schema and isinstance(schema["properties"], dict):
            schema.setdefault("additionalProperties", False)
        for key, each in schema.items():
            if key not in {"enum", "const", "default", "examples"}:
                _close(each)
    elif isinstance(schema, list):
        for each in schema:
            _close(each)


def _of_tag(tag: dict[str, Any], spec: GrammarSpec) -> Any:
    """Accepts vLLM's older form, `triggered_tags` and `tags_with_separator`."""
    if "structures" in tag:
        found = [(each, each["schema"]) for each in tag["structures"]]
        triggers = tag["triggers"]
    else:
        inner = tag.get("format", {})
        if inner.get("type") == "tags_with_separator":
            return LLMatcher.grammar_from_lark(_of_list(inner, spec))
        if inner.get("type") != "triggered_tags":
            raise ValueError("only structural tags of the type 'triggered_tags' are")
        found = [(each, _schema_of(each["content"])) for each in inner["tags"]]
        triggers = inner["triggers"]
    tags = []
    for each, schema in found:
        fitting = [one for one in triggers if each["begin"].startswith(one)]
        if not fitting:
            raise ValueError(f"no trigger begins {each['begin']!r}")
        _prepare(schema, spec)
        made = StructTag(
            trigger=_as_text(fitting[0]),
            begin=each["begin"],
            grammar={**schema, **_NARROW},
            end=each["end"],
        )
        tags.append(made)
    return StructTag.to_grammar(tags)


def _of_list(inner: dict[str, Any], spec: GrammarSpec) -> str:
    """Returns a Lark grammar of tags between separators, and nothing else."""
    rules, names = [], []
    for index, tag in enumerate(inner["tags"]):
        schema = _schema_of(tag["content"])
        _prepare(schema, spec)
        body = f"%json {json.dumps({**schema, **_NARROW})}"
        texts = [_quoted(tag["begin"]), body, _quoted(tag["end"])]
        names.append(f"tag_{index}")
        rules.append(f"tag_{index}: {' '.join(filter(None, texts))}")
    more = f"({_quoted(inner.get('separator', ''))} tag)*"
    start = "tag" if inner.get("stop_after_first") else f"tag {more}"
    if not inner.get("at_least_one"):
        start = f"({start})?"
    lines = ["%llguidance {}", f"start: {start}", f"tag: {' | '.join(names)}", *rules]
    return "\n".join(lines)


def _space(most: int) -> str:
    return f"[ \\t\\n\\r]{{1,{most}}}"


_NARROW = {"x-guidance": {"whitespace_pattern": _space(2)}}
"""Keeps models from losing themselves in white space."""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if text else ""


def _prepare(schema: dict[str, Any], spec: GrammarSpec) -> None:
    check_schema(schema)
    if not spec.additional_properties:
        _close(schema)


def _as_text(trigger: str) -> str:
    """Returns a trigger without its last bracket: with both it would be a token.

    Special tokens have no text here, so none can be meant.
    """
    is_token = trigger.startswith("<") and trigger.endswith(">") and len(trigger) > 2
    return trigger[:-1] if is_token else trigger


def _schema_of(content: dict[str, Any]) -> Any:
    """Returns the schema of a tag's content; only JSON is supported."""
    if content.get("type") != "json_schema" or content.get("style", "json") != "json":
        raise ValueError("only tags of JSON, of the type 'json_schema', are supported")
    return content["json_schema"]
