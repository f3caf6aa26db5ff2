// graphile-worker. `default`: as the documentation starts it.  `tuned`: the configuration of its page on performance.
import { parseCronItems, run, runMigrations } from "graphile-worker";
import pg from "pg";
import { asked, connection, connectionString, inTime, instants, now, pool, seconds, sleep } from "./common.mjs";

const presets = {
  default: (workers) => ({ concurrentJobs: workers, maxPoolSize: Math.max(10, workers + 2) }),
  tuned: (workers) => ({
    concurrentJobs: workers, maxPoolSize: workers + 2,
    localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0,
  }),
};

function start(worker, taskList, more = {}) {
  return run({ preset: { worker: { connectionString, ...worker } }, taskList, noHandleSignals: true, ...more });
}

export async function setup() {
  await runMigrations({ connectionString, logger: undefined });
}

// Drains through connections that note when the first fetch begins and when a job's deletion is acknowledged: told to complete in
// batches, graphile-worker says `job:complete` before it has asked the server to delete anything, and what is fetched before the
// first task has its price too.
export async function drain() {
  let started;
  let done = 0;
  let finished;
  const all = new Promise((resolve) => (finished = resolve));
  class Client extends pg.Client {
    query(...words) {
      const answer = super.query(...words);
      const text = words[0]?.text ?? words[0];
      if (typeof text !== "string" || !answer?.then) return answer;
      if (text.startsWith("with j")) started ??= now();
      if (text.startsWith("delete from") && text.includes("_private_jobs")) {
        return answer.then((result) => {
          if ((done += result.rowCount) >= asked.jobs) finished(seconds(started));
          return result;
        });
      }
      return answer;
    }
  }
  const { maxPoolSize, ...preset } = presets[asked.preset](asked.workers);
  const pgPool = new pg.Pool({ ...connection, Client, max: maxPoolSize });
  const runner = await run({ pgPool, preset: { worker: preset }, taskList: { bench: () => {} }, noHandleSignals: true });
  const took = await all;
  const jobs = done;
  await runner.stop(); // gives back what it has fetched
  await pgPool.end();
  return { seconds: took, jobs };
}

// Jobs with a run_at each, until their task runs.
export async function later() {
  const late = [];
  let finished;
  const all = new Promise((resolve) => (finished = resolve));
  await start({ ...presets.default(8), pollInterval: 100 }, {
    bench: ({ at }) => {
      late.push((Date.now() - at) / 1000);
      if (late.length === asked.jobs) finished();
    },
  });
  const [client] = await pool(1);
  await client.query(
    `SELECT graphile_worker.add_job('bench', json_build_object('at', at), run_at => to_timestamp(at / 1000.0))
       FROM unnest($1::float8[]) AS at`,
    [instants()],
  );
  await all;
  return { late };
}

// Its crontab, which knows full minutes only. Nobody runs the task, so that enqueuing is all that is measured.
export async function fires() {
  const times = instants(60_000);
  const due = new Date(times[0]);
  const match = `${due.getUTCMinutes()} ${due.getUTCHours()} * * *`;
  const parsedCronItems = parseCronItems(times.map((_, index) => ({ task: "bench", match, identifier: `i${index}` })));
  const [client] = await pool(1);
  await client.query("DELETE FROM graphile_worker._private_known_crontabs");
  await start(presets.default(1), { other: () => {} }, { parsedCronItems });
  inTime(times);
  const end = times[0] + asked.timeout * 1000;
  await sleep(times[0] - Date.now());
  const count = async (text) => Number((await client.query(text)).rows[0].n);
  // one statement enqueues all of them, so a look at one is enough until then
  const any = "SELECT count(*) AS n FROM (SELECT FROM graphile_worker._private_jobs LIMIT 1) AS one";
  while ((await count(any)) === 0 && Date.now() < end) await sleep(5);
  const late = (Date.now() - times[0]) / 1000;
  const found = await count("SELECT count(*) AS n FROM graphile_worker._private_jobs");
  return { late: Array(found).fill(late) };
}
