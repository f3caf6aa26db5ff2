// The worker: it claims executions of a queue, calls their handlers, and keeps their leases meanwhile.
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { DatabaseError, escapeIdentifier, type Client, type QueryResultRow } from 'pg';
import { ANSWERS_IN_MS, ask, closed, isPermanent, isSameServer, opened, type Server } from './connection.js';
import { outcome, Run, SNOOZE, Stopped, unwritable, type AnyRun, type Said } from './run.js';

const COLUMNS = `execution_id, lease_token, attempt, max_attempts, job_name, scope_kind, scope_id, payload,
  date_part('epoch', plan_time) * 1000 AS plan_ms, date_part('epoch', stale_after - clock_timestamp()) * 1000 AS lease_ms`;
const CLAIM = `SELECT ${COLUMNS} FROM sched.claim($1, max_claims => $2, runner_id => $3)`;
// Ends what succeeded and claims what comes next, in one statement. A row also where nothing is left to claim.
const FINISH_AND_CLAIM = `SELECT ended.lost, next.* FROM (SELECT array_agg(id) AS lost FROM sched.finish_success_many($4, $5) AS id) AS ended
  LEFT JOIN (${CLAIM}) AS next ON true`;
const FINISH_MANY = 'SELECT array_agg(id) AS lost FROM sched.finish_success_many($1, $2) AS id';
const FINISH = 'SELECT sched.finish_success($1, $2, result => $3)';
const HEARTBEAT = 'SELECT answer FROM sched.heartbeat_many($1, $2)';
const LEASE_LOST = '55000';
const INTERRUPTED = '57014';

/** What to do besides the work. An exception in a hook ends the worker, which gives back what it has claimed. */
export interface Hooks {
  /** Calls the handler: around it, inside the run's transaction. An exception here is the run's. */
  around?(run: AnyRun, call: () => Promise<unknown>): Promise<unknown>;
  /** The run has committed. */
  succeeded?(run: AnyRun): void;
  /** The run was rolled back, and the ledger says so. */
  failed?(run: AnyRun, error: unknown): void;
  /** The run was rolled back; its lease was lost, so the ledger was told nothing. */
  lost?(run: AnyRun): void;
  /** A connection broke; the worker connects again after so long. Without this hook it says so on stderr. */
  broken?(error: unknown, pauseMs: number): void;
}

export interface WorkerOptions {
  /** How many runs at a time, each with a connection. */
  slots?: number;
  /** How many executions a slot claims at once. */
  batch?: number;
  /** How often to look for work that no notification told of. */
  pollMs?: number;
  /** How long runs may go on after `stop`; then they are stopped and given back, without an attempt lost. */
  graceMs?: number;
  hooks?: Hooks;
}

export interface EnqueueOptions {
  plan_time?: Date;
  scope_kind?: string;
  scope_id?: string;
  run_at?: Date;
  priority?: number;
  unique_by?: 'plan' | 'scope';
  if_exists?: 'keep' | 'replace' | 'error';
}

interface Handler {
  call: (runs: AnyRun[]) => Promise<unknown>;
  parse: (payload: unknown) => unknown;
  isBatch: boolean;
}

/** What the worker does on a connection of its own. */
type Part = (db: Client, over: AbortSignal) => Promise<void>;
type Queryable = { query(text: string, values: unknown[]): Promise<{ rows: QueryResultRow[] }> };

const OPTIONS = ['plan_time', 'scope_kind', 'scope_id', 'run_at', 'priority', 'unique_by', 'if_exists'] as const;

/** Puts an execution into the job's queue, on the caller's connection and in its transaction; its id. */
export async function enqueue(db: Queryable, jobName: string, payload: object = {}, options: EnqueueOptions = {}): Promise<string> {
  const given = OPTIONS.filter((name) => options[name] !== undefined);
  const named = given.map((name, place) => `, ${name} => $${place + 3}`).join('');
  const values = [jobName, JSON.stringify(payload), ...given.map((name) => options[name])];
  const { rows } = await db.query(`SELECT sched.enqueue($1, $2${named}) AS id`, values);
  return rows[0]!['id'];
}

const jittered = (ms: number): number => ms * (0.5 + Math.random());
/** Until then, or no longer than `ms`. */
const rest = (ms: number, signal: AbortSignal): Promise<void> => sleep(ms, undefined, { signal }).catch(() => {});
const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((then) => (signal.aborted ? then() : signal.addEventListener('abort', () => then(), { once: true })));

