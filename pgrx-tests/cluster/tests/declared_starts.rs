//! An application that declares its schedules at each of its starts, three instances at once, while they fire: the end state is the last
//! declaration, a dry run says what the run then does, one instance of three applies a change, and the plan times are those of a model.

use std::collections::BTreeMap;
use std::thread;

use scheduler_cluster_tests::random::Random;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_until, Client, Cluster};

const SECOND: i64 = 1_000_000;

/// A clock with its period in seconds, which divides a minute.
#[derive(Clone, Copy)]
enum Clock {
    /// Plan times are the multiples of the period.
    Cron(i64),
    /// Plan times are multiples of the period after a baseline, which a new definition begins.
    Every(i64),
}

impl Clock {
    fn any(random: &mut Random) -> Clock {
        let period = [5, 6, 10, 12, 15, 20][random.below(6) as usize];
        if random.below(2) == 0 {
            Clock::Cron(period)
        } else {
            Clock::Every(period)
        }
    }

    fn text(self) -> String {
        match self {
            Clock::Cron(period) => format!("*/{period} * * * * *"),
            Clock::Every(period) => format!("every {period} seconds"),
        }
    }

    fn period(self) -> i64 {
        let (Clock::Cron(seconds) | Clock::Every(seconds)) = self;
        seconds * SECOND
    }
}

/// How long a schedule had a clock. Between the two times of `from`, and of `to`, a fire may or may not have seen the change.
struct Segment {
    clock: Clock,
    from: (i64, i64),
    to: (i64, i64),
}

impl Segment {
    fn begin(clock: Clock, from: (i64, i64)) -> Segment {
        Segment { clock, from, to: (i64::MAX, i64::MAX) }
    }

    /// What is wrong with the plan times of this segment.
    fn fault(&self, all: &[i64]) -> Option<String> {
        let fired: Vec<i64> = all.iter().copied().filter(|time| *time > self.from.1 && *time < self.to.0).collect();
        let period = self.clock.period();
        let phase = match self.clock {
            Clock::Cron(_) => 0,
            Clock::Every(_) => fired.first()? % period,
        };
        let first = self.from.1 + 1 + (phase - self.from.1 - 1).rem_euclid(period);
        let expected: Vec<i64> = (0..).map(|n| first + n * period).take_while(|time| *time < self.to.0).collect();
        (fired != expected).then(|| format!("{}: {fired:?} in place of {expected:?}", self.clock.text()))
    }
}

struct Declared {
    id: usize,
    name: String,
    was: Option<String>,
    clock: Clock,
    payload: u64,
}

impl Declared {
    fn spec(&self) -> String {
        let was = self.was.as_ref().map(|was| format!(r#""was": "{was}", "#)).unwrap_or_default();
        let (name, clock, payload) = (&self.name, self.clock.text(), self.payload);
        format!(
            r#"{{"schedule_name": "{name}", {was}"clock": "{clock}", "job_name": "job", "payload": {{"version": {payload}}},
                 "catch_up": "every_plan", "max_plans_per_tick": 1000}}"#
        )
    }
}

type Rows = Vec<(String, String, Option<String>)>;

