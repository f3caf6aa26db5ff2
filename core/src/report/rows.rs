//! The plain rows that a page is drawn from. Whoever fills them decides what became of each plan time; nothing here
//! has a field for a payload, a result or a token, so none can appear.

use crate::health::Severity;
use crate::lease::Status;
use crate::schedule::SkipReason;
use crate::time::Instant;

use super::user_text::UserText;
use super::verdict::Verdict;

/// What a page or a timeline shows of time.
#[derive(Clone, Debug)]
pub struct View {
    /// The left edge.
    pub from: Instant,
    /// The right edge, later than `from`. What lies outside of the two is not drawn.
    pub to: Instant,
    /// When it was asked for.
    pub now: Instant,
    /// The name of the zone that the labels are in.
    pub time_zone: UserText,
    /// Write nothing but ASCII: where the database's or the client's encoding is not UTF-8.
    pub ascii_only: bool,
}

/// All that a page shows.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its time axis.
    pub view: View,
    /// What it is about: the name of the database.
    pub title: UserText,
    /// Where that is: the name of the cluster, or host and port.
    pub server: UserText,
    /// Only schedules whose names are like this are shown; `None` = all.
    pub like: Option<UserText>,
    /// A row each; the page orders them.
    pub schedules: Vec<Schedule>,
    /// The load to come, in any order; hours without any may be missing.
    pub load: Vec<LoadHour>,
    /// How late runs began, by columns of time that do not overlap.
    pub lateness: Vec<LatenessColumn>,
    /// What `sched.health()` says.
    pub health: Vec<Health>,
    /// The open alerts, and those that were resolved in the view; `None` where nobody keeps any.
    pub alerts: Option<Vec<Alert>>,
}

/// One schedule, and what became of its plan times in the view.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Its name.
    pub name: UserText,
    /// Its clock, as written.
    pub clock: UserText,
    /// The zone of its clock.
    pub time_zone: UserText,
    /// The word of `sched.schedules.state`.
    pub state: String,
    /// When it comes next, in the view or after it.
    pub next_plan_time: Option<Instant>,
    /// Why it is parked, or fails, where the reader may know.
    pub last_error: Option<UserText>,
    /// Its plan times, in any order.
    pub marks: Vec<Mark>,
}

impl Schedule {
    /// Whether its planned times will come as things are: not while it is paused or parked, or where somebody else fires it.
    pub(super) fn is_to_fire(&self) -> bool {
        !matches!(self.state.as_str(), "paused" | "parked" | "external" | "elsewhere" | "copied" | "done")
    }

    /// Its plan times that are drawn.
    pub(super) fn drawn(&self) -> impl Iterator<Item = &Mark> {
        let fires = self.is_to_fire();
        self.marks.iter().filter(move |mark| fires || mark.verdict != Verdict::Planned)
    }
}

/// One plan time, or neighbours of one verdict that were only counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The plan time, or the first of them.
    pub first: Instant,
    /// The last of them; the same as `first` where there is one.
    pub last: Instant,
    /// How many there are; at least 1.
    pub count: u64,
    /// What became of it.
    pub verdict: Verdict,
    /// Why it did not run, of what was skipped.
    pub reason: Option<SkipReason>,
    /// What is known of its run, where it had one.
    pub run: Option<Run>,
}

impl Mark {
    /// One plan time without a run.
    #[must_use]
    pub const fn one(plan_time: Instant, verdict: Verdict) -> Mark {
        Mark { first: plan_time, last: plan_time, count: 1, verdict, reason: None, run: None }
    }

    /// `count` plan times from `first` to `last`.
    #[must_use]
    pub const fn many(first: Instant, last: Instant, count: u64, verdict: Verdict) -> Mark {
        Mark { first, last, count, verdict, reason: None, run: None }
    }

    /// The same, skipped for this reason.
    #[must_use]
    pub fn because(self, reason: SkipReason) -> Mark {
        Mark { reason: Some(reason), ..self }
    }

    /// The same, with its run.
    #[must_use]
    pub fn with_run(self, run: Run) -> Mark {
        Mark { run: Some(run), ..self }
    }
}

/// How much somebody should mind what became of a plan time, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Concern {
    /// It was skipped, and nobody wanted that.
    Skipped,
    /// It is late, or takes longer than it may.
    Late,
    /// It failed.
    Failed,
}

