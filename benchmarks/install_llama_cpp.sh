#!/bin/sh
# Puts llama.cpp's prebuilt libraries and a driver into a folder, for benchmarks/compare.py.
# usage: install_llama_cpp.sh FOLDER        (needs npm, git and cc; some 50 MB)
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
version=3.22.1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# The libraries are in one package, and the headers of the same release in the other.
npm pack --silent "@node-llama-cpp/linux-x64@$version" "node-llama-cpp@$version" >/dev/null
for package in *.tgz; do
    tar -xzf "$package"
    mv package "${package%.tgz}"
done
cp "node-llama-cpp-linux-x64-$version"/bins/linux-x64/*.so "$folder"
git clone --quiet "node-llama-cpp-$version/llama/gitRelease.bundle" source 2>/dev/null

# What a folder has is found beside the driver, whichever variant the processor needs.
cc -O2 -Wall -Werror -I source/include -I source/ggml/include \
    -o "$folder/driver" "$here/llama_cpp_driver.c" \
    -L "$folder" -l:libllama.v0.5.0.so -l:libggml.v0.5.0.so -l:libggml-base.so \
    -Wl,-rpath,'$ORIGIN' -Wl,-rpath-link,"$folder"
echo "$folder/driver"
