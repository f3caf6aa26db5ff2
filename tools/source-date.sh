#!/usr/bin/env bash
# The moment that what is built here is dated: that of the last commit, or of the newest release where there is no history.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
git log -1 --format=%ct 2>/dev/null || date -u +%s -d "$(sed -n 's/^## [0-9.]* - //p' CHANGELOG.md | head -n 1)"
