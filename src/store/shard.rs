//! Which scopes are this database's, where several share them: each scope is in one of 1,024 buckets (`ids::bucket`), and `sched.shard` says
//! which buckets are here. Without a row all are, and a call pays one comparison for it.
//!
//! Who writes asks with a lock on one of our tables in hand, and who changes the buckets takes all of them for himself: so what was
//! answered holds until the transaction ends. Who only reads is told what was committed when he asked.

use std::cell::RefCell;
use std::ffi::CStr;

use pgrx::datum::Uuid;
use pgrx::{pg_sys, PgSqlErrorCode};

use crate::heap::{LatestSnapshot, Scan, Table};
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::invalidation::{self, SHARD};
use crate::pg::record::Record;
use crate::pg::{convert, oid_cache, Session};
use crate::store::execution::ids;
use crate::store::low_water_marks;
use crate::store::queue::enqueue::EnqueueBatch;
use crate::{arguments, statement};

const TABLE: &CStr = c"shard";

/// How often an id is drawn before it is said that none is to be had: with one bucket of 1,024 one draw in e^20 sees that many fail.
const MOST_DRAWS: usize = 20 * 1024;

/// The buckets of this database, one bit each.
type Bits = [u64; 16];

/// What was read, and as of which change of the table.
struct Known {
    changes: u64,
    buckets: Option<Bits>,
    /// The transaction that said so.
    since: pg_sys::TransactionId,
}

thread_local! {
    static KNOWN: RefCell<Option<Known>> = const { RefCell::new(None) };
}

/// Whether several databases share scopes, of which this one has some; `40001`.
pub fn is_shared(session: &Session) -> Outcome<bool> {
    buckets(|| session).map(|buckets| buckets.is_some())
}

/// The buckets that are here, where not all are; `40001` in a transaction whose snapshot is older than the last change of them.
fn buckets<'s>(session: impl FnOnce() -> &'s Session) -> Outcome<Option<Bits>> {
    let known = KNOWN.with_borrow(|known| {
        known.as_ref().filter(|known| known.changes == SHARD.changes()).map(|known| (known.buckets, known.since))
    });
    let (buckets, since) = known.map_or_else(|| read(session), Ok)?;
    if is_newer_than_snapshot(since) {
        return Err(Failure::new(
            PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
            "could not serialize access due to a concurrent change of this server's buckets",
            "Try the transaction again.",
        ));
    }
    Ok(buckets)
}

/// Reads the table anew. Objects of older versions have none.
fn read<'s>(session: impl FnOnce() -> &'s Session) -> Outcome<(Option<Bits>, pg_sys::TransactionId)> {
    let all = (None, pg_sys::InvalidTransactionId);
    let schema = oid_cache::schema().map(|(schema, _)| schema);
    let Some(schema) = schema.filter(|schema| oid_cache::relation(*schema, TABLE).is_some()) else { return Ok(all) };
    let table = Table::open_any(schema, TABLE);
    let changes = table.watch(&SHARD);
    let (latest, mut is_empty, mut is_frozen) = (LatestSnapshot::take(), true, true);
    let mut scan = Scan::open(&table, &latest);
    while scan.next() {
        is_empty = false;
        is_frozen &= table.is_frozen();
    }
    drop(scan);
    drop(table);
    let (buckets, since) = if is_empty { all } else { read_row(session()) };
    // (What was read before a row was frozen is read anew: that changes the table's entry in the catalog.)
    let since = if is_frozen { pg_sys::InvalidTransactionId } else { since };
    if let Some(changes) = changes {
        KNOWN.set(Some(Known { changes, buckets, since }));
    }
    Ok((buckets, since))
}

