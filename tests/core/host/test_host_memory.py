"""Main memory that is left, read from trees of files like the system's, and here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hookline_host.control_groups import groups_of
from hookline_host.memory import Memory, available_memory, read_memory, total_memory
from hookline_testing.file_trees import write_files

GIB = 2**30
MIB = 2**20
MEMINFO = f"MemTotal: 1 kB\nMemAvailable: {16 * MIB} kB\n"
MOUNT_2 = "30 23 0:26 {base} /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n"
MOUNT_1 = "31 23 0:27 {base} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
UNLIMITED_1 = 9223372036854771712


def second(
    limit: object, used: object, *, inactive: int = 0, more: str = ""
) -> dict[str, str]:
    """Files of a group of version 2."""
    return {
        "memory.max": f"{limit}\n",
        "memory.current": f"{used}\n",
        "memory.stat": f"anon 5\ninactive_file {inactive}\n{more}",
    }


def first(
    limit: object, used: object, *, inactive: int = 0, more: str = ""
) -> dict[str, str]:
    """Files of a group of version 1; those without `total_` are the group's alone."""
    return {
        "memory.limit_in_bytes": f"{limit}\n",
        "memory.usage_in_bytes": f"{used}\n",
        "memory.stat": f"inactive_file 1\ntotal_inactive_file {inactive}\n{more}",
    }


def tree(
    root: Path, own: str, mounts: str, groups: dict[str, dict[str, str]]
) -> dict[str, str]:
    """Writes the files of a machine with 16 GiB and these groups; returns them."""
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": own,
        "proc/self/mountinfo": mounts,
    }
    for folder, contents in groups.items():
        for name, text in contents.items():
            files[f"sys/fs/cgroup/{folder}/{name}"] = text
    write_files(root, files)
    return files


