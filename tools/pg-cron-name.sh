#!/usr/bin/env bash
# Installs the empty extension pg_cron, for files that ask for that name, beside scheduler_cron: make install PG_CRON_NAME=1. It takes the
# place of no real one.
#
#   tools/pg-cron-name.sh PG_CONFIG [check]     below DESTDIR if that is set; check: only says whether it may
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"

scripts=${DESTDIR:-}$("$1" --sharedir)/extension
for there in "$scripts/pg_cron.control" "${DESTDIR:-}$("$1" --pkglibdir)/pg_cron.so"; do
    if [ -e "$there" ] && ! grep -qs "^requires = 'scheduler_cron'" "$there"; then
        fail "pg_cron itself is installed: $there. Remove its package first (apt remove postgresql-NN-cron)."
    fi
done
if [ "${2:-}" = check ]; then exit; fi
as_owner() { "$@"; }
if [ -z "${DESTDIR:-}" ] && [ ! -w "$scripts" ]; then as_owner() { sudo "$@"; }; fi
as_owner mkdir -p "$scripts"
as_owner cp --no-preserve=all --remove-destination sql/pg_cron/pg_cron.control sql/pg_cron/pg_cron--1.6.sql "$scripts/"
