// Connections: to the server that takes writes, and away from one that does not answer any more; and the transactions on them.
import { Client, DatabaseError, escapeLiteral, Query, type ClientConfig, type QueryResult, type QueryResultRow } from 'pg';
import { TransactionEnded } from './errors.js';

export type Server = string | ClientConfig;
/** Makes a connection for the worker alone: a Client, connected or not, or one that a Pool has lent (`() => pool.connect()`). */
export type ConnectionFactory = () => Lendable | Promise<Lendable>;
type Lendable = Pick<Client, 'query' | 'on'> & { release?: unknown };
export type Source = Server[] | ConnectionFactory;

/** A server that lost its power says nothing: without these a worker would wait for it for ever. */
const PATIENCE: ClientConfig = { keepAlive: true, keepAliveInitialDelayMillis: 10_000, connectionTimeoutMillis: 10_000 };
/** For what waits for nothing in the server. */
export const ANSWERS_IN_MS = 20_000;

const LEASE_LOST = '55000';
const codeOf = (error: unknown): string | undefined => (error instanceof DatabaseError ? error.code : undefined);
/** Whether another connection would not mend it: a role, a right, the schema or an argument is wrong. */
export const isPermanent = (error: unknown): boolean => /^(22|28|3D|3F|42)/.test(codeOf(error) ?? '');
/** Whether the same may succeed when it is done again: a serialization failure or a deadlock. */
export const isConflict = (error: unknown): boolean => ['40001', '40P01'].includes(codeOf(error) ?? '');
/** Whether it says that the transaction takes no more statements, after an error. */
export const isAborted = (error: unknown): boolean => codeOf(error) === '25P02';
/** Whether it says that the run's lease is not held any more. */
export const isLeaseLost = (error: unknown): boolean => codeOf(error) === LEASE_LOST;
/** Whether the connection is of no use any more. */
export const isBroken = (error: unknown): boolean => !(error instanceof DatabaseError) || error.severity === 'FATAL' || /^(08|57P0)/.test(error.code ?? '');

/** An SQL literal. Statements are sent as texts of their own: so a pooler may give each to another server process. */
export function literal(value: string | number | null): string {
  if (value === null) return 'NULL';
  if (typeof value === 'number') return `'${value}'`;
  if (value.includes('\0')) throw new RangeError('PostgreSQL takes no text with a zero byte');
  return escapeLiteral(value);
}
export const uuids = (ids: string[]): string => `ARRAY[${ids.map(literal).join(', ')}]::uuid[]`;

interface Wire {
  on(event: 'readyForQuery', heard: (message: { status?: string }) => void): void;
  removeListener(event: 'readyForQuery', heard: (message: { status?: string }) => void): void;
  parsedStatements: Record<string, string>;
  submittedNamedStatements?: Record<string, string>;
  stream: { destroy(): void };
}
interface Inside {
  connection: Wire;
  processID: number | null;
  connectionParameters?: Partial<Record<'options' | 'statement_timeout' | 'idle_in_transaction_session_timeout', unknown>>;
  release?: (destroy: boolean) => void;
}

/** The sharing of the server's process with others, between two transactions. */
export interface Sharing {
  /** Whether a session behind a pooler is known to be this connection's alone (session mode). */
  isOurs: boolean;
}

/** A commit with statements after it, which may fail where it has been done. */
class Commit extends Query {
  isDone = false;

  handleCommandComplete(message: { text: string }, connection: unknown): void {
    this.isDone ||= message.text === 'COMMIT';
    (Query.prototype as unknown as Commit).handleCommandComplete.call(this, message, connection);
  }
}

/** A connection, and the transactions that the library begins on it. */
export class Session {
  /** The server's process; behind a pooler that of the transaction. */
  pid = 0;
  /** The call that reads the database's clock. */
  clock = 'clock_timestamp()';
  /** Whether something stands between, which shares its connections. */
  isPooled = false;
  /** Whether a handler has had the connection since the session was new. */
  isUsed = false;
  #status: string | undefined;
  #last: Promise<unknown> = Promise.resolve();
  /** Before what the library asks in a handler's transaction. */
  protected readonly undo: string = 'SET LOCAL role TO DEFAULT; ';
  #closing: Promise<void> | undefined;
  readonly #begin: string;
  readonly #ready = ({ status }: { status?: string }): void => void (this.#status = status);

