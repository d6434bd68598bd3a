#!/bin/sh
# Puts a program of a Debian package, with all that it needs and this machine lacks, into
# FOLDER, without root and without a service, for tests. If that is impossible, it prints
# the reason and exits with 0; if that is because no server of packages answers, the
# reason is in FOLDER.unreachable as well, and tests are skipped with it.
# Usage: fetch_program.sh FOLDER PACKAGE PROGRAM [ARGUMENT-THAT-TRIES-IT]
set -u

folder=$1 package=$2 program=$3 trial=${4:---version}

give_up() {
    echo "No $package for the tests: $1."
    exit 0
}

give_up_for_now() {
    reason="$1: $(grep -m 1 . "$work/errors" || echo "it took too long")"
    echo "$reason" >"$folder.unreachable"
    give_up "$reason"
}

rm -f "$folder.unreachable"
if command -v "$program" >/dev/null; then
    echo "$program is at $(command -v "$program")."
    exit 0
fi
if [ -d "$folder/usr" ]; then
    echo "$program is in $folder."
    exit 0
fi
command -v apt-get >/dev/null || give_up "there is no apt-get"
command -v dpkg >/dev/null || give_up "there is no dpkg"

work=$(mktemp -d) || give_up "mktemp failed"
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/packages"

# Lists and cache of its own, so that neither root nor a lock is needed.
apt() {
    timeout 240 apt-get -qq \
        -o Dir::State::Lists="$work/lists" \
        -o Dir::Cache="$work/cache" \
        -o APT::Sandbox::User="$(id -un)" \
        -o Debug::NoLocking=true \
        -o Acquire::http::Timeout=30 \
        -o Acquire::Retries=1 \
        -o APT::Update::Error-Mode=any \
        "$@" 2>"$work/errors"
}

apt update || give_up_for_now "apt-get update failed"
simulated=$(apt install --simulate --no-install-recommends "$package") ||
    give_up "apt-get cannot install it: $(head -n 1 "$work/errors")"
needed=$(echo "$simulated" | sed -n 's/^Inst \([^ ]*\).*/\1/p')
# shellcheck disable=SC2086 # names of packages
(cd "$work/packages" && apt download ${needed:-$package}) ||
    give_up_for_now "apt-get download failed"
for each in "$work"/packages/*.deb; do
    dpkg -x "$each" "$work/tree" || give_up "dpkg failed"
done
# Under lib first, where what is under bin may be a script that looks for it.
found=$(find "$work/tree/usr" -name "$program" -type f -perm -1 | sort -r | head -n 1)
libraries=$(find "$work/tree/usr" -type d | tr '\n' ':')
LD_LIBRARY_PATH=$libraries "$found" "$trial" >/dev/null 2>&1 ||
    give_up "the package's $program does not run here"
# Only now, so that who finds the folder finds all.
mkdir -p "$(dirname "$folder")" && rm -rf "$folder" && mv "$work/tree" "$folder" ||
    give_up "cannot write to $folder"
echo "$program is in $folder."
