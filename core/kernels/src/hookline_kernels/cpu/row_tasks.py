"""Divides a product of rows with panels into tasks of a kernel's threads.

A task takes blocks of rows, which the thread copies to its own memory, and multiplies
them with one panel. Rows that this memory does not hold at full width are multiplied in
parts, with several panels per task, as other panels need the same parts again.
"""

ROOM = 256 << 10
"""Bytes of rows that a thread holds at a time; they stay in its L2 cache."""
MOST_BLOCKS = 10
"""Maximum number of blocks per task."""
PANELS = 4
"""Panels of a task whose rows are multiplied in parts."""
_FEW_BLOCKS = 4
"""Number of blocks that are worth multiplying wide rows in parts."""


def divide(blocks: int, steps: int, step_bytes: int) -> tuple[int, int, int]:
    """Returns blocks of rows, panels, and steps of inputs that a task takes.

    Args:
        blocks: Number of blocks of rows.
        steps: Number of steps of inputs in a row.
        step_bytes: Bytes of a step of a block in a thread's memory.
    """
    most = min(max(ROOM // (steps * step_bytes), _FEW_BLOCKS), MOST_BLOCKS)
    pieces = max(-(-blocks // most), 1)
    together = max(-(-blocks // pieces), 1)
    at_once = min(steps, ROOM // (together * step_bytes))
    return together, 1 if at_once == steps else PANELS, at_once
