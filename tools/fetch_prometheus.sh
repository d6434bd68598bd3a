#!/bin/sh
# Puts Debian's prometheus and promtool into FOLDER (default: .venv/prometheus), without
# root and without a service, for the tests in tests/deploy. If that is
# impossible, it prints the reason and exits with 0; these tests are then skipped.
set -u

folder=${1:-.venv/prometheus}
bin=$folder/usr/bin

give_up() {
    echo "No Prometheus for the tests: $1."
    exit 0
}

if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
    echo "Prometheus is at $(command -v prometheus)."
    exit 0
fi
if [ -x "$bin/prometheus" ] && [ -x "$bin/promtool" ]; then
    echo "Prometheus is at $bin."
    exit 0
fi
command -v apt-get >/dev/null || give_up "there is no apt-get"
command -v dpkg >/dev/null || give_up "there is no dpkg"

work=$(mktemp -d) || give_up "mktemp failed"
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/package"

# Lists and cache of its own, so that neither root nor a lock is needed.
apt() {
    apt-get -qq \
        -o Dir::State::Lists="$work/lists" \
        -o Dir::Cache="$work/cache" \
        -o APT::Sandbox::User="$(id -un)" \
        -o Debug::NoLocking=true \
        -o Acquire::http::Timeout=30 \
        -o Acquire::Retries=1 \
        -o APT::Update::Error-Mode=any \
        "$@" 2>"$work/errors"
}

apt update || give_up "apt-get update failed: $(head -n 1 "$work/errors")"
(cd "$work/package" && apt download prometheus) ||
    give_up "apt-get download failed: $(head -n 1 "$work/errors")"
dpkg -x "$work"/package/prometheus_*.deb "$work/tree" || give_up "dpkg failed"
"$work/tree/usr/bin/prometheus" --version >/dev/null 2>&1 ||
    give_up "the package's prometheus does not run here"
# Only now, and promtool first: who finds prometheus finds both.
mkdir -p "$bin" 2>/dev/null || give_up "cannot make $bin"
mv "$work/tree/usr/bin/promtool" "$work/tree/usr/bin/prometheus" "$bin/" ||
    give_up "cannot write to $bin"
echo "Prometheus is at $bin."