impl Mark {
    /// `None` where all is as somebody wanted it.
    pub(super) fn concern(&self) -> Option<Concern> {
        match self.verdict {
            Verdict::Failed => Some(Concern::Failed),
            Verdict::Late => Some(Concern::Late),
            Verdict::Skipped => match self.reason {
                Some(SkipReason::Missed | SkipReason::Window | SkipReason::Parked) => Some(Concern::Skipped),
                // A policy, a pause or an edit asked for it.
                Some(SkipReason::Overlap | SkipReason::Paused | SkipReason::Replaced) | None => None,
            },
            Verdict::Waiting | Verdict::Running | Verdict::Ran | Verdict::Planned if self.is_long() => {
                Some(Concern::Late)
            }
            Verdict::Waiting | Verdict::Running | Verdict::Ran | Verdict::Planned => None,
        }
    }

    fn is_long(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.is_long)
    }

    /// Whether what is wrong goes on: it has not begun, or has not ended.
    pub(super) fn is_open(&self) -> bool {
        let last = self.run.as_ref().and_then(|run| run.attempts.last());
        match self.verdict {
            Verdict::Late => last.is_none_or(|attempt| attempt.ended_at.is_none()),
            Verdict::Running | Verdict::Waiting => true,
            Verdict::Failed | Verdict::Skipped | Verdict::Ran | Verdict::Planned => false,
        }
    }
}

/// The run of one plan time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// How many attempts it had so far.
    pub attempt: u32,
    /// Those that are still known, oldest first: the last one at least.
    pub attempts: Vec<Attempt>,
    /// Why it failed for good, where it did.
    pub cause: Option<Cause>,
    /// Its last attempt takes, or took, longer than the schedule's `max_duration`.
    pub is_long: bool,
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The code that its worker gave, or an SQLSTATE.
    pub code: UserText,
    /// The first line of the message; empty where the reader may not know.
    pub message: UserText,
}

/// One attempt of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// When it began.
    pub started_at: Instant,
    /// When it ended; `None` while it runs.
    pub ended_at: Option<Instant>,
    /// How it ended: RUNNING, SUCCESS, FAILED or CANCELLED.
    pub status: Status,
}

/// How many plan times an hour has.
#[derive(Clone, Copy, Debug)]
pub struct LoadHour {
    /// When the hour begins.
    pub from: Instant,
    /// How many plan times lie in it, of all schedules.
    pub count: u64,
}

/// Upper bounds of the classes of lateness, in microseconds; what is later falls in one more class.
pub const LATENESS_BOUNDS: [i64; 5] = [100_000, 1_000_000, 10_000_000, 60_000_000, 600_000_000];
/// How many classes of lateness there are.
pub const LATENESS_CLASSES: usize = LATENESS_BOUNDS.len() + 1;

/// How late the runs began whose plan times lie in [from, to).
#[derive(Clone, Copy, Debug)]
pub struct LatenessColumn {
    /// The first instant of the column.
    pub from: Instant,
    /// The first instant after it.
    pub to: Instant,
    /// How many runs there are of each class, see [`lateness_class`].
    pub counts: [u64; LATENESS_CLASSES],
}

/// The class of a run that began so many microseconds after its plan time.
#[must_use]
pub fn lateness_class(micros: i64) -> usize {
    LATENESS_BOUNDS.iter().position(|bound| micros <= *bound).unwrap_or(LATENESS_BOUNDS.len())
}

/// A row of `sched.health()`.
#[derive(Clone, Debug)]
pub struct Health {
    /// What it is about.
    pub component: UserText,
    /// How bad it is.
    pub severity: Severity,
    /// Since when, where it is not ok.
    pub since: Option<Instant>,
    /// What is so.
    pub message: UserText,
    /// What to do, where it is not ok.
    pub hint: UserText,
}

/// A row of `sched.alerts`.
#[derive(Clone, Debug)]
pub struct Alert {
    /// Its kind: `late`, `failed` and so on.
    pub kind: UserText,
    /// The schedule that it is about.
    pub schedule_name: UserText,
    /// Since when it is open.
    pub since: Instant,
    /// Since when it is open no more; `None` = it is.
    pub resolved_at: Option<Instant>,
    /// The plan time that it is about, where it is about one.
    pub plan_time: Option<Instant>,
    /// The limit of the schedule that was passed, in microseconds, where it is still known.
    pub limit: Option<i64>,
    /// Code and first line of an error, where there is one and the reader may know.
    pub cause: Option<Cause>,
    /// What is so, for a kind that has no words here.
    pub message: UserText,
    /// Until when somebody wants to hear no more of it.
    pub acknowledged_until: Option<Instant>,
}
