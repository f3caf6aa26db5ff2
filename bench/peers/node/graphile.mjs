// graphile-worker. `default`: as the documentation starts it.  `tuned`: the configuration of its page on performance.
import { parseCronItems, run, runMigrations } from "graphile-worker";
import pg from "pg";
import { asked, connectionString, inTime, instants, now, pool, seconds, sleep, wallClock } from "./common.mjs";

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

// From its first fetch until the DELETE of the last job was acknowledged. Its own event `job:complete` comes before that DELETE is
// even sent: whoever believes it loses, in a crash, the knowledge that the job was done.
export async function drain() {
  let started;
  let took;
  let done = 0;
  let finished;
  const all = new Promise((resolve) => (finished = resolve));
  watch((text, sent) => {
    if (!text.includes("_private_jobs")) return;
    if (/^\s*delete from/i.test(text)) {
      sent.then(({ rowCount }) => {
        done += rowCount;
        if (done >= asked.jobs && took === undefined) {
          took = seconds(started);
          finished(done);
        }
      }, () => {});
    } else if (/locked_by = \$1/.test(text)) {
      started ??= now();
    }
  });
  const runner = await start(presets[asked.preset](asked.workers), { bench: () => {} });
  const jobs = await all;
  await runner.stop(); // gives back what it has fetched
  return { seconds: took, jobs };
}

// Shows each statement, and the promise of its result.
function watch(see) {
  const query = pg.Client.prototype.query;
  pg.Client.prototype.query = function (config, ...more) {
    const sent = query.call(this, config, ...more);
    const text = typeof config === "string" ? config : config?.text;
    if (text && typeof sent?.then === "function") see(text, sent);
    return sent;
  };
}

// Jobs with a run_at each, until their task runs.
export async function later() {
  const late = [];
  let finished;
  const all = new Promise((resolve) => (finished = resolve));
  await start({ ...presets.default(8), pollInterval: 100 }, {
    bench: ({ at }) => {
      late.push((wallClock() - at) / 1000);
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
  const late = (wallClock() - times[0]) / 1000;
  const found = await count("SELECT count(*) AS n FROM graphile_worker._private_jobs");
  return { late: Array(found).fill(late) };
}
