// What goes in and comes out: numbers, ids, options, sessions, progress, and the helpers for tests.
const { Worker, advance, assert, cancel, connected, declareSchedules, drain, effects, enqueue, enqueueMany, enqueued, inserted, ledger, main, once, reset } = require('./support.js');

async function numbers() {
  const db = await connected();
  const big = 2n ** 53n + 1n;
  const payload = { id: big, list: [{ deep: -big }], half: 1.5, text: 'a "quoted" 99999999999999999999 \\', small: 7 };
  const kept = await once(db, 'numbers', async (run) => assert.deepEqual(run.payload, { ...payload, small: 7n }), { json: 'bigint' }, payload);
  assert.equal(kept.status, 'SUCCESS', kept.message);
  for (const wrong of [{ id: big }, { id: [2n ** 64n] }, { id: 10n ** 400n }]) {
    let called = false;
    const said = await once(db, 'numbers', async () => { called = true; }, {}, wrong);
    assert.deepEqual([said.status, said.code, called], ['FAILED', 'RangeError', false]);
    assert.match(said.message, /json: "bigint"/);
  }
  await db.query(`SELECT sched.enqueue('numbers', '{"n": 0.1234567890123456789}')`);
  await assert.rejects(() => drain(new Worker({}, 'work').job('numbers', async () => {})), /all digits of 0\.1234567890123456789/);
  const text = await once(db, 'numbers', async (run) => ({ text: run.payload }), { json: 'text' }, { id: big });
  assert.deepEqual(JSON.parse(text.result), { text: '{"id": 9007199254740993}' });
  const made = await once(db, 'numbers', async (run) => run.payload, { json: (json) => ({ length: json.length }) }, { id: big });
  assert.deepEqual(JSON.parse(made.result), { length: 24 });
  await assert.rejects(() => enqueue(db, 'numbers', { id: 2 ** 60 }), RangeError);
}

async function scalar_ids() {
  const db = await connected();
  const ids = [7, 7n, '7'];
  const executions = [];
  for (const scopeId of ids) executions.push(await enqueue(db, 'effect', {}, { scopeKind: 'invoice', scopeId, uniqueBy: 'scope' }));
  assert.equal(new Set(executions).size, 1);
  await enqueue(db, 'effect', {}, { scopeKind: 5, scopeId: true });
  const many = await enqueueMany(db, 'effect', [{ a: 1 }, { a: 2n }], { scopeIds: [1, 2n], runAts: [null, new Date(Date.now() + 3600e3)], priority: 3 });
  const waiting = await enqueued(db, { job: 'effect' });
  assert.deepEqual(waiting.map(({ scopeKind, scopeId }) => `${scopeKind} ${scopeId}`), ['invoice 7', '5 true', 'adhoc 1', 'adhoc 2']);
  assert.deepEqual((await enqueued(db, { payloadContains: { a: 2 } })).map(({ id, priority }) => [id, priority]), [[many[1], 3]]);
  await assert.rejects(() => enqueue(db, 'effect', {}, { scopeId: { id: 7 } }), TypeError);
  await assert.rejects(() => enqueue(db, 'effect', {}, { scopeId: 2 ** 60 }), RangeError);
}

