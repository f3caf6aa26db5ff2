#!/usr/bin/env bash
# The moment that what is built here is dated: that of the last commit; of a release its day, which an archive without history knows as well.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"

case $(scheduler_version) in *-dev)
    if [ -e .git ]; then exec git log -1 --format=%ct; fi
    ;;
esac
date -u +%s -d "$(sed -n 's/^## [0-9.]* - //p' CHANGELOG.md | head -n 1)"
