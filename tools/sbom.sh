#!/usr/bin/env bash
# target/sbom.cdx.json: the crates that are linked into the library, as CycloneDX 1.5. Equal sources give an equal file.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"

# The tool writes beside each Cargo.toml of the workspace.
name=scheduler-sbom.cdx
trap 'find . -name target -prune -o -name "$name.json" -exec rm -f {} +' EXIT
SOURCE_DATE_EPOCH=$(tools/source-date.sh) cargo cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps --no-default-features \
    --features "pg$PG" --override-filename "$name"
# What names this checkout names its root instead.
sed "s|file://$SCHEDULER_ROOT|file:///scheduler|g" "$name.json" >"$CARGO_TARGET_DIR/sbom.cdx.json"
python3 - "$CARGO_TARGET_DIR/sbom.cdx.json" <<'END'
"""Every crate that Cargo.lock says the library needs is in it, with a version and a license."""
import json
import os
import subprocess
import sys

bill = json.load(open(sys.argv[1]))
assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5"), bill["specVersion"]
listed = {(part["name"], part["version"]) for part in bill["components"]}
tree = subprocess.run(
    ["cargo", "tree", "--locked", "-p", "scheduler", "-e", "normal", "--prefix", "none", "--format", "{p}", "--no-default-features",
     "--features", "pg" + os.environ["PG"]], check=True, capture_output=True, text=True).stdout
linked = {(line.split()[0], line.split()[1].removeprefix("v")) for line in tree.splitlines() if line.strip()}
missing = sorted(linked - listed - {(bill["metadata"]["component"]["name"], bill["metadata"]["component"]["version"])})
if missing:
    sys.exit(f"error: the bill of materials lacks {missing}")
bare = sorted(part["name"] for part in bill["components"] if not part.get("licenses"))
if bare:
    sys.exit(f"error: the bill of materials has no license of {bare}")
END
