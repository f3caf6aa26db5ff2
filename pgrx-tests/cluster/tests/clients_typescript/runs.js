// How a run ends: by a snooze, in mode "finish", with an error, for good.
const { Discard, Retry, Snooze, Worker, assert, connected, drain, effects, enqueue, enqueueMany, inserted, ledger, ledgers, main, once, until } = require('./support.js');

const snoozed = (said, seconds) => {
  assert.deepEqual([said.status, said.attempt, said.counts], ['PENDING', 0, { PENDING: 1 }]);
  assert.ok(Math.abs(said.seconds - seconds) < 60, String(said.seconds));
};

async function snooze() {
  const db = await connected();
  const instant = () => new Date(Date.now() + 3600e3);
  for (const handler of [async () => { throw new Snooze(instant()); }, async (run) => run.snooze(instant())]) snoozed(await once(db, 'snooze', handler), 3600);
  // A transaction that has failed has nothing to commit.
  const failed = await once(db, 'snooze', async (run) => {
    await inserted(run.db, run);
    await run.db.query('SELECT 1 / 0').catch(() => { throw new Snooze(3600); });
  });
  snoozed(failed, 3600);
  assert.deepEqual(failed.effects, []);
  assert.throws(() => new Snooze(NaN), RangeError);
  // Of a batch one waits.
  const ids = await enqueueMany(db, 'batch', [{ wait: true }, {}]);
  const worker = new Worker({}, 'work', { batch: 2 }).batch('batch', async (runs) => {
    for (const run of runs) await inserted(run.db, run);
    runs.find((run) => run.payload.wait).snooze(3600);
  });
  assert.deepEqual(await drain(worker), { PENDING: 1, SUCCESS: 1 });
  assert.deepEqual([(await ledger(db, ids[0])).status, (await ledger(db, ids[1])).status], ['PENDING', 'SUCCESS']);
}

async function finish_mode() {
  const db = await connected();
  const finish = { transaction: 'finish' };
  const closed = await once(db, 'finish', async (run) => run.db, finish);
  assert.match(closed.message, /^Error: run\.db is closed.*run\.finishing/);
  const done = await once(db, 'finish', async (run) => {
    const idle = await db.query("SELECT count(*)::int AS open FROM pg_stat_activity WHERE application_name = 'test' AND xact_start IS NOT NULL AND pid <> pg_backend_pid()");
    const got = await run.finishing(async (own) => {
      assert.equal(own, run.db);
      await inserted(own, run);
      return { open: idle.rows[0].open };
    });
    assert.deepEqual(got, { open: 0 });
    await assert.rejects(() => run.finishing(async () => {}), /once/);
  }, finish);
  assert.deepEqual([done.status, done.result, done.effects], ['SUCCESS', '{"open": 0}', [null]]);
  // It has been committed: an error that comes after that is told.
  const warnings = [];
  const late = await once(db, 'finish', async (run) => {
    await run.finishing((own) => inserted(own, run));
    throw new Error('too late');
  }, { ...finish, hooks: { warning: (message) => warnings.push(message) } });
  assert.deepEqual([late.status, late.effects, warnings.length], ['SUCCESS', [null], 1]);
  const inRun = await once(db, 'finish', (run) => run.finishing(async () => {}));
  assert.match(inRun.message, /run\.finishing is for transaction: "finish"/);
}

async function errors() {
  const db = await connected();
  const fail = (error) => once(db, 'errors', async function handlerOfTheTest() { throw error(); });
  const said = await fail(() => new KeyError('invoice', { cause: new RangeError('its cause') }));
  assert.equal(said.code, 'KeyError');
  assert.match(said.message, /^KeyError: invoice\n +at [^]*handlerOfTheTest[^]*\nCaused by RangeError: its cause\n +at /);
  const long = await fail(() => new Error(`begin ${'x'.repeat(9000)}`, { cause: new Error('the end') }));
  assert.ok(long.message.length <= 4000 && long.message.length > 2000, String(long.message.length));
  assert.match(long.message, /^Error: begin x[^]*…\n[^]*Caused by Error: the end\n[^]*at [^]*$/);
  const sql = await once(db, 'errors', (run) => run.db.query('SELECT 1 / 0'));
  assert.equal(sql.code, 'DatabaseError');
  assert.match(sql.message, /^DatabaseError: division by zero \(22012\)\n/);
  const retry = await fail(() => new Retry(7200, 'not yet'));
  assert.deepEqual([retry.status, retry.code, retry.attempt], ['FAILED', 'Retry', 1]);
  assert.ok(Math.abs(retry.seconds - 7200) < 60, String(retry.seconds));
  const instant = await fail(() => new Retry(new Date(Date.now() + 7200e3)));
  assert.ok(Math.abs(instant.seconds - 7200) < 60, String(instant.seconds));
}
class KeyError extends Error {}

