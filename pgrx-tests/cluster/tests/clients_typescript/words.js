// What goes in and comes out: numbers, ids, options, sessions, progress, and the helpers for tests.
const { Worker, advance, assert, cancel, connected, drain, effects, enqueue, enqueueMany, enqueued, inserted, ledger, main, once, reset } = require('./support.js');

async function numbers() {
  const db = await connected();
  const big = 2n ** 53n + 1n;
  const payload = { id: big, list: [{ deep: -big }], half: 1.5, text: 'a "quoted" 99999999999999999999 \\', small: 7 };
  for (const transaction of ['run', 'finish']) {
    const kept = await once(db, 'numbers', async (run) => {
      assert.deepEqual(run.payload, { ...payload, small: 7n });
      return run.payload;
    }, { json: 'bigint', transaction }, payload);
    assert.equal(kept.status, 'SUCCESS', kept.message);
    const { rows } = await db.query('SELECT result = payload AS same FROM sched.execution WHERE id = $1', [kept.id]);
    assert.ok(rows[0].same);
  }
  for (const wrong of [{ id: big }, { id: [2n ** 64n] }, { id: 10n ** 400n }]) {
    let called = false;
    const said = await once(db, 'numbers', async () => { called = true; }, {}, wrong);
    assert.deepEqual([said.status, said.code, called], ['FAILED', 'RangeError', false]);
    assert.match(said.message, /json: "bigint"/);
  }
  const exact = { half: 1.5, thousand: 1e3, small: 1e-7, tenth: 0.1, safe: Number.MAX_SAFE_INTEGER, negative: -0.25, text: '9007199254740993' };
  const fine = await once(db, 'numbers', async (run) => run.payload, {}, exact);
  assert.deepEqual([fine.status, JSON.parse(fine.result)], ['SUCCESS', exact]);
  for (const json of ["{\"n\": 1.500, \"m\": 1e3}", '{"n": 0.10}']) {
    const { rows } = await db.query("SELECT sched.enqueue('numbers', $1::jsonb) AS id", [json]);
    assert.deepEqual(await drain(new Worker({}, 'work').job('numbers', async () => {})), { SUCCESS: 1 }, json);
    assert.ok(rows[0].id);
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
  assert.deepEqual([await cancel(db, many[1]), await cancel(db, many[1])], [true, false]);
  await assert.rejects(() => enqueue(db, 'effect', {}, { scopeId: { id: 7 } }), TypeError);
  await assert.rejects(() => enqueue(db, 'effect', {}, { scopeId: 2 ** 60 }), RangeError);
}

async function unknown_options() {
  const db = await connected();
  await assert.rejects(() => enqueue(db, 'effect', {}, { run_at: new Date() }), /no option "run_at": write runAt/);
  await assert.rejects(() => enqueueMany(db, 'effect', [{}], { scope_ids: ['a'] }), /write scopeIds/);
  await assert.rejects(() => enqueue(db, 'effect', {}, { delay: 5 }), /no option "delay" \(it has planTime, /);
  for (const wrong of ['hello', 7, null, true, [1], new Date()]) await assert.rejects(() => enqueue(db, 'effect', wrong), TypeError);
  await assert.rejects(() => enqueueMany(db, 'effect', [{}, 'hello']), TypeError);
  assert.throws(() => new Worker({}, 'work', { poll_ms: 5 }), /write pollMs/);
  assert.throws(() => new Worker({}, 'work', { handle_signals: false }), /write handleSignals/);
  assert.throws(() => new Worker({}, 'work', { concurrency: 5 }), /no option "concurrency"/);
  assert.throws(() => new Worker({}, { queues: { work: 0 } }), RangeError);
  assert.throws(() => new Worker({}, 'work', { json: 'decimal' }), RangeError);
  await assert.rejects(() => drain(new Worker(), { raise_errors: false }), /write raiseErrors/);
  assert.equal((await enqueued(db)).length, 0);
}

async function sessions() {
  const db = await connected();
  await enqueueMany(db, 'session', [{}, {}]);
  const asked = `SELECT current_user AS role, current_setting('search_path') AS path, current_setting('work_mem') AS memory, to_regclass('pg_temp.mine')::text AS own,
    (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks, pg_backend_pid() AS pid`;
  const seen = [];
  const worker = new Worker({ options: '-c search_path=public' }, 'work').job('session', async (run) => {
    seen.push((await run.db.query({ name: 'asked', text: asked })).rows[0]);
    await run.db.query("PREPARE theirs AS SELECT 1; SET ROLE stranger; SET search_path = nowhere; SET work_mem = '1MB'; CREATE TEMP TABLE mine (); SELECT pg_advisory_lock(1)");
  });
  await db.query('GRANT stranger TO app').catch(() => {});
  assert.deepEqual(await drain(worker), { SUCCESS: 2 });
  assert.deepEqual(seen[1], seen[0]);
  assert.deepEqual([seen[0].role, seen[0].path, seen[0].own, seen[0].locks], ['app', 'public', null, 0]);
}

/** The role's settings would end each of these transactions, or make it SERIALIZABLE. */
async function settings_of_the_role() {
  const db = await connected();
  await db.query("ALTER ROLE app SET statement_timeout = '300ms'; ALTER ROLE app SET idle_in_transaction_session_timeout = '300ms'");
  await db.query("ALTER ROLE app SET default_transaction_isolation = serializable; ALTER ROLE app SET default_transaction_read_only = on");
  const asked = "SELECT current_setting('transaction_isolation') AS isolation, current_setting('statement_timeout') AS statement, pg_sleep(0.5)";
  for (const transaction of ['run', 'finish']) {
    const work = async (run, own) => {
      const { rows } = await own.query(asked);
      await new Promise((then) => setTimeout(then, 600)); // idle
      await inserted(own, run);
      return { isolation: rows[0].isolation, statement: rows[0].statement };
    };
    const said = await once(db, 'session', transaction === 'run' ? (run) => work(run, run.db) : (run) => run.finishing((own) => work(run, own)), { transaction });
    assert.deepEqual([said.status, said.attempt, said.effects], ['SUCCESS', 1, [null]], said.message);
    assert.deepEqual(JSON.parse(said.result), { isolation: 'read committed', statement: '0' });
  }
  // What the connection itself says counts.
  await enqueue(db, 'session');
  let own;
  const worker = new Worker({ options: '-c statement_timeout=12345 --default-transaction-isolation=serializable' }, 'work');
  worker.job('session', async (run) => void (own = (await run.db.query("SELECT current_setting('statement_timeout') AS s, current_setting('transaction_isolation') AS i")).rows[0]));
  assert.deepEqual(await drain(worker), { SUCCESS: 1 });
  assert.deepEqual(own, { s: '12345ms', i: 'serializable' });
}

async function progress() {
  const db = await connected();
  for (const transaction of ['run', 'finish']) {
    const said = await once(db, 'effect', async (run) => {
      await run.progress({ done: 1n });
      const seen = await ledger(db, run.executionId);
      await assert.rejects(() => run.progress('half'), TypeError);
      return { seen: seen.progress };
    }, { transaction });
    assert.equal(said.status, 'SUCCESS', said.message);
    assert.deepEqual(JSON.parse(said.result), { seen: '{"done": 1}' });
  }
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

main({ numbers, scalar_ids, unknown_options, sessions, settings_of_the_role, progress, helpers });
