#!/usr/bin/env python3
"""Serves sched.openmetrics() to Prometheus on a port (9188): connection by the usual PG* variables, as a member of pg_monitor."""

import http.server
import sys

import psycopg


SEVERITIES = {"ok": 0, "warning": 1, "critical": 2}


def family(health):
    """sched.health() as a family of gauges: 0 where a component is ok, 1 for a warning, 2 where it is critical."""
    lines = [f'sched_health{{component="{component}"}} {SEVERITIES[severity]}' for component, severity in health]
    return "".join(f"{line}\n" for line in ["# TYPE sched_health gauge", *lines])


class Metrics(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            with psycopg.connect(
                autocommit=True, connect_timeout=5, client_encoding="utf8", options="-c statement_timeout=10s"
            ) as connection:
                text = connection.execute("SELECT sched.openmetrics()").fetchone()[0]
                health = connection.execute("SELECT component, severity FROM sched.health()").fetchall()
            body = text.replace("# EOF", family(health) + "# EOF").encode()
        except Exception as error:
            # Prometheus then says that the target is down.
            self.send_error(503, explain=str(error))
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """A line for each scrape says nothing."""


port = int(sys.argv[1]) if len(sys.argv) > 1 else 9188
http.server.ThreadingHTTPServer(("localhost", port), Metrics).serve_forever()
