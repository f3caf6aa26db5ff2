#!/usr/bin/env bash
# The packages of the worker libraries, which install from a file: target/clients/.  An argument picks a language.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"

PACKAGES=$CARGO_TARGET_DIR/clients

# copy FOLDER: the sources that a package is made of, elsewhere, so that nothing is left beside them
copy() {
    local copied
    copied=$(mktemp -d)
    find "$1" \( -name __pycache__ -o -name '*.egg-info' -o -name build -o -name node_modules \) -prune -o -type f -print0 | xargs -0 cp --parents -t "$copied"
    cp LICENSE "$copied/$1/"
    printf '%s\n' "$copied/$1"
}

# A wheel and an sdist.
python() {
    local sources
    sources=$(copy clients/python)
    rm -f "$PACKAGES"/*.whl "$PACKAGES"/pg_scheduler_client-*.tar.gz
    quietly clients-python env SOURCE_DATE_EPOCH="$(tools/source-date.sh)" "$SCHEDULER_PYTHON" -m build --no-isolation --outdir "$PACKAGES" "$sources"
    rm -rf "${sources%/clients/python}"
}

# pg-scheduler-VERSION.tgz, installed once into an empty project.
typescript() {
    local project package
    rm -f "$PACKAGES"/pg-scheduler-*.tgz
    (cd clients/typescript && quietly clients-typescript npm pack --silent --pack-destination "$PACKAGES")
    package=$(echo "$PACKAGES"/pg-scheduler-*.tgz)
    project=$(mktemp -d)
    (cd "$project" && echo '{"private": true}' >package.json &&
        quietly clients-typescript npm install --no-audit --no-fund --prefer-offline "$package" &&
        node -e 'const { Worker } = require("pg-scheduler"); const { drain } = require("pg-scheduler/testing"); if (!Worker || !drain) process.exit(1)')
    rm -rf "$project"
}

mkdir -p "$PACKAGES"
if [ $# = 0 ]; then set -- python typescript; fi
for language in "$@"; do
    case $language in
        python | typescript) "$language" ;;
        *) fail "there is no client for: $language" ;;
    esac
done
find "$PACKAGES" -type f -printf 'target/clients/%P\n' | sort
