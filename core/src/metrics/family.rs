//! The families of metrics: each name, type, unit and what it says of itself, once.

/// How a family's numbers are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// It only rises, until a reset.
    Counter,
    /// It is what it is now.
    Gauge,
    /// Counters of how many were within each bound, and their sum.
    Histogram,
}

impl MetricType {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        }
    }
}

macro_rules! families {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $kind:ident, $help:literal;)+) => {
        /// A family of metrics.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Family {
            $($(#[$doc])* $variant,)+
        }

        impl Family {
            /// Every family, in the order in which they are shown.
            pub const ALL: &'static [Family] = &[$(Family::$variant),+];

            /// Its name, without the suffixes of its samples.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Family::$variant => $name,)+
                }
            }

            /// How its numbers are to be read.
            #[must_use]
            pub const fn kind(self) -> MetricType {
                match self {
                    $(Family::$variant => MetricType::$kind,)+
                }
            }

            /// What it says of itself, in one line.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self {
                    $(Family::$variant => $help,)+
                }
            }
        }
    };
}

families! {
    /// What schedules put into the ledger.
    Fires = "sched_fires", Counter,
        "Executions that schedules put into the ledger: dispatched, fired by hand or backfilled.";
    /// What applications put there.
    Enqueued = "sched_enqueued", Counter,
        "Executions that applications enqueued.";
    /// Leases that were given.
    Claims = "sched_claims", Counter,
        "Leases that were given. outcome: won (the first of an execution) or stole (a further attempt).";
    /// Attempts that ended, and executions that ended without one.
    Finishes = "sched_finishes", Counter,
        "Ends of attempts, and of executions without one (cancelled, delivered). outcome: SUCCESS, FAILED or CANCELLED. Those that failed for good: FAILED less sched_retries_total.";
    /// Plan times that were passed over.
    Skips = "sched_skips", Counter,
        "Plan times that dispatchers passed over. reason: as in sched.skipped.";
    /// Failed attempts that another one follows.
    Retries = "sched_retries", Counter,
        "Attempts that failed and are to be tried again.";
    /// Rounds of dispatchers.
    Ticks = "sched_ticks", Counter,
        "Rounds of the dispatcher, and calls of sched.dispatch_due.";
    /// How late executions began.
    Lateness = "sched_lateness_seconds", Histogram,
        "From the time for which an execution was planned (plan_time after the delay and jitter of its schedule; created_at of what applications enqueue or claim; run_at where that is later) to its first attempt. Backfills are not counted.";
    /// How long attempts took.
    Duration = "sched_duration_seconds", Histogram,
        "From the beginning of an attempt to its end, whatever its outcome.";
    /// What can be claimed.
    QueueDepth = "sched_queue_depth", Gauge,
        "Executions that can be claimed, due retries among them. Counted where they are few, else estimated from a sample of pages of sched.ready.";
    /// For how long the oldest of the next to be claimed waits.
    QueueOldest = "sched_queue_oldest_claimable_seconds", Gauge,
        "For how long the executions that are to be claimed next, one of each priority, could have been claimed: the longest; 0 where there is none.";
    /// Whether nobody may claim from it.
    QueuePaused = "sched_queue_paused", Gauge,
        "1 where the queue is paused, else 0.";
    /// What runs.
    Running = "sched_running", Gauge,
        "Executions that have a lease. Counted up to 1000, beyond that estimated from a sample of pages of sched.lease.";
    /// What is due and did not fire.
    TimersDue = "sched_timers_due", Gauge,
        "Schedules that are due and have not fired, counted up to 1000; 0 on a standby and in a copy, where nothing is to fire.";
    /// What is to fire.
    TimersArmed = "sched_timers_armed", Gauge,
        "Schedules that have a next fire. Counted where they are few, else estimated from a sample of pages of sched.timer.";
    /// What cannot be used.
    SchedulesParked = "sched_schedules_parked", Gauge,
        "Schedules that cannot be used until somebody changes them; of 1000 that are parked or failing.";
    /// What did not fire the last time.
    SchedulesFailing = "sched_schedules_failing", Gauge,
        "Schedules whose last fire failed; of 1000 that are parked or failing.";
    /// What somebody is to be told of.
    AlertsOpen = "sched_alerts_open", Gauge,
        "Open alerts that nobody has acknowledged, counted up to 1000. Schedules that are parked or failing have gauges of their own.";
    /// Whether anything is done by itself.
    Enabled = "sched_enabled", Gauge,
        "1 where sched.enabled is on, else 0: then dispatchers and runners do nothing.";
    /// When something fires next.
    NextFire = "sched_next_fire_timestamp_seconds", Gauge,
        "When the next schedule is to fire. Missing where none is.";
    /// Since when the counters count.
    CountersReset = "sched_counters_reset_timestamp_seconds", Gauge,
        "Since when the counters count: the start of the server, a crash, or CREATE EXTENSION.";
}

impl Family {
    /// The unit that its name ends with.
    #[must_use]
    pub fn unit(self) -> Option<&'static str> {
        self.name().ends_with("_seconds").then_some("seconds")
    }
}
