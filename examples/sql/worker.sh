#!/usr/bin/env bash
# Runs worker.sql for every execution of a queue.  The connection comes from the usual PG* environment variables.
#
#   worker.sh [--queue NAME] [--until-idle] [--max N]
#
# psql cannot wait for a notification, so an idle queue is looked at every few seconds.
set -euo pipefail

queue=default max=-1 until_idle=false poll_seconds=5
while [ $# != 0 ]; do
    case $1 in
        --queue) queue=$2 && shift 2 ;;
        --max) max=$2 && shift 2 ;;
        --until-idle) until_idle=true && shift ;;
        *) echo "usage: worker.sh [--queue NAME] [--until-idle] [--max N]" >&2 && exit 2 ;;
    esac
done

# At SIGTERM and Ctrl-C the current execution is finished first; setsid keeps Ctrl-C from psql.
stopping=false
trap 'stopping=true' TERM INT

finished=0
while ! $stopping && [ "$finished" != "$max" ]; do
    printed=$(setsid --wait psql -X -q -v queue="$queue" -f "$(dirname "$0")/worker.sql")
    if [ -n "$printed" ]; then
        printf '%s\n' "$printed"
        finished=$((finished + 1))
    elif $until_idle; then
        break
    else
        sleep "$poll_seconds" >/dev/null & # not in the foreground: a signal is to end the wait at once
        wait $! || kill $!
    fi
done
