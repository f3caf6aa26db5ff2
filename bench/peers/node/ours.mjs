// Our own functions from the driver that the Node libraries use.
import { asked, loops, pool, until, upTo } from "./common.mjs";

export async function drain() {
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
  return loops(asked.workers, upTo(asked.jobs, step));
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