CASES = {
    "no groups": ("", "", {}, Memory(16 * GIB)),
    "a limit": (
        "0::/\n",
        MOUNT_2,
        {".": second(2 * GIB, GIB)},
        Memory(GIB, 2 * GIB, GIB),
    ),
    "a file of 2 GB was read": (
        "0::/\n",
        MOUNT_2,
        {".": second(2 * GIB, 2 * GIB - MIB, inactive=2 * GIB - 100 * MIB)},
        Memory(2 * GIB - 99 * MIB, 2 * GIB, 99 * MIB),
    ),
    "it was written before, and nobody has mapped it": (
        "0::/\n",
        MOUNT_2,
        {
            ".": second(
                2 * GIB, GIB, more=f"active_file {GIB}\nfile_mapped {GIB // 2}\n"
            )
        },
        Memory(GIB + GIB // 2, 2 * GIB, GIB // 2),
    ),
    "the own group's parent": (
        "0::/pods/server\n",
        MOUNT_2,
        {
            "pods": second(3 * GIB, 2 * GIB),
            "pods/server": second("max", GIB),
        },
        Memory(GIB, 3 * GIB, 2 * GIB),
    ),
    "the own group, and nothing at the mount": (
        "0::/a/b\n",
        MOUNT_2,
        {"a": second(8 * GIB, GIB), "a/b": second(4 * GIB, GIB)},
        Memory(3 * GIB, 4 * GIB, GIB),
    ),
    "memory.high, which holds processes up": (
        "0::/\n",
        MOUNT_2,
        {".": second(8 * GIB, GIB) | {"memory.high": f"{4 * GIB}\n"}},
        Memory(3 * GIB, 4 * GIB, GIB),
    ),
    "no limit": ("0::/\n", MOUNT_2, {".": second("max", GIB)}, Memory(16 * GIB)),
    "more than the machine has": (
        "0::/\n",
        MOUNT_2,
        {".": second(64 * GIB, GIB)},
        Memory(16 * GIB, 64 * GIB, GIB),
    ),
    "more used than allowed": (
        "0::/\n",
        MOUNT_2,
        {".": second(GIB, 2 * GIB)},
        Memory(0, GIB, 2 * GIB),
    ),
    "a use that cannot be read": (
        "0::/\n",
        MOUNT_2,
        {".": {"memory.max": f"{GIB}\n"}},
        Memory(GIB, GIB, None),
    ),
    "garbage": ("0::/\n", MOUNT_2, {".": second("?", "-3")}, Memory(16 * GIB)),
    "outside of what is mounted": (
        "0::/../other\n",
        MOUNT_2,
        {".": second(2 * GIB, GIB)},
        Memory(GIB, 2 * GIB, GIB),
    ),
    "a part of the tree, named as the host does": (
        "0::/docker/abc\n",
        MOUNT_2.replace("{base}", "/docker/abc"),
        {".": second(2 * GIB, GIB)},
        Memory(GIB, 2 * GIB, GIB),
    ),
    "version 1": (
        "4:memory:/docker/abc\n0::/\n",
        MOUNT_1.replace("{base}", "/docker/abc"),
        {"memory": first(2 * GIB, 2 * GIB, inactive=GIB)},
        Memory(GIB, 2 * GIB, GIB),
    ),
    "version 1 without a limit": (
        "4:memory:/\n",
        MOUNT_1,
        {"memory": first(UNLIMITED_1, GIB)},
        Memory(16 * GIB),
    ),
    "version 1, with a limit above what is mounted": (
        "4:memory:/docker/abc\n",
        MOUNT_1.replace("{base}", "/docker/abc"),
        {
            "memory": first(
                UNLIMITED_1, GIB, more=f"hierarchical_memory_limit {4 * GIB}\n"
            )
        },
        Memory(3 * GIB, 4 * GIB, GIB),
    ),
    "both versions, memory in the first": (
        "4:memory:/a\n0::/\n",
        MOUNT_1 + MOUNT_2.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified"),
        {"memory/a": first(2 * GIB, GIB), "unified": {"cgroup.procs": "1\n"}},
        Memory(GIB, 2 * GIB, GIB),
    ),
}


@pytest.mark.parametrize(
    ("own", "mounts", "groups", "expected"), CASES.values(), ids=CASES
)
def test_the_tightest_limit_decides_what_is_left(
    tmp_path: Path,
    own: str,
    mounts: str,
    groups: dict[str, dict[str, str]],
    expected: Memory,
) -> None:
    """
    From the own group upwards, pages that can be dropped are free, and the machine's
    own memory is never exceeded.
    """
    tree(tmp_path, own, mounts.replace("{base}", "/"), groups)

    assert read_memory(tmp_path) == expected
    assert available_memory(tmp_path) == expected.available


def test_folder_names_may_have_spaces(tmp_path: Path) -> None:
    """
    The kernel writes them as octal numbers.
    """
    mounts = MOUNT_2.format(base="/").replace("/sys/fs/cgroup", r"/sys/fs/my\040groups")
    tree(tmp_path, "0::/\n", mounts, {})
    write_files(tmp_path, {"sys/fs/my groups/memory.max": "7\n"})

    [group] = groups_of("memory", tmp_path)

    assert (group.folder.name, group.version) == ("my groups", 2)


def test_the_usual_place_is_tried_without_proc(tmp_path: Path) -> None:
    """
    A container without /proc has its limit at the usual place still.
    """
    write_files(
        tmp_path,
        {
            "sys/fs/cgroup/cgroup.controllers": "memory\n",
            "sys/fs/cgroup/memory.max": f"{MIB}\n",
            "sys/fs/cgroup/memory.current": "0\n",
        },
    )

    assert read_memory(tmp_path) == Memory(MIB, MIB, 0)


def test_the_limit_counts_as_all_of_the_memory(tmp_path: Path) -> None:
    """
    What could never be taken here is refused by it, and without one by the machine's.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    tree(tmp_path, "0::/\n", MOUNT_2.format(base="/"), {".": second(MIB, 2 * MIB)})

    assert total_memory(tmp_path) == MIB
    assert total_memory(tmp_path / "nothing") == machine


REAL = """
import os, sys
from pathlib import Path
from hookline_host.memory import read_memory
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
with open(sys.argv[2], "rb", buffering=0) as file:
    while file.read(1 << 20):
        pass
print(*read_memory())
"""


def test_a_real_group_is_read_after_a_large_file(
    group_of_128_mib: Path, tmp_path: Path
) -> None:
    """
    A file larger than the limit was read in the group: nearly all is still free.
    """
    file = tmp_path / "file"
    with file.open("wb") as written:
        for _ in range(160):
            written.write(bytes(MIB))
        os.fsync(written.fileno())
        os.posix_fadvise(written.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    command = [sys.executable, "-c", REAL, str(group_of_128_mib), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    available, limit, used = map(int, done.stdout.split())
    assert limit == 128 * MIB
    assert available == limit - used > 64 * MIB
