//! The extension as a test sees it: its workers, and what its ledger must hold.

use crate::cluster::Cluster;
use crate::proc;
use crate::wait::{stays, wait_for, wait_until};
use postgres::fallible_iterator::FallibleIterator as _;
use postgres::{Client, Notification};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// For whatever the workers do by themselves. Only to give up: nothing here takes this long unless the machine is busy. Less than
/// `sched.tick_interval`, so that a wake-up that is lost is not made up for by the next look.
pub const SOON: Duration = Duration::from_secs(40);
/// A worker that was killed is back within this, mostly.
pub const BACK: Duration = Duration::from_secs(5);

/// That all but a tenth of these took less than `limit`, or of a few the half: a busy machine may keep anything waiting for once.
pub fn mostly_within(limit: Duration, took: &[Duration]) {
    let late = took.iter().filter(|took| **took >= limit).count();
    let most = if took.len() < 10 { took.len().saturating_sub(1) / 2 } else { took.len() / 10 };
    assert!(late <= most, "{late} of {} took longer than {limit:?}: {took:?}", took.len());
}

/// How a test sees that the dispatcher did something: it reports `idle` anew each time it goes to sleep.
const SLEEPING: &str = "select state_change::text, pid from pg_stat_activity
     where backend_type = 'scheduler dispatcher' and datname = current_database()
       and state = 'idle' and wait_event_type = 'Extension'
     order by backend_start desc limit 1";

impl Cluster {
    /// A superuser's connection to a database in which the extension was just created and a dispatcher runs.
    pub fn with_extension(&self, database: &str) -> Client {
        let mut client = self.connect_as("postgres", database);
        client.batch_execute("create extension scheduler").unwrap();
        wait_until("a dispatcher", SOON, || dispatcher(&mut client));
        client
    }

    /// Changes a setting for good and has every process read it.
    pub fn set(&self, name: &str, value: &str) {
        self.execute(&format!("alter system set {name} = '{value}'"));
        self.reload();
    }

    /// The lines of the log that hold `text`, but for those of autovacuum, which comes when it likes and is sent away by who is in a hurry.
    pub fn logged(&self, text: &str) -> Vec<String> {
        let ours = |line: &&str| line.contains(text) && !line.contains("autovacuum worker[");
        self.log().lines().filter(ours).map(str::to_owned).collect()
    }

    /// That nothing in the log would make somebody look twice. (A dispatcher that the postmaster forks late finds its database gone: who drops
    /// one waits for those on their way for a second only.)
    pub fn was_quiet(&self, more: &[&str]) {
        for word in ["WARNING", "FATAL", "PANIC"].iter().chain(more) {
            let mut lines = self.logged(word);
            lines.retain(|line| {
                let late = line.contains("scheduler dispatcher[") && line.contains("FATAL:  database ");
                !(late && line.ends_with("does not exist"))
            });
            assert!(lines.is_empty(), "{lines:#?}");
        }
    }
}

/// The dispatchers that work, the youngest first, with their databases. The launcher looks into each database by starting one that
/// leaves again where the extension is missing: it is one when it has said so in the log.
fn dispatchers(client: &mut Client) -> Vec<(i32, String)> {
    let query = "select pid, datname::text from pg_stat_activity
                  where backend_type = 'scheduler dispatcher' and datname is not null order by backend_start desc";
    let all: Vec<(i32, String)> =
        client.query(query, &[]).unwrap().iter().map(|row| (row.get(0), row.get(1))).collect();
    if all.is_empty() {
        return all;
    }
    let data: String = one(client, "select current_setting('data_directory')");
    let log = fs::read(Path::new(&data).with_file_name("log")).unwrap();
    let log = String::from_utf8_lossy(&log);
    let started: Vec<&str> = log.lines().filter(|line| line.contains("scheduler: dispatcher for database")).collect();
    let works = |(pid, database): &(i32, String)| {
        let (process, says) = (format!("[{pid}]"), format!("dispatcher for database \"{database}\" started"));
        started.iter().any(|line| line.contains(&process) && line.ends_with(&says))
    };
    all.into_iter().filter(works).collect()
}

/// The dispatcher of a database.
pub fn dispatcher_of(client: &mut Client, database: &str) -> Option<i32> {
    dispatchers(client).into_iter().find(|(_, its)| its == database).map(|(pid, _)| pid)
}

/// The dispatcher of the client's database.
pub fn dispatcher(client: &mut Client) -> Option<i32> {
    let database: String = one(client, "select current_database()::text");
    dispatcher_of(client, &database)
}

/// The launcher of the server.
pub fn launcher(client: &mut Client) -> Option<i32> {
    // One that has just ended may still be shown.
    let query =
        "select pid from pg_stat_activity where backend_type = 'scheduler launcher' order by backend_start desc limit 1";
    client.query_opt(query, &[]).unwrap().map(|row| row.get(0))
}

/// The databases that have a dispatcher, in order.
pub fn served(client: &mut Client) -> Vec<String> {
    let databases: BTreeSet<String> = dispatchers(client).into_iter().map(|(_, database)| database).collect();
    databases.into_iter().collect()
}

/// Waits until exactly these databases have a dispatcher.
pub fn serves_exactly(client: &mut Client, databases: &[&str]) {
    wait_until(&format!("dispatchers in exactly {databases:?}"), SOON, || (served(client) == databases).then_some(()));
}

/// Switches dispatching off, and returns when the dispatcher of the client's database does nothing any more.
pub fn switch_off(cluster: &Cluster, client: &mut Client) {
    cluster.set("sched.enabled", "off");
    let off = "select count(*) > 0 from pg_stat_activity
                where backend_type = 'scheduler dispatcher' and datname = current_database()
                  and state = 'idle' and query = 'switched off by sched.enabled'";
    wait_for(client, off, SOON);
}

