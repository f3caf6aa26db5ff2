// Workers for the PostgreSQL extension scheduler: a queue's executions become calls of your functions.
//
//   const worker = new Worker('postgresql:///app', 'reports', { slots: 4 });
//   worker.job('report', async (run) => {
//     await run.db.query('insert into report (day) values ($1)', [run.payload.day]);
//   });
//   await worker.run();
export { main } from './main.js';
export { Discard, Retry, Run, Stopped } from './run.js';
export { enqueue, Worker, type EnqueueOptions, type Hooks, type WorkerOptions } from './worker.js';
