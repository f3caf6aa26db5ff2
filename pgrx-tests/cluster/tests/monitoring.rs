//! What is shipped in `ops/`, with the programs that it is for: Debian's Prometheus and exporters read a live server.

use scheduler_cluster_tests::proc::{self, Program, Signal};
use scheduler_cluster_tests::scheduler::{dispatcher, switch_off, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{bin, conn, monitoring, python, repository, run, wait_for, wait_until, Cluster};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A busy machine starts Prometheus in many seconds.
const PATIENCE: Duration = Duration::from_secs(120);

fn shipped(name: &str) -> PathBuf {
    repository().join("ops").join(name)
}

/// A database `app` in which something was fired, claimed, ended and skipped, and in which a role `prometheus` may look.
fn cluster_with_numbers() -> Cluster {
    let cluster = Cluster::new();
    cluster.execute("create database app");
    let mut app = cluster.with_extension("app");
    switch_off(&cluster, &mut app);
    app.batch_execute(
        "create role prometheus login in role pg_monitor;
         select sched.define_job('mail', queue => 'work', max_attempts => 1), sched.define_job(E'a \"quote\", a \\\\ and\\na line', queue => 'odd ö');
         select sched.create_schedule('s', 'every 1 day', 'mail');
         select sched.enqueue('mail'), sched.enqueue(E'a \"quote\", a \\\\ and\\na line')",
    )
    .unwrap();
    for call in [
        "select sched.fire_now('s')",
        "select sched.dispatch_due()",
        "select sched.finish_success(execution_id, lease_token) from sched.claim('work')",
        "select sched.finish_failure(execution_id, lease_token, 'bad', 'bad') from sched.claim('work')",
        // Its plan times are half a day away from now, so that none is just in time.
        "select sched.create_schedule('missed', 'every 1 day from ' || date_trunc('second', now() - interval '10 days 12 hours')::text, 'mail',
                                      scope_id => 'missed', catch_up => 'skip_missed')",
        "select sched.dispatch_due()",
        &format!("update {TIMER_TABLE} t
            set next_plan_time = next_plan_time - interval '5 days', fire_at = fire_at - interval '5 days', cursor_at = cursor_at - interval '5 days'
           from sched.schedule s where s.schedule_id = t.schedule_id and s.schedule_name = 'missed'"),
        TIMERS_ARE_NEW,
        "select sched.dispatch_due()",
    ] {
        app.batch_execute(call).unwrap_or_else(|error| panic!("{call}: {error:?}"));
    }
    cluster
}

/// A port that nobody has now.
fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// What a server on this machine answers to GET; none where nobody does, or it is no 200.
fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.lines().next()?.contains(" 200 ").then(|| body.to_owned())
}

/// Starts a program that serves on a port, and returns when it answers with what is expected.
fn serve(what: &str, folder: &Path, path: &str, expected: &str, command: impl Fn(u16) -> Command) -> (Program, u16) {
    let log = folder.join(format!("{what}.log"));
    let start = || {
        let port = free_port();
        (Program::start(command(port), &log), port)
    };
    let mut served = start();
    wait_until(what, PATIENCE, || {
        if served.0.ended().is_some() {
            // Somebody else has taken the port.
            println!("{what} has ended: {}", served.0.printed());
            served = start();
        }
        get(served.1, path).filter(|body| body.contains(expected))
    });
    served
}

/// Writes a shipped file with some words of it replaced, each of which it has.
fn adapted(name: &str, folder: &Path, replaced: &[(&str, String)]) -> PathBuf {
    let mut text = fs::read_to_string(shipped(name)).unwrap();
    for (word, by) in replaced {
        assert!(text.contains(word), "{name} has no {word}");
        text = text.replace(word, by);
    }
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// The first value that a query of Prometheus has.
fn prometheus_value(port: u16, query: &str) -> Option<f64> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let body = get(port, &format!("/api/v1/query?query={encoded}"))?;
    let (_, value) = body.split_once("\"value\":[")?;
    value.split('"').nth(1)?.parse().ok()
}

