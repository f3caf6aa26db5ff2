"""The throw-away cluster of the benchmark: one server, a database for each contestant, settings recorded."""

import os
import pathlib
import shutil
import subprocess
import time

import psycopg

from board import Unable, why

SETTINGS = {
    "listen_addresses": "''",
    "max_connections": "100",
    "max_worker_processes": "16",
    "shared_buffers": "'1GB'",
    "max_wal_size": "'8GB'",
    "checkpoint_timeout": "'30min'",
    "synchronous_commit": "on",
    "fsync": "off",
    "full_page_writes": "on",
    "wal_compression": "off",
    "autovacuum": "on",
    "jit": "off",
    "log_min_messages": "warning",
    "pg_stat_statements.track": "none",
}
CROSSWISE = 60  # seconds for which a statement that met a worker crosswise is tried again


class Server:
    """Starts on construction with `preload`; `close` removes it. Its programs lie in `bin`."""

    def __init__(self, folder: pathlib.Path, bin: pathlib.Path, run_as: str):
        self.folder, self.bin, self.run_as = folder, bin, run_as
        self.data = folder / "data"
        self.preload = None
        self.prepared = {}  # database of a contestant → why it cannot be set up, or None

    def _command(self, *words: str) -> None:
        prefix = ["runuser", "-u", self.run_as, "--"] if self.run_as else []
        environment = {k: v for k, v in os.environ.items() if k != "RUST_BACKTRACE"} | {"LC_ALL": "C"}
        done = subprocess.run(
            prefix + list(words), cwd="/", env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{words[0]}: {done.stderr.strip()}")

    def create(self) -> None:
        self.close()
        self.prepared = {}
        self.folder.mkdir(mode=0o700, parents=True)
        if self.run_as:
            shutil.chown(self.folder, self.run_as, self.run_as)
        self._command(
            str(self.bin / "initdb"), "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C",
            "--no-sync", "--pgdata", str(self.data),
        )

    def start(self, preload: str = "scheduler", **settings: str) -> None:
        """Starts the server, or starts it anew when it runs with other libraries."""
        wanted = (preload, tuple(sorted(settings.items())))
        if self.preload == wanted:
            return
        self.stop()
        lines = SETTINGS | {"shared_preload_libraries": f"'{preload}'", "unix_socket_directories": f"'{self.folder}'"}
        text = "".join(f"{name} = {value}\n" for name, value in (lines | settings).items())
        (self.data / "bench.conf").write_text(text)
        main = self.data / "postgresql.conf"
        if "bench.conf" not in main.read_text():
            with main.open("a") as file:
                file.write("include 'bench.conf'\n")
        self._command(
            str(self.bin / "pg_ctl"), "start", "-s", "-w", "-t", "60", "-D", str(self.data), "-l", f"{self.folder}/log"
        )
        self.preload = wanted

    def stop(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self._command(str(self.bin / "pg_ctl"), "stop", "-s", "-m", "fast", "-D", str(self.data))
        self.preload = None

    def close(self) -> None:
        """Ends the server and removes all of it, in whatever state it is."""
        if (self.data / "postmaster.pid").exists():
            try:
                self._command(str(self.bin / "pg_ctl"), "stop", "-s", "-m", "immediate", "-D", str(self.data))
            except RuntimeError as error:
                print(f"the server was not there to be stopped: {why(error)}", flush=True)
        for last_try in (False, False, False, True):
            if self.folder.exists():
                # its processes end when they find it dead, and may write until then
                shutil.rmtree(self.folder, ignore_errors=not last_try)
            if not self.folder.exists():
                break
            time.sleep(1)
        self.preload = None

    def connect(self, database: str, user: str = "postgres") -> psycopg.Connection:
        return psycopg.connect(host=str(self.folder), dbname=database, user=user, autocommit=True)

    def sql(self, database: str, text: str, *arguments):
        """Runs one or more statements as superuser; the rows of the last. Emptying tables that a worker has in its hands
        may meet it crosswise, as often as it has work, and is tried again."""
        end = time.monotonic() + CROSSWISE
        with self.connect(database) as connection:
            while True:
                try:
                    cursor = connection.execute(text, arguments or None)
                    break
                except psycopg.errors.DeadlockDetected:
                    if time.monotonic() > end:
                        raise
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []

    def database(self, name: str, *scripts: str) -> None:
        """Creates a database anew, with role `app`, and runs the scripts in it."""
        if not self.sql("postgres", "SELECT 1 FROM pg_roles WHERE rolname = 'app'"):
            self.sql("postgres", "CREATE ROLE app LOGIN")
        self.sql("postgres", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.sql("postgres", f"CREATE DATABASE {name}")
        self.sql(name, "GRANT CREATE ON SCHEMA public TO app")
        for script in scripts:
            self.sql(name, script)

    def set(self, **settings: str) -> None:
        """Changes settings of the running server."""
        for name, value in settings.items():
            self.sql("postgres", f"ALTER SYSTEM SET {name.replace('__', '.')} = '{value}'")
        self.sql("postgres", "SELECT pg_reload_conf()")
        time.sleep(0.2)

    def wait(self, connection, question: str, seconds: float, *, notified: bool = False) -> None:
        """Until the question is answered with true; asked also when a connection that listens is `notified`.

        It is asked for a tenth of the time at most: among the dead rows of 1,000,000 fires one probe takes a tenth of a second,
        and asked all the time it would take one of two cores from what it measures."""
        end = time.monotonic() + seconds
        while True:
            asked = time.monotonic()
            if connection.execute(question).fetchone()[0]:
                return
            if asked > end:
                raise Unable(f"not after {seconds:.0f} s: {question}")
            pause = max(0.004, 9 * (time.monotonic() - asked))
            if notified and pause < 0.01:
                for _ in connection.notifies(timeout=pause, stop_after=1):
                    pass
            else:
                time.sleep(pause)

    def wal(self) -> int:
        """Bytes of WAL written since the cluster was made."""
        return int(self.sql("postgres", "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")[0][0])

    def memory(self, kind: str) -> int:
        """Private bytes of the process that pg_stat_activity calls so.

        Not from smaps_rollup, which also counts shared buffers as private while no other process happens to have them mapped:
        most of what a worker showed there was that."""
        pid = self.sql("postgres", "SELECT pid FROM pg_stat_activity WHERE backend_type = %s"
                       " AND coalesce(datname, 'ours') = 'ours'", kind)
        if not pid:
            raise Unable(f"no {kind} is to be seen in pg_stat_activity")
        found, private = 0, False
        for line in pathlib.Path(f"/proc/{pid[0][0]}/smaps").read_text().splitlines():
            first, second = line.split()[:2]
            if not first.endswith(":"):
                private = second.endswith("p")  # a mapping: its addresses, then rwxp or rwxs
            elif private and first.startswith("Private_"):
                found += int(second)
        return found * 1024

    def cpu(self) -> float:
        """Seconds of CPU that the server's processes have used: those that have ended, and the workers that still run."""
        time.sleep(0.1)  # a process that has just ended is nobody's for a moment
        main = int((self.data / "postmaster.pid").read_text().split()[0])
        ticks = sum(cpu_ticks(main)[index] for index in range(4))
        for child in pathlib.Path(f"/proc/{main}/task/{main}/children").read_text().split():
            try:
                ticks += sum(cpu_ticks(int(child))[:2])
            except OSError:  # it has ended since; its parent will have its time at the next look
                pass
        return ticks / os.sysconf("SC_CLK_TCK")

    def settled(self) -> None:
        """Writes what is dirty, so that no contestant pays for another's."""
        self.sql("postgres", "CHECKPOINT")


def cpu_ticks(pid: int):
    """User and system time of a process, then those of its ended children."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(value) for value in fields[11:15]]
