//! Servers that share scopes, and PL/Proxy (of Debian's package, which the set-up puts into the private server) in front of them.

use crate::environment::bin;
use crate::scheduler::one;
use crate::Cluster;
use postgres::Client;

/// Whether the private server has PL/Proxy (Debian 12 has one for PostgreSQL 15).
pub fn is_there() -> bool {
    let share = bin().to_string_lossy().replace("/lib/postgresql/", "/share/postgresql/").replace("/bin", "/extension");
    let is_there = std::path::Path::new(&share).join("plproxy.control").exists();
    if !is_there {
        assert!(!share.contains("/15/"), "PL/Proxy is missing in {share}: run tools/setup.sh");
        println!("skipped: there is no PL/Proxy for this server");
    }
    is_there
}

/// Which buckets the n-th of so many servers has.
pub fn part(n: usize, of: usize) -> String {
    format!("{{[{},{})}}", n * 1024 / of, (n + 1) * 1024 / of)
}

/// The PL/Proxy cluster `servers` in this database, of these libpq connection strings, each with its part of the buckets.
pub fn connect(router: &mut Client, servers: &[String]) {
    let options: Vec<String> = (0..1024)
        .map(|bucket| format!("p{bucket} '{}'", servers[bucket * servers.len() / 1024].replace('\'', "''")))
        .collect();
    router
        .batch_execute(&format!(
            "create extension if not exists plproxy; drop server if exists servers cascade;
             create server servers foreign data wrapper plproxy options ({}); create user mapping for public server servers",
            options.join(", ")
        ))
        .unwrap();
}

/// The router's stubs, as the first server prints them.
pub fn install(router: &mut Client, server: &mut Client) {
    let script: String = one(server, "select sched.router_sql('servers')");
    router.batch_execute(&script).unwrap_or_else(|error| panic!("{error:?}"));
}

/// So many databases of one cluster that share the scopes, and a router before them.
pub fn databases(cluster: &Cluster, count: usize) -> (Client, Vec<Client>) {
    let mut servers: Vec<Client> = (0..count)
        .map(|n| {
            cluster.execute(&format!("create database server{n}"));
            let mut server = cluster.with_extension(&format!("server{n}"));
            server.batch_execute(&format!("select sched.set_buckets('{}')", part(n, count))).unwrap();
            server
        })
        .collect();
    cluster.execute("create database router");
    let mut router = cluster.connect_as("postgres", "router");
    let socket: String = one(&mut router, "select current_setting('unix_socket_directories')");
    let strings: Vec<String> = (0..count).map(|n| format!("host={socket} port=5432 dbname=server{n}")).collect();
    connect(&mut router, &strings);
    install(&mut router, &mut servers[0]);
    (router, servers)
}
