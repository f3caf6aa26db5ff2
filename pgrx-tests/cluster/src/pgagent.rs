//! Debian's pgAgent beside the extension.

use crate::cluster::Cluster;
use crate::environment::bin;
use postgres::Client;
use std::process::{Child, Command, Stdio};

/// Whether there is a pgAgent for this server (Debian 12 has one for PostgreSQL 15).
#[must_use]
pub fn is_there() -> bool {
    let share = bin().to_string_lossy().replace("/lib/postgresql/", "/share/postgresql/").replace("/bin", "/extension");
    let is_there = std::path::Path::new(&share).join("pgagent.control").exists();
    assert!(is_there || !share.contains("/15/"), "pgAgent is missing in {share}: run tools/setup.sh");
    if !is_there {
        println!("skipped: there is no pgAgent for this server");
    }
    is_there
}

/// A superuser's connection to a database with both extensions.
pub fn database(cluster: &Cluster) -> Client {
    let mut client = cluster.connect();
    client.batch_execute("create extension scheduler; create extension pgagent").unwrap();
    client
}

/// What its next-time function says, at any time: it asks `now()` without saying whose.
pub const ORACLE: &str = "create schema oracle;
    create function oracle.now() returns timestamptz language plpgsql as $$ begin return current_setting('oracle.now')::timestamptz; end $$;
    create function oracle.walk(id int, at timestamptz, until timestamptz, most int) returns timestamptz[] language plpgsql as $$
    declare found timestamptz[] := '{}'; s pgagent.pga_schedule;
    begin
        select * into s from pgagent.pga_schedule where jscid = id;
        for i in 1 .. most loop
            perform set_config('oracle.now', at::text, false);
            at := pgagent.pga_next_schedule(s.jscid, s.jscstart, s.jscend, s.jscminutes, s.jschours, s.jscweekdays, s.jscmonthdays, s.jscmonths);
            exit when at is null or at > until;
            found := found || at;
        end loop;
        return found;
    end $$;
    create function oracle.bits(length int, set int[]) returns bool[] language sql as
    $$ select array_agg(i = any (set) order by i) from generate_series(1, length) as i $$";

/// pgAgent itself at work in database postgres, at which it looks each second; it ends with the value that is returned, or with this
/// process.
#[must_use]
pub fn daemon(cluster: &Cluster) -> Daemon {
    let program = bin().join("pgagent");
    assert!(program.exists(), "{} is missing: run tools/setup.sh", program.display());
    let connection = format!("host={} user=postgres dbname=postgres", cluster.folder().display());
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$@\" </dev/null & cat >/dev/null; kill $!", "pgagent"]).arg(program).args([
        "-f",
        "-t",
        "1",
        &connection,
    ]);
    shell.env("LD_LIBRARY_PATH", bin().join("../lib")).stdin(Stdio::piped());
    Daemon(shell.spawn().expect("cannot start sh"))
}

/// A pgAgent that runs.
#[derive(Debug)]
pub struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
