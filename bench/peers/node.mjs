// The contestants that are Node libraries, and our own functions from the same driver.  One JSON object as argument:
// {task, peer, host, database, workers, jobs, batch, seconds, preset}; one JSON object on stdout: {seconds, jobs} or {lateness: […]}.
import { readFileSync } from "node:fs";
import pg from "pg";
import { PgBoss } from "pg-boss";
import { run, runMigrations } from "graphile-worker";

const asked = JSON.parse(process.argv[2]);
const connection = { host: asked.host, user: asked.user ?? "app", database: asked.database };
const connectionString = `postgres://${connection.user}@localhost/${asked.database}?host=${encodeURIComponent(asked.host)}`;
const seconds = (since) => Number(process.hrtime.bigint() - since) / 1e9;
const now = () => process.hrtime.bigint();

// `workers` loops at once, each with a connection of its own; `step` returns how many jobs it did, 0 at the end.
async function loops(workers, step) {
  const started = now();
  const counts = await Promise.all(
    Array.from({ length: workers }, async (_, worker) => {
      let done = 0;
      for (let count; (count = await step(worker)) > 0; ) done += count;
      return done;
    }),
  );
  return { seconds: seconds(started), jobs: counts.reduce((sum, count) => sum + count, 0) };
}

// A step that ends after so many seconds.
function until(limit, step) {
  const started = now();
  return async (worker) => (seconds(started) < limit ? step(worker) : 0);
}

async function pool(workers) {
  const clients = Array.from({ length: workers }, () => new pg.Client(connection));
  await Promise.all(clients.map((client) => client.connect()));
  return clients;
}

const ours = {
  async drain() {
    const clients = await pool(asked.workers);
    const query = (worker, name, text, values) => clients[worker].query({ name, text, values });
    const step = async (worker) => {
      const { rows } = await query(
        worker, "claim", "SELECT execution_id, lease_token, payload FROM sched.claim('default', $1)", [asked.batch],
      );
      if (rows.length === 0) return 0;
      if (asked.batch === 1) {
        await query(worker, "finish", "SELECT sched.finish_success($1, $2)", [rows[0].execution_id, rows[0].lease_token]);
      } else {
        await query(worker, "finish", "SELECT sched.finish_success_many($1, $2)", [
          rows.map((row) => row.execution_id), rows.map((row) => row.lease_token),
        ]);
      }
      return rows.length;
    };
    const result = await loops(asked.workers, step);
    await Promise.all(clients.map((client) => client.end()));
    return result;
  },
  async enqueue() {
    const clients = await pool(asked.workers);
    const [name, text] =
      asked.batch === 1
        ? ["one", "SELECT sched.enqueue('bench', $1)"]
        : ["many", "SELECT sched.enqueue('bench', p) FROM unnest($1::jsonb[]) AS p"];
    const values = asked.batch === 1 ? ['{"n": 1}'] : [Array(asked.batch).fill('{"n": 1}')];
    const result = await loops(
      asked.workers,
      until(asked.seconds, async (worker) => {
        await clients[worker].query({ name, text, values });
        return asked.batch;
      }),
    );
    await Promise.all(clients.map((client) => client.end()));
    return result;
  },
};

async function startBoss() {
  // Nothing but the queue: no cron, no supervisor.  A partition of its own is what the documentation advises for a busy queue.
  const boss = new PgBoss({ connectionString, max: asked.workers, supervise: false, schedule: false });
  boss.on("error", console.error);
  await boss.start();
  await boss.createQueue("bench", { partition: true });
  return boss;
}

