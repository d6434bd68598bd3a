"""Which values a JSON schema accepts, judged by its types.

A value between tags may be JSON or text: `12` is a number, unless the schema accepts
only strings.
"""

from collections.abc import Mapping

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
    waiting, is_limited = [schema], False
    for _ in range(_MOST_STEPS):
        if not waiting:
            return not is_limited
        each = waiting.pop()
        if not isinstance(each, Mapping):
            return True
        if (target := each.get("$ref")) is not None:
            waiting.append(_definition(target, root))
        elif isinstance(branches := each.get("anyOf", each.get("oneOf")), list):
            waiting += branches
        elif _is_taken(each, value):
            return True
        is_limited = True
    return True


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
