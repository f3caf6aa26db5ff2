"""Runs each query of a Grafana dashboard, whose path is the argument."""

import json
import sys

import psycopg

panels = json.load(open(sys.argv[1]))["panels"]
assert len(panels) > 5 and len({panel["id"] for panel in panels}) == len(panels)
with psycopg.connect(autocommit=True) as connection:
    for panel in panels:
        for target in panel["targets"]:
            rows = connection.execute(target["rawSql"]).fetchall()
            assert rows, f"{panel['title']}: nothing"
            assert any(value is not None for value in rows[0]), f"{panel['title']}: {rows[0]}"
print(len(panels), "panels")