const boss = {
  async setup() {
    await (await startBoss()).stop({ graceful: false });
    return {};
  },
  async fill() {
    const boss = await startBoss();
    for (let done = 0; done < asked.jobs; done += 1000) {
      await boss.insert("bench", Array.from({ length: Math.min(1000, asked.jobs - done) }, () => ({ data: { n: 1 } })));
    }
    await boss.stop({ graceful: false });
    return {};
  },
  async drain() {
    const boss = await startBoss();
    const result = await loops(asked.workers, async () => {
      const jobs = await boss.fetch("bench", { batchSize: asked.batch });
      if (jobs.length === 0) return 0;
      await boss.complete("bench", jobs.map((job) => job.id));
      return jobs.length;
    });
    await boss.stop({ graceful: false });
    return result;
  },
  async enqueue() {
    const boss = await startBoss();
    const jobs = Array.from({ length: asked.batch }, () => ({ data: { n: 1 } }));
    const result = await loops(
      asked.workers,
      until(asked.seconds, async () => {
        if (asked.batch === 1) await boss.send("bench", { n: 1 });
        else await boss.insert("bench", jobs);
        return asked.batch;
      }),
    );
    await boss.stop({ graceful: false });
    return result;
  },
  async lateness() {
    const boss = await startBoss();
    const due = Date.now() + asked.lead * 1000;
    const times = Array.from({ length: asked.jobs }, (_, index) => due + (index * asked.spread * 1000) / asked.jobs);
    await boss.insert("bench", times.map((at) => ({ data: { at }, startAfter: new Date(at) })));
    const late = [];
    await new Promise((resolve) => {
      const handler = async (jobs) => {
        for (const job of jobs) late.push(Date.now() - job.data.at);
        if (late.length >= asked.jobs) resolve();
      };
      // half a second is the shortest poll that it allows
      boss.work("bench", { batchSize: 100, pollingIntervalSeconds: 0.5 }, handler);
    });
    await boss.stop({ graceful: false });
    return { lateness: late };
  },
};

// `default`: as the documentation starts it.  `tuned`: the configuration of its page on performance.
const presets = {
  default: (workers) => ({ concurrentJobs: workers, maxPoolSize: Math.max(10, workers + 2) }),
  tuned: (workers) => ({
    concurrentJobs: workers, maxPoolSize: workers + 2,
    localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0,
  }),
};

const graphile = {
  async setup() {
    await runMigrations({ connectionString, logger: undefined });
    return {};
  },
  async drain() {
    let done = 0;
    let finished;
    const all = new Promise((resolve) => (finished = resolve));
    let started; // with the first task: neither its start-up nor its first fetch counts, as ours has connected before
    const runner = await run({
      preset: { worker: { connectionString, ...presets[asked.preset](asked.workers) } },
      taskList: { bench: () => void (started ??= now()) },
      noHandleSignals: true,
    });
    runner.events.on("job:complete", () => {
      if (++done === asked.jobs) finished();
    });
    await all;
    const took = seconds(started);
    await runner.stop();
    return { seconds: took, jobs: done };
  },
  async lateness() {
    const late = [];
    let finished;
    const all = new Promise((resolve) => (finished = resolve));
    const runner = await run({
      preset: { worker: { connectionString, ...presets.default(8), pollInterval: 100 } },
      taskList: {
        bench: ({ at }) => {
          late.push(Date.now() - at);
          if (late.length === asked.jobs) finished();
        },
      },
      noHandleSignals: true,
    });
    const due = Date.now() + asked.lead * 1000;
    const [client] = await pool(1);
    await client.query(
      `SELECT graphile_worker.add_job('bench', json_build_object('at', at), run_at => to_timestamp(at / 1000.0))
         FROM unnest($1::float8[]) AS at`,
      [Array.from({ length: asked.jobs }, (_, index) => due + (index * asked.spread * 1000) / asked.jobs)],
    );
    await all;
    await runner.stop();
    await client.end();
    return { lateness: late };
  },
};

if (asked.task === "versions") {
  const version = (name) => JSON.parse(readFileSync(new URL(`../node_modules/${name}/package.json`, import.meta.url))).version;
  console.log(JSON.stringify({
    "graphile-worker": version("graphile-worker"), "pg-boss": version("pg-boss"), pg: version("pg"), node: process.version,
  }));
} else {
  const result = await { ours, boss, graphile }[asked.peer][asked.task]();
  console.log(`\n${JSON.stringify(result)}`);
}
process.exit(0);
