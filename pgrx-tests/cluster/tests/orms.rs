//! Django, Alembic, Drizzle and Vitest in databases that have the extension, with the projects in `pgrx-tests/orms`: what their tests need
//! (docs/guides/testing.md), and what their migrations make of its schemas (docs/guides/orms.md).

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{built, conn, repository, wait_for, Client, Cluster};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn project(name: &str) -> PathBuf {
    repository().join("pgrx-tests/orms").join(name)
}

/// A copy of the project, in which its tools may write.
fn copy(cluster: &Cluster, name: &str) -> PathBuf {
    let folder = cluster.folder().join(name);
    let copied = Command::new("cp").arg("-r").arg(project(name)).arg(&folder).status().unwrap();
    assert!(copied.success());
    folder
}

/// The same for one of Node: these files, and what is installed for it.
fn node(cluster: &Cluster, name: &str, files: &[&str]) -> PathBuf {
    let folder = cluster.folder().join(name);
    fs::create_dir(&folder).unwrap();
    for file in ["package.json"].iter().chain(files) {
        fs::copy(project(name).join(file), folder.join(file)).unwrap();
    }
    symlink(project(name).join("node_modules"), folder.join("node_modules")).unwrap();
    folder
}

/// The Python that has the tools, in a folder.
fn python(cluster: &Cluster, role: &str, database: &str, folder: &Path) -> Command {
    let mut program = cluster.client(Command::new(built("orms/bin/python3")), role, database);
    let path = std::env::join_paths([folder, &repository().join("clients/python")]).unwrap();
    program.current_dir(folder).env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
    program
}

/// Whether it succeeded, and what it said.
fn said(mut program: Command) -> (bool, String) {
    let output = program.output().unwrap_or_else(|error| panic!("cannot run {program:?}: {error}"));
    (output.status.success(), conn::text(&output))
}

/// What it said; it must succeed.
fn succeeds(program: Command) -> String {
    let shown = format!("{program:?}");
    let (success, said) = said(program);
    assert!(success, "{shown}\n{said}");
    said
}

fn page(name: &str) -> String {
    fs::read_to_string(repository().join("docs/guides").join(name)).unwrap()
}

/// That the page shows this file of a project.
fn shows(page: &str, file: &Path) {
    let text = fs::read_to_string(file).unwrap();
    assert!(page.contains(&format!("\n{text}```\n")), "the page does not show {} as it is", file.display());
}

/// `manage.py` with these words, as a role in a database.
fn manage(cluster: &Cluster, role: &str, database: &str, words: &[&str]) -> Command {
    let mut program = python(cluster, role, database, &project("accounts"));
    program.arg("manage.py").args(words);
    program
}

/// The databases of tests, in order; in each is the extension in test mode, and nothing has fired.
fn nothing_has_fired(cluster: &Cluster, server: &mut Client, name: &str) -> Vec<String> {
    let named = format!("select datname::text from pg_database where datname like '{name}%' order by 1");
    let databases: Vec<String> = server.query(&named, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    for database in &databases {
        let mut db = cluster.connect_as("postgres", database);
        let found: String = one(
            &mut db,
            "select format('%s: %s schedules, %s executions, %s skipped, %s swept', (select component from sched.health() limit 1),
                           (select count(*) from sched.schedules), (select count(*) from sched.execution), (select count(*) from sched.skipped),
                           (select count(*) from swept))",
        );
        assert_eq!(found, "test_mode: 5 schedules, 0 executions, 0 skipped, 0 swept", "{database}");
    }
    databases
}

