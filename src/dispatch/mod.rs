//! One tick, in steps that the dispatcher runs in a transaction each and `dispatch_due` in its caller's: apply changes to
//! timers, end stale leases, make due retries claimable, fire due timers.

mod ahead;
mod alerts;
mod apply_changes;
mod bisect;
mod cancel;
mod compile;
mod definition_history;
mod deliver;
mod dropped;
mod expire_leases;
mod explain;
mod finish;
mod fire;
mod notify;
mod prune;
mod rebuild;
mod retry;
mod runs;
mod test_time;
mod two_owners;
mod views;

pub use ahead::report as report_ahead;
pub use alerts::{look as look_for_alerts, thin as thin_out_alerts, Looked as LookedForAlerts};
pub use apply_changes::{apply_all_changes, apply_changes};
pub use cancel::{cancel, settle_cancels, Cancelled};
pub use compile::{catch_up_of, overlap_of, rearm_of, MAX_PLANS_PER_TICK};
pub use definition_history::BoundedClock;
pub use deliver::deliver;
pub use dropped::settle_dropped;
pub use expire_leases::{promote_retries, sweep_stale};
pub use explain::{explain, explain_state, too_many, Verdict, MOST_PLANS};
pub use finish::{announce, end_of, wake_for_first};
pub use fire::{fire_due, Fired};
pub use notify::{insert, notify, notify_all, notify_queue};
pub use prune::{prune_now, Pruner};
pub use rebuild::rebuild;
pub use runs::{end_failed, end_lost, refuse};
pub use test_time::catch_up_with_the_clock;
pub use two_owners::look as look_for_two_owners;
pub use views::{due_once_applied, next_open, skip_parts, so_far};
