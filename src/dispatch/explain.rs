//! What became of each plan time: the ledger and the skips say what was decided, the definition and the timer what is still open.
//! What is decided is read after what is open, so that a dispatcher at work meanwhile leaves no plan time without a verdict.

use pgrx::datum::Uuid;
use pgrx::PgSqlErrorCode;
use scheduler_core::schedule::{Next, Progress, Skip, SkipReason};
use scheduler_core::{Instant, Keyword};

use crate::dispatch::apply_changes::{armed, is_edited};
use crate::dispatch::compile::CompiledSchedule;
use crate::dispatch::definition_history::{straightened, BoundedClock, EndedDefinitions};
use crate::pg::error::{Failure, Outcome};
use crate::pg::{convert, Session};
use crate::store::schedule::skipped_plans::{self, PastDefinition, RecordedSkip};
use crate::store::timer::{self, ScheduleRow, ScheduleState};

/// How many plan times are explained, or backfilled, at once.
pub const MOST_PLANS: u64 = 100_000;

/// What became of one plan time.
pub struct Verdict {
    /// Which.
    pub plan: Instant,
    /// One of the words that docs/reference/policies.md explains.
    pub verdict: &'static str,
    /// Its execution, where it has one.
    pub execution_id: Option<Uuid>,
    /// Why, where there is something to say.
    pub reason: Option<String>,
}

impl Verdict {
    fn fired(plan: Instant, execution_id: Uuid) -> Verdict {
        Verdict { plan, verdict: "fired", execution_id: Some(execution_id), reason: None }
    }
}

/// Some of the plan times of a schedule: those of one definition.
struct DefinitionRange {
    valid_from: Instant,
    plans: Vec<Instant>,
    /// They depend on runs, and are known from what was armed or skipped.
    counts_from_runs: bool,
    /// `None` = the definition that holds now.
    past: Option<PastDefinition>,
}

/// What became of each plan time of a schedule in [from, to); `54000` where there are more than [`MOST_PLANS`]. What the ledger has was fired,
/// whatever else is known of it: also what a definition fired that an edit had ended, and what was made up for by another clock.
pub fn explain(session: &Session, schedule_id: i64, from: Instant, to: Instant, now: Instant) -> Outcome<Vec<Verdict>> {
    let snapshots = timer::read(session, vec![schedule_id], timer::timers(session, vec![schedule_id]));
    snapshots.first().map_or(Ok(Vec::new()), |snapshot| explain_state(session, snapshot, [from, to], MOST_PLANS, now))
}

/// The same of a schedule that was read, of `most` plan times.
pub fn explain_state(
    session: &Session,
    snapshot: &ScheduleState,
    [from, to]: [Instant; 2],
    most: u64,
    now: Instant,
) -> Outcome<Vec<Verdict>> {
    let schedule_id = snapshot.schedule_id;
    let Some(row) = snapshot.schedule.as_ref() else { return Ok(Vec::new()) };
    let past = skipped_plans::definitions_between(session, schedule_id, from, to);
    let open = Undecided::of(snapshot, row, &past, now);
    let mut ranges = ranges(row, &past, [from, to], most)?;
    let mut skips = skipped_plans::between(session, schedule_id, from, to);
    skips.extend(open.skipped.iter().map(|(defined_at, skip)| RecordedSkip {
        defined_at: *defined_at,
        from: skip.from,
        to: skip.to,
        reason: skip.reason.as_str().to_owned(),
    }));
    skips.sort_by_key(|skip| (skip.defined_at, skip.from));
    for range in ranges.iter_mut().filter(|range| range.counts_from_runs) {
        let skipped = skips.iter().filter(|skip| skip.defined_at == range.valid_from).map(|skip| skip.from);
        let remembered = [open.armed, open.progress.buffered].into_iter().flatten().filter(|_| range.past.is_none());
        range.plans = skipped.chain(remembered).filter(|plan| (from..to).contains(plan)).collect();
        range.plans.sort_unstable();
        range.plans.dedup();
    }
    let all = ranges.iter().flat_map(|range| range.plans.iter().copied().map(convert::timestamp)).collect();
    let fired = skipped_plans::fired(session, schedule_id, all);
    let mut own = skipped_plans::own(session, schedule_id, from, to, most.saturating_add(1));
    let mut verdicts = Vec::new();
    for range in &ranges {
        for plan in &range.plans {
            let (verdict, reason) = if let Some(skip) = skip_of(&skips, range.valid_from, *plan) {
                ("skipped", Some(skip.reason.clone()))
            } else if let Some(past) = &range.past {
                (if past.owned { "forgotten" } else { "external" }, None)
            } else {
                let (verdict, reason) = open.verdict(*plan, now);
                (verdict, reason.map(str::to_owned))
            };
            let found =
                fired.binary_search_by_key(plan, |(taken, _)| taken.plan).ok().and_then(|found| fired.get(found));
            // What others put into a scope that the schedule has left tells of what is decided only.
            let others = found.filter(|(taken, _)| taken.here || !matches!(verdict, "due" | "waiting" | "planned"));
            verdicts.push(match own.remove(plan).or(others.map(|(_, id)| *id)) {
                Some(execution_id) => Verdict::fired(*plan, execution_id),
                None => Verdict { plan: *plan, verdict, execution_id: None, reason },
            });
        }
    }
    verdicts.extend(own.into_iter().map(|(plan, execution_id)| Verdict::fired(plan, execution_id)));
    verdicts.sort_by_key(|verdict| verdict.plan);
    if u64::try_from(verdicts.len()).is_ok_and(|count| count > most) {
        return Err(too_many(SHORTER));
    }
    Ok(verdicts)
}

