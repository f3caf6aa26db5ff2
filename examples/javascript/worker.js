#!/usr/bin/env node
// A worker for one queue of the scheduler. Copy it and replace `work`. The connection comes from the usual PG* environment variables.
'use strict';

const { parseArgs } = require('node:util');
const { setTimeout: sleep } = require('node:timers/promises');
const { escapeIdentifier } = require('pg');
const { Worker } = require('pg-scheduler');

const options = {
  queue: { type: 'string', default: 'default' }, // the queue to claim from
  'until-idle': { type: 'boolean' }, // leave when nothing is left to claim
  max: { type: 'string' }, // leave after so many finished executions
  'log-to': { type: 'string' }, // write a row (execution_id, attempt, what) for each execution that succeeds
};
const given = parseArgs({ options }).values;

// REPLACE THIS. What is written through run.db commits with the run's success, or not at all. Throw when it fails.
async function work(run) {
  const { command, message, seconds = 0, failing_attempts: failing = 0 } = run.payload;
  const what = message ?? command ?? 'nothing to do'; // (a line of a crontab is not run, only said)
  if (run.attempt <= failing) throw new Error(`attempt ${run.attempt} was told to fail`);
  await sleep(seconds * 1000, undefined, { signal: run.signal }); // pretends to be busy
  if (given['log-to']) {
    const table = given['log-to'].split('.').map(escapeIdentifier).join('.');
    await run.db.query(`insert into ${table} (execution_id, attempt, what) values ($1, $2, $3)`, [run.executionId, run.attempt, what]);
  }
  return { what };
}

let left = Number(given.max ?? Infinity);
function ended(run, said) {
  console.log(`${run.jobName} planned for ${run.planTime.toISOString().slice(11, 19)}: ${said}`);
  if ((left -= 1) === 0) worker.stop();
}

const hooks = { succeeded: (run) => ended(run, 'done'), failed: (run, error) => ended(run, `failed: ${error.message}`) };
const worker = new Worker({}, given.queue, { hooks }).job('*', work);
void (given['until-idle'] ? worker.drain() : worker.run());
