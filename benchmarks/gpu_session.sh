#!/usr/bin/env bash
# Measures on a GPU, within minutes, what this project wants to know of one.
#
# usage: [PARTS="copy products decode prompts nano engines tests"] [MODELS="Qwen3-0.6B …"]
#        [OPTIONS="--option NAME=VALUE …"] [REPEATS=3] [PYTHON=python3]
#        benchmarks/gpu_session.sh OUT
#
# A model of 8B, whose start and steps take longest, has one repeat and one prompt.
# Nothing is installed: the sources are imported where they lie. Every part has its
# own time limit, and the script updates OUT/results.json and OUT/table.md after each.
# `copy` and `products` are measured before each model, too.
set -u -o pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
parts=" ${PARTS:-copy products decode prompts nano engines tests} "
models=${MODELS:-Qwen3-0.6B Llama-3.2-1B Llama-3.1-8B}
python=${PYTHON:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$root" || exit
PYTHONPATH=$("$python" benchmarks/source_tree.py "$scratch/installed") || exit
export PYTHONPATH PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

has() { [[ $parts == *" $1 "* ]]; }

# limited NAME SECONDS COMMAND…: runs a part within its time limit, and notes a failure.
limited() {
    local name=$1 seconds=$2 started=$SECONDS status
    shift 2
    timeout --signal=INT --kill-after=10 "$seconds" "$@" 2>&1 | tee -a "$out/session.log"
    status=${PIPESTATUS[0]}
    echo "== $name: status $status after $((SECONDS - started)) s" | tee -a "$out/session.log"
    if ((status)); then
        note "$name" "status $status after $((SECONDS - started)) s (limit $seconds s)"
    fi
    "$python" benchmarks/gpu_results.py "$out/results.json" >"$out/table.md"
    return "$status"
}

note() { "$python" benchmarks/gpu_results.py "$out/results.json" "$1" "$2"; }

if has copy || has products; then
    limited limits 60 "$python" benchmarks/gpu.py --work limits --out "$scratch/limits.json" &&
        note limits "$(tr -d '\n' <"$scratch/limits.json")"
fi
for model in $models; do
    works=()
    has decode && works+=(decode-1 decode-32 decode-256)
    has prompts && [[ $model != *-8B ]] && works+=(prompt-2048)
    has prompts && works+=(prompt-8192)
    has nano && [[ $model == Qwen3-0.6B ]] && works+=(nano)
    ((${#works[@]})) || continue
    seconds=110 repeats=3
    [[ $model == *-8B ]] && seconds=150 repeats=1
    # shellcheck disable=SC2086
    limited "$model" "${MODEL_SECONDS:-$seconds}" "$python" benchmarks/gpu_steps.py --model "$model" \
        --works "${works[@]}" --repeats "${REPEATS:-$repeats}" --out "$out/results.json" ${OPTIONS:-}
done
if has engines; then
    limited engines 60 "$python" benchmarks/gpu_neighbours.py --out "$out/results.json"
fi
if has tests; then
    export KERNEL_DEVICE=cuda TRITON_INTERPRET=0
    own=(tests/core/kernels/gpu/test_gpu_{engine,attention,new_tokens,layers,sampling,rejection}.py)
    # shellcheck disable=SC2086
    limited tests "${TEST_SECONDS:-120}" "$python" -m pytest -q -n 14 -p no:cacheprovider \
        -o filterwarnings=default -m "not exhaustive" \
        ${TESTS:-${own[*]}}
    note tests "$(tail -n 2 "$out/session.log" | tr '\n' ' ')"
    "$python" benchmarks/gpu_results.py "$out/results.json" >"$out/table.md"
fi
cat "$out/table.md"
