// Our own functions from the driver that the Node libraries use.
import { asked, inTime, instants, loops, now, pool, seconds, until, upTo, wallClock } from "./common.mjs";

// One at a time in two statements; in batches as docs/guides/batches.md recommends, a batch is ended in the statement that claims the next.
export async function drain() {
  const clients = await pool(asked.workers);
  return asked.batch === 1 ? one(clients) : batches(clients);
}

async function one(clients) {
  const query = (worker, name, text, values) => clients[worker].query({ name, text, values });
  const step = async (worker) => {
    const { rows } = await query(worker, "claim", "SELECT execution_id, lease_token, payload FROM sched.claim('default', 1)", []);
    if (rows.length === 0) return 0;
    await query(worker, "finish", "SELECT sched.finish_success($1, $2)", [rows[0].execution_id, rows[0].lease_token]);
    return 1;
  };
  return loops(asked.workers, upTo(asked.jobs, step));
}

const FINISH = "SELECT array_agg(id) AS lost FROM sched.finish_success_many($1, $2) AS id";
export const NEXT = `SELECT ended.lost, next.execution_id, next.lease_token, next.payload
  FROM (${FINISH}) AS ended LEFT JOIN sched.claim('default', $3) AS next ON true`;

async function batches(clients) {
  let [left, done] = [asked.jobs, 0];
  const started = now();
  const work = async (client) => {
    let held = [];
    do {
      const ended = [held.map((row) => row.execution_id), held.map((row) => row.lease_token)];
      const { rows } = await client.query(
        left > 0 ? { name: "next", text: NEXT, values: [...ended, asked.batch] } : { name: "finish", text: FINISH, values: ended },
      );
      done += held.length - (rows[0].lost?.length ?? 0);
      held = rows.filter((row) => row.execution_id);
      left -= held.length;
    } while (held.length > 0);
  };
  await Promise.all(clients.map(work));
  return { seconds: seconds(started), jobs: done };
}

// Executions with a run_at each, until their work begins: one worker that listens, and looks every five seconds besides.
export async function later() {
  const [client] = await pool(1);
  const late = [];
  let heard = false;
  let wake = () => {};
  client.on("notification", () => {
    heard = true;
    wake();
  });
  await client.query('LISTEN "sched:default"');
  const times = instants();
  await client.query("SELECT count(*) FROM sched.enqueue_many('bench', $1, run_ats => $2)", [
    times.map((at) => JSON.stringify({ at })), times.map((at) => new Date(at)),
  ]);
  inTime(times);
  let held = [];
  while (late.length < asked.jobs) {
    heard = false;
    const ended = [held.map((row) => row.execution_id), held.map((row) => row.lease_token)];
    const { rows } = await client.query({ name: "next", text: NEXT, values: [...ended, 100] });
    held = rows.filter((row) => row.execution_id);
    for (const { payload } of held) late.push((wallClock() - payload.at) / 1000);
    if (held.length > 0 || heard) continue;
    const timer = setTimeout(() => wake(), 5000);
    await new Promise((resolve) => (wake = resolve));
    clearTimeout(timer);
  }
  await client.query({ name: "finish", text: FINISH, values: [held.map((row) => row.execution_id), held.map((row) => row.lease_token)] });
  return { late };
}

export async function enqueue() {
  const clients = await pool(asked.workers);
  const [name, text] = asked.batch === 1 ? ["one", "SELECT sched.enqueue('bench', $1)"] : ["many", asked.enqueue_many];
  const values = asked.batch === 1 ? ['{"n": 1}'] : [Array(asked.batch).fill('{"n": 1}')];
  return loops(
    asked.workers,
    until(asked.seconds, async (worker) => {
      await clients[worker].query({ name, text, values });
      return asked.batch;
    }),
  );
}