/// What its rows say, and the transaction that wrote them last.
fn read_row(session: &Session) -> (Option<Bits>, pg_sys::TransactionId) {
    statement!(BUCKETS = "shard/buckets"());
    let rows = BUCKETS.run(session, arguments![]);
    let Some(row) = rows.first() else { return (None, pg_sys::InvalidTransactionId) };
    let since = pg_sys::TransactionId::from(u32::try_from(row.get_required::<i64>("since")).unwrap_or(0));
    let mut bits: Bits = [0; 16];
    for bucket in row.get_required::<Vec<Option<i32>>>("buckets").into_iter().flatten() {
        if let Ok(bucket) = usize::try_from(bucket) {
            bits.get_mut(bucket / 64).into_iter().for_each(|word| *word |= 1 << (bucket % 64));
        }
    }
    ((bits != [u64::MAX; 16]).then_some(bits), since)
}

fn is_newer_than_snapshot(since: pg_sys::TransactionId) -> bool {
    // SAFETY: inside a transaction; a transaction of these levels has one snapshot, which this returns.
    unsafe {
        pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32
            && !pg_sys::TransactionIdIsCurrentTransactionId(since)
            && pg_sys::XidInMVCCSnapshot(since, pg_sys::GetTransactionSnapshot())
    }
}

fn has(buckets: &Bits, bucket: u16) -> bool {
    let bucket = usize::from(bucket);
    buckets.get(bucket / 64).is_some_and(|word| word >> (bucket % 64) & 1 == 1)
}

/// Has the buckets stay as they are until the transaction ends. Who has written to one of our tables need not.
pub fn lock() {
    let ledger = oid_cache::schema().and_then(|(schema, _)| oid_cache::relation(schema, c"ledger"));
    if let Some(ledger) = ledger {
        // SAFETY: inside a transaction.
        unsafe { pg_sys::LockRelationOid(ledger, pg_sys::RowExclusiveLock as pg_sys::LOCKMODE) }
    }
}

/// `40001` in a transaction that is older than the buckets; to be asked before something is done for no scope in particular.
pub fn check_snapshot<'s>(session: impl FnOnce() -> &'s Session) -> Outcome<()> {
    buckets(session).map(drop)
}

/// `55000` where one of these scopes is another server's.
pub fn require<'s, 'a>(
    session: impl FnOnce() -> &'s Session,
    scopes: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Outcome<()> {
    first_elsewhere(session, scopes)?.map_or(Ok(()), |(_, failure)| Err(failure))
}

/// The same for who asks before he has written: what is not another server's stays so until the transaction ends.
pub fn require_to_write<'s, 'a>(
    session: impl FnOnce() -> &'s Session,
    scopes: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Outcome<()> {
    lock();
    require(session, scopes)
}

/// The first of these scopes that is another server's.
pub fn first_elsewhere<'s, 'a>(
    session: impl FnOnce() -> &'s Session,
    scopes: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Outcome<Option<(usize, Failure)>> {
    let Some(buckets) = buckets(session)? else { return Ok(None) };
    let found = scopes.into_iter().enumerate().find(|(_, (kind, id))| !has(&buckets, ids::bucket(kind, id)));
    Ok(found.map(|(place, scope)| (place, elsewhere(scope))))
}

/// Why a scope is not to be used here, if it is another server's.
pub fn reason(session: &Session, scope: (&str, &str)) -> Option<String> {
    or_raise(first_elsewhere(|| session, [scope])).map(|(_, failure)| failure.message)
}

/// The same of the schedule of this name, to read about it.
pub fn require_schedule(session: &Session, name: &str) -> Outcome<()> {
    statement!(SCHEDULE_SCOPE = "shard/schedule_scope"(TEXTOID));
    invalidation::accept_invalidations();
    if buckets(|| session)?.is_none() {
        return Ok(());
    }
    let rows = SCHEDULE_SCOPE.run(session, arguments![name]);
    let scope = rows.first().map(|row| [row.get_required::<String>("scope_kind"), row.get_required("scope_id")]);
    require(|| session, scope.iter().map(|[kind, id]| (kind.as_str(), id.as_str())))
}

/// The same for who asks before a table is taken, to read.
pub fn require_to_read(session: &Session, scope_kind: &str, scope_id: &str) -> Outcome<()> {
    invalidation::accept_invalidations();
    require(|| session, [(scope_kind, scope_id)])
}

/// The first of the drawn ids whose scope is here; `55000` where none is.
pub fn draw(session: &Session, scope_kind: &str, mut id: impl FnMut(usize) -> String) -> Outcome<String> {
    let Some(buckets) = buckets(|| session)? else { return Ok(id(0)) };
    let drawn = |number: usize| {
        pgrx::check_for_interrupts!();
        id(number)
    };
    (0..MOST_DRAWS).map(drawn).find(|id| has(&buckets, ids::bucket(scope_kind, id))).ok_or_else(|| {
        Failure::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "this server has no buckets: nothing can be put here",
            "Call it on a server that has some, or give this one some with sched.set_buckets.",
        )
    })
}

/// Executions in scopes that were drawn for them, those drawn anew whose scope is another server's; `None` where all are here.
pub fn draw_scopes<'s, 'b>(
    session: impl Fn() -> &'s Session,
    batch: &EnqueueBatch<'b>,
) -> Outcome<Option<EnqueueBatch<'b>>> {
    let kind = batch.scope_kind;
    let Some(buckets) = buckets(&session)? else { return Ok(None) };
    let mut drawn = batch.part(&(0..batch.keys.len()).collect::<Vec<_>>());
    for (scope_id, key) in drawn.scope_ids.iter_mut().zip(&mut drawn.keys) {
        if !has(&buckets, ids::bucket(kind, scope_id)) {
            *scope_id = draw(session(), kind, |_| ids::execution_id().to_string())?;
            *key = ids::scope_key(batch.job_name, kind, scope_id);
        }
    }
    Ok(Some(drawn))
}

fn elsewhere((scope_kind, scope_id): (&str, &str)) -> Failure {
    let bucket = ids::bucket(scope_kind, scope_id);
    let [kind, id] = [scope_kind, scope_id].map(convert::shown);
    Failure::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("scope (\"{kind}\", \"{id}\") is in bucket {bucket}, which is not one of this server's"),
        "Call it on the server that has this bucket: sched.buckets() says which ones a server has.",
    )
}