/// Outside of test mode the same migrations have schedules that fire at once.
#[test]
fn django_tests_in_parallel() {
    for file in ["project/testing.py", "signup/tests/test_page.py"] {
        shows(&page("testing.md"), &project("accounts").join(file));
    }
    let cluster = Cluster::new();
    cluster.execute("create database app");
    succeeds(manage(&cluster, "postgres", "app", &["migrate", "--verbosity=0"]));
    let mut app = cluster.connect_as("postgres", "app");
    wait_for(&mut app, "select count(*) > 0 from swept", SOON);
    wait_for(&mut app, "select count(*) > 0 from sched.execution where job_name = 'pulse'", SOON);
    // Kept, so that one can look into them; Django's own runner ends with them otherwise.
    let words = ["test", "--noinput", "--parallel=4", "--keepdb"];
    let told = succeeds(manage(&cluster, "postgres", "app", &words));
    assert!(told.contains("Ran 12 tests"), "{told}");
    let kept = nothing_has_fired(&cluster, &mut app, "test_app");
    assert_eq!(kept, ["test_app", "test_app_1", "test_app_2", "test_app_3", "test_app_4"]);
    succeeds(manage(&cluster, "postgres", "app", &words[..3]));
    assert_eq!(nothing_has_fired(&cluster, &mut app, "test_app"), Vec::<String>::new(), "databases of tests are left");
}

/// By a role that may create databases only: a template has the extension.
#[test]
fn pytest_with_databases_that_are_new_or_kept() {
    shows(&page("testing.md"), &project("accounts/conftest.py"));
    let cluster = Cluster::new();
    cluster.execute("create role web login createdb");
    cluster.execute("create database app owner web");
    cluster.execute("create database app_template is_template true");
    cluster
        .connect_as("postgres", "app_template")
        .batch_execute("create extension scheduler; select sched.test_mode(), sched.grant_use('web'); grant create on schema public to web")
        .unwrap();
    let pytest = |words: &str| {
        let mut program = python(&cluster, "web", "app", &project("accounts"));
        program
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
            .args(words.split(' '))
            .env("TEST_TEMPLATE", "app_template");
        let told = succeeds(program);
        assert!(told.contains("22 passed"), "{words}: {told}");
    };
    let mut server = cluster.connect();
    // The second of them finds the database that the first one keeps.
    for words in ["--create-db --reuse-db", "--reuse-db", "--reuse-db"] {
        pytest(words);
        assert_eq!(nothing_has_fired(&cluster, &mut server, "test_app"), ["test_app"], "{words}");
    }
    pytest("--create-db --reuse-db -n 4");
    assert_eq!(nothing_has_fired(&cluster, &mut server, "test_app_gw").len(), 4);
}

/// Its files run side by side in one database, each test in a transaction of its own.
#[test]
fn vitest_in_a_database_in_test_mode() {
    let page = page("testing.md");
    for file in ["database.ts", "signup.test.ts"] {
        shows(&page, &project("vitest").join(file));
    }
    let cluster = Cluster::new();
    let folder = node(&cluster, "vitest", &["database.ts", "signup.test.ts", "vitest.config.ts"]);
    for name in ["first", "second", "third"] {
        fs::copy(folder.join("signup.test.ts"), folder.join(format!("{name}.test.ts"))).unwrap();
    }
    for _ in 0..2 {
        let mut program = cluster.client(Command::new("node"), "postgres", "postgres");
        program.args(["node_modules/vitest/vitest.mjs", "run"]).current_dir(&folder).env("NO_COLOR", "1");
        let told = succeeds(program);
        assert!(told.contains("Tests  4 passed (4)"), "{told}");
        let mut db = cluster.connect_as("postgres", "test_app");
        assert_eq!(one::<i64>(&mut db, "select count(*) from sched.execution"), 0);
        assert_eq!(one::<String>(&mut db, "select component from sched.health() limit 1"), "test_mode");
    }
}

