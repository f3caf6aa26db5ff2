//! Jobs row by row: what job_read.sql says, and what a session remembers of it until somebody defines or drops a job.

use std::cell::RefCell;
use std::collections::HashMap;

use pgrx::pg_sys::{self, Oid};

use crate::heap::layouts::{self, job};
use crate::heap::{Condition, Index, Present, Table};
use crate::pg::invalidation::{self, JOBS};
use crate::store::job::{is_done_when_fired, Job};

/// How many jobs a session remembers: more than one runner has, and little memory, whatever names are asked for.
const MOST: usize = 64;

/// Jobs by name, also those that there are not, and the number of changes until which that is true.
#[derive(Default)]
struct Memory {
    changes: u64,
    jobs: HashMap<String, Option<Job>>,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

/// The job of this name, as it was when this session last heard of a change; `None` where the table is not as this file expects it.
///
/// A change is told when its transaction has ended, a moment after others can see it. Who asks after its client was answered hears of it.
pub fn find(schema: Oid, name: &str) -> Option<Option<Job>> {
    invalidation::hear();
    let remembered = MEMORY.with_borrow(|memory| {
        let valid = memory.changes == JOBS.changes();
        if valid {
            memory.jobs.get(name).cloned()
        } else {
            None
        }
    });
    remembered.or_else(|| read(schema, name))
}

/// The same, read now.
pub fn read(schema: Oid, name: &str) -> Option<Option<Job>> {
    let table = Table::open(schema, &layouts::JOB)?;
    let changes = JOBS.watch(&table);
    let present = Present::look();
    let found = Index::open(&table, c"job_pkey", &present).find(&[Condition::equal(pg_sys::F_TEXTEQ, name)]);
    let job = found.then(|| Job {
        owner: table.must(job::OWNER),
        queue: table.must(job::QUEUE),
        priority: table.must(job::PRIORITY),
        max_attempts: table.must(job::MAX_ATTEMPTS),
        allow_stale_reentry: table.must(job::ALLOW_STALE_REENTRY),
        stale_timeout: table.get(job::STALE_TIMEOUT),
        done_when_fired: is_done_when_fired(&table.must::<String>(job::KIND)),
    });
    if let Some(changes) = changes {
        remember(changes, name, &job);
    }
    Some(job)
}

fn remember(changes: u64, name: &str, job: &Option<Job>) {
    MEMORY.with_borrow_mut(|memory| {
        if memory.changes != changes || memory.jobs.len() >= MOST {
            *memory = Memory { changes, jobs: HashMap::new() };
        }
        memory.jobs.insert(name.to_owned(), job.clone());
    });
}
