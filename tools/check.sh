#!/usr/bin/env bash
# What can be said about the sources without running them: format, lints, scripts, house rules.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT" || exit 1

# The toolchain whose lints this code was written to; another one has others, which are shown but do not fail.
LINTS_OF="rustc 1.95"

passed=0
failed=0
check() {
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'check failed: %s\n' "$name" >&2
    fi
}

lints() {
    local warnings=()
    case $(rustc --version) in "$LINTS_OF"*) warnings=(-- -D warnings) ;; esac
    cargo clippy --quiet --workspace --all-targets --no-default-features --features "scheduler/pg$PG,scheduler/pg_test" "${warnings[@]}"
}

# What the script that CREATE EXTENSION runs, and those of upgrades, would find through a search path that is not theirs.
search_paths() {
    local scripts
    mapfile -t scripts < <(find sql -maxdepth 1 -name 'scheduler*--*.sql' | sort)
    tools/install.sh >/dev/null || return
    scripts+=("$("$SCHEDULER_PG_CONFIG" --sharedir)"/extension/scheduler{,_cron}--"$(scheduler_version)".sql)
    scripts+=(sql/pg_cron/pg_cron--*.sql)
    local script broken=0 replaces
    for script in "${scripts[@]}"; do
        replaces=()
        # An update replaces functions and views in the schema that was created for us, where nobody else can have planted them.
        case $script in sql/*) replaces=(--ignore PS002 --ignore PS015) ;; esac
        # A body between BEGIN ATOMIC and END, which pgspot cannot read, is parsed when it is created: no later search path matters.
        sed '/^BEGIN ATOMIC$/,/^END;$/c AS $$ SELECT $$ SET search_path = pg_catalog, pg_temp;' "$script" >"$CARGO_TARGET_DIR/pgspot.sql"
        if ! "$CARGO_TARGET_DIR/python/bin/pgspot" "${replaces[@]}" "$CARGO_TARGET_DIR/pgspot.sql"; then
            echo "in $script: name the schema, or begin the script with SET LOCAL search_path = pg_catalog, pg_temp" >&2
            broken=1
        fi
    done
    return "$broken"
}

if cargo fmt --version >/dev/null 2>&1; then
    check "format (cargo fmt mends it)" cargo fmt --all -- --check -l
else
    echo "cargo fmt is not installed, skipped: rustup component add rustfmt"
fi
if cargo clippy --version >/dev/null 2>&1; then
    check "clippy" lints
else
    echo "cargo clippy is not installed, skipped: rustup component add clippy"
fi
if command -v shellcheck >/dev/null; then
    check "shellcheck" shellcheck -x -P SCRIPTDIR tools/*.sh packaging/*.sh .ci/run
fi
check "house rules" tools/check-rules.sh
check "the measurements' arithmetic" env PYTHONDONTWRITEBYTECODE=1 python3 -m unittest -q --buffer bench/tests/test_figures.py
check "measured numbers (bench/measured.py says how to mark them)" env PYTHONDONTWRITEBYTECODE=1 python3 bench/measured.py README.md docs/benchmarks.md
check "pages: sentences and links" python3 tools/check-docs.py --paths
check "search paths (pgspot)" search_paths
check "dependencies: licenses and sources (deny.toml)" cargo deny --log-level error --locked check --hide-inclusion-graph licenses bans sources
check "the Python client (mypy --strict)" "$SCHEDULER_PYTHON" -m mypy --strict --cache-dir "$CARGO_TARGET_DIR/mypy" clients/python/pg_scheduler pgrx-tests/drivers/typed_client.py
check "the examples for Celery (mypy --strict)" "$SCHEDULER_PYTHON" -m mypy --strict --ignore-missing-imports --cache-dir "$CARGO_TARGET_DIR/mypy" examples/celery/*.py
check "the example with FastAPI (mypy --strict)" env MYPYPATH=clients/python "$SCHEDULER_PYTHON" -m mypy --strict --cache-dir "$CARGO_TARGET_DIR/mypy" examples/fastapi/shop/*.py
check "the TypeScript client (tsc --strict)" clients/typescript/node_modules/.bin/tsc --noEmit -p clients/typescript
check "bill of materials (target/sbom.cdx.json)" tools/sbom.sh

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
