// The worker: it claims executions of its queues, calls their handlers, and keeps their leases meanwhile.
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { Claims, Finisher } from './finishing.js';
import { Handlers, type Handler } from './handlers.js';
import { Heart } from './heart.js';
import { settled, type WorkerOptions } from './options.js';
import { forever, GivenUp, insisting, Pool, type Lender } from './pool.js';
import type { AnyRun, Behind, Run } from './run.js';
import { Savepoints } from './savepoints.js';
import { Declaration, type JobOptions } from './schedules.js';
import { opened, type ConnectionFactory, type Server, type Session, type Source } from './session.js';
import { atSignal } from './signals.js';
import { Slot } from './slot.js';
import { aborted, forMany, State, type Outcome } from './state.js';
import * as statements from './statements.js';
import { repeated } from './transaction.js';

/** After `graceMs`: how long interrupted runs may take to end, connections to close, and what would not end to be given back. */
const ENDING_MS = 2000;
const CLOSING_MS = 1000;

const sourceOf = (servers: Server | Server[] | ConnectionFactory): Source =>
  typeof servers === 'function' ? servers : Array.isArray(servers) ? servers : [servers];

/** The cause of a break, of a connection that is not replaced. */
function thrown(error: unknown): never {
  throw error instanceof GivenUp ? error.cause : error;
}

type One<P> = (run: Run<P>) => Promise<unknown>;
type Many<P> = (runs: Run<P>[]) => Promise<unknown>;
type Parse<P> = (payload: unknown) => P;

/** The options come first, where there are some. */
function sorted<H extends Function, P>(jobName: string, first: H | JobOptions, second?: H | Parse<P>, third?: Parse<P>): [JobOptions | undefined, H, Parse<P> | undefined] {
  const [options, handler, parse] = typeof first === 'function' ? [undefined, first, second] : [first, second, third];
  if (typeof handler !== 'function') throw new TypeError(`job "${jobName}" has no handler`);
  return [options, handler as H, parse as Parse<P> | undefined];
}

/** Claims the executions of its queues and calls the handlers of their jobs. */
export class Worker {
  readonly #source: Source;
  readonly #state: State;
  readonly #connections = new Map<Session, Source>();
  readonly #declaration: Declaration;

  /**
   * @param servers - A connection string or a configuration of `pg`; several, of which the one counts that takes writes; or a function that makes a connection.
   * @param queue - The queue's name; or the options, with `queues`, or for the queue `default`.
   * @throws TypeError for an unknown option, RangeError for a wrong value.
   */
  constructor(servers: Server | Server[] | ConnectionFactory = {}, queue: string | WorkerOptions = 'default', options: WorkerOptions = {}) {
    const [name, all] = typeof queue === 'string' ? [queue, options] : ['default', queue];
    if (typeof queue === 'string' && options.queues !== undefined) throw new TypeError('a queue and the option queues: one of them is enough');
    this.#source = sourceOf(servers);
    const kept = settled(name, all);
    this.#state = new State(kept, all.hooks ?? {}, new Handlers());
    this.#declaration = new Declaration(kept.scheduleGroup, kept.schedules, Object.keys(kept.queues));
  }

  /** The queues, and how many runs of each there are at a time. */
  get queues(): Readonly<Record<string, number>> {
    return this.#state.options.queues;
  }

  /**
   * Has `handler` called for each execution of a job (`*`: of those without another handler).
   *
   * @param options - Declares a schedule of the job's name when the worker starts, in its `scheduleGroup`, and defines the job where it is not:
   *   `{ schedule: '30 8 * * mon', timeZone: 'Europe/Berlin' }`.
   * @param handler - An object or a list that it returns is the result in the ledger. Its exception fails the attempt.
   * @param parse - Makes the handler's payload of what the option `json` has made: a cast, or a validator that throws.
   * @throws Error where the job has a handler already. TypeError for options in snake_case, and without a `scheduleGroup`.
   */
  job<P = any>(jobName: string, handler: One<P>, parse?: Parse<P>): this;
  job<P = any>(jobName: string, options: JobOptions, handler: One<P>, parse?: Parse<P>): this;
  job<P = any>(jobName: string, first: One<P> | JobOptions, second?: One<P> | Parse<P>, third?: Parse<P>): this {
    const [options, handler, parse] = sorted<One<P>, P>(jobName, first, second, third);
    return this.#add(jobName, options, { call: (runs) => handler(runs[0]!), parse: parse ?? ((payload) => payload), isBatch: false });
  }

