//! Random programmes on the real extension against a model of our own: created, edited, paused, handed over, run, ended, broken and
//! mended, through outages, crashes and timers made anew, the ledger and every verdict are those that the model predicts. No plan
//! time is missing, none runs twice, none is without a verdict, and all views have the same: also where an edit's transaction stayed open while the
//! old clock went on, and where plan times were made up for.
//!
//! Many programmes share one server and walk through time together: every time that is stored is moved into the past. Plan times
//! are whole hours after a schedule's creation, edits come half an hour past, dispatches three or 36 minutes past: far enough apart
//! that it does not matter how long a step of the test takes, of which the first creates all of them.

mod edit;
mod model;
mod page;

use edit::{any_policy, arguments, change, define_job, edit, EVERY};
use model::{Definition, Schedule};
use postgres::Client;
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{Cluster, Shutdown};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// An hour: plan times are multiples of it.
const STEP: i64 = 3600;
/// How long after a plan time dispatches come that are on time.
const SOON: i64 = 180;
/// How long after a plan time edits come.
const EDIT: i64 = 1800;
/// How long after a plan time dispatches come that are late.
const LATE: i64 = 2160;
/// `sched.misfire_grace`: between the two lateness that dispatches have.
const GRACE: i64 = 720;
const PROGRAMMES: usize = 260;
const STEPS: i64 = 18;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % n as u64) as usize
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// One programme: a schedule, what the model knows of it, and what was done to it, for whoever reads a failure.
struct Programme {
    name: String,
    model: Schedule,
    story: String,
    /// The executions that there must be, by plan time.
    ledger: Vec<i64>,
    /// When the schedule was last edited: who edits it waits for the edit before.
    edited_at: i64,
}

