import pg from 'pg';
import { enqueue, Worker } from 'pg-scheduler';
import { advance, drain, enqueued } from 'pg-scheduler/testing';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';

const db = new pg.Client();
const sent: string[] = [];
const worker = new Worker({}, 'mail').job('welcome', async (run) => {
  sent.push(run.payload.to);
});

beforeAll(() => db.connect());
afterAll(() => db.end());
beforeEach(() => db.query('BEGIN'));
afterEach(() => db.query('ROLLBACK'));

test('the mail is three days later', async () => {
  const { rows } = await db.query("SELECT sched.now() + interval '3 days' AS later");
  await enqueue(db, 'welcome', { to: 'ada@example.org' }, { runAt: rows[0].later });
  expect(await drain(worker, { connection: db })).toEqual({});
  expect(await enqueued(db, { job: 'welcome' })).toHaveLength(1);
  await advance(db, '3 days');
  expect(await drain(worker, { connection: db })).toEqual({ SUCCESS: 1 });
  expect(sent).toEqual(['ada@example.org']);
});