  constructor(readonly db: Client, private readonly sharing: Sharing) {
    this.#wire.on('readyForQuery', this.#ready);
    this.#begin = beginOf(db as unknown as Inside);
  }

  get #wire(): Wire {
    return (this.db as unknown as Inside).connection;
  }

  /** Whether others have the server's process between two transactions. */
  get #isShared(): boolean {
    return this.isPooled && !this.sharing.isOurs;
  }

  /** Whether there is a transaction. */
  get isOpen(): boolean {
    return this.#status !== 'I';
  }

  isSameServer(other: Session): boolean {
    return this.db.host === other.db.host && this.db.port === other.db.port;
  }

  /** Begins a transaction for a handler, in a session as new. */
  async begin(): Promise<void> {
    await this.clean();
    await this.note(this.#begin);
  }

  /** After these statements: a mark that the transaction's end takes away. No query, so that a handler may still say SET TRANSACTION. */
  protected async note(statements: string): Promise<void> {
    const text = `${statements}; SET LOCAL ${MARK} = here`;
    if (this.#isShared) this.pid = (await this.statement(`${text}; SELECT pg_backend_pid() AS pid`))[0]!['pid'];
    else await this.db.query(text);
  }

  /** The rows of each of these statements in the transaction that was begun, under the session's role; TransactionEnded where the handler has ended it. */
  async within(...statements: string[]): Promise<QueryResultRow[][]> {
    if (!this.isOpen) throw new TransactionEnded(ENDED);
    const text = [`${this.undo}SHOW ${MARK}`, ...statements].join('; ');
    const results = (await this.db.query(text)) as unknown as QueryResult | QueryResult[];
    const rows = [results].flat().map((result) => result.rows).slice(-1 - statements.length);
    if (rows[0]![0]![MARK] !== 'here') throw new TransactionEnded(ENDED);
    return rows.slice(1);
  }

  /** The same, and the commit, by one round trip: for a transaction that no handler has had. */
  async ended(...statements: string[]): Promise<QueryResultRow[][]> {
    const results = (await this.db.query([...statements, 'COMMIT'].join('; '))) as unknown as QueryResult[];
    return results.slice(-1 - statements.length, -1).map((result) => result.rows);
  }

  /** Commits, and makes the session as new by the same round trip. */
  async commit(): Promise<void> {
    if (!this.isUsed || this.#isShared) return void (await this.db.query('COMMIT'));
    const commit = new Commit(`COMMIT; ${RESET}`);
    try {
      await new Promise<void>((then, fail) => void this.db.query(commit as never, ((error: unknown) => (error ? fail(error) : then())) as never));
    } catch (error) {
      if (!commit.isDone) throw error;
      return; // it is made as new before it is used again
    }
    this.#forgetUse();
  }

  async rollback(): Promise<void> {
    await this.db.query('ROLLBACK');
  }

  /** Rows of the last of these statements, outside of transactions of the library, or in the present one. */
  async statement(text: string, answersInMs?: number): Promise<QueryResultRow[]> {
    const query = answersInMs === undefined ? { text } : Object.assign({ text }, { query_timeout: answersInMs });
    const results = (await this.db.query(query)) as unknown as QueryResult | QueryResult[];
    return (Array.isArray(results) ? results[results.length - 1]! : results).rows;
  }

  /** The rows of the last of these statements, in a transaction of its own, by one round trip. One after the other, where several ask. */
  own(statement: string, answersInMs?: number): Promise<QueryResultRow[]> {
    const asked = this.#last.then(() => this.alone(statement, answersInMs));
    this.#last = asked.catch(() => {});
    return asked;
  }

  protected async alone(statement: string, answersInMs?: number): Promise<QueryResultRow[]> {
    await this.clean();
    const query = { text: `${this.#begin}; ${statement}; COMMIT` };
    try {
      const results = (await this.db.query(answersInMs === undefined ? query : Object.assign(query, { query_timeout: answersInMs }))) as unknown as QueryResult[];
      return results[results.length - 2]!.rows;
    } catch (error) {
      if (!isBroken(error)) await this.db.query('ROLLBACK');
      throw error;
    }
  }

  /** Makes the session as new, where a handler was in it and it is this worker's alone. */
  async clean(): Promise<void> {
    if (this.isUsed && !this.#isShared) await this.db.query(RESET);
    if (this.isUsed) this.#forgetUse();
  }

  #forgetUse(): void {
    this.isUsed = false;
    if (this.#isShared) return;
    this.#wire.parsedStatements = {};
    if (this.#wire.submittedNamedStatements !== undefined) this.#wire.submittedNamedStatements = {};
  }

  /** Hears no more of the connection. */
  forget(): void {
    this.#wire.removeListener('readyForQuery', this.#ready);
  }

  /** Says goodbye, and does not wait for long until the server has heard it. A statement that runs is broken off. */
  close(patienceMs = 5000): Promise<void> {
    return (this.#closing ??= closed(this.db, patienceMs));
  }
}

/** DISCARD ALL, in one transaction, but for plans: they are no state of a session, and the library's own calls would plan anew for each run. */
const RESET = `CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; DEALLOCATE ALL; UNLISTEN *; SELECT pg_catalog.pg_advisory_unlock_all();
  DISCARD TEMP; DISCARD SEQUENCES`;
const MARK = 'pg_scheduler.begun';
const ENDED = 'the handler has ended the transaction of its run: COMMIT and ROLLBACK are not for handlers (SAVEPOINT and ROLLBACK TO are)';

/** The statements that begin a transaction which no setting of the role or the database changes; the connection's own options may. */
function beginOf({ connectionParameters = {} }: Inside): string {
  const options = typeof connectionParameters.options === 'string' ? connectionParameters.options.toLowerCase().replaceAll('-', '_') : '';
  const says = (name: string): boolean => new RegExp(`(?:_c\\s*|__)${name}\\s*=`).test(options);
  const isolation = says('default_transaction_isolation') ? '' : 'ISOLATION LEVEL READ COMMITTED ';
  const unlimited = (['idle_in_transaction_session_timeout', 'statement_timeout'] as const).filter((name) => !connectionParameters[name] && !says(name));
  return [`BEGIN ${isolation}READ WRITE`, ...unlimited.map((name) => `SET LOCAL ${name} = 0`)].join('; ');
}

/** To the first server that takes writes, or as the factory says. */
export async function opened(source: Source, sharing: Sharing): Promise<Session> {
  if (typeof source === 'function') return writing((await source()) as unknown as Client, sharing);
  const failures: unknown[] = [];
  for (const server of source) {
    try {
      return await writing(new Client({ ...PATIENCE, ...(typeof server === 'string' ? { connectionString: server } : server) }), sharing);
    } catch (error) {
      failures.push(error);
    }
  }
  // One that refuses for good says nothing of one that is away.
  throw failures.find((failure) => !isPermanent(failure)) ?? failures[0] ?? new Error('there is no server to connect to');
}

const ASKED = `SELECT pg_catalog.pg_is_in_recovery() AS standby, pg_catalog.pg_backend_pid() AS pid, EXISTS (SELECT FROM pg_catalog.pg_proc p
  JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'sched' AND p.proname = 'now' AND p.pronargs = 0) AS clock`;

async function writing(db: Client, sharing: Sharing): Promise<Session> {
  db.on('error', () => {}); // told by the next statement
  try {
    const inside = db as unknown as Inside;
    if (inside.processID === null) await db.connect();
    const session = new Session(db, sharing);
    const [row] = await session.statement(ASKED, ANSWERS_IN_MS);
    if (row!['standby']) throw new Error('no server takes writes');
    session.pid = row!['pid'];
    session.isPooled = session.pid !== inside.processID; // a pooler makes up its own
    if (row!['clock']) session.clock = 'sched.now()';
    return session;
  } catch (error) {
    await closed(db);
    throw error;
  }
}

async function closed(db: Client, patienceMs = 5000): Promise<void> {
  const inside = db as unknown as Inside;
  const late = setTimeout(() => inside.connection.stream.destroy(), patienceMs);
  // A connection that a pool has lent is not as it was: the pool makes another one.
  if (typeof inside.release === 'function') inside.release(true);
  else await db.end().catch(() => {});
  clearTimeout(late);
}