/** Claims the executions of a queue and calls the handlers of their jobs. Several servers: the worker finds the primary. */
export class Worker {
  readonly #servers: Server[];
  readonly #handlers = new Map<string, Handler>();
  /** The runs that are held, by their lease tokens: an execution may come again before its last run has ended here. */
  readonly #held = new Map<string, AnyRun>();
  readonly #options: Required<Omit<WorkerOptions, 'hooks'>>;
  readonly #hooks: Hooks;
  readonly #connections = new Set<Client>();
  readonly #stopping = new AbortController();
  /** There may be something to claim, to extend or to interrupt: whoever rests looks. */
  #news = new AbortController();
  /** What ends the worker: an exception in a hook, or an error that another connection would not mend. */
  #failure: { error: unknown } | undefined;
  #ended = 0;

  constructor(servers: Server | Server[] = {}, readonly queue = 'default', options: WorkerOptions = {}) {
    const { hooks, ...others } = options;
    this.#servers = Array.isArray(servers) ? servers : [servers];
    this.#hooks = hooks ?? {};
    this.#options = { slots: 1, batch: 1, pollMs: 5000, graceMs: 30_000, ...others };
    if (this.#options.slots < 1 || this.#options.batch < 1) throw new RangeError('slots and batch are at least 1');
  }

  /** Has `handler` called for each execution of a job (`*`: of those without another handler). An object that it returns is the result in the ledger. `parse` makes its payload. */
  job<P = any>(jobName: string, handler: (run: Run<P>) => Promise<unknown>, parse?: (payload: unknown) => P): this {
    return this.#add(jobName, { call: (runs) => handler(runs[0]!), parse: parse ?? ((payload) => payload), isBatch: false });
  }

  /** The same with a list of runs, in one transaction: they succeed or fail together. */
  batch<P = any>(jobName: string, handler: (runs: Run<P>[]) => Promise<unknown>, parse?: (payload: unknown) => P): this {
    return this.#add(jobName, { call: handler, parse: parse ?? ((payload) => payload), isBatch: true });
  }

  #add(jobName: string, handler: Handler): this {
    if (this.#handlers.has(jobName)) throw new Error(`job "${jobName}" has a handler already`);
    this.#handlers.set(jobName, handler);
    return this;
  }

  #handler(jobName: string): Handler | undefined {
    return this.#handlers.get(jobName) ?? this.#handlers.get('*');
  }

  /** Claims nothing more. Runs go on for `graceMs`. */
  stop(): void {
    this.#stopping.abort();
    this.#wake();
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
    this.stop();
  }