/// Says which buckets are here. What waits in those that leave is claimed by nobody, and their schedules fire nothing; what comes back is
/// claimed again, and schedules begin anew. The caller has all of our tables. The queues in which something became claimable.
pub fn set(session: &Session, buckets: &str) -> Vec<String> {
    statement!(SHARD_SET = "shard/set"(TEXTOID));
    statement!(SCHEDULES_MOVE = "shard/schedules_move"(TEXTOID));
    statement!(WAITING_MOVE = "shard/waiting_move"(TEXTOID));
    SHARD_SET.run(session, arguments![buckets]);
    SCHEDULES_MOVE.run(session, arguments![buckets]);
    low_water_marks::added_rows(&WAITING_MOVE.run(session, arguments![buckets]))
}

/// Whether these ranges are of buckets.
pub fn are_buckets(session: &Session, ranges: &str) -> bool {
    statement!(ARE_BUCKETS = "shard/are_buckets"(TEXTOID));
    ARE_BUCKETS.run(session, arguments![ranges]).first().is_some_and(|row| row.get_required("are_buckets"))
}

/// The buckets that are here, as ranges.
pub fn ranges(session: &Session) -> String {
    statement!(BUCKETS_AS_RANGES = "shard/buckets_as_ranges"());
    BUCKETS_AS_RANGES.run(session, arguments![]).first().map_or_else(String::new, |row| row.get_required("buckets"))
}

/// Schedules that another server has the bucket of, locked.
pub fn schedules_elsewhere(session: &Session) -> Vec<i64> {
    statement!(SCHEDULES_ELSEWHERE = "shard/schedules_elsewhere"(TEXTOID));
    let rows = SCHEDULES_ELSEWHERE.run(session, arguments![ranges(session)]);
    rows.iter().map(|row| row.get_required("schedule_id")).collect()
}

/// Executions that another server has the bucket of and that nobody runs.
pub fn waiting_elsewhere(session: &Session) -> Vec<Uuid> {
    statement!(WAITING_ELSEWHERE = "shard/waiting_elsewhere"());
    WAITING_ELSEWHERE.run(session, arguments![]).iter().map(|row| row.get_required("execution_id")).collect()
}