/// When the dispatcher of the client's database last went to sleep; none while it works.
pub fn asleep_since(client: &mut Client) -> Option<String> {
    client.query_opt(SLEEPING, &[]).unwrap().map(|row| row.get(0))
}

/// The same for one that nobody has woken since.
fn sound_asleep_since(client: &mut Client) -> Option<String> {
    let row = client.query_opt(SLEEPING, &[]).unwrap()?;
    proc::sleeps(row.get(1)).then(|| row.get(0))
}

/// Waits until the dispatcher has nothing more to do; since when it sleeps.
pub fn rest(client: &mut Client) -> String {
    wait_until("the dispatcher to have nothing to do", SOON, || {
        let changes: i64 = one(client, "select count(*) from sched.schedule_change");
        let since = sound_asleep_since(client).filter(|_| changes == 0)?;
        let mut undisturbed = true;
        stays("this loop", Duration::from_millis(200), || {
            undisturbed &= sound_asleep_since(client).as_ref() == Some(&since);
        });
        undisturbed.then_some(since)
    })
}

/// Has the dispatcher of the client's database begin a statement that takes an hour, and returns when it is in it.
pub fn begin_endless_statement(client: &mut Client) {
    client
        .batch_execute(
            "create or replace function public.endless() returns boolean language plpgsql
                 as 'begin perform pg_sleep(3600); return true; end';
             alter table sched.ledger add constraint endless check (public.endless()) not valid;
             select sched.define_job('endless'); select sched.create_schedule('endless', 'every 100 milliseconds', 'endless')",
        )
        .unwrap();
    wait_until("the dispatcher to be in the statement", SOON, || in_endless_statement(client).then_some(()));
}

/// Whether the dispatcher of the client's database is in that statement.
pub fn in_endless_statement(client: &mut Client) -> bool {
    let query = "select exists (select from pg_stat_activity where backend_type = 'scheduler dispatcher'
                   and datname = current_database() and wait_event = 'PgSleep')";
    one(client, query)
}

/// How many notifications a client that LISTENs to this channel has got, of all that was committed before now.
pub fn heard(client: &mut Client, db: &mut Client, channel: &str) -> usize {
    let mut count = 0;
    // The dispatcher sends what was marked before this, before it sends this or together with it.
    if one::<String>(client, "show sched.notify") == "on" {
        client
            .batch_execute(
                "listen \"sched:the last queue\";
                 begin; select sched.pause_queue('the last queue'); select sched.resume_queue('the last queue'); commit",
            )
            .unwrap();
        count += heard_until(client, |next| next.channel() == "sched:the last queue");
        client.batch_execute("unlisten \"sched:the last queue\"").unwrap();
    }
    // What one transaction notifies comes in any order, what several do as they were committed.
    db.batch_execute(&format!("notify \"{channel}\", 'the last one'")).unwrap();
    count + heard_until(client, |next| next.channel() == channel && next.payload() == "the last one")
}

/// How many notifications come before this one.
fn heard_until(client: &mut Client, is_last: impl Fn(&Notification) -> bool) -> usize {
    let mut notifications = client.notifications();
    let mut all = notifications.timeout_iter(SOON);
    let mut count = 0;
    while !is_last(&all.next().unwrap().expect("the last notification comes")) {
        count += 1;
    }
    count
}

/// The one value of a query.
pub fn one<T: for<'a> postgres::types::FromSql<'a>>(client: &mut Client, query: &str) -> T {
    client.query_one(query, &[]).unwrap_or_else(|error| panic!("{query}: {error}")).get(0)
}

/// Asserts that the plan times in the ledger are a schedule's whole grid from the first to the last, each once: I1.
/// Returns how many there are.
pub fn whole_grid(client: &mut Client, schedule: &str, period: &str) -> i64 {
    let query = format!(
        "with plans as (select plan_time from sched.execution where schedule_name = '{schedule}'),
              grid as (select generate_series(min(plan_time), max(plan_time), interval '{period}') as plan_time from plans)
         select (select count(*) from plans), (select count(distinct plan_time) from plans),
                array(select plan_time::text from grid except select plan_time::text from plans),
                array(select plan_time::text from plans except select plan_time::text from grid)"
    );
    let row = client.query_one(&query, &[]).unwrap();
    let (all, distinct): (i64, i64) = (row.get(0), row.get(1));
    let (missing, strange): (Vec<String>, Vec<String>) = (row.get(2), row.get(3));
    assert!(missing.is_empty(), "{schedule}: of {all} plans these are missing: {missing:?}");
    assert!(strange.is_empty(), "{schedule}: plans that are not on its grid: {strange:?}");
    assert_eq!(all, distinct, "{schedule}: a plan ran twice");
    all
}

/// Makes `count` executions of a pull job claimable, through one schedule whose every plan in the past was missed.
pub fn backlog(client: &mut Client, job: &str, count: i64) {
    let name = format!("backlog of {job}");
    let mut work = client.transaction().unwrap();
    work.execute(
        "select sched.create_schedule($1, 'every 1 second from 2000-01-01 00:00+00', $2, catch_up => 'every_plan',
                                      max_plans_per_tick => 10000, ends_at => clock_timestamp())",
        &[&name, &job],
    )
    .unwrap();
    let past = format!(
        "update sched.schedule set baseline_at = date_trunc('second', ends_at) - interval '{count} seconds'
          where schedule_name = '{name}'"
    );
    work.batch_execute(&past).unwrap();
    work.commit().unwrap();
    wait_until("the backlog to be claimable", SOON, || {
        let there: i64 = one(client, &format!("select count(*) from sched.execution where schedule_name = '{name}'"));
        (there >= count).then_some(())
    });
}
