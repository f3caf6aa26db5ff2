#!/usr/bin/env node
// A worker for one queue of the scheduler. Copy it and replace `work`. The connection comes from the usual PG* environment variables.
'use strict';

const { setTimeout: sleep } = require('node:timers/promises');
const { escapeIdentifier } = require('pg');
const { main, Worker } = require('pg-scheduler');

// REPLACE THIS. What is written through run.db commits with the run's success, or not at all. Throw when it fails.
async function work(run, logTo) {
  const { command, message, seconds = 0, failing_attempts: failing = 0 } = run.payload;
  const what = message ?? command ?? 'nothing to do'; // (a line of a crontab is not run, only said)
  if (run.attempt <= failing) throw new Error(`attempt ${run.attempt} was told to fail`);
  await sleep(seconds * 1000, undefined, { signal: run.signal }); // pretends to be busy
  if (logTo) {
    const table = logTo.split('.').map(escapeIdentifier).join('.');
    await run.db.query(`insert into ${table} (execution_id, attempt, what) values ($1, $2, $3)`, [run.executionId, run.attempt, what]);
  }
  return { what };
}

// --log-to TABLE: write a row (execution_id, attempt, what) for each execution that succeeds
const make = (queue, options, given) => new Worker({}, queue, options).job('*', (run) => work(run, given['log-to']));
main(make, { 'log-to': { type: 'string' } }).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