/// What to do about a range with too many plan times.
const SHORTER: &str = "Ask for a shorter range; sched.skipped has one row for many plan times that did not run.";

/// The refusal of a range with more plan times than [`MOST_PLANS`].
pub fn too_many(hint: &str) -> Failure {
    Failure::new(
        PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        format!("there are more than {MOST_PLANS} plan times between from_time and to_time"),
        hint,
    )
}

/// The plan times in [from, to), definition by definition, in order.
fn ranges(
    row: &ScheduleRow,
    past: &[PastDefinition],
    [from, to]: [Instant; 2],
    most: u64,
) -> Outcome<Vec<DefinitionRange>> {
    let (after, last) = (from.just_before(), to.just_before());
    let mut bounds: Vec<(Instant, Instant, Outcome<BoundedClock>, Option<PastDefinition>)> = Vec::new();
    // (One that ended after we read the schedule is what we have read.)
    for past in straightened(past.iter(), row) {
        bounds.push((past.valid_from, past.valid_to, BoundedClock::of_past(&past, row.created_at), Some(past)));
    }
    bounds.push((row.defined_at, Instant::MAX, BoundedClock::of_row(row), None));
    let mut room = most;
    let mut ranges = Vec::new();
    for (valid_from, valid_to, bounded, past) in bounds {
        // A clock that cannot be read has no plan times.
        let Ok(bounded) = bounded else { continue };
        let (after, last) = (after.max(valid_from), last.min(valid_to));
        let count = bounded.count(after, last, room + 1);
        if count > room {
            return Err(too_many(SHORTER));
        }
        room -= count;
        let (plans, counts_from_runs) = (bounded.plans(after, last), bounded.counts_from_runs());
        ranges.push(DefinitionRange { valid_from, plans, counts_from_runs, past });
    }
    Ok(ranges)
}

/// The skip that a plan of this definition is part of.
fn skip_of(skips: &[RecordedSkip], valid_from: Instant, plan: Instant) -> Option<&RecordedSkip> {
    let behind = skips.partition_point(|skip| (skip.defined_at, skip.from) <= (valid_from, plan));
    let found = behind.checked_sub(1).and_then(|index| skips.get(index));
    found.filter(|skip| skip.defined_at == valid_from && plan <= skip.to)
}

/// What is not decided yet, as the next dispatcher will find it.
struct Undecided<'a> {
    row: &'a ScheduleRow,
    compiled: Option<CompiledSchedule>,
    progress: Progress,
    /// The plan that it is armed for.
    armed: Option<Instant>,
    waiting: bool,
    parked: bool,
    failing: bool,
    /// What an edit that no dispatcher has seen yet passes over.
    skipped: Vec<(Instant, Skip)>,
}

impl<'a> Undecided<'a> {
    fn of(snapshot: &ScheduleState, row: &'a ScheduleRow, past: &[PastDefinition], now: Instant) -> Undecided<'a> {
        let compiled = CompiledSchedule::compile_without_job(snapshot.schedule_id, row).ok();
        match snapshot.timer.as_ref().filter(|_| !is_edited(snapshot)) {
            Some(timer) => Undecided {
                row,
                compiled,
                progress: timer.progress_or_all(now),
                armed: timer.next_plan_time,
                waiting: timer.waiting,
                parked: timer.parked.is_some(),
                failing: timer.error_count > 0,
                skipped: Vec::new(),
            },
            None => {
                // Which of them were fired is looked at before all else.
                let new = armed(
                    snapshot,
                    row,
                    Some(&EndedDefinitions { definitions: past.to_vec(), fired: Vec::new() }),
                    None,
                    now,
                );
                Undecided {
                    row,
                    compiled,
                    progress: new.progress,
                    armed: match new.next {
                        Some(Next::Armed { plan_time, .. }) => Some(plan_time),
                        Some(Next::Waiting | Next::Done) | None => None,
                    },
                    waiting: new.next == Some(Next::Waiting),
                    parked: new.parked.is_some(),
                    failing: false,
                    skipped: new.skipped,
                }
            }
        }
    }

    /// What is to be said of a plan time of the present definition that was neither fired nor skipped.
    fn verdict(&self, plan: Instant, now: Instant) -> (&'static str, Option<&'static str>) {
        let Progress { cursor, buffered, backlog_until } = self.progress;
        let decided = Some(plan) <= cursor && buffered != Some(plan);
        let come = plan <= now;
        let waits = |reason| if come { ("waiting", Some(reason)) } else { ("planned", None) };
        let stopped = |verdict, reason| if come { (verdict, Some(reason)) } else { ("planned", Some(reason)) };
        if !self.row.owned {
            return if come { ("external", None) } else { ("planned", Some("external")) };
        }
        if decided {
            return ("forgotten", None);
        }
        if !self.row.enabled {
            return stopped("skipped", SkipReason::Paused.as_str());
        }
        let Some(compiled) = self.compiled.as_ref().filter(|_| !self.parked) else {
            return stopped("waiting", SkipReason::Parked.as_str());
        };
        let due = || ("due", self.failing.then_some("failing"));
        match buffered {
            Some(buffered) if buffered != plan || self.waiting => return waits(SkipReason::Overlap.as_str()),
            Some(_) => return due(),
            None => {}
        }
        if Some(plan) <= backlog_until {
            return if self.waiting { waits("backlog") } else { due() };
        }
        if self.waiting {
            return waits(SkipReason::Overlap.as_str());
        }
        let clock = compiled.clock.bind(&compiled.zone, compiled.anchor);
        if compiled.policy.fire_time(&clock, plan) <= now {
            due()
        } else {
            waits("delay")
        }
    }
}