#[test]
fn django_commands_leave_the_schemas_alone() {
    for migration in ["0001_scheduler.py", "0004_reminder.py"] {
        shows(&page("orms.md"), &project("accounts/signup/migrations").join(migration));
    }
    let cluster = Cluster::new();
    cluster.execute("create database app");
    let django = |words: &[&str]| succeeds(manage(&cluster, "postgres", "app", words));
    django(&["migrate", "--verbosity=0"]);
    let mut app = cluster.connect_as("postgres", "app");
    let told = django(&["inspectdb", "--include-views", "--include-partitions"]);
    assert!(told.contains("class SignupAccount") && !told.contains("Ledger") && !told.contains("Schedule"), "{told}");
    assert!(django(&["makemigrations", "--check", "--dry-run"]).contains("No changes detected"));
    let told = django(&["sqlflush"]);
    assert!(told.contains("signup_account") && !told.contains("sched"), "{told}");
    app.batch_execute("insert into signup_account (email) values ('ada@example.org'); select sched.enqueue('welcome')")
        .unwrap();
    django(&["flush", "--noinput"]);
    let left = "select format('%s accounts, %s schedules, %s mails', (select count(*) from signup_account), (select count(*) from sched.schedules),
                              (select count(*) from sched.execution where job_name = 'welcome'))";
    assert_eq!(one::<String>(&mut app, left), "0 accounts, 5 schedules, 1 mails");
    django(&["migrate", "signup", "zero", "--verbosity=0"]);
    assert_eq!(one::<i64>(&mut app, "select count(*) from pg_extension where extname = 'scheduler'"), 0);
    django(&["migrate", "--verbosity=0"]);
    assert_eq!(one::<i64>(&mut app, "select count(*) from sched.schedules"), 5);
}

#[test]
fn alembic_proposes_nothing_with_the_lines_of_the_page() {
    let cluster = Cluster::new();
    cluster.execute("create database shop");
    let folder = copy(&cluster, "shop");
    let lines = page("orms.md");
    let (_, lines) = lines.split_once("```python alembic\n").expect("the page has the lines");
    let lines = lines.split("```").next().unwrap();
    let environment = fs::read_to_string(folder.join("migrations/env.py")).unwrap();
    assert!(
        environment.contains(lines.split("\n\ncontext").next().unwrap()),
        "the project has other lines than the page"
    );
    let alembic = |words: &[&str], schemas: &str, without: &str| {
        let mut program = python(&cluster, "postgres", "shop", &folder);
        program.args(["-m", "alembic"]).args(words).env("INCLUDE_SCHEMAS", schemas).env("WITHOUT_THE_LINES", without);
        said(program)
    };
    let (success, told) = alembic(&["upgrade", "head"], "yes", "");
    assert!(success, "{told}");
    // What it reads are the schemas of the search path, by default.
    let (_, told) = alembic(&["check"], "no", "yes");
    assert!(!told.contains("sched"), "{told}");
    let (success, told) = alembic(&["check"], "yes", "yes");
    assert!(!success && told.contains("'remove_table', Table('ledger'") && told.contains("schema='sched'"), "{told}");
    let (success, told) = alembic(&["check"], "yes", "");
    assert!(success && told.contains("No new upgrade operations detected"), "{told}");
    for (name, without) in [("without", "yes"), ("with", "")] {
        // Of the types `regrole` and `oid` it makes no Python, and so it fails to load what it has written.
        let words = ["revision", "--autogenerate", "-m", name, "--rev-id", name];
        let (success, told) = alembic(&words, "yes", without);
        assert_eq!(success, without.is_empty(), "{told}");
        let file = folder.join(format!("migrations/versions/{name}_{name}.py"));
        let written = fs::read_to_string(&file).unwrap();
        assert_eq!(written.contains("op.drop_table('ledger', schema='sched')"), !success, "{written}");
        assert_eq!(written.contains("op."), !success, "{written}");
        if !success {
            fs::remove_file(file).unwrap();
        }
    }
    for words in [["upgrade", "head"], ["downgrade", "base"], ["upgrade", "head"]] {
        let (success, told) = alembic(&words, "yes", "");
        assert!(success, "{told}");
    }
    let mut db = cluster.connect_as("postgres", "shop");
    assert_eq!(one::<String>(&mut db, "select schedule_name from sched.schedules"), "monthly invoices");
    // What the page says of indexes, which no constraint has.
    let index = "select min(indexrelid::regclass::text) from pg_index
                  where indrelid in (select oid from pg_class where relnamespace = 'sched'::regnamespace) and not indisunique";
    let index: String = one(&mut db, index);
    db.batch_execute(&format!("begin; drop index {index}; rollback")).unwrap();
}