async function unknown_options() {
  const db = await connected();
  await assert.rejects(() => enqueue(db, 'effect', {}, { run_at: new Date() }), /no option "run_at": write runAt/);
  await assert.rejects(() => enqueueMany(db, 'effect', [{}], { scope_ids: ['a'] }), /write scopeIds/);
  await assert.rejects(() => enqueue(db, 'effect', {}, { delay: 5 }), /no option "delay" \(it has planTime, /);
  for (const wrong of ['hello', 7, null, true, new Date()]) await assert.rejects(() => enqueue(db, 'effect', wrong), TypeError);
  assert.throws(() => new Worker({}, 'work', { poll_ms: 5 }), /write pollMs/);
  assert.throws(() => new Worker({}, 'work', { handle_signals: false }), /write handleSignals/);
  const withMethod = new (class { on_dead() {} })();
  for (const hooks of [{ on_dead() {} }, withMethod]) assert.throws(() => new Worker({}, 'work', { hooks }), /hooks has no option "on_dead": write onDead/);
  assert.throws(() => new Worker({}, 'work', { hooks: { ended() {} } }), /hooks has no option "ended" \(it has around, /);
  new Worker({}, 'work', { hooks: new (class { ended = 0; onDead() {} })() });
  assert.throws(() => new Worker({}, { queues: { work: 0 } }), RangeError);
  assert.throws(() => new Worker({}, 'work', { json: 'decimal' }), RangeError);
  await assert.rejects(() => drain(new Worker(), { raise_errors: false }), /write raiseErrors/);
  assert.equal((await enqueued(db)).length, 0);
}

/** A statement that the handler has named is parsed again in the session that is new. */
async function named_statements() {
  const db = await connected();
  await enqueueMany(db, 'session', [{}, {}]);
  const seen = [];
  const worker = new Worker({}, 'work').job('session', async (run) => void seen.push((await run.db.query({ name: 'asked', text: 'SELECT pg_backend_pid() AS pid' })).rows[0]));
  assert.deepEqual(await drain(worker), { SUCCESS: 2 });
  assert.deepEqual(seen[1], seen[0]);
}

/** What the connection itself says counts. */
async function settings_of_the_connection() {
  const db = await connected();
  await enqueue(db, 'session');
  let own;
  const worker = new Worker({ options: '-c statement_timeout=12345 --default-transaction-isolation=serializable' }, 'work');
  worker.job('session', async (run) => void (own = (await run.db.query("SELECT current_setting('statement_timeout') AS s, current_setting('transaction_isolation') AS i")).rows[0]));
  assert.deepEqual(await drain(worker), { SUCCESS: 1 });
  assert.deepEqual(own, { s: '12345ms', i: 'serializable' });
}

async function progress() {
  const db = await connected();
  const said = await once(db, 'effect', async (run) => {
    await assert.rejects(() => run.progress('half'), TypeError);
    await run.progress({ done: 2n ** 60n });
  });
  assert.deepEqual([said.status, said.progress], ['SUCCESS', '{"done": 1152921504606846976}']);
}

/** In the transaction of a caller, who rolls it all back. */
async function helpers() {
  const db = await connected();
  for (const transaction of ['run', 'finish']) {
    const worker = new Worker({}, 'work', { transaction });
    const thrown = new Error('told to fail');
    worker.job('effect', async (run) => {
      const work = async (own) => {
        await inserted(own, run);
        if (run.payload.more) await enqueue(own, 'effect', { more: run.payload.more - 1 });
        if (run.payload.fails) throw thrown;
      };
      await run.progress({ begun: true });
      await (transaction === 'run' ? work(run.db) : run.finishing(work));
    });
    await db.query('BEGIN');
    await db.query("SET LOCAL work_mem = '1MB'");
    const ids = await enqueueMany(db, 'effect', [{ more: 2 }, { fails: true }, {}]);
    assert.deepEqual(await drain(worker, { connection: db, raiseErrors: false }), { SUCCESS: 4, FAILED: 1 });
    assert.deepEqual([await effects(db, ids[0]), await effects(db, ids[1])], [[null], []]);
    assert.equal((await db.query('SHOW work_mem')).rows[0].work_mem, '1MB');
    await enqueue(db, 'effect', { fails: true });
    await assert.rejects(() => drain(worker, { connection: db }), (error) => error === thrown);
    await db.query('ROLLBACK');
    assert.deepEqual([await ledger(db, ids[0]), await effects(db, ids[0])], [undefined, []]);
    await assert.rejects(() => drain(worker, { connection: db }), /transaction block/);
    await enqueue(db, 'effect', {});
    assert.deepEqual(await drain(worker), { SUCCESS: 1 });
  }
  // For the owner of a database of tests.
  for (const asked of [() => advance(db, '3 days'), () => advance(db, 60), () => reset(db)]) {
    await assert.rejects(asked, (error) => ['42501', '55000'].includes(error.code));
  }
}

/** Schedules in words of TypeScript. */
async function schedules() {
  const db = await connected();
  const daily = { scheduleName: 'daily', clock: '0 6 * * *', jobName: 'effect', timeZone: 'UTC', payload: { snake_case: 2n ** 60n }, startsAt: new Date('2026-11-01T00:00:00Z') };
  const tidy = { scheduleName: 'tidy', clock: '@hourly', command: 'SELECT 1', retryBackoff: ['1 min', '2 min'], maxAttempts: 2 };
  const row = (scheduleName, action, detail = null) => ({ scheduleName, action, detail });
  const dry = { dryRun: true };
  assert.deepEqual(await declareSchedules(db, 'app', [daily, tidy], dry), [row('daily', 'created'), row('tidy', 'created')]);
  assert.deepEqual(await declareSchedules(db, 'app', [daily, tidy]), [row('daily', 'created'), row('tidy', 'created')]);
  assert.deepEqual(await declareSchedules(db, 'app', [daily, tidy]), [row('daily', 'unchanged'), row('tidy', 'unchanged')]);
  assert.deepEqual(await declareSchedules(db, 'app', [{ ...daily, clock: '0 7 * * *' }], { prune: false }),
    [row('daily', 'altered', 'clock: 0 6 * * * → 0 7 * * *'), row('tidy', 'unchanged')]);
  const { rows } = await db.query("SELECT sched.fire_now('daily') AS id");
  assert.equal((await db.query('SELECT payload::text FROM sched.execution WHERE id = $1', [rows[0].id])).rows[0].payload, '{"snake_case": 1152921504606846976}');
  await cancel(db, rows[0].id);
  assert.deepEqual(await declareSchedules(db, 'app', [{ ...daily, clock: '0 7 * * *', scheduleName: 'early', was: 'daily' }]), [
    row('early', 'renamed', 'schedule_name: daily → early'), row('tidy', 'dropped')]);

  await assert.rejects(() => declareSchedules(db, 'app', [{ schedule_name: 'a' }]), /no key "schedule_name": write scheduleName/);
  await assert.rejects(() => declareSchedules(db, 'app', [], { dry_run: true }), /write dryRun/);
  for (const wrong of [{}, 'daily', ['daily'], [null]]) await assert.rejects(() => declareSchedules(db, 'app', wrong), TypeError);
  await assert.rejects(() => declareSchedules(db, 'app', [{ ...tidy, color: 'red' }]), { code: '22023', message: /color/ });
  const made = (options) => new Worker({}, 'work', { scheduleGroup: 'app', ...options });
  assert.throws(() => new Worker({}, 'work', { schedules: [daily] }), /scheduleGroup/);
  assert.throws(() => made({ schedules: [{ time_zone: 'UTC' }] }), /write timeZone/);
  const handler = async () => {};
  assert.throws(() => new Worker({}, 'work').job('beside', { schedule: '@hourly' }, handler), /scheduleGroup/);
  assert.throws(() => made().job('beside', { schedule: '@hourly', time_zone: 'UTC' }, handler), /write timeZone/);
  for (const wrong of [{}, { schedule: '@hourly', queue: 'nowhere' }]) assert.throws(() => made().job('beside', wrong, handler), TypeError);
  assert.throws(() => made().job('*', { schedule: '@hourly' }, handler), TypeError);
  assert.throws(() => made().job('beside', { schedule: '@hourly' }), /no handler/);
  assert.throws(() => new Worker({}, { queues: { a: 1, b: 1 }, scheduleGroup: 'app' }).job('beside', { schedule: '@hourly' }, handler), /queue .* a, b/);

  // A worker that drains begins as one that runs. In the transaction of a caller it only works.
  const group = async () => (await db.query("SELECT array_agg(schedule_name ORDER BY schedule_name) AS names FROM sched.schedules WHERE group_name = 'app'")).rows[0].names;
  const worker = () => made({ schedules: [daily] }).job('effect', handler).batch('beside', { schedule: '@hourly', queue: 'work' }, handler);
  await db.query('BEGIN');
  await drain(worker(), { connection: db });
  assert.deepEqual(await group(), ['early']);
  await db.query('ROLLBACK');
  await drain(worker());
  assert.deepEqual(await group(), ['beside', 'daily']);
  // What cannot be declared ends a worker before it claims.
  await db.query("SELECT sched.create_schedule('mine', '@hourly', 'effect')");
  const waits = await enqueue(db, 'effect');
  for (const part of ['run', 'drain']) {
    await assert.rejects(() => made({ schedules: [{ ...daily, scheduleName: 'mine' }] }).job('effect', handler)[part](), { code: '42710' });
  }
  assert.equal((await ledger(db, waits)).attempt, 0);
  // An empty group is one: what the application has named before goes.
  await drain(made().job('effect', handler));
  assert.equal(await group(), null);
}

main({ numbers, scalar_ids, unknown_options, named_statements, settings_of_the_connection, progress, helpers, schedules });
