#!/usr/bin/env python3
"""Serves sched.openmetrics() to Prometheus on a port (9188): connection by the usual PG* variables, as a member of pg_monitor."""

import http.server
import sys

import psycopg


class Metrics(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            with psycopg.connect(
                autocommit=True, connect_timeout=5, client_encoding="utf8", options="-c statement_timeout=10s"
            ) as connection:
                body = connection.execute("SELECT sched.openmetrics()").fetchone()[0].encode()
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
