"""Structural tags: replies whose text is free up to a call, and whose calls are not."""

from collections.abc import Collection, Iterable, Mapping, Sequence

Format = dict[str, object]
"""A format of a structural tag, or one of its tags, as JSON."""

Tools = Mapping[str, Mapping[str, object]]
"""JSON schema of each function's arguments, by the function's name."""


_MOST_WHITESPACE = 2
"""Characters between two of JSON's tokens, in which models could lose themselves."""


def schema_of(tools: Tools, name: str, strict: Collection[str]) -> Mapping[str, object]:
    """Returns the schema that a call must follow; any object if it need not."""
    return tools[name] if name in strict else {"type": "object"}


def json_schema(schema: Mapping[str, object], style: str | None = None) -> Format:
    """Returns the format of arguments; `style` names one that is not JSON."""
    made: Format = {"type": "json_schema", "json_schema": schema}
    if style is not None:
        return {**made, "style": style}
    return {**made, "max_whitespace_cnt": _MOST_WHITESPACE}


def between(begin: str, content: Format, end: str) -> Format:
    """Returns the tag of what is between two texts."""
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def separated(tags: Sequence[Format], separator: str) -> Format:
    """Returns the format of one or more tags between separators."""
    return {
        "type": "tags_with_separator",
        "tags": tags,
        "separator": separator,
        "at_least_one": True,
    }


def triggered(trigger: str, tags: Iterable[Format]) -> Format:
    """Returns the structural tag of free text in which a trigger begins a tag."""
    tags = [{key: each[key] for key in ("begin", "content", "end")} for each in tags]
    return of_format({"type": "triggered_tags", "triggers": [trigger], "tags": tags})


def of_format(inner: Format) -> Format:
    """Returns the structural tag that is a format."""
    return {"type": "structural_tag", "format": inner}
