#!/usr/bin/env bash
# Every test on every server that is to be had, one after the other, also when one fails: 15 as Debian packages it, 16 as a package of PyPI has
# it (no contrib), 17 from its sources, and 18 from its sources with assertions. Two hours on two idle cores. A server that cannot be had is said
# to be skipped, and why; then this fails, for nothing passes because it was not looked at. SKIP=16 leaves one out on purpose.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

report=""
failed=0
for server in 15 16 17 18-assert; do
    version=${server%-assert}
    assert=
    if [ "$server" != "$version" ]; then assert=1; fi
    started=$SECONDS
    if [ "${SKIP:-}" = "$version" ]; then
        result="skipped, as SKIP says"
    elif ! PG=$version ASSERT=$assert tools/setup.sh; then
        result="skipped: there is no server to be had, see above"
        failed=1
    elif PG=$version ASSERT=$assert tools/test.sh; then
        result=passed
    else
        result=FAILED
        failed=1
    fi
    report="$report$(printf '    PostgreSQL %-11s%s, %s s' "$server" "$result" "$((SECONDS - started))")
"
done
printf '==> what ran\n%s' "$report"
exit "$failed"