#[test]
fn drizzle_proposes_nothing_with_the_lines_of_the_page() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create table account (id bigint primary key, email text); create schema billing;
         create table billing.invoice (id bigint primary key, total bigint);
         select sched.define_job('invoice'), sched.create_schedule('monthly invoices', '0 6 1 * *', 'invoice')",
    )
    .unwrap();
    let folder = node(&cluster, "drizzle", &["schema.ts", "drizzle.config.ts"]);
    let line = "\n  schemaFilter: ['public', 'billing'],\n";
    assert!(page("orms.md").contains(line), "the page has not the line");
    assert!(
        fs::read_to_string(folder.join("drizzle.config.ts")).unwrap().contains(line),
        "the project has not the line"
    );
    let kit = |words: &[&str], schemas: Option<&str>| {
        let mut program = cluster.client(Command::new("node"), "postgres", "postgres");
        program.arg("node_modules/drizzle-kit/bin.cjs").args(words).current_dir(&folder);
        program.envs(schemas.map(|schemas| ("SCHEMAS", schemas)));
        said(program)
    };
    for schemas in [None, Some("default")] {
        let (success, told) = kit(&["push", "--force", "--verbose"], schemas);
        assert!(success && told.contains("No changes detected"), "{told}");
    }
    // Where the filter names them it proposes to drop all, and the server refuses.
    let all = "public billing sched sched_internal";
    let (_, told) = kit(&["push", "--force", "--verbose"], Some(all));
    assert!(
        told.contains("DROP TABLE \"sched\".\"ledger\" CASCADE") && told.contains("DROP SCHEMA \"sched\""),
        "{told}"
    );
    assert!(told.contains("because extension scheduler requires it"), "{told}");
    assert_eq!(one::<String>(&mut db, "select schedule_name from sched.schedules"), "monthly invoices");
    for (words, files) in [("pull", "schema.ts"), ("generate", "meta/_journal.json")] {
        let (success, told) = kit(&[words], None);
        assert!(success, "{told}");
        assert!(folder.join("out").join(files).exists(), "{told}");
        let everything = said({
            let mut grep = Command::new("grep");
            grep.args(["-rl", "sched"]).arg(folder.join("out"));
            grep
        });
        assert_eq!(everything, (false, String::new()), "{words} has read the schemas of the extension");
        fs::remove_dir_all(folder.join("out")).unwrap();
    }
    cluster.execute("create database anew");
    let kit = |words: &[&str]| {
        let mut program = cluster.client(Command::new("node"), "postgres", "anew");
        program.arg("node_modules/drizzle-kit/bin.cjs").args(words).current_dir(&folder);
        succeeds(program)
    };
    kit(&["generate", "--name=tables"]);
    kit(&["generate", "--custom", "--name=schedules"]);
    let custom = folder.join("out/0001_schedules.sql");
    fs::write(
        custom,
        "CREATE EXTENSION scheduler;--> statement-breakpoint
         SELECT sched.define_job('invoice'), sched.create_schedule('monthly invoices', '0 6 1 * *', 'invoice');",
    )
    .unwrap();
    kit(&["migrate"]);
    kit(&["migrate"]);
    assert!(kit(&["push", "--force"]).contains("No changes detected"));
    let mut db = cluster.connect_as("postgres", "anew");
    assert_eq!(one::<String>(&mut db, "select schedule_name from sched.schedules"), "monthly invoices");
}
