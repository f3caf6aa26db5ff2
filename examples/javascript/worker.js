#!/usr/bin/env node
// A worker for one queue of the scheduler: claims executions, does their work, and says how it went. Copy it and replace `work`.
//
// The connection comes from the usual PG* environment variables. The work runs in the same transaction as finish_success, so
// that either both count or neither does: a worker that lost its lease cannot commit. When the connection breaks, the program
// ends with an error and its lease runs out: let whatever starts your services start it again.
'use strict';

const { parseArgs } = require('node:util');
const { setTimeout: sleep } = require('node:timers/promises');
const { Client, escapeIdentifier } = require('pg');

const POLL_MS = 5000; // a notification comes much earlier; this is for those that got lost

// REPLACE THIS with what your jobs do, for example by execution.job_name.
//
// `db` is in a transaction: what is written through it is kept only if the work succeeds. Throw when it fails. `signal` is an
// AbortSignal: it fires when the work was cancelled or its lease is lost; pass it to fetch, timers and the like.
async function work(db, execution, signal, logTo) {
  const { command, user, message, seconds = 0, failing_attempts: failing = 0 } = execution.payload;
  const what = command // a line of a crontab: an example runs no shell commands, it only says what it would run
    ? `would run as ${user ?? 'this user'}: ${command}`
    : (message ?? 'nothing to do');
  if (execution.attempt <= failing) throw new Error(`attempt ${execution.attempt} was told to fail`);
  await sleep(seconds * 1000, null, { signal }); // pretends to be busy
  if (logTo) {
    const table = logTo.split('.').map(escapeIdentifier).join('.');
    await db.query(`insert into ${table} (execution_id, attempt, what) values ($1, $2, $3)`, [
      execution.execution_id, execution.attempt, what,
    ]);
  }
  return { what };
}

// Sends heartbeats while the work runs, on a connection of its own, because the work's is busy.
class Lease {
  #abort = new AbortController();
  #over = new AbortController();
  #beats;

  constructor(heartbeats, db, execution) {
    this.signal = this.#abort.signal;
    this.#beats = this.#beat(heartbeats, db, execution);
  }

  async #beat(heartbeats, db, { execution_id, lease_token, lease_seconds }) {
    for (;;) {
      try {
        await sleep((lease_seconds * 1000) / 3, null, { signal: this.#over.signal });
      } catch {
        return; // the work has ended
      }
      let answer;
      try {
        const { rows } = await heartbeats.query('select sched.heartbeat($1, $2) as answer', [execution_id, lease_token]);
        ({ answer } = rows[0]); // 'ok', or 'cancel'
      } catch (error) {
        answer = error.message; // 55000: another worker has the lease; or the connection is gone
      }
      if (answer !== 'ok') {
        this.#abort.abort(new Error(answer));
        // Interrupts the statement that the work may be waiting for.
        await heartbeats.query('select pg_cancel_backend($1)', [db.processID]).catch(() => {});
        return;
      }
    }
  }

  // Ends the heartbeats; throws when the work should not have gone on.
  async end() {
    this.#over.abort();
    await this.#beats;
    this.signal.throwIfAborted();
  }
}

// Leases one execution, or none. Committed at once, so that everyone sees who has it.
async function claim(db, queue) {
  const { rows } = await db.query(
    `select *, extract(epoch from stale_after - clock_timestamp())::float8 as lease_seconds
       from sched.claim(queue => $1, max_claims => 1)`,
    [queue],
  );
  return rows[0];
}

// Does the work of one execution and reports it; false when the lease was lost and there was nothing to report.
async function run(db, heartbeats, execution, logTo) {
  const name = `${execution.job_name} planned for ${execution.plan_time.toISOString()}`;
  const key = [execution.execution_id, execution.lease_token];
  try {
    await db.query('begin');
    const lease = new Lease(heartbeats, db, execution);
    let result;
    try {
      result = await work(db, execution, lease.signal, logTo);
    } finally {
      await lease.end();
    }
    await db.query('select sched.finish_success($1, $2, result => $3)', [...key, result]);
    await db.query('commit');
    console.log(`${name}: ${result.what}`);
    return true;
  } catch (error) {
    await db.query('rollback');
    try {
      const code = error.code ?? error.name;
      await db.query('select sched.finish_failure($1, $2, error_code => $3, error_msg => $4)', [...key, code, error.message]);
    } catch (refused) {
      if (refused.code !== '55000') throw refused;
      console.log(`${name}: lease lost, rolled back`);
      return false;
    }
    console.log(`${name}: failed: ${error.message}`);
    return true;
  }
}

async function connect() {
  const client = new Client({ fallback_application_name: 'worker.js' });
  await client.connect();
  client.on('error', (error) => {
    console.error(`the connection is lost: ${error.message}`);
    process.exit(1);
  });
  return client;
}

async function main() {
  const { values: options } = parseArgs({
    options: {
      queue: { type: 'string', default: 'default' },
      'until-idle': { type: 'boolean', default: false }, // leave when nothing is left to claim
      max: { type: 'string', default: 'Infinity' }, // leave after that many finished executions
      'log-to': { type: 'string' }, // write a row (execution_id, attempt, what) for each execution that succeeds
    },
  });

  // What a notification or a signal does: it ends the wait for work, also one that is about to begin.
  let stopping = false;
  let rung = false;
  let wake = () => {};
  const ring = () => {
    rung = true;
    wake();
  };
  for (const name of ['SIGTERM', 'SIGINT']) {
    process.on(name, () => {
      stopping = true; // finish the current execution, then leave
      ring();
    });
  }

  const db = await connect();
  const heartbeats = await connect();
  db.on('notification', ring);
  await db.query(`listen ${escapeIdentifier(`sched:${options.queue}`)}`); // before the first look

  let finished = 0;
  while (!stopping && finished < Number(options.max)) {
    rung = false;
    const execution = await claim(db, options.queue);
    if (execution) {
      finished += (await run(db, heartbeats, execution, options['log-to'])) ? 1 : 0;
    } else if (options['until-idle']) {
      break;
    } else if (!rung) {
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, POLL_MS);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }
  await Promise.all([db.end(), heartbeats.end()]);
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
