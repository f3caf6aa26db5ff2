//! Attempts end row by row: what finish_success.sql, finish_success_many.sql, and lease_read.sql with finish_failed.sql say.

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::{self, Datum, Oid};
use pgrx::IntoDatum;
use scheduler_core::lease::Status;
use scheduler_core::{Instant, Keyword};

use crate::heap::layouts::{self, job, lease, ledger, ready, retry};
use crate::heap::{Condition, Index, LatestSnapshot, ModifyResult, OrderedLookup, Table};
use crate::pg::convert::timestamp;
use crate::pg::error::{raise, Failure};
use crate::pg::jsonb::Jsonb;
use crate::pg::record::Record;
use crate::pg::role;
use crate::store::counted;
use crate::store::lease::end::{EndedRun, Ending, Failing, FinishResult};
use crate::store::lease::heap::LedgerTables;

/// What finds a row by its id and makes it the table's current one: alone, or one after the other of many.
trait ById {
    fn by_id(&mut self, id: Uuid) -> bool;
}

impl ById for Index<'_> {
    fn by_id(&mut self, id: Uuid) -> bool {
        self.find(&[Condition::equal(pg_sys::F_UUID_EQ, id)])
    }
}

impl ById for OrderedLookup<'_> {
    fn by_id(&mut self, id: Uuid) -> bool {
        self.find(id)
    }
}

/// What an end says beside what the lease says.
#[derive(Clone, Copy)]
struct EndColumns {
    status: Status,
    rows_affected: Option<Datum>,
    result: Option<Datum>,
    error_code: Option<Datum>,
    error_msg: Option<Datum>,
    retry_at: Option<TimestampWithTimeZone>,
}

impl EndColumns {
    fn success(rows_affected: Option<i64>, result: Option<Datum>) -> EndColumns {
        let rows_affected = rows_affected.into_datum();
        EndColumns { status: Status::Success, rows_affected, result, error_code: None, error_msg: None, retry_at: None }
    }
}

/// Where what failed waits, and what decides when it is tried again.
struct RetryTables {
    ready: Table,
    retry: Table,
    jobs: Table,
}

impl RetryTables {
    fn open(ledger: &LedgerTables) -> Option<RetryTables> {
        let (schema, workspace) = (ledger.leases.schema, &ledger.leases.workspace);
        Some(RetryTables {
            ready: Table::open_to_write(schema, &layouts::READY, workspace)?,
            retry: Table::open_to_write(schema, &layouts::RETRY, workspace)?,
            jobs: Table::open(schema, &layouts::JOB)?,
        })
    }

    /// What the job of this name says, if there is one.
    fn backoff(&self, job_name: &str) -> Option<Vec<Option<Interval>>> {
        let latest = LatestSnapshot::take();
        let found = Index::open(&self.jobs, c"job_pkey", &latest).find(&[Condition::equal(pg_sys::F_TEXTEQ, job_name)]);
        if found {
            self.jobs.get(job::RETRY_BACKOFF)
        } else {
            None
        }
    }

    /// Has the execution of this row of the ledger wait for its retry, if it has one.
    fn put(&self, entry: &Table, ended: &EndedRun) {
        let [queue, priority, plan_time, owner] =
            [ledger::QUEUE, ledger::PRIORITY, ledger::PLAN_TIME, ledger::OWNER].map(|column| entry.datum(column));
        let id = entry.datum(ledger::ID);
        if ended.claimable.is_some() {
            self.ready.insert(&layouts::row::<{ layouts::READY.columns.len() }>([
                (ready::QUEUE, queue),
                (ready::PRIORITY, priority),
                (ready::PLAN_TIME, plan_time),
                (ready::EXECUTION_ID, id),
                (ready::OWNER, owner),
            ]));
        } else if ended.retry_at.is_some() {
            self.retry.insert(&layouts::row::<{ layouts::RETRY.columns.len() }>([
                (retry::RETRY_AT, ended.retry_at.into_datum()),
                (retry::EXECUTION_ID, id),
                (retry::QUEUE, queue),
                (retry::PRIORITY, priority),
                (retry::PLAN_TIME, plan_time),
                (retry::OWNER, owner),
            ]));
        }
        ended.mark_retry();
    }
}

impl LedgerTables {
    /// Ends the attempt that this lease is for; `Some(None)` where the lease is lost, `None` where a statement has to do it.
    pub fn end(&self, run: (Uuid, Uuid), ending: &Ending, now: Instant) -> Option<Option<EndedRun>> {
        let mut leases = self.scan(&self.leases.lease, c"lease_pkey");
        let mut entries = self.scan(&self.ledger, c"ledger_pkey");
        match ending {
            Ending::Success { rows_affected, result } => {
                let success = EndColumns::success(*rows_affected, result.clone().into_datum());
                Some(self.end_one(&mut leases, &mut entries, run, |_, _| success, now, None))
            }
            Ending::Failure { error_code, error_msg, decide } => {
                let tables = RetryTables::open(self)?;
                // A lease that has lost its execution (a partial restore) is nobody's.
                if !entries.by_id(run.0) {
                    return Some(None);
                }
                let backoff = tables.backoff(&self.ledger.get_required::<String>(ledger::JOB_NAME));
                let failure = |lease: &Table, entry: &Table| {
                    let end = decide(&Failing::of(lease, entry, backoff.clone()));
                    EndColumns {
                        status: end.status(),
                        rows_affected: None,
                        result: None,
                        error_code: error_code.into_datum(),
                        error_msg: error_msg.into_datum(),
                        retry_at: end.retry_at(),
                    }
                };
                let ended = self.end_one(&mut leases, &mut entries, run, failure, now, None);
                ended.iter().for_each(|ended| tables.put(&self.ledger, ended));
                Some(ended)
            }
        }
    }

