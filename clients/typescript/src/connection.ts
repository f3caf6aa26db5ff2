// Connections: to the server that takes writes, and away from one that does not answer any more.
import { Client, DatabaseError, type ClientConfig, type QueryResult } from 'pg';

export type Server = string | ClientConfig;

/** A server that lost its power says nothing: without these a worker would wait for it for ever. */
const PATIENCE: ClientConfig = { keepAlive: true, keepAliveInitialDelayMillis: 10_000, connectionTimeoutMillis: 10_000 };
/** For what waits for nothing in the server. */
export const ANSWERS_IN_MS = 20_000;

/** What is asked for each run is prepared once on each connection. */
export function ask(db: Client, name: string, text: string, values: unknown[], answersInMs?: number): Promise<QueryResult> {
  const query = { name: `pg-scheduler ${name}`, text, values };
  return db.query(answersInMs === undefined ? query : Object.assign(query, { query_timeout: answersInMs }));
}

/** Whether another connection would not mend it: a role, a right, the schema or an argument is wrong. */
export const isPermanent = (error: unknown): boolean => error instanceof DatabaseError && /^(22|28|3D|3F|42)/.test(error.code ?? '');

export const isSameServer = (one: Client, other: Client): boolean => one.host === other.host && one.port === other.port;

/** To the first server that takes writes. */
export async function opened(servers: Server[]): Promise<Client> {
  const failures: unknown[] = [];
  for (const server of servers) {
    const db = new Client({ ...PATIENCE, ...(typeof server === 'string' ? { connectionString: server } : server) });
    db.on('error', () => {}); // told by the next statement
    try {
      await db.connect();
      const { rows } = await ask(db, 'writes', 'SHOW transaction_read_only', [], ANSWERS_IN_MS);
      if (rows[0].transaction_read_only === 'off') return db;
      failures.push(new Error('no server takes writes'));
    } catch (error) {
      failures.push(error);
    }
    await closed(db);
  }
  // One that refuses for good says nothing of one that is away.
  throw failures.find((failure) => !isPermanent(failure)) ?? failures[0] ?? new Error('there is no server to connect to');
}

/** Says goodbye, and does not wait for long until the server has heard it. A statement that runs is broken off. */
export async function closed(db: Client): Promise<void> {
  const late = setTimeout(() => db.connection.stream.destroy(), 5000);
  await db.end().catch(() => {});
  clearTimeout(late);
}
