// How a run ends: by a snooze, in mode "finish", with an error, for good.
const { Discard, Retry, Snooze, Worker, assert, connected, drain, effects, enqueue, enqueueMany, inserted, ledger, ledgers, main, once, until } = require('./support.js');

const snoozed = (said, seconds) => {
  assert.deepEqual([said.status, said.attempt, said.counts], ['PENDING', 0, { PENDING: 1 }]);
  assert.ok(Math.abs(said.seconds - seconds) < 60, String(said.seconds));
};

async function snooze() {
  const db = await connected();
  const sql = (run) => run.db.query("SELECT sched.snooze($1, $2, now() + interval '1 h')", [run.executionId, run.leaseToken]);
  const handlers = {
    thrown: async (run) => { await inserted(run.db, run); throw new Snooze(3600); },
    instant: async (run) => { await inserted(run.db, run); throw new Snooze(new Date(Date.now() + 3600e3)); },
    method: async (run) => { await inserted(run.db, run); run.snooze(3600); },
    'in SQL': async (run) => { await inserted(run.db, run); await sql(run); },
    'in SQL, with a result': async (run) => { await inserted(run.db, run); await sql(run); return { lost: true }; },
  };
  for (const [name, handler] of Object.entries(handlers)) {
    const lost = [];
    const said = await once(db, 'snooze', handler, { hooks: { lost: (run) => lost.push(run) } });
    snoozed(said, 3600);
    assert.deepEqual([said.effects, lost], [[null], []], name);
  }
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

async function ended_by_its_handler() {
  const db = await connected();
  const succeeded = await once(db, 'effect', async (run) => {
    await inserted(run.db, run);
    await run.db.query(`SELECT sched.finish_success($1, $2, result => '{"own": 1}')`, [run.executionId, run.leaseToken]);
  });
  assert.deepEqual([succeeded.status, succeeded.result, succeeded.effects, succeeded.counts], ['SUCCESS', '{"own": 1}', [null], { SUCCESS: 1 }]);
  const failed = await once(db, 'effect', async (run) => {
    await inserted(run.db, run);
    await run.db.query("SELECT sched.finish_failure($1, $2, 'mine')", [run.executionId, run.leaseToken]);
  });
  assert.deepEqual([failed.status, failed.code, failed.effects, failed.counts], ['FAILED', 'mine', [null], { FAILED: 1 }]);
}

async function finish_mode() {
  const db = await connected();
  const finish = { transaction: 'finish' };
  const returned = await once(db, 'finish', async () => [1, 2], finish);
  assert.deepEqual([returned.status, returned.result], ['SUCCESS', '[1, 2]']);
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
  const thrown = await once(db, 'finish', (run) => run.finishing(async (own) => {
    await inserted(own, run);
    throw new TypeError('told to fail');
  }), finish);
  assert.deepEqual([thrown.status, thrown.code, thrown.effects], ['FAILED', 'TypeError', []]);
  const later = await once(db, 'finish', (run) => run.finishing(async (own) => {
    await inserted(own, run);
    throw new Snooze(3600);
  }), finish);
  snoozed(later, 3600);
  assert.deepEqual(later.effects, [null]);
  snoozed(await once(db, 'finish', async () => { throw new Snooze(3600); }, finish), 3600);
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

/** Forty handlers are under way, in no transaction. */
async function forty_slots() {
  const db = await connected();
  await enqueueMany(db, 'finish', Array.from({ length: 60 }, () => ({})));
  let go;
  const gone = new Promise((then) => (go = then));
  let running = 0;
  const worker = new Worker({ application_name: 'forty' }, { queues: { work: 38, other: 2 }, transaction: 'finish', pollMs: 200 });
  worker.job('finish', async (run) => {
    running += 1;
    await gone;
    await run.finishing((own) => inserted(own, run));
  });
  await enqueueMany(db, 'other', [{}, {}]);
  worker.job('other', async () => { running += 1; await gone; });
  const ended = worker.run();
  await until('40 to run', () => running === 40);
  const connections = async () => (await db.query("SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = 'forty'")).rows[0].n;
  assert.ok((await connections()) <= 10, `${await connections()} connections`);
  go();
  await until('all to be done', async () => (await db.query("SELECT count(*)::int AS n FROM sched.execution WHERE job_name = 'finish' AND status <> 'SUCCESS'")).rows[0].n === 0);
  assert.ok((await connections()) <= 10, `${await connections()} connections`);
  worker.stop();
  await ended;
  assert.equal((await db.query('SELECT count(DISTINCT execution_id)::int AS n FROM effect')).rows[0].n, 60);
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

async function on_dead() {
  const db = await connected();
  for (const transaction of ['run', 'finish']) {
    let calls = 0;
    const hooks = { async onDead(run, error) { calls += 1; await inserted(run.db, run, error.message); } };
    const fail = async () => { throw new Discard('for good'); };
    const dead = await once(db, 'on_dead', fail, { transaction, hooks });
    assert.deepEqual([dead.status, dead.seconds, dead.effects, calls], ['FAILED', null, ['for good'], 1]);
    const alive = await once(db, 'on_dead', async () => { throw new Error('once more'); }, { transaction, hooks });
    assert.deepEqual([alive.status, alive.effects, calls], ['FAILED', [], 1]);
    const last = await once(db, 'last', async () => { throw new Error('the last'); }, { transaction, hooks });
    assert.deepEqual([last.seconds, last.effects, calls], [null, ['the last'], 2]);
    // Where it throws, the failure is there and its writes are not.
    const id = await enqueue(db, 'on_dead');
    const worker = new Worker({}, 'work', { transaction, hooks: { async onDead(run) { await inserted(run.db, run); throw new Error('the hook'); } } });
    await assert.rejects(() => worker.job('on_dead', fail).drain(), /the hook/);
    assert.deepEqual([(await ledger(db, id)).code, (await db.query('SELECT FROM effect WHERE execution_id = $1', [id])).rowCount], ['Discard', 0]);
  }
}

async function commit_in_a_handler() {
  const db = await connected();
  for (const [statement, left] of [['COMMIT', [null]], ['ROLLBACK', []], ['COMMIT; BEGIN', [null]]]) {
    const handler = async (run) => { await inserted(run.db, run); await run.db.query(statement); };
    const said = await once(db, 'commit', handler);
    assert.deepEqual([said.status, said.code, said.attempt, said.effects], ['FAILED', 'TransactionEnded', 1, left], statement);
    const finishing = await once(db, 'commit', (run) => run.finishing(async (own) => { await inserted(own, run); await own.query(statement); }), { transaction: 'finish' });
    assert.deepEqual([finishing.status, finishing.code, finishing.effects], ['FAILED', 'TransactionEnded', left], statement);
  }
  const savepoint = await once(db, 'commit', async (run) => { await run.db.query('SAVEPOINT a'); await inserted(run.db, run); await run.db.query('ROLLBACK TO a'); });
  assert.deepEqual([savepoint.status, savepoint.effects], ['SUCCESS', []]);
}

/** The commit fails twice with a conflict. */
async function conflict_at_commit() {
  const db = await connected();
  for (const [transaction, calls] of [['run', 3], ['finish', 1]]) {
    await db.query('ALTER SEQUENCE tries RESTART');
    let called = 0;
    let worked = 0;
    const work = async (own, run) => { worked += 1; await own.query('INSERT INTO conflicting (execution_id) VALUES ($1)', [run.executionId]); };
    const broken = [];
    const handler = async (run) => { called += 1; await (transaction === 'run' ? work(run.db, run) : run.finishing((own) => work(own, run))); };
    const said = await once(db, 'conflict', handler, { transaction, hooks: { broken: (error) => broken.push(error) } });
    assert.deepEqual([said.status, said.attempt, called, worked, broken], ['SUCCESS', 1, calls, 3, []], transaction);
    assert.equal((await db.query('SELECT FROM conflicting WHERE execution_id = $1', [said.id])).rowCount, 1);
  }
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

main({ snooze, ended_by_its_handler, finish_mode, forty_slots, errors, on_dead, commit_in_a_handler, conflict_at_commit, broken_connections, a_broken_connection });
