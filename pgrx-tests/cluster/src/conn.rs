//! Connections to a cluster: as any role, to any database, and for client programs that read the usual `PG*` variables.

use crate::cluster::Cluster;
use crate::environment::bin;
use postgres::error::{DbError, SqlState};
use postgres::{Client, Config, NoTls};
use std::process::{Command, Output, Stdio};

/// The error of the server that statements raise.
pub fn refusal(client: &mut Client, statement: &str) -> DbError {
    let error = client.batch_execute(statement).expect_err(statement);
    error.as_db_error().cloned().unwrap_or_else(|| panic!("{statement}: {error}"))
}

/// Its SQLSTATE.
pub fn refused(client: &mut Client, statement: &str) -> SqlState {
    refusal(client, statement).code().clone()
}

impl Cluster {
    /// The superuser `postgres` in the database `postgres`.
    pub fn connect(&self) -> Client {
        self.connect_as("postgres", "postgres")
    }

    /// Any role in any database; nobody needs a password.
    pub fn connect_as(&self, role: &str, database: &str) -> Client {
        self.try_connect_as(role, database)
            .unwrap_or_else(|error| panic!("cannot connect as \"{role}\" to \"{database}\": {error}"))
    }

    /// Like [`Cluster::connect_as`], for a server that may refuse.
    pub fn try_connect_as(&self, role: &str, database: &str) -> Result<Client, postgres::Error> {
        Config::new().host_path(self.folder()).user(role).dbname(database).connect(NoTls)
    }

    /// Runs one statement outside a transaction as the superuser in `postgres`, e.g. `create database`.
    pub fn execute(&self, statement: &str) {
        self.connect().batch_execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    /// A client program: `command` with the `PG*` variables that lead here.
    pub fn client(&self, mut command: Command, role: &str, database: &str) -> Command {
        command.env("PGHOST", self.folder()).env("PGPORT", "5432").env("PGUSER", role).env("PGDATABASE", database);
        command.env("PGAPPNAME", "test").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        command
    }

    /// A `psql` that reads no start-up file; give it `-c`, `-f` …
    pub fn psql(&self, role: &str, database: &str) -> Command {
        let mut psql = self.client(Command::new(bin().join("psql")), role, database);
        psql.arg("--no-psqlrc");
        psql
    }
}

/// Everything that a program wrote, its errors last.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