#[test]
fn prometheus_reads_the_metrics_by_each_of_three_ways() {
    let cluster = cluster_with_numbers();
    // Files of the test's own: the cluster's folder belongs to the server.
    let folder = std::env::temp_dir().join(format!("scheduler-monitoring-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let host = cluster.folder().display().to_string();

    let (http, http_port) = serve("openmetrics_http", &folder, "/metrics", "# EOF", |port| {
        let mut server = Command::new(python());
        server.arg(shipped("openmetrics_http.py")).arg(port.to_string());
        cluster.client(server, "prometheus", "app")
    });
    let config = adapted("sql_exporter.yml", &folder, &[("/var/run/postgresql", host.clone()), ("15s", "1s".into())]);
    let (sql, sql_port) = serve("sql_exporter", &folder, "/metrics", "sched_fires_total", |port| {
        let mut exporter = monitoring("prometheus-sql-exporter");
        exporter.arg("-config.file").arg(&config).arg(format!("-web.listen-address=127.0.0.1:{port}"));
        exporter
    });
    let (queries, queries_port) = serve("postgres_exporter", &folder, "/metrics", "database=\"app\"", |port| {
        let mut exporter = monitoring("prometheus-postgres-exporter");
        exporter.arg(format!("--extend.query-path={}", shipped("postgres_exporter.yml").display()));
        exporter.args(["--disable-default-metrics", "--disable-settings-metrics"]);
        exporter.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        exporter.env("DATA_SOURCE_NAME", format!("user=prometheus dbname=app host={host} sslmode=disable"));
        exporter
    });
    adapted("alerts.yml", &folder, &[]);
    let config = adapted(
        "prometheus.yml",
        &folder,
        &[
            ("localhost:9188", format!("localhost:{http_port}")),
            ("localhost:9237", format!("localhost:{sql_port}")),
            ("localhost:9187", format!("localhost:{queries_port}")),
            ("15s", "1s".into()),
        ],
    );
    let (prometheus, port) = serve("prometheus", &folder, "/-/ready", "", |port| {
        let mut prometheus = monitoring("prometheus");
        prometheus.arg(format!("--config.file={}", config.display()));
        prometheus.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        prometheus.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        prometheus
    });
    for instance in [http_port, sql_port, queries_port] {
        let of = |name: &str, labels: &str| format!("{name}{{instance=\"localhost:{instance}\"{labels}}}");
        let mail = ",job=\"mail\",queue=\"work\"";
        for (query, expected) in [
            (of("sched_fires_total", mail), 1.0),
            (of("sched_enqueued_total", ",job=\"a \\\"quote\\\", a \\\\ and\\na line\",queue=\"odd ö\""), 1.0),
            (of("sched_finishes_total", &format!("{mail},outcome=\"SUCCESS\"")), 1.0),
            (of("sched_finishes_total", &format!("{mail},outcome=\"FAILED\"")), 1.0),
            (of("sched_lateness_seconds_bucket", &format!("{mail},le=\"+Inf\"")), 2.0),
            (of("sched_duration_seconds_count", mail), 2.0),
            (of("sched_queue_depth", ",queue=\"odd ö\""), 1.0),
            (of("sched_queue_depth", ",queue=\"work\""), 0.0),
            (of("sched_timers_due", ""), 0.0),
        ] {
            let mut found = None;
            wait_until(&format!("{query} to be {expected}"), PATIENCE, || {
                found = prometheus_value(port, &query);
                (found == Some(expected)).then_some(())
            });
        }
        let many = format!("count({})", of("", ",__name__=~\"sched_.*\""));
        assert!(prometheus_value(port, &many).unwrap() > 50.0, "{instance}");
    }
    // By the exporters also what is well; here dispatching is switched off.
    for instance in [sql_port, queries_port] {
        let query = format!("sched_health{{instance=\"localhost:{instance}\",component=\"dispatcher\"}}");
        wait_until(&query, PATIENCE, || (prometheus_value(port, &query) == Some(1.0)).then_some(()));
    }
    // The rules are loaded. What failed and was missed since the server's start is told, by each of the three; nothing is critical.
    for rule in ["SchedulerRunsFail", "SchedulerPlanTimesAreMissed"] {
        let query = format!("count(ALERTS{{alertname=\"{rule}\",alertstate=\"firing\",job=\"mail\"}})");
        wait_until(&query, PATIENCE, || (prometheus_value(port, &query) == Some(3.0)).then_some(()));
    }
    let alerts = get(port, "/api/v1/alerts").unwrap();
    assert!(!alerts.contains("critical"), "{alerts}");
    // They write into the folder until they have ended; what is left of it is nobody's trouble.
    drop((prometheus, queries, sql, http));
    let _ = fs::remove_dir_all(&folder);
}

/// The first failure of a job makes a counter appear, which never grows after that; and one that failed before anybody looked says nothing new.
#[test]
fn the_first_failure_of_a_job_is_told() {
    let cluster = cluster_with_numbers();
    let folder = std::env::temp_dir().join(format!("scheduler-first-failure-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (http, http_port) =
        serve("openmetrics_http", &folder, "/metrics", "sched_health{component=\"home\"} 0", |port| {
            let mut server = Command::new(python());
            server.arg(shipped("openmetrics_http.py")).arg(port.to_string());
            cluster.client(server, "prometheus", "app")
        });
    // The window of the rules in seconds: the rest of them is as it is shipped.
    adapted("alerts.yml", &folder, &[("15m", "10s".into()), ("< 900", "< 10".into())]);
    let config = adapted(
        "prometheus.yml",
        &folder,
        &[("localhost:9188", format!("localhost:{http_port}")), ("15s", "1s".into())],
    );
    let mut app = cluster.connect_as("postgres", "app");
    let age = "select extract(epoch from clock_timestamp() - to_timestamp(value)) > 15 from sched.metrics() where name = 'sched_counters_reset_timestamp_seconds'";
    wait_for(&mut app, age, PATIENCE);
    let (prometheus, port) = serve("prometheus", &folder, "/-/ready", "", |port| {
        let mut prometheus = monitoring("prometheus");
        prometheus.arg(format!("--config.file={}", config.display()));
        prometheus.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        prometheus.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        prometheus
    });
    let known = "count_over_time(sched_timers_armed[60s])";
    wait_until("looks of half a minute", PATIENCE, || prometheus_value(port, known).filter(|count| *count > 25.0));
    let told = |job: &str| {
        let query = format!("ALERTS{{alertname=\"SchedulerRunsFail\",alertstate=\"firing\",job=\"{job}\"}}");
        prometheus_value(port, &query)
    };
    assert_eq!(told("mail"), None);
    app.batch_execute("select sched.define_job('first', queue => 'first', max_attempts => 1), sched.enqueue('first')")
        .unwrap();
    app.batch_execute("select sched.finish_failure(execution_id, lease_token) from sched.claim('first')").unwrap();
    wait_until("the alert", PATIENCE, || told("first"));
    assert_eq!(told("mail"), None);
    drop((prometheus, http));
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn the_rules_are_valid_and_say_what_their_tests_expect() {
    for arguments in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]] {
        let mut promtool = monitoring("promtool");
        promtool.current_dir(repository().join("ops")).args(arguments);
        run(promtool);
    }
    let mut promtool = monitoring("promtool");
    promtool.current_dir(repository().join("ops")).args(["check", "config", "prometheus.yml"]);
    run(promtool);
}

#[test]
fn a_strict_reader_reads_the_text_and_each_query_of_the_board_has_an_answer() {
    let cluster = cluster_with_numbers();
    for (program, argument) in [("openmetrics_reader.py", None), ("grafana_queries.py", Some(shipped("grafana.json")))]
    {
        let mut script = Command::new(python());
        script.arg(repository().join("pgrx-tests/drivers").join(program)).args(argument);
        println!("{}", run(cluster.client(script, "prometheus", "app")));
    }
}

#[test]
fn the_check_of_nagios_ends_with_what_is_worst() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create role nagios login in role pg_monitor").unwrap();
    let check = || {
        let mut check = Command::new(shipped("check_scheduler"));
        check.arg(format!("host={} dbname=postgres user=nagios", cluster.folder().display()));
        let path = std::env::var("PATH").unwrap_or_default();
        check.env("PATH", format!("{}:{path}", bin().display())).env("PGCONNECT_TIMEOUT", "20");
        let output = check.output().unwrap();
        (output.status.code(), conn::text(&output))
    };
    wait_until("all well", SOON, || (check() == (Some(0), "SCHEDULER: all well\n".to_owned())).then_some(()));
    db.batch_execute("select sched.define_job('j'), sched.create_schedule('s', 'every 1 second', 'j')").unwrap();
    proc::freeze(dispatcher(&mut db).unwrap());
    wait_until("what is critical", SOON, || {
        let (code, said) = check();
        (code == Some(2) && said.starts_with("SCHEDULER: dispatch: ")).then_some(())
    });
    proc::kill(dispatcher(&mut db).unwrap(), Signal::CONT);
    // Notices are no part of an answer.
    wait_until("all well again", SOON, || (check() == (Some(0), "SCHEDULER: all well\n".to_owned())).then_some(()));
    db.batch_execute(
        "alter role nagios set log_min_duration_statement = 0; alter role nagios set client_min_messages = debug1",
    )
    .unwrap();
    assert_eq!(check(), (Some(0), "SCHEDULER: all well\n".to_owned()));
    drop(db);
    cluster.stop(scheduler_cluster_tests::Shutdown::Fast);
    let (code, said) = check();
    assert!(code == Some(3) && said.contains("psql: error"), "{code:?}: {said}");
}
