// What the Node contestants share: the question, connections, loops.
import pg from "pg";

// {task, peer, host, database, workers, jobs, batch, seconds, preset, lead, spread, enqueueMany}
export const asked = JSON.parse(process.argv[2]);
const connection = { host: asked.host, user: asked.user ?? "app", database: asked.database };
export const connectionString =
  `postgres://${connection.user}@localhost/${asked.database}?host=${encodeURIComponent(asked.host)}`;
export const now = () => process.hrtime.bigint();
// Milliseconds since 1970, with their fractions.
export const wallClock = () => performance.timeOrigin + performance.now();
export const seconds = (since) => Number(now() - since) / 1e9;
export const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// `workers` loops at once, each with a connection of its own; `step` returns how many jobs it did, 0 at the end.
export async function loops(workers, step) {
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
export function until(limit, step) {
  const started = now();
  return async (worker) => (seconds(started) < limit ? step(worker) : 0);
}

// A step that ends after so many jobs.
export function upTo(jobs, step) {
  let left = jobs;
  return async (worker) => {
    if (left <= 0) return 0;
    const count = await step(worker);
    left -= count;
    return count;
  };
}

export async function pool(workers) {
  const clients = Array.from({ length: workers }, () => new pg.Client(connection));
  await Promise.all(clients.map((client) => client.connect()));
  return clients;
}

// When each of `jobs` is due, in milliseconds since 1970: the first on a full second (or another grain) after `lead` seconds.
export function instants(grain = 1000) {
  const first = (Math.floor((Date.now() + asked.lead * 1000) / grain) + 1) * grain;
  return Array.from({ length: asked.jobs }, (_, index) => first + (index * asked.spread * 1000) / asked.jobs);
}

export function inTime(times) {
  if (Date.now() > times[0]) throw new Error(`making ${times.length} schedules took longer than planned for`);
}
