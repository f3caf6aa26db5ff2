// The TypeScript library of ours, and the loop that one would write by hand with its driver. Work is to commit with its success, so both
// have a transaction for that.
import { createRequire } from "node:module";
import { asked, now, pool, seconds } from "./common.mjs";
import { NEXT } from "./ours.mjs";

const CLAIM = "SELECT execution_id, lease_token, payload FROM sched.claim('default', $1)";

export async function library() {
  const { Worker } = createRequire(import.meta.url)("../../../clients/typescript/dist/index.js");
  const started = now();
  let left = asked.jobs;
  const hooks = {
    succeeded() {
      if (--left === 0) worker.stop();
    },
  };
  const worker = new Worker({ host: asked.host, user: "app", database: asked.database }, "default", {
    slots: asked.workers, batch: asked.batch, hooks,
  });
  if (asked.batch === 1) worker.job("bench", async () => {});
  else worker.batch("bench", async () => {});
  await worker.run();
  return { seconds: seconds(started), jobs: asked.jobs };
}

export async function loop() {
  const started = now();
  await Promise.all((await pool(asked.workers)).map(asked.batch === 1 ? one : batches));
  return { seconds: seconds(started), jobs: asked.jobs };
}

async function one(db) {
  for (;;) {
    const { rows } = await db.query(CLAIM, [1]);
    if (rows.length === 0) return;
    await db.query("BEGIN");
    await db.query("SELECT sched.finish_success($1, $2)", [rows[0].execution_id, rows[0].lease_token]);
    await db.query("COMMIT");
  }
}

async function batches(db) {
  let { rows } = await db.query(CLAIM, [asked.batch]);
  while (rows.length > 0) {
    await db.query("BEGIN");
    ({ rows } = await db.query(NEXT, [rows.map((row) => row.execution_id), rows.map((row) => row.lease_token), asked.batch]));
    await db.query("COMMIT");
    rows = rows.filter((row) => row.execution_id !== null);
  }
}
