//! Jobs row by row: what job_read.sql says, and what a session remembers of it until somebody defines or drops a job.

use std::cell::RefCell;
use std::collections::HashMap;

use pgrx::pg_sys::{self, Oid};

use crate::heap::layouts;
use crate::heap::{Condition, Index, LatestSnapshot, Table};
use crate::pg::invalidation::{self, JOBS};
use crate::store::job::sql::Job;

/// How many jobs a session remembers: more than one runner has, and little memory, whatever names are asked for.
const MOST: usize = 64;

/// Jobs by name, also those that there are not, and the number of changes until which that is true.
#[derive(Default)]
struct Cache {
    changes: u64,
    jobs: HashMap<String, Option<Job>>,
}

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::default();
}

/// The job of this name, as it was when this session last heard of a change; `None` where the table is not as this file expects it.
///
/// A change is told when its transaction has ended, a moment after others can see it. Who asks after its client was answered hears of it.
pub fn find(schema: Oid, name: &str) -> Option<Option<Job>> {
    invalidation::accept_invalidations();
    let remembered = CACHE.with_borrow(|cache| {
        let valid = cache.changes == JOBS.changes();
        if valid {
            cache.jobs.get(name).cloned()
        } else {
            None
        }
    });
    remembered.or_else(|| read(schema, name))
}

/// The same, read now.
pub fn read(schema: Oid, name: &str) -> Option<Option<Job>> {
    let table = Table::open(schema, &layouts::JOB)?;
    let changes = table.watch(&JOBS);
    let latest = LatestSnapshot::take();
    let found = Index::open(&table, c"job_pkey", &latest).find(&[Condition::equal(pg_sys::F_TEXTEQ, name)]);
    let job = found.then(|| Job::of(&table));
    if let Some(changes) = changes {
        remember(changes, name, &job);
    }
    Some(job)
}

fn remember(changes: u64, name: &str, job: &Option<Job>) {
    CACHE.with_borrow_mut(|cache| {
        if cache.changes != changes || cache.jobs.len() >= MOST {
            *cache = Cache { changes, jobs: HashMap::new() };
        }
        cache.jobs.insert(name.to_owned(), job.clone());
    });
}
