"""Names of what each of several engines needs for itself, from one that users give."""


def path_of_engine(path: str, engine_index: int) -> str:
    """Returns an engine's own path: engine 0 has the given one, as in vLLM."""
    return f"{path}_dp{engine_index}" if engine_index else path


def port_of_engine(port: int, engine_index: int) -> int:
    """Returns an engine's own port: the index is added, but to 0, a free one."""
    return port + engine_index if port else 0
