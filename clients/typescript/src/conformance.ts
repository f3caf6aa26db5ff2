// The worker that the conformance tests run (docs/guides/write-a-worker.md lists its options and handlers). Its connection is from PG*.
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Client } from 'pg';
import { cancel, Discard, enqueue, enqueueMany, Retry, Snooze, Worker, type Run } from './index.js';

const word = (value: string) => ({ type: 'string', default: value }) as const;
const { values } = parseArgs({
  options: {
    queues: word('conformance=2'), batch: word('3'), transaction: word('run'), workers: word('1'), json: word('number'), prepare: word('on'),
    listen: { type: 'string' }, declare: { type: 'boolean', default: false },
  },
});

const insert = async (run: Run<any>, db: Client, what: string | null = null): Promise<void> => {
  await db.query('insert into effect (execution_id, attempt, what) values ($1, $2, $3)', [run.executionId, run.attempt, what]);
};
const wasHere = async (run: Run<any>, db: Client): Promise<boolean> =>
  (await db.query('select from effect where execution_id = $1', [run.executionId])).rowCount !== 0;
/** The transaction that ends the run, in either mode. */
const inTransaction = <T>(run: Run<any>, work: (db: Client) => Promise<T>): Promise<T> => (values.transaction === 'run' ? work(run.db) : run.finishing(work));
const refused = (call: () => unknown): Promise<number> => Promise.resolve().then(call).then(() => 0, (error: unknown) => (error instanceof TypeError ? 1 : 0));

class Told extends Error {} // its name is the ledger's error_code

async function told(run: Run<any>): Promise<void> {
  function innermost(): never {
    throw new Told(run.payload.message, { cause: new RangeError('the cause') });
  }
  innermost();
}

const snoozes = (puts: (run: Run<any>) => void) => (run: Run<any>) => inTransaction(run, async (db) => {
  const isSecond = await wasHere(run, db);
  await insert(run, db, isSecond ? 'done' : 'snoozed');
  if (!isSecond) puts(run);
});
const thrown = (): never => {
  throw new Snooze(1);
};
const discard = async (): Promise<never> => {
  throw new Discard('of no use');
};

async function wait(run: Run<any>): Promise<unknown> {
  await sleep(run.payload.seconds * 1000, undefined, { signal: run.signal });
  return inTransaction(run, async (db) => {
    await insert(run, db);
    return { waited: true };
  });
}

const enqueues = (run: Run<any>): Promise<unknown> => inTransaction(run, async (db) => {
  const made = await enqueue(db, 'elsewhere', { n: 123456789012345678901234567890n }, { scopeId: 7 });
  const many = await enqueueMany(db, 'elsewhere', [{}, { list: [1] }], { scopeIds: [8, 9] });
  return {
    many: new Set(many.filter((id) => id !== made)).size,
    cancelled: [await cancel(db, many[0]!), await cancel(db, many[0]!)],
    refused: (await refused(() => enqueue(db, 'elsewhere', {}, { run_at: 'tomorrow' } as object))) + (await refused(() => enqueue(db, 'elsewhere', [1])))
      + (await refused(() => enqueueMany(db, 'elsewhere', [{}, 'text' as never]))) + (await refused(() => new Worker({}, 'work', { concurrency: 2 } as object))),
  };
});

const handlers: Record<string, (run: Run<any>) => Promise<unknown>> = {
  async effect(run) {
    await insert(run, run.db);
    return { done: run.payload.number };
  },
  async fail(run) {
    await insert(run, run.db);
    throw new Error('told to fail');
  },
  async retry(run) {
    if (run.attempt === 1) throw new Retry(0.2);
  },
  async slow(run) {
    await run.db.query('select pg_sleep($1)', [run.payload.seconds ?? 60]);
    await insert(run, run.db);
  },
  async later() {
    throw new Snooze(3600);
  },
  sql: (run) => inTransaction(run, async (db) => {
    await db.query(run.payload.sql.replaceAll('EXECUTION', run.executionId).replaceAll('TOKEN', run.leaseToken));
    return { asked: run.payload.ask === undefined ? null : Object.values((await db.query(run.payload.ask)).rows[0]!)[0] };
  }),
  async progress(run) {
    await run.progress({ done: 0.5 });
    await sleep(3000);
  },
  discard, dead: discard, told, last: told, wait, 'wait elsewhere': wait,
  snooze: snoozes(thrown), 'snooze by method': snoozes((run) => run.snooze(1)),
  list: async () => [1, 2],
  payload: async (run) => run.payload, exact: async () => ({ n: 123456789012345678901234567890n }), enqueue: enqueues,
};

function made(): Worker {
  const worker = new Worker({}, {
    queues: Object.fromEntries(values.queues.split(',').map((each) => each.split('=')).map(([queue, slots]) => [queue, Number(slots)])),
    batch: Number(values.batch), graceMs: 1000, transaction: values.transaction as 'run', json: values.json === 'exact' ? 'bigint' : 'number',
    prepare: values.prepare === 'on', ...(values.listen === undefined ? {} : { listenDsn: { host: values.listen, port: 5432 } }),
    hooks: {
      onDead: async (run) => void (run.jobName === 'discard' || (await insert(run, run.db, 'dead'))),
      broken: (error) => console.error('connection:', error),
      lost: () => console.error('the lease was lost'),
    },
    ...(values.declare ? { schedules: [{ scheduleName: 'declared', clock: '0 6 * * *', jobName: 'effect' }], scheduleGroup: 'conformance' } : {}),
  });
  for (const [job, handler] of Object.entries(handlers)) worker.job(job, handler);
  worker.job('typed', (run) => insert(run, run.db, run.payload.to), (payload) => payload as { to: string });
  worker.batch('batch', async (runs) => {
    for (const run of runs) await insert(run, run.db);
  });
  if (values.declare) worker.job('beside', { schedule: '30 8 * * mon', timeZone: 'Europe/Berlin' }, async () => [1, 2]);
  return worker;
}

for (let count = Number(values.workers); count > 0; count -= 1) void made().run();
