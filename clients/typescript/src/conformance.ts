// The worker that the conformance test runs (docs/guides/write-a-worker.md says what it is to do): --queue NAME, connection from PG*.
import { parseArgs } from 'node:util';
import { Discard, Retry, Worker, type Run } from './index.js';

const { values } = parseArgs({ options: { queue: { type: 'string', default: 'conformance' } } });
const worker = new Worker({}, values.queue, { slots: 2, batch: 3, graceMs: 1000 });

const insert = async (run: Run<any>, what: string | null = null): Promise<void> => {
  await run.db.query('insert into effect (execution_id, attempt, what) values ($1, $2, $3)', [run.executionId, run.attempt, what]);
};

worker.job('effect', async (run) => {
  await insert(run);
  return { done: run.payload.number };
});
worker.job('typed', (run) => insert(run, run.payload.to), (payload) => payload as { to: string });
worker.job('fail', async (run) => {
  await insert(run);
  throw new Error('told to fail');
});
worker.job('retry', async (run) => {
  if (run.attempt === 1) throw new Retry(0.2);
});
worker.job('discard', async () => {
  throw new Discard('of no use');
});
worker.job('slow', async (run) => {
  await run.db.query('select pg_sleep($1)', [run.payload.seconds ?? 60]);
  await insert(run);
});
worker.batch('batch', async (runs) => {
  for (const run of runs) await insert(run);
});

void worker.run();