    /// Ends runs as SUCCESS whose owner `caller` may act for; those that did not end and those that are awaited.
    ///
    /// In the order of their ids, so that two sessions that end overlapping sets never wait for each other in a circle.
    pub fn finish_success_many(&self, runs: &[(Uuid, Uuid)], now: Instant, caller: Oid) -> Vec<FinishResult> {
        let (mut leases, mut entries) = (self.lookup_leases(), self.lookup_ledger());
        let success = EndColumns::success(None, Jsonb::empty().into_datum());
        let mut ordered = runs.to_vec();
        ordered.sort_unstable_by_key(|run| (*run.0.as_bytes(), *run.1.as_bytes()));
        let (mut ended, mut noted) = (Vec::<Uuid>::with_capacity(runs.len()), Vec::new());
        for run in ordered {
            pgrx::check_for_interrupts!();
            if ended.last() == Some(&run.0) {
                continue;
            }
            let end = self.end_one(&mut leases, &mut entries, run, |_, _| success, now, Some(caller));
            let Some(end) = end else { continue };
            ended.push(run.0);
            if end.awaited_by.is_some() {
                noted.push(FinishResult { execution_id: run.0, ended: true, awaited_by: end.awaited_by });
            }
        }
        let lost = runs.iter().filter(|run| ended.binary_search_by_key(run.0.as_bytes(), |id| *id.as_bytes()).is_err());
        noted.extend(lost.map(|run| FinishResult { execution_id: run.0, ended: false, awaited_by: None }));
        noted
    }

    /// Deletes the lease and writes how its run ended; `None` where the lease is lost, or `caller` may not act for its owner. `columns` decides
    /// by the lease that is gone and the newest row of the ledger.
    fn end_one(
        &self,
        leases: &mut impl ById,
        entries: &mut impl ById,
        (execution_id, lease_token): (Uuid, Uuid),
        columns: impl Fn(&Table, &Table) -> EndColumns,
        now: Instant,
        caller: Option<Oid>,
    ) -> Option<EndedRun> {
        let (entry, lease) = (&self.ledger, &self.leases.lease);
        if !leases.by_id(execution_id) {
            return None;
        }
        let progress = loop {
            let foreign = caller.is_some_and(|caller| !role::may_act_for(caller, lease.get_required(lease::OWNER)));
            if foreign || lease.get_required::<Uuid>(lease::LEASE_TOKEN) != lease_token {
                return None;
            }
            // A copy: what was stored beside the row goes with it.
            let progress = lease.get::<Jsonb>(lease::PROGRESS);
            match lease.delete() {
                ModifyResult::Done => break progress,
                ModifyResult::Updated => {}
                ModifyResult::Deleted => return None,
            }
        };
        if !entries.by_id(execution_id) {
            raise(Failure::internal("a lease without an execution"));
        }
        let (at, progress) = (timestamp(now).into_datum(), progress.and_then(IntoDatum::into_datum));
        loop {
            let end = columns(lease, entry);
            let changes = [
                (ledger::STATUS, end.status.as_str().into_datum()),
                (ledger::ATTEMPT, lease.datum(lease::ATTEMPT)),
                (ledger::RUNNER_ID, lease.datum(lease::RUNNER_ID)),
                (ledger::LEASE_TOKEN, lease.datum(lease::LEASE_TOKEN)),
                (ledger::FENCE, lease.datum(lease::FENCE)),
                (ledger::STARTED_AT, lease.datum(lease::STARTED_AT)),
                (ledger::HEARTBEAT_AT, lease.datum(lease::HEARTBEAT_AT)),
                (ledger::PROGRESS, progress),
                (ledger::FINISHED_AT, at),
                (ledger::UPDATED_AT, at),
                (ledger::ROWS_AFFECTED, end.rows_affected),
                (ledger::RESULT, end.result),
                (ledger::ERROR_CODE, end.error_code),
                (ledger::ERROR_MSG, end.error_msg),
                (ledger::NEXT_RETRY_AT, end.retry_at.into_datum()),
            ];
            match entry.update(&changes) {
                ModifyResult::Done => {
                    let is_tried_again = end.retry_at.is_some();
                    counted::ended(entry, end.status, lease.get(lease::STARTED_AT), is_tried_again, now);
                    let ended = EndedRun::of(entry, end.retry_at, now);
                    let is_terminal = end.status == Status::Failed && !is_tried_again;
                    return Some(if is_terminal { ended.failed_for_good(entry) } else { ended });
                }
                ModifyResult::Updated => {}
                ModifyResult::Deleted => raise(Failure::internal("an execution went while it was running")),
            }
        }
    }
}
