// Workers for the PostgreSQL extension scheduler: a queue's executions become calls of your functions.
//
//   const worker = new Worker('postgresql:///app', 'reports', { slots: 4 });
//   worker.job('report', async (run) => {
//     await run.db.query('insert into report (day) values ($1)', [run.payload.day]);
//   });
//   await worker.run();
export { cancel, enqueue, enqueueMany, type EnqueueManyOptions, type EnqueueOptions, type Queryable, type Scalar } from './enqueue.js';
export { Discard, Retry, Snooze, Stopped, TransactionEnded } from './errors.js';
export type { JsonMode } from './json.js';
export { main } from './main.js';
export type { Hooks, WorkerOptions } from './options.js';
export { Run, type StopReason } from './run.js';
export { declareSchedules, type Declared, type DeclareOptions, type JobOptions, type ScheduleOptions, type ScheduleSpec } from './schedules.js';
export type { ConnectionFactory, Server } from './session.js';
export { Worker } from './worker.js';
