"""Statistics made of engine events: state, steps and finished requests."""

from hookline.moved_modules import moved_name


def __getattr__(name: str) -> object:
    return moved_name(__name__, name)
