"""Which values a JSON schema accepts, judged by its types.

A value between tags may be JSON or text: `12` is a number, unless the schema accepts
only strings.
"""

from collections.abc import Iterator, Mapping

_MOST_STEPS = 64
"""Maximum schemas inspected for one value, as references may be circular."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


def takes(schema: object, value: object, root: Mapping[str, object]) -> bool:
    """Returns whether a schema accepts a value; True if that is unclear.

    Args:
        schema: The schema.
        value: The value, of which only the type counts, unless values are listed.
        root: The schema that has the definitions.
    """
    return any(
        each is None or _is_taken(each, value) for each in alternatives(schema, root)
    )


def alternatives(
    schema: object, root: Mapping[str, object]
) -> Iterator[Mapping[str, object] | None]:
    """Yields the schemas without references one of which a value has to match.

    None stands for what is not understood.

    Args:
        schema: The schema.
        root: The schema that has the definitions.
    """
    waiting = [schema]
    for _ in range(_MOST_STEPS):
        if not waiting:
            return
        each = waiting.pop()
        if not isinstance(each, Mapping):
            yield None
        elif (target := each.get("$ref")) is not None:
            waiting.append(_definition(target, root))
        elif isinstance(branches := each.get("anyOf", each.get("oneOf")), list):
            waiting += branches
        else:
            yield each
    yield None


def member_schema(
    schema: object, name: str | None, root: Mapping[str, object]
) -> object:
    """Returns the schema of an object's member, or of a list's items; None if unknown.

    Args:
        schema: The schema of the object or list.
        name: The member's name; None asks for the items.
        root: The schema that has the definitions.
    """
    for each in alternatives(schema, root):
        if each is None:
            continue
        if name is None:
            found = each.get("items")
        else:
            properties = each.get("properties")
            named = properties if isinstance(properties, Mapping) else {}
            found = named.get(name, each.get("additionalProperties"))
        if isinstance(found, Mapping):
            return found
    return None


def _is_taken(schema: Mapping[str, object], value: object) -> bool:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list):
        return any(each == value and type(each) is type(value) for each in values)
    names = schema.get("type")
    if names is None:
        return True
    names = names if isinstance(names, list) else [names]
    if isinstance(value, bool):
        return "boolean" in names
    return any(isinstance(value, _TYPES.get(str(each), ())) for each in names)


def _definition(target: object, root: Mapping[str, object]) -> object:
    """Returns the schema at a path such as `#/$defs/City`; None if there is none."""
    found: object = root
    for name in str(target).removeprefix("#").strip("/").split("/"):
        if not isinstance(found, Mapping):
            return None
        found = found.get(name) if name else found
    return found