/** Where the hook throws, the failure is there and its writes are not. */
async function on_dead() {
  const db = await connected();
  for (const transaction of ['run', 'finish']) {
    const fail = async () => { throw new Discard('for good'); };
    let given;
    const hooks = { async onDead(run, error) { given = error.message; await inserted(run.db, run); throw new Error('the hook'); } };
    const id = await enqueue(db, 'on_dead');
    await assert.rejects(() => new Worker({}, 'work', { transaction, hooks }).job('on_dead', fail).drain(), /the hook/);
    assert.deepEqual([given, (await ledger(db, id)).code, await effects(db, id)], ['for good', 'Discard', []]);
  }
}

/** The commit fails twice with a conflict: what is done again is the function of `finishing`, not the handler. */
async function conflict_at_commit() {
  const db = await connected();
  let called = 0;
  let worked = 0;
  const said = await once(db, 'conflict', async (run) => {
    called += 1;
    await run.finishing(async (own) => { worked += 1; await own.query('INSERT INTO conflicting (execution_id) VALUES ($1)', [run.executionId]); });
  }, { transaction: 'finish' });
  assert.deepEqual([said.status, said.attempt, called, worked], ['SUCCESS', 1, 1, 3]);
}

/** All connections of the worker break while its handlers have none. */
async function broken_connections() {
  const db = await connected();
  const ids = await enqueueMany(db, 'finish', Array.from({ length: 8 }, () => ({})));
  let go;
  const gone = new Promise((then) => (go = then));
  let running = 0;
  let first = true;
  const worker = new Worker({ application_name: 'broken' }, 'work', { slots: 8, transaction: 'finish', hooks: { broken() {} } });
  const kills = () => db.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'broken'");
  worker.job('finish', async (run) => {
    running += 1;
    await gone;
    await run.finishing(async (own) => {
      if (first) await kills((first = false));
      await inserted(own, run);
    });
  });
  const ended = worker.run();
  await until('all to run', () => running === 8);
  await kills();
  go();
  await until('all to be done', async () => (await ledgers(db, ids)).every(({ status }) => status === 'SUCCESS'));
  worker.stop();
  await ended;
  for (const id of ids) assert.deepEqual([(await ledger(db, id)).attempt, await effects(db, id)], [1, [null]]);
}

/** The connection of a handler breaks: its run fails at once, and those that were claimed with it are given back. */
async function a_broken_connection() {
  const db = await connected();
  const ids = await enqueueMany(db, 'last', [{ breaks: true }, {}, {}]);
  const seen = [];
  const worker = new Worker({}, 'work', { batch: 3, hooks: { broken() {}, failed: (run) => seen.push(run.executionId) } });
  worker.job('last', async (run) => {
    if (run.payload.breaks) await run.db.query('SELECT pg_terminate_backend(pg_backend_pid())');
    await inserted(run.db, run);
  });
  const ended = worker.run();
  await until('all to end', async () => (await ledgers(db, ids)).every(({ status }) => ['SUCCESS', 'FAILED'].includes(status)));
  worker.stop();
  await ended;
  const said = await ledgers(db, ids);
  assert.deepEqual(said.map(({ status, attempt }) => `${status} ${attempt}`).sort(), ['FAILED 1', 'SUCCESS 1', 'SUCCESS 1']);
  assert.deepEqual(seen, [ids[0]]);
  assert.match(said[0].message, /terminating connection/);
}

/** Others have ended a run whose handler has no use for the connection: what was claimed with its end is done nevertheless. */
async function ended_elsewhere() {
  const db = await connected();
  const ids = await enqueueMany(db, 'effect', [{ ended: true }, {}]);
  const lost = [];
  const worker = new Worker({}, 'work', { hooks: { lost: (run) => lost.push(run.executionId) } }).job('effect', async (run) => {
    if (run.payload.ended) await db.query("SELECT sched.finish_failure($1, $2, 'elsewhere', terminal => true)", [run.executionId, run.leaseToken]);
  });
  assert.deepEqual(await drain(worker), { LOST: 1, SUCCESS: 1 });
  const said = (await ledgers(db, ids)).map(({ status, attempt, code }) => `${status} ${attempt} ${code}`);
  assert.deepEqual([said, lost], [['FAILED 1 elsewhere', 'SUCCESS 1 null'], [ids[0]]]);
}

main({ ended_elsewhere, snooze, finish_mode, errors, on_dead, conflict_at_commit, broken_connections, a_broken_connection });