  #wake(): void {
    this.#news.abort();
  }

  /** Taken before one looks, so that nothing that comes meanwhile is missed. */
  #listens(): AbortSignal {
    if (this.#news.signal.aborted) this.#news = new AbortController();
    return this.#news.signal;
  }

  async #tell(hook: () => unknown): Promise<void> {
    try {
      await hook();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Works until `stop`, SIGTERM or SIGINT. Ends with an error where a hook raised one, or where another connection would not help. */
  async run(): Promise<void> {
    const slots = (): Promise<unknown> => Promise.all(Array.from({ length: this.#options.slots }, () => this.#forever((db) => this.#slot(db), this.#stopping.signal)));
    await this.#supervised([(db, over) => this.#listen(db, over), (db, over) => this.#beat(db, over)], slots);
  }

  /** Works until nothing is left to claim, or as `run`; how many runs have ended. For tests: what failed waits for its next attempt. */
  async drain(): Promise<number> {
    const before = this.#ended;
    await this.#supervised([(db, over) => this.#beat(db, over)], async () => {
      const db = await this.#open();
      try {
        for (let runs = await this.#claim(db); runs.length > 0; ) {
          const next = await this.#work(db, runs);
          runs = next !== undefined && next.length > 0 ? next : await this.#claim(db);
        }
      } finally {
        await closed(db);
      }
    });
    return this.#ended - before;
  }

  /** Works with these beside it. Where it is to stop, its runs may go on for a while, and are then stopped. */
  async #supervised(beside: Part[], work: () => Promise<unknown>): Promise<void> {
    const stop = (): void => this.stop();
    process.once('SIGTERM', stop).once('SIGINT', stop);
    const over = new AbortController();
    const helpers = beside.map((part) => this.#forever((db) => part(db, over.signal), over.signal));
    const working = work();
    const within = (ms: number): Promise<unknown> => Promise.race([working, sleep(ms, undefined, { ref: false })]);
    try {
      await Promise.race([working, aborted(this.#stopping.signal)]);
      await within(this.#options.graceMs);
      for (const run of this.#held.values()) run.stop('shutdown');
      this.#wake(); // the heart interrupts them
      await within(5000);
    } finally {
      over.abort();
      this.#wake();
      await Promise.all([...helpers, ...[...this.#connections].map(closed)]); // a handler that would not stop commits nothing any more
      process.removeListener('SIGTERM', stop).removeListener('SIGINT', stop);
    }
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  async #open(): Promise<Client> {
    const db = await opened(this.#servers);
    this.#connections.add(db);
    db.once('end', () => this.#connections.delete(db));
    return db;
  }

  /** Does its part on a connection, and on another one where that breaks: after a failover to the new primary. */
  async #forever(part: (db: Client) => Promise<void>, over: AbortSignal): Promise<void> {
    for (let pause = 100; !over.aborted; ) {
      let since = Infinity;
      try {
        const db = await this.#open();
        since = performance.now();
        try {
          await part(db);
        } finally {
          await closed(db);
        }
      } catch (error) {
        if (isPermanent(error)) return this.#fail(error);
        if (over.aborted) return;
        pause = performance.now() - since > 10_000 ? 200 : Math.min(pause * 2, 10_000);
        await this.#tell(() => {
          if (this.#hooks.broken !== undefined) return this.#hooks.broken(error, pause);
          console.error(`pg-scheduler: ${error instanceof Error ? error.message : error}; connects again in about ${pause} ms`);
        });
        await rest(jittered(pause), over);
      }
    }
  }

  async #listen(db: Client, over: AbortSignal): Promise<void> {
    const gone = new Promise<never>((_, reject) => db.once('end', () => reject(new Error('the connection has ended'))));
    gone.catch(() => {});
    db.on('notification', ({ payload }) => {
      // Anybody can send one. So this asks at once, and a heartbeat's answer says whether the run is to stop.
      for (const run of this.#held.values()) if (run.executionId === payload) run.beatAt = 0;
      this.#wake();
    });
    for (const channel of [`sched:${this.queue}`, 'sched:cancel']) await db.query(`LISTEN ${escapeIdentifier(channel)}`);
    this.#wake(); // what came before we listened
    await Promise.race([gone, aborted(over)]);
  }

  /** One statement extends all leases, three times in the shortest of them. */
  async #beat(db: Client, over: AbortSignal): Promise<void> {
    // What waits for a server that is not the one any more would keep its lease, and never hear of it.
    for (const other of this.#connections) if (!isSameServer(other, db)) void closed(other);
    while (!over.aborted) {
      const news = this.#listens();
      const held = [...this.#held.values()];
      const now = performance.now();
      if (held.some((run) => run.beatAt <= now)) {
        for (const run of held) run.beatAt = now + run.leaseMs / 3;
        const keys = [held.map((run) => run.executionId), held.map((run) => run.leaseToken)];
        const { rows } = await ask(db, 'heartbeat', HEARTBEAT, keys, ANSWERS_IN_MS);
        for (const [place, { answer }] of rows.entries()) if (answer !== 'ok') held[place]!.stop(answer);
      }
      for (const run of held) if (run.stopReason !== undefined) await this.#interrupt(run, db);
      await rest(Math.max(0, Math.min(1000, ...held.map((run) => run.beatAt - performance.now()))), news);
    }
  }

  /** Ends the statement that a run waits for: again and again, until one runs. */
  async #interrupt(run: AnyRun, db: Client): Promise<void> {
    if (run.pid === undefined) return;
    const isDeaf = run.stopReason === 'lost' && performance.now() - run.stoppedAt > 10_000;
    // There is nothing that it could say to a server that is not the one any more.
    if (isDeaf || !isSameServer(run.db, db)) void closed(run.db);
    else await (run.interrupting = ask(db, 'cancel', 'SELECT pg_cancel_backend($1)', [run.pid], ANSWERS_IN_MS).catch(() => {}));
  }

  async #slot(db: Client): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const news = this.#listens();
      for (let runs = await this.#claim(db); runs.length > 0; ) runs = (await this.#work(db, runs)) ?? (await this.#claim(db));
      if (!this.#stopping.signal.aborted) await rest(jittered(this.#options.pollMs), news);
    }
  }

  get #claimed(): unknown[] {
    return [this.queue, this.#options.batch, `${hostname()}/${process.pid}`];
  }

  async #claim(db: Client): Promise<AnyRun[]> {
    if (this.#stopping.signal.aborted) return [];
    return this.#take((await ask(db, 'claim', CLAIM, this.#claimed, ANSWERS_IN_MS)).rows);
  }

  #take(rows: QueryResultRow[]): AnyRun[] {
    const runs = rows.map((row) => new Run<any>(row));
    for (const run of runs) this.#held.set(run.leaseToken, run);
    return runs;
  }

  /** Does these runs; what was claimed with the end of the last, undefined where it has failed. Gives them back where the worker is to stop. */
  async #work(db: Client, runs: AnyRun[]): Promise<AnyRun[] | undefined> {
    const groups = new Map<string, AnyRun[]>();
    for (const run of runs) {
      const group = this.#handler(run.jobName)?.isBatch ? run.jobName : run.executionId;
      const others = groups.get(group);
      if (others === undefined) groups.set(group, [run]);
      else others.push(run);
    }
    let next: AnyRun[] | undefined;
    let left = groups.size;
    try {
      for (const group of groups.values()) {
        left -= 1;
        try {
          if (this.#stopping.signal.aborted) {
            await this.#report(db, group, new Stopped('the worker ends'));
            continue;
          }
          next = this.#take(await this.#together(db, group, left === 0));
        } catch (error) {
          await db.query('ROLLBACK'); // throws where the connection is gone: the leases run out
          await this.#report(db, group, error);
          continue;
        }
        this.#ended += group.length;
        for (const run of group) await this.#tell(() => this.#hooks.succeeded?.(run));
      }
    } finally {
      for (const run of runs) this.#held.delete(run.leaseToken);
    }
    return next;
  }

  /** Calls the handler of these runs and ends them, in one transaction; what was claimed in it. */
  async #together(db: Client, group: AnyRun[], claims: boolean): Promise<QueryResultRow[]> {
    await db.query('BEGIN');
    const handler = this.#handler(group[0]!.jobName);
    if (handler === undefined) {
      const known = [...this.#handlers.keys()].sort().join(', ') || 'none';
      throw new Error(`no handler for job "${group[0]!.jobName}" (this worker has: ${known})`);
    }
    const call = (): Promise<unknown> => handler.call(group);
    let returned: unknown;
    try {
      for (const run of group) {
        run.check();
        run.payload = handler.parse(run.json);
        run.db = db;
        run.pid = (db as unknown as { processID: number }).processID;
      }
      returned = await (this.#hooks.around?.(group[0]!, call) ?? call());
    } finally {
      for (const run of group) run.pid = undefined;
      // A cancel that comes late would hit another run.
      for (const run of group) if (run.interrupting !== undefined) await run.interrupting;
    }
    for (const run of group) run.check();
    const rows = await this.#finish(db, group, returned, claims && !this.#stopping.signal.aborted);
    await db.query('COMMIT');
    return rows;
  }

  /** Ends the runs and claims the next, for the commit of what they wrote. */
  async #finish(db: Client, group: AnyRun[], returned: unknown, claims: boolean): Promise<QueryResultRow[]> {
    const keys = [group.map((run) => run.executionId), group.map((run) => run.leaseToken)];
    let rows: QueryResultRow[];
    if (typeof returned === 'object' && returned !== null && group.length === 1) {
      try {
        await ask(db, 'finish', FINISH, [group[0]!.executionId, group[0]!.leaseToken, JSON.stringify(returned)]);
      } catch (error) {
        if ((error as { code?: string }).code === LEASE_LOST) group[0]!.stop('lost');
        throw error;
      }
      return claims ? (await ask(db, 'claim', CLAIM, this.#claimed)).rows : [];
    }
    if (claims) ({ rows } = await ask(db, 'next', FINISH_AND_CLAIM, [...this.#claimed, ...keys]));
    else ({ rows } = await ask(db, 'finish many', FINISH_MANY, keys));
    const lost: string[] = rows[0]!['lost'] ?? [];
    for (const run of group) if (lost.includes(run.executionId)) run.stop('lost');
    if (lost.length > 0) throw new Stopped('lost');
    return claims ? rows.filter((row) => row['execution_id'] !== null) : [];
  }

  /** Tells the ledger what became of runs whose transaction was rolled back. */
  async #report(db: Client, group: AnyRun[], error: unknown): Promise<void> {
    // Where another of its batch was to stop, whatever their common statement raised, or the worker was before it began.
    const isGivenBack = group.some((run) => run.stopReason !== undefined) || (this.#stopping.signal.aborted && error instanceof Stopped);
    for (const run of group) {
      const said = outcome(run, error, isGivenBack);
      if (said === undefined || !(await this.#say(db, run, said))) await this.#tell(() => this.#hooks.lost?.(run));
      else if (said[0] !== SNOOZE) {
        this.#ended += 1;
        await this.#tell(() => this.#hooks.failed?.(run, error));
      }
    }
  }

  /** False where its lease is lost. */
  async #say(db: Client, run: AnyRun, said: Said): Promise<boolean> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await db.query(...said);
        return true;
      } catch (refused) {
        if (!(refused instanceof DatabaseError) || attempt === 3) throw refused;
        if (refused.code === LEASE_LOST) return false;
        if (refused.code !== INTERRUPTED) said = unwritable(run); // (the other is a cancel that came late)
      }
    }
  }
}