  /** The same with a list of runs, in one transaction: they succeed or fail together. One that the handler snoozes waits alone. */
  batch<P = any>(jobName: string, handler: Many<P>, parse?: Parse<P>): this;
  batch<P = any>(jobName: string, options: JobOptions, handler: Many<P>, parse?: Parse<P>): this;
  batch<P = any>(jobName: string, first: Many<P> | JobOptions, second?: Many<P> | Parse<P>, third?: Parse<P>): this {
    const [options, handler, parse] = sorted<Many<P>, P>(jobName, first, second, third);
    return this.#add(jobName, options, { call: handler, parse: parse ?? ((payload) => payload), isBatch: true });
  }

  #add(jobName: string, options: JobOptions | undefined, handler: Handler): this {
    this.#state.handlers.add(jobName, handler);
    if (options !== undefined) this.#declaration.add(jobName, options);
    return this;
  }

  /** Claims nothing more, for good. Runs go on for `graceMs`. */
  stop(): void {
    this.#state.stop();
  }

  /** Works until `stop`, SIGTERM or SIGINT. Ends with an error where a hook threw one, or where another connection would not help. */
  async run(): Promise<void> {
    const state = this.#state;
    const heart = new Heart(state);
    const { listenDsn, queues } = state.options;
    const listens = listenDsn === undefined ? this.#source : sourceOf(listenDsn);
    await this.#supervised(heart, async (over) => {
      await this.#declared(() => insisting(state, state.stopping.signal, () => this.#declare()));
      void forever(state, () => this.#open(listens), (session) => heart.listen(session, over, Object.keys(queues), listens === this.#source), over);
      await Promise.all(this.#slots(heart, over));
    });
  }

  /** Declares its schedules where it has not yet. */
  async #declared(declare: () => Promise<void>): Promise<void> {
    if (this.#declaration.isDone || this.#state.isStopping) return;
    try {
      await declare();
      this.#declaration.isDone = true;
    } catch (error) {
      if (!this.#state.isStopping) throw error; // a stop has closed the connection
      this.#state.wake();
    }
  }

  async #declare(): Promise<void> {
    const { sql } = this.#declaration;
    if (sql === undefined) return;
    const session = await this.#open();
    try {
      await repeated(() => session.own(sql), () => this.#state.isStopping);
    } finally {
      await session.close();
    }
  }

  #slots(heart: Heart, over: AbortSignal): Promise<void>[] {
    const state = this.#state;
    const each = Object.entries(state.options.queues).flatMap(([queue, count]) => Array.from({ length: count }, () => queue));
    if (state.options.transaction === 'run') {
      return each.map((queue) => {
        const slot = new Slot(state, heart, heart, this.#claim(queue, state.options.batch));
        return forever(state, () => this.#open(), (session) => slot.loop(session), state.stopping.signal);
      });
    }
    const pool = new Pool(state.options.poolSize, () => this.#open());
    const finisher = new Finisher(state, heart, heart, pool, over);
    const claims = Object.fromEntries(Object.keys(state.options.queues).map((queue) => [queue, this.#claims(queue, pool, over)]));
    return each.map((queue) => finisher.loop(claims[queue]!).catch((error: unknown) => state.fail(error)));
  }

  #claim(queue: string, count: number): (clock: string) => string {
    return (clock) => statements.claim(queue, count, `${hostname()}/${process.pid}`, clock);
  }

  #claims(queue: string, lender: Lender, over: AbortSignal): Claims {
    return new Claims(this.#state, lender, (count, clock) => this.#claim(queue, count)(clock), over);
  }

  /**
   * Works until nothing is left to claim, or as `run`; how many runs have ended. A run that failed waits for its next attempt.
   *
   * @throws the error of a connection that breaks, or that there is none.
   */
  async drain(): Promise<number> {
    const before = this.#state.ended;
    const heart = new Heart(this.#state);
    await this.#supervised(heart, async (over) => {
      await this.#declared(() => this.#declare());
      const session = await this.#open();
      try {
        await this.#drained(session, heart, heart, over);
      } finally {
        await session.close();
      }
    });
    return this.#state.ended - before;
  }

  /**
   * For `pg-scheduler/testing`: drains, in a transaction of the caller's where that is given, and tells of each end.
   *
   * @internal
   */
  async drainInto(heard: (run: AnyRun, outcome: Outcome, error?: unknown) => void, connection?: Client): Promise<void> {
    const state = this.#state;
    state.heard = heard;
    const session = connection === undefined ? undefined : new Savepoints(connection);
    try {
      if (session === undefined) return void (await this.drain());
      const progress = async (run: AnyRun, json: string): Promise<string> => (await session.own(statements.progress(run, json)))[0]!['answer'];
      await this.#drained(session, { progress }, undefined, state.stopping.signal);
      if (state.failure !== undefined) throw state.failure.error;
    } finally {
      state.heard = undefined;
      session?.forget();
    }
  }

  /** Until a look at each queue finds nothing. */
  async #drained(session: Session, behind: Behind, outside: Heart | undefined, over: AbortSignal): Promise<void> {
    const state = this.#state;
    const lender: Lender = { use: (work) => work(session).catch((error: unknown) => { throw new GivenUp('the connection broke', { cause: error }); }) };
    let before: number;
    do {
      before = state.claimed;
      for (const queue of Object.keys(state.options.queues)) {
        if (state.options.transaction === 'run') await new Slot(state, behind, outside, this.#claim(queue, state.options.batch)).drain(session);
        else await new Finisher(state, behind, outside, lender, over).drain(this.#claims(queue, lender, over)).catch(thrown);
      }
    } while (state.claimed > before && Object.keys(state.options.queues).length > 1);
    await session.clean();
  }

  /** Works with heartbeats beside it. Where it is to stop, its runs may go on for a while, and are then stopped, and given back. */
  async #supervised(heart: Heart, work: (over: AbortSignal) => Promise<unknown>): Promise<void> {
    const state = this.#state;
    const deafen = state.options.handleSignals ? atSignal(() => this.stop()) : (): void => {};
    const over = forMany();
    const beating = forever(state, () => this.#open(), (session) => this.#beat(heart, session, over.signal), over.signal);
    const working = work(over.signal);
    const within = (ms: number): Promise<unknown> => Promise.race([working, sleep(ms, undefined, { ref: false })]);
    try {
      await Promise.race([working, aborted(state.stopping.signal)]);
      await within(state.options.graceMs);
      for (const run of state.held.values()) run.stop('shutdown');
      state.wake(); // the heart interrupts them
      await within(ENDING_MS);
    } finally {
      working.catch(() => {}); // what it says of connections that are closed now
      await this.#release(heart);
      over.abort();
      state.wake();
      await Promise.all([beating, ...[...this.#connections.keys()].map((session) => session.close(CLOSING_MS))]);
      deafen();
    }
    if (state.failure !== undefined) throw state.failure.error;
  }

  /** Handlers that would not stop commit nothing any more: their runs are given back. */
  async #release(heart: Heart): Promise<void> {
    const left = [...this.#state.held.values()].filter((run) => run.stopReason !== 'lost');
    if (left.length === 0) return;
    this.#state.isClosing = true;
    await Promise.all([...this.#connections.keys()].filter((session) => session !== heart.session).map((session) => session.close(CLOSING_MS)));
    const clock = heart.session?.clock;
    const all = left.map((run) => clock !== undefined && heart.ask(statements.IMPATIENT + statements.snooze(run, 0, clock)).catch(() => {}));
    await Promise.race([Promise.all(all), sleep(CLOSING_MS, undefined, { ref: false })]);
  }

  /** Whether a run's connection is to the same server as this one, as far as one can know. */
  #isHere(db: Client, own: Session): boolean {
    return typeof this.#source === 'function' || this.#source.length < 2 || (own.db.host === db.host && own.db.port === db.port);
  }

  /** A connection to a server that is not the one any more would keep its lease, and never hear of it. */
  async #beat(heart: Heart, session: Session, over: AbortSignal): Promise<void> {
    for (const [other, source] of this.#connections) if (source === this.#source && !this.#isHere(other.db, session)) void other.close();
    await heart.beat(session, over, (run) => this.#isHere(run.db, session));
  }

  async #open(source = this.#source): Promise<Session> {
    const session = await opened(source, this.#state.sharing);
    this.#connections.set(session, source);
    session.db.once('end', () => this.#connections.delete(session));
    return session;
  }
}
