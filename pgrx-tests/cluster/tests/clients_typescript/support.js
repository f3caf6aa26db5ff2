// What the tests here share: a connection, the ledger, and a worker that is drained.
const assert = require('node:assert/strict');
const path = require('node:path');

const client = process.env.CLIENT;
const { Client } = require(path.join(client, 'node_modules/pg'));
const scheduler = require(client);
const testing = require(path.join(client, 'dist/testing.js'));

const connected = async (config = {}) => {
  const db = new Client(config);
  await db.connect();
  return db;
};

/** What the ledger says of an execution. */
const ledger = async (db, id) => {
  const { rows } = await db.query(
    `SELECT status, attempt, error_code AS code, error_msg AS message, result::text AS result, progress::text AS progress,
            coalesce(run_at, next_retry_at) - now() AS wait, date_part('epoch', coalesce(next_retry_at, run_at) - now()) AS seconds
       FROM sched.execution WHERE id = $1`, [id]);
  return rows[0];
};

const ledgers = async (db, ids) => {
  const said = [];
  for (const id of ids) said.push(await ledger(db, id));
  return said;
};

const inserted = (db, run, what = null) => db.query('INSERT INTO effect (execution_id, attempt, what) VALUES ($1, $2, $3)', [run.executionId, run.attempt, what]);
const effects = async (db, id) => (await db.query('SELECT what FROM effect WHERE execution_id = $1 ORDER BY what', [id])).rows.map(({ what }) => what);

/** Enqueues one execution and has it done by this handler: what the ledger says, and its effects. */
async function once(db, job, handler, options = {}, payload = {}) {
  const id = await scheduler.enqueue(db, job, payload);
  const worker = new scheduler.Worker({}, 'work', options).job(job, handler);
  const counts = await testing.drain(worker, { raiseErrors: false });
  return { id, counts, ...(await ledger(db, id)), effects: await effects(db, id) };
}

/** Runs the test that the command line names. */
function main(tests) {
  const name = process.argv[2];
  tests[name]().then(() => process.exit(0), (error) => {
    console.error(error);
    process.exit(1);
  });
}

const until = async (what, holds) => {
  for (let tries = 0; !(await holds()); tries += 1) {
    assert.ok(tries < 1200, what);
    await new Promise((then) => setTimeout(then, 25));
  }
};

module.exports = { ...scheduler, ...testing, Client, assert, connected, effects, inserted, ledger, ledgers, main, once, until };
