// pg-boss: a partition of its own for the queue, as its documentation advises for a busy one; no supervision meanwhile.
import { PgBoss } from "pg-boss";
import { asked, connectionString, inTime, instants, loops, pool, sleep, until, upTo, wallClock } from "./common.mjs";

async function start(more = {}) {
  const boss = new PgBoss({ connectionString, max: asked.workers, supervise: false, schedule: false, ...more });
  boss.on("error", console.error);
  await boss.start();
  await boss.createQueue("bench", { partition: true });
  return boss;
}

export async function setup() {
  await start();
}

export async function fill() {
  const boss = await start();
  for (let done = 0; done < asked.jobs; done += 1000) {
    await boss.insert("bench", Array.from({ length: Math.min(1000, asked.jobs - done) }, () => ({ data: { n: 1 } })));
  }
}

export async function drain() {
  const boss = await start();
  return loops(asked.workers, upTo(asked.jobs, async () => {
    const jobs = await boss.fetch("bench", { batchSize: asked.batch });
    if (jobs.length === 0) return 0;
    await boss.complete("bench", jobs.map((job) => job.id));
    return jobs.length;
  }));
}

export async function enqueue() {
  const boss = await start();
  const jobs = Array.from({ length: asked.batch }, () => ({ data: { n: 1 } }));
  return loops(
    asked.workers,
    until(asked.seconds, async () => {
      if (asked.batch === 1) await boss.send("bench", { n: 1 });
      else await boss.insert("bench", jobs);
      return asked.batch;
    }),
  );
}

// Jobs with a start time each, until their handler runs. Half a second is the shortest poll that it allows.
export async function later() {
  const boss = await start();
  const times = instants();
  await boss.insert("bench", times.map((at) => ({ data: { at }, startAfter: new Date(at) })));
  const late = [];
  await new Promise((resolve) => {
    boss.work("bench", { batchSize: 100, pollingIntervalSeconds: 0.5 }, async (jobs) => {
      for (const job of jobs) late.push((wallClock() - job.data.at) / 1000);
      if (late.length >= asked.jobs) resolve();
    });
  });
  return { late };
}

// Its schedules, crontabs with seconds, at the shortest intervals that it allows: until the last is enqueued.
export async function fires() {
  const boss = await start({ schedule: true, max: 10, cronMonitorIntervalSeconds: 1, cronWorkerIntervalSeconds: 1 });
  const [client] = await pool(1);
  await client.query("DELETE FROM pgboss.schedule");
  const times = instants();
  for (let done = 0; done < times.length; done += 10) {
    await Promise.all(times.slice(done, done + 10).map((at, index) => {
      const due = new Date(at);
      const cron = `${due.getUTCSeconds()} ${due.getUTCMinutes()} ${due.getUTCHours()} * * *`;
      return boss.schedule("bench", cron, { at: Math.floor(at / 1000) * 1000 }, { tz: "UTC", key: `k${done + index}` });
    }));
  }
  inTime(times);
  const end = times.at(-1) + asked.timeout * 1000;
  const count = async () => Number((await client.query("SELECT count(*) AS n FROM pgboss.job WHERE name = 'bench'")).rows[0].n);
  while ((await count()) < asked.jobs && Date.now() < end) await sleep(50);
  const { rows } = await client.query(
    "SELECT extract(epoch FROM created_on)::float8 - (data->>'at')::float8 / 1000 AS late FROM pgboss.job WHERE name = 'bench'",
  );
  return { late: rows.map((row) => row.late) };
}