struct World {
    cluster: Cluster,
    db: Client,
    programmes: Vec<Programme>,
    random: Random,
    seed: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let grace = GRACE.to_string();
        let cluster =
            Cluster::builder().set("sched.enabled", "off").set("sched.misfire_grace", &format!("{grace}s")).start();
        let mut db = cluster.connect();
        db.batch_execute("create extension scheduler").unwrap();
        db.batch_execute(&fill(include_str!("time.sql"))).unwrap();
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let (mut programmes, mut script) = (Vec::new(), String::new());
        for n in 0..PROGRAMMES {
            let name = format!("p{n}");
            let policy = any_policy(&mut random);
            let definition = Definition {
                every: random.pick(&EVERY),
                starts: None,
                ends: None,
                enabled: !random.one_in(15),
                owned: !random.one_in(15),
            };
            let done_at_once = random.one_in(6);
            let create = format!(
                "SELECT sched.create_schedule('{name}', 'every {} seconds', '{name}', enabled => {}, ownership => '{}', {});\n",
                definition.every,
                definition.enabled,
                if definition.owned { "owned" } else { "external" },
                arguments(&policy)
            );
            let job = define_job(&name, done_at_once);
            write!(script, "{job}{create}").unwrap();
            let model = Schedule::new(policy, definition, done_at_once, GRACE);
            programmes.push(Programme { name, model, story: format!("0: {create}"), ledger: Vec::new(), edited_at: 0 });
        }
        db.batch_execute(&script).unwrap();
        World { cluster, db, programmes, random, seed }
    }

    fn sql(&mut self, statement: &str) {
        self.db.batch_execute(statement).unwrap_or_else(|error| {
            let detail = error.as_db_error().map(ToString::to_string).unwrap_or_default();
            panic!("seed {}: {detail}: {statement}", self.seed)
        });
    }

    fn walk_to(&mut self, second: i64) {
        self.sql(&format!("CALL walk_to({second})"));
    }

    /// Something happens to some of the schedules, or somebody else does something in their scope.
    fn edit_some(&mut self, now: i64) {
        let mut script = String::new();
        for programme in &mut self.programmes {
            while self.random.below(100) < 45 {
                if let Some(statement) = edit(programme, &mut self.random, now) {
                    writeln!(programme.story, "{now}: {statement}").unwrap();
                    script.push_str(&statement);
                    script.push('\n');
                }
            }
        }
        self.sql(&script);
    }

    /// Edits whose transaction was open for some hours: what they wrote says when they were made. Meanwhile dispatches go on, the last of them
    /// beside the open transaction; then it is committed, or not.
    fn edit_late(&mut self, now: i64) {
        let (mut script, mut changes) = ("BEGIN;\n".to_owned(), Vec::new());
        for (index, programme) in self.programmes.iter_mut().enumerate() {
            let hours = (now / STEP - programme.edited_at / STEP).min(8) as usize;
            let made_at = (now / STEP - self.random.below(hours + 1) as i64) * STEP + EDIT + 60;
            if programme.model.job_is_gone
                || made_at <= programme.edited_at
                || made_at + 60 >= now
                || !self.random.one_in(3)
            {
                continue;
            }
            let mut scratch = programme.model.clone();
            for at in [made_at, made_at + 60].into_iter().take(1 + self.random.below(2)) {
                let (statement, change) = change(&programme.name, &scratch, &mut self.random, at);
                scratch.apply(change.clone(), at);
                writeln!(programme.story, "{at}: begin: {statement}").unwrap();
                writeln!(script, "{statement} SELECT made_at('{}', {at});", programme.name).unwrap();
                changes.push((index, at, change));
            }
        }
        let mut editor = self.cluster.connect();
        editor.batch_execute(&script).unwrap_or_else(|error| panic!("seed {}: {error:?}: {script}", self.seed));
        self.dispatch_once(now);
        let (end, commits) = if self.random.one_in(3) { ("ROLLBACK", false) } else { ("COMMIT", true) };
        editor.batch_execute(end).unwrap();
        for (index, at, change) in changes {
            let programme = &mut self.programmes[index];
            writeln!(programme.story, "{now}: {end}").unwrap();
            if commits {
                programme.edited_at = now;
                programme.model.apply(change, at);
            }
        }
    }

    fn dispatch(&mut self, now: i64) {
        if self.random.one_in(2) && self.timers_are_there() {
            self.edit_late(now);
        }
        match self.random.below(12) {
            // The dispatcher dies in the middle.
            0 | 1 => self.sql("BEGIN; SELECT sched.dispatch_due(); ROLLBACK"),
            // The server does.
            2 => {
                self.sql("BEGIN; SELECT sched.dispatch_due()");
                self.cluster.restart(Shutdown::Immediate);
                self.db = self.cluster.connect();
            }
            // The timers are lost.
            3 | 4 => self.sql(&format!("TRUNCATE {TIMER_TABLE}")),
            _ => {}
        }
        if self.random.one_in(3) || !self.timers_are_there() {
            self.sql("SELECT sched.rebuild()");
            for programme in &mut self.programmes {
                writeln!(programme.story, "{now}: rebuild").unwrap();
                programme.model.rebuild(now);
            }
        }
        self.dispatch_once(now);
        if self.random.one_in(4) {
            self.compare_timers(now);
        }
    }

    fn dispatch_once(&mut self, now: i64) {
        self.sql("SELECT sched.dispatch_due()");
        for programme in &mut self.programmes {
            let runs = programme.model.tick(now);
            writeln!(programme.story, "{now}: dispatch, to run {runs:?}").unwrap();
            programme.ledger.extend(runs);
        }
        self.compare_ledger(now);
    }

    /// Timers are derived: made anew from nothing, they are what they were. What a dispatcher has still to hear of aside.
    fn compare_timers(&mut self, now: i64) {
        let timers = &format!("SELECT s.schedule_name, concat_ws(' ', t.version, t.next_plan_time, CASE WHEN t.buffered_plan IS NULL THEN t.fire_at END,
                             t.waiting, t.buffered_plan, t.parked, t.last_error,
                             CASE WHEN t.backlog_until > t.cursor_at THEN t.backlog_until END, 'last', t.last_plan_time)
                        FROM {TIMER} t JOIN sched.schedule s USING (schedule_id) JOIN sched.job j USING (job_name)
                       WHERE s.schedule_id NOT IN (SELECT schedule_id FROM sched.schedule_change)");
        let before = self.by_name(timers);
        self.sql(&format!("TRUNCATE {TIMER_TABLE}"));
        self.sql("SELECT sched.rebuild()");
        let after = self.by_name(timers);
        for programme in &mut self.programmes {
            let Programme { name, story, model, .. } = programme;
            writeln!(story, "{now}: truncate, rebuild").unwrap();
            let (mut before, mut after) = (before.get(name).map(String::as_str), after.get(name).map(String::as_str));
            if model.overtaken > 0 {
                // That a plan time which somebody else saw to was the last, before such an edit, is not remembered.
                let but_last = |timer: &str| timer.find(" last").unwrap_or(timer.len());
                (before, after) = (before.map(|t| &t[..but_last(t)]), after.map(|t| &t[..but_last(t)]));
            }
            assert_eq!(after, before, "seed {}, {name} at {now}: timers\n{story}", self.seed);
            programme.model.rebuild(now);
        }
    }

    fn compare_ledger(&mut self, now: i64) {
        let mut ledger = self.by_name(
            "SELECT s.schedule_name, string_agg(round(extract(epoch FROM e.plan_time - s.created_at))::text, ' ' ORDER BY e.plan_time)
               FROM sched.schedule s JOIN sched.execution e USING (schedule_name) WHERE e.origin = 'schedule' GROUP BY 1",
        );
        for Programme { name, story, ledger: runs, .. } in &mut self.programmes {
            runs.sort_unstable();
            let wanted: Vec<String> = runs.iter().map(i64::to_string).collect();
            let found = ledger.remove(name).unwrap_or_default();
            assert_eq!(found, wanted.join(" "), "seed {}, {name} at {now}: executions\n{story}", self.seed);
        }
        assert!(ledger.is_empty(), "{ledger:?}");
    }

    fn timers_are_there(&mut self) -> bool {
        self.db.query_one(&format!("SELECT EXISTS (SELECT FROM {TIMER} t)"), &[]).unwrap().get(0)
    }

    /// Compares the skips and, right after a dispatch, every verdict.
    fn compare(&mut self, now: i64, after_dispatch: bool) {
        let until = now + 5 * STEP;
        let mut verdicts = self.by_name(&format!(
            "SELECT s.schedule_name, string_agg(round(extract(epoch FROM e.plan_time - s.created_at)) || ' ' || e.verdict || '|'
                                                || COALESCE(e.reason, ''), ', ' ORDER BY e.plan_time)
               FROM sched.schedule s, sched.explain(s.schedule_name, s.created_at, s.created_at + interval '{until} seconds') e GROUP BY 1"
        ));
        let mut skipped = self.by_name(
            "SELECT schedule_name, string_agg(reason || ' ' || count, ', ' ORDER BY reason)
               FROM (SELECT schedule_name, reason, sum(count) AS count FROM sched.skipped GROUP BY 1, 2) s GROUP BY 1",
        );
        let mut next = self.by_name(
            "SELECT d.schedule_name, coalesce(round(extract(epoch FROM d.next_plan_time - s.created_at))::text, '')
               FROM sched.schedules d JOIN sched.schedule s USING (schedule_name) WHERE d.state = 'armed'",
        );
        let both = self.by_name(
            "SELECT schedule_name, string_agg(format('%s %s to %s', e.plan_time, k.plan_from, k.plan_to), ', ')
               FROM sched.skipped k JOIN sched.execution e USING (schedule_name)
              WHERE e.origin <> 'manual' AND e.plan_time BETWEEN k.plan_from AND k.plan_to GROUP BY 1",
        );
        assert_eq!(both, BTreeMap::new(), "seed {} at {now}: fired and skipped", self.seed);
        for programme in &mut self.programmes {
            let Programme { name, model, story, .. } = programme;
            let seed = self.seed;
            if let Some(found) = next.remove(name).filter(|_| after_dispatch) {
                let wanted = model.next(now).map_or(String::new(), |plan| plan.to_string());
                assert_eq!(found, wanted, "seed {seed}, {name} at {now}: comes next\n{story}");
            }
            let found = verdicts.remove(name).unwrap_or_default();
            let wanted = model.verdicts(until - 1, now);
            if after_dispatch {
                let wanted: Vec<String> =
                    wanted.into_iter().map(|(plan, verdict)| format!("{plan} {verdict}")).collect();
                let (mut left, mut right) = (found.split(", "), wanted.iter());
                loop {
                    match (left.next().filter(|text| !text.is_empty()), right.next()) {
                        (None, None) => break,
                        (found, wanted) => assert_eq!(
                            found,
                            wanted.map(String::as_str),
                            "seed {seed}, {name} at {now}: verdicts\n{story}"
                        ),
                    }
                }
                let wanted: Vec<String> =
                    model.skipped(now).iter().map(|(reason, count)| format!("{reason} {count}")).collect();
                let found = skipped.remove(name).unwrap_or_default();
                assert_eq!(found, wanted.join(", "), "seed {seed}, {name} at {now}: skipped\n{story}");
            } else {
                // What waits for the next dispatch may be told in several ways; what is decided may not.
                let found: BTreeMap<i64, &str> = found
                    .split(", ")
                    .filter_map(|verdict| verdict.split_once(' '))
                    .map(|(plan, verdict)| (plan.parse().unwrap(), verdict))
                    .collect();
                assert_eq!(found.len(), wanted.len(), "seed {seed}, {name} at {now}: plan times\n{story}");
                for (plan, _) in wanted {
                    let verdict = found
                        .get(&plan)
                        .unwrap_or_else(|| panic!("seed {seed}, {name}: no verdict on {plan}\n{story}"));
                    if let Some(decided) = model.decided(plan) {
                        assert_eq!(*verdict, decided, "seed {seed}, {name} at {now}: {plan}\n{story}");
                    } else {
                        assert!(!verdict.starts_with("forgotten"), "seed {seed}, {name} at {now}: {plan}\n{story}");
                    }
                }
            }
        }
        assert!(verdicts.is_empty());
    }

    fn by_name(&mut self, query: &str) -> BTreeMap<String, String> {
        let rows = self.db.query(query, &[]).unwrap_or_else(|error| panic!("seed {}: {error}: {query}", self.seed));
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

/// How many edits were overtaken.
fn lived(seed: u64) -> usize {
    let mut world = World::new(seed);
    let mut now = 0;
    for step in 0..STEPS {
        // Mostly the next hour; sometimes nothing dispatches for half a day.
        let wait = world.random.pick(&[1, 1, 1, 2, 3, 15]);
        now += wait * STEP;
        if world.random.one_in(2) {
            world.walk_to(now + SOON);
            world.dispatch(now + SOON);
            if step % 4 == 3 {
                world.compare(now + SOON, true);
            }
        }
        world.walk_to(now + EDIT);
        world.edit_some(now + EDIT);
        if step % 6 == 2 {
            world.compare(now + EDIT, false);
        }
        if world.random.one_in(2) {
            world.walk_to(now + LATE);
            world.dispatch(now + LATE);
        }
    }
    now += STEP + SOON;
    world.walk_to(now);
    world.dispatch(now);
    world.compare(now, true);
    let overtaken: usize = world.programmes.iter().map(|programme| programme.model.overtaken).sum();
    println!("seed {seed}: {overtaken} edits were overtaken");
    overtaken
}

/// Programmes of these seeds; a world has some edits that are overtaken, or the test would not show what becomes of them.
fn live(seeds: RangeInclusive<u64>) {
    let worlds = seeds.clone().count();
    let overtaken: usize = seeds.map(lived).sum();
    assert!(overtaken > 10 * worlds, "{overtaken} edits were overtaken in {worlds} worlds");
}

#[test]
fn programmes_do_what_the_model_does_1() {
    live(1..=1);
}

#[test]
fn programmes_do_what_the_model_does_2() {
    live(2..=2);
}

#[test]
fn programmes_do_what_the_model_does_3() {
    live(3..=3);
}

#[test]
fn programmes_do_what_the_model_does_4() {
    live(4..=4);
}

#[test]
#[ignore = "long: 5,000 programmes"]
fn long_programmes_do_what_the_model_does() {
    live(100..=119);
}
