// A worker's options, and their errors.
import type { JsonMode } from './json.js';
import { checkNames, snake } from './names.js';
import type { AnyRun } from './run.js';
import type { ScheduleSpec } from './schedules.js';
import type { ConnectionFactory, Server } from './session.js';

/** Calls besides the work. An exception in a hook (but `around`) ends the worker, which gives back what it has claimed. */
export interface Hooks {
  /** Calls the handler: around it, inside the run's transaction where there is one. An exception here is the run's. */
  around?(run: AnyRun, call: () => Promise<unknown>): Promise<unknown>;
  /** The run has committed. */
  succeeded?(run: AnyRun): void;
  /** The run was rolled back, and the ledger says so. */
  failed?(run: AnyRun, error: unknown): void;
  /** The run waits for a later time, by a snooze, and its attempt does not count. */
  snoozed?(run: AnyRun): void;
  /** The run was rolled back; its lease was lost, so the ledger was told nothing. */
  lost?(run: AnyRun): void;
  /**
   * The run has failed for good. Writes through `run.db` commit with the failure, in either transaction mode; a conflict calls the hook again.
   * Where it throws, the failure is recorded without its writes. Nothing is called for a run whose worker was killed or has lost the lease.
   */
  onDead?(run: AnyRun, error: unknown): void | Promise<void>;
  /** A connection broke; the worker connects again after so long. Without this hook it says so on stderr. */
  broken?(error: unknown, pauseMs: number): void;
  /** Something that an operator should know, such as notifications that do not arrive. Without this hook it is a warning of the process. */
  warning?(message: string): void;
}

/** Options whose name ends in `Ms` are milliseconds. */
export interface WorkerOptions {
  /** The queues, and how many runs of each at a time: `{ mail: 8, render: 2 }`. In place of a queue's name and `slots`. */
  queues?: Record<string, number>;
  /** How many runs at a time (1). */
  slots?: number;
  /** How many executions a slot claims at once (1). */
  batch?: number;
  /** How often to look for work that no notification told of (5000, or 1000 where notifications do not arrive). */
  pollMs?: number;
  /** How long runs may go on after `stop` (5000); then they are stopped and given back, without an attempt lost. That takes up to 4 s more. */
  graceMs?: number;
  /**
   * `"run"` (default): each slot has a connection, and `run.db` is open while the handler runs; effect and finish are one commit.
   * `"finish"`: a handler that runs has no connection; `run.finishing` opens a transaction at its end, on one of a few.
   */
  transaction?: 'run' | 'finish';
  /** With `transaction: "finish"`: how many connections there are for claims and ends (at most 3), besides two for notifications and leases. */
  poolSize?: number;
  /** For clients of other languages this turns prepared statements off. This one prepares none, so that it changes nothing. */
  prepare?: boolean;
  /** Where to listen for notifications, where the first argument leads to a pooler: as that, but past the pooler. */
  listenDsn?: Server | Server[] | ConnectionFactory;
  /** Whether SIGTERM and SIGINT stop the worker (true). False is for hosts that have handlers of their own, and call `stop`. */
  handleSignals?: boolean;
  /** The value that a payload's JSON becomes (`"number"`). */
  json?: JsonMode;
  /**
   * The group whose schedules are declared when the worker starts, as by `declareSchedules`: those of `schedules`, and those beside its handlers.
   * Schedules of the group that the worker does not name are dropped: two workers with different schedules have two groups.
   */
  scheduleGroup?: string;
  /** The schedules of the group. */
  schedules?: readonly ScheduleSpec[];
  hooks?: Hooks;
}

type Own = 'listenDsn' | 'pollMs' | 'schedules' | 'scheduleGroup';
export type Settled = Required<Omit<WorkerOptions, Own | 'hooks' | 'slots'>> & Pick<WorkerOptions, Own>;

const NAMES = ['queues', 'slots', 'batch', 'pollMs', 'graceMs', 'transaction', 'poolSize', 'prepare', 'listenDsn', 'handleSignals', 'json', 'scheduleGroup', 'schedules', 'hooks'];

const HOOKS = ['around', 'succeeded', 'failed', 'snoozed', 'lost', 'onDead', 'broken', 'warning'];

/** A hook that is never called would be missed late. An object of a class may have more. */
function checkHooks(hooks: object): void {
  for (const name of HOOKS) if (snake(name) !== name && snake(name) in hooks) checkNames({ [snake(name)]: true }, HOOKS, 'hooks');
  if (Object.getPrototypeOf(hooks) === Object.prototype) checkNames(hooks, HOOKS, 'hooks');
}

const isCount = (number: unknown): boolean => typeof number === 'number' && number >= 1 && number % 1 === 0;

/** The options with their defaults. @throws TypeError or RangeError where one is unknown or wrong. */
export function settled(queue: string, options: WorkerOptions): Settled {
  checkNames(options, NAMES, 'Worker');
  if (options.hooks !== undefined) checkHooks(options.hooks);
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as WorkerOptions;
  const { hooks: _, slots = 1, queues = { [queue]: slots }, ...others } = given;
  if (given.queues !== undefined && given.slots !== undefined) throw new TypeError('with queues, each has its own number of slots: leave slots out');
  const all = { batch: 1, graceMs: 5000, transaction: 'run' as const, prepare: true, handleSignals: true, json: 'number' as const, ...others, queues };
  const counts = Object.values(queues);
  if (counts.length === 0) throw new RangeError('there is no queue to work on');
  const whole = { ...all, poolSize: others.poolSize ?? Math.min(3, counts.reduce((sum, count) => sum + count, 0)) };
  if (![...counts, whole.batch, whole.poolSize].every(isCount)) throw new RangeError('slots, batch and poolSize are whole numbers, at least 1');
  if (whole.transaction !== 'run' && whole.transaction !== 'finish') throw new RangeError(`transaction is "run" or "finish", not "${String(whole.transaction)}"`);
  if (!['number', 'bigint', 'text'].includes(whole.json as string) && typeof whole.json !== 'function') {
    throw new RangeError(`json is "number", "bigint", "text" or a function, not "${String(whole.json)}"`);
  }
  return whole;
}