fn declare(client: &mut Client, specs: &str, dry_run: bool) -> Rows {
    let call = format!("select * from sched.declare_schedules('app', '{specs}', dry_run => {dry_run}) order by 1");
    client.query(&call, &[]).unwrap().iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

fn now(db: &mut Client) -> i64 {
    one(db, "select (extract(epoch from clock_timestamp()) * 1000000)::bigint")
}

/// The application and what the model knows of it.
struct Application {
    random: Random,
    declared: Vec<Declared>,
    /// By the number of the schedule, whose first name is its scope.
    segments: BTreeMap<usize, Vec<Segment>>,
    made: usize,
}

impl Application {
    fn add(&mut self) {
        let clock = Clock::any(&mut self.random);
        self.declared.push(Declared { id: self.made, name: format!("s{}", self.made), was: None, clock, payload: 0 });
        self.made += 1;
    }

    /// Edits, renames, removes and adds one schedule in fifty; not `kept`, which was paused by hand.
    fn release(&mut self, kept: Option<usize>) {
        let many = self.declared.len() as u64;
        for change in 0..many.div_ceil(50) * 4 {
            let place = self.random.below(self.declared.len() as u64) as usize;
            let clock = Clock::any(&mut self.random);
            let one = &mut self.declared[place];
            if Some(one.id) == kept {
                continue;
            }
            match change % 4 {
                0 => one.clock = clock,
                1 => one.payload += 1,
                // The first name is the scope.
                2 if one.was.is_none() && self.segments.contains_key(&one.id) => {
                    one.was = Some(std::mem::replace(&mut one.name, format!("r{}_{change}", one.id)))
                }
                2 => {}
                _ => {
                    self.declared.swap_remove(place);
                    self.add();
                }
            }
        }
    }

    /// Three instances start at once.
    fn start(&mut self, cluster: &Cluster, db: &mut Client) {
        let specs: Vec<String> = self.declared.iter().map(Declared::spec).collect();
        let specs = format!("[{}]", specs.join(","));
        let dry = declare(db, &specs, true);
        let open = next_plan_times(db);
        let began = now(db);
        let instances: Vec<Rows> = thread::scope(|scope| {
            let instance = || declare(&mut cluster.connect(), &specs, false);
            let starts: Vec<_> = (0..3).map(|_| scope.spawn(instance)).collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        let ended = now(db);
        let is_change = |rows: &&Rows| rows.iter().any(|(_, action, _)| action != "unchanged");
        let changes: Vec<&Rows> = instances.iter().filter(is_change).collect();
        if dry.iter().any(|(_, action, _)| action != "unchanged") {
            assert_eq!(changes, [&dry], "one instance does what the dry run said");
        } else {
            assert!(changes.is_empty(), "{changes:?}");
        }
        for (id, segments) in &mut self.segments {
            let last = segments.last_mut().unwrap();
            let is_open = last.to.1 == i64::MAX;
            match self.declared.iter().find(|one| one.id == *id) {
                None if is_open => last.to = (open.get(id).copied().unwrap_or(began).min(began), ended),
                Some(one) if is_open && one.clock.text() != last.clock.text() => {
                    last.to = (began, ended);
                    segments.push(Segment::begin(one.clock, (began, ended)));
                }
                _ => {}
            }
        }
        for one in &mut self.declared {
            one.was = None;
            self.segments.entry(one.id).or_insert_with(|| vec![Segment::begin(one.clock, (began, ended))]);
        }
    }
}

/// The next plan time of each schedule that fires, by its number.
fn next_plan_times(db: &mut Client) -> BTreeMap<usize, i64> {
    let query =
        "select substring(schedule_name from '[0-9]+')::bigint, (extract(epoch from next_plan_time) * 1000000)::bigint
                   from sched.schedules where next_plan_time is not null";
    db.query(query, &[]).unwrap().iter().map(|row| (row.get::<_, i64>(0) as usize, row.get(1))).collect()
}

fn declared_at_each_start(schedules: usize, starts: usize) {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job')").unwrap();
    let mut application =
        Application { random: Random::seeded(), declared: Vec::new(), segments: BTreeMap::new(), made: 0 };
    (0..schedules).for_each(|_| application.add());
    let mut paused: Option<usize> = None;
    let fires = "select count(*) from sched.execution";
    for start in 0..starts {
        application.start(&cluster, &mut db);
        if start == 1 {
            let id = application.declared[0].id;
            let name = application.declared[0].name.clone();
            let began = next_plan_times(&mut db).get(&id).copied().expect("armed");
            db.batch_execute(&format!("select sched.pause('{name}')")).unwrap();
            let ended = now(&mut db);
            application.segments.get_mut(&id).unwrap().last_mut().unwrap().to = (began.min(ended), ended);
            paused = Some(id);
        }
        let before: i64 = one(&mut db, fires);
        wait_until("fires", SOON, || (one::<i64>(&mut db, fires) >= before + schedules as i64 / 10).then_some(()));
        // Each fifth start is one of the same release.
        if start % 5 != 4 {
            application.release(paused);
        }
    }
    application.start(&cluster, &mut db);
    let specs: Vec<String> = application.declared.iter().map(Declared::spec).collect();
    let again = declare(&mut db, &format!("[{}]", specs.join(",")), false);
    assert!(again.len() == schedules && again.iter().all(|(_, action, _)| action == "unchanged"), "{again:?}");
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.schedules where state = 'paused'"), 1);
    let until = now(&mut db);
    let behind = format!(
        "select count(*) from sched.schedules where enabled and (next_plan_time is null or next_plan_time <= to_timestamp({until} / 1e6))"
    );
    wait_until("all that is due", SOON, || (one::<i64>(&mut db, &behind) == 0).then_some(()));
    let mut fired: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    let ledger =
        "select scope_id, (extract(epoch from plan_time) * 1000000)::bigint from sched.execution order by 1, 2";
    for row in db.query(ledger, &[]).unwrap() {
        fired.entry(row.get(0)).or_default().push(row.get(1));
    }
    let mut faults = Vec::new();
    for (id, segments) in &mut application.segments {
        let all = fired.remove(&format!("s{id}")).unwrap_or_default();
        let (first, last) = (segments[0].from.0, segments.last().unwrap().to.1);
        faults.extend(all.iter().find(|time| **time <= first || **time >= last).map(|time| format!("s{id}: {time}")));
        for segment in segments {
            segment.to.0 = segment.to.0.min(until);
            faults.extend(segment.fault(&all).map(|fault| format!("s{id}, {fault}")));
        }
    }
    assert!(faults.is_empty() && fired.is_empty(), "{faults:#?} {fired:?}");
}

#[test]
fn a_release_is_declared_by_three_instances_at_once() {
    declared_at_each_start(60, 8);
}

#[test]
#[ignore = "long: 50 starts with 1,000 schedules"]
fn long_a_thousand_schedules_and_fifty_starts() {
    declared_at_each_start(1000, 50);
}
