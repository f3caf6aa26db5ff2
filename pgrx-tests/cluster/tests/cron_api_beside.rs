//! The same calls to `scheduler_cron` and to Debian's pg_cron (1.4), side by side: the same answers, errors and rows, but where the guide says
//! what differs.

use postgres::error::SqlState;
use postgres::SimpleQueryMessage;
use scheduler_cluster_tests::{pg_cron, Client, Cluster};

/// What a statement answers: its rows and how many it has changed, or SQLSTATE and message.
fn answer(client: &mut Client, statement: &str) -> String {
    let messages = match client.simple_query(statement) {
        Ok(messages) => messages,
        Err(error) => {
            let error = error.as_db_error().unwrap_or_else(|| panic!("{statement}: {error}"));
            return format!("{}: {}", error.code().code(), error.message());
        }
    };
    let mut answer = Vec::new();
    for message in messages {
        if let SimpleQueryMessage::Row(row) = &message {
            answer.push((0..row.len()).map(|column| row.get(column).unwrap_or("NULL")).collect::<Vec<_>>().join("|"));
        } else if let SimpleQueryMessage::CommandComplete(count) = message {
            answer.push(format!("({count})"));
        }
    }
    answer.join(" ")
}

/// Of one database: a session for each role that calls.
struct Side {
    sessions: Vec<(&'static str, Client)>,
}

impl Side {
    fn of(cluster: &Cluster, database: &str) -> Self {
        let connect = |role| (role, cluster.connect_as(role, database));
        Side { sessions: ["postgres", "app"].map(connect).into() }
    }

    /// Of a call that answers differently nothing is left.
    fn answer(&mut self, role: &str, statement: &str, undo: bool) -> String {
        let (_, client) = self.sessions.iter_mut().find(|(name, _)| *name == role).expect("a role");
        if !undo {
            return answer(client, statement);
        }
        client.batch_execute("begin").unwrap();
        let answered = answer(client, statement);
        client.batch_execute("rollback").unwrap();
        answered
    }
}

const ROWS: &str =
    "select jobid, schedule, command, nodename, nodeport, database = current_database(), username, active, jobname from cron.job order by jobid";

/// The calls, by whom, and whether the answers differ: then the guide says why.
const CALLS: [(&str, &str, bool); 113] = include!("cron_api_calls.in");

#[test]
fn the_same_calls_have_the_same_answers() {
    // Nothing runs: a run at the full minute would have rows.
    let settings = [("cron.log_run", "off"), ("sched.enabled", "off")];
    let Some(cluster) = pg_cron::server(&settings) else { return };
    let mut db = pg_cron::database(&cluster);
    let refused = db.batch_execute("create extension scheduler_cron").unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::DUPLICATE_OBJECT), "{refused}");
    for statement in ["create database ours", "create database closed", "revoke connect on database closed from public"]
    {
        db.batch_execute(statement).unwrap();
    }
    db.batch_execute("create role app login; create role group_of_roles").unwrap();
    cluster.connect_as("postgres", "ours").batch_execute("create extension scheduler_cron cascade").unwrap();
    let mut theirs = Side::of(&cluster, "postgres");
    let mut ours = Side::of(&cluster, "ours");
    let mut faults = Vec::new();
    for (role, call, differs) in CALLS {
        let told = ours.answer(role, call, differs);
        let expected = theirs.answer(role, call, differs);
        if (told != expected) != differs {
            faults.push(format!("{role}: {call}\n    ours   {told}\n    theirs {expected}"));
        }
        let (told, expected) = (ours.answer("postgres", ROWS, false), theirs.answer("postgres", ROWS, false));
        if told != expected {
            faults.push(format!("the rows after {role}: {call}\n    ours   {told}\n    theirs {expected}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The columns are those of pg_cron, in its order and of its types (`jobname` is text since 1.5).
#[test]
fn the_columns_and_functions_are_those_of_pg_cron() {
    let Some(cluster) = pg_cron::server(&[]) else { return };
    let mut theirs = pg_cron::database(&cluster);
    theirs.batch_execute("create database ours").unwrap();
    let mut ours = cluster.connect_as("postgres", "ours");
    ours.batch_execute("create extension scheduler_cron cascade").unwrap();
    let columns = "select string_agg(concat_ws(' ', attrelid::regclass, attname, replace(atttypid::regtype::text, 'name', 'text')), ', ' order by attrelid::regclass::text, attnum)
                     from pg_attribute where attrelid in ('cron.job'::regclass, 'cron.job_run_details'::regclass) and attnum > 0 and not attisdropped";
    assert_eq!(answer(&mut ours, columns), answer(&mut theirs, columns));
    let functions = "select string_agg(concat_ws(' ', proname, replace(pg_get_function_arguments(oid), ' name', ' text'), '->', prorettype::regtype, 'strict', proisstrict,
                                                 'public', has_function_privilege('public', oid, 'execute')), e'\\n' order by proname, pg_get_function_arguments(oid))
                       from pg_proc where pronamespace = 'cron'::regnamespace and proname <> 'job_cache_invalidate'";
    assert_eq!(answer(&mut ours, functions), answer(&mut theirs, functions));
    let rights =
        "select string_agg(concat_ws(' ', relname, privilege_type, grantee), ', ' order by relname, privilege_type)
                    from pg_class, aclexplode(relacl) where relnamespace = 'cron'::regnamespace and grantee = 0
                     and relname in ('job', 'job_run_details', 'jobid_seq')";
    assert_eq!(answer(&mut ours, rights), answer(&mut theirs, rights));
}
