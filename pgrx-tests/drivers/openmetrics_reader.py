"""A strict reader of OpenMetrics reads sched.openmetrics(), and finds what sched.metrics() says."""

import psycopg
from prometheus_client.openmetrics.parser import text_string_to_metric_families

with psycopg.connect() as connection:
    text = connection.execute("SELECT sched.openmetrics()").fetchone()[0]
    rows = connection.execute("SELECT name, labels, kind, value, help FROM sched.metrics()").fetchall()

families = list(text_string_to_metric_families(text))
read = {(sample.name, *sorted(sample.labels.items())): (family.type, sample.value, family.documentation)
        for family in families for sample in family.samples}
said = {(name, *sorted(labels.items())): (kind, value, text) for name, labels, kind, value, text in rows}
assert read.keys() == said.keys(), read.keys() ^ said.keys()
for key, (kind, value, documentation) in said.items():
    assert read[key][0] == kind and read[key][2] == documentation, (key, read[key])
    # A gauge may have changed in between.
    assert kind == "gauge" or read[key][1] == value, (key, value, read[key])
assert all(family.unit == ("seconds" if family.name.endswith("_seconds") else "") for family in families)
print(len(read), "samples")
