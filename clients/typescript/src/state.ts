// The common state of a worker's parts: runs that are held, the stop, hooks.
import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { QueryResultRow } from 'pg';
import type { Handlers } from './handlers.js';
import type { Hooks, Settled } from './options.js';
import { Run, type AnyRun } from './run.js';
import type { Sharing } from './session.js';

/** How a run has ended here. */
export type Outcome = 'SUCCESS' | 'FAILED' | 'CANCELLED' | 'PENDING' | 'LOST';

export const jittered = (ms: number): number => ms * (0.5 + Math.random());
/** Until then, or no longer than `ms`. */
export const rest = (ms: number, signal?: AbortSignal): Promise<void> => sleep(ms, undefined, signal === undefined ? {} : { signal }).catch(() => {});
export const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((then) => (signal.aborted ? then() : signal.addEventListener('abort', () => then(), { once: true })));

/** Each slot listens to it. */
export function forMany(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}

export class State {
  /** The runs that are held, by their lease tokens: an execution may come again before its last run has ended here. */
  readonly held = new Map<string, AnyRun>();
  readonly stopping = forMany();
  /** Whether sessions behind a pooler are this worker's alone: known when one has heard of its own channel. */
  readonly sharing: Sharing = { isOurs: false };
  /** Whether notifications do not arrive. */
  isDeaf = false;
  /** The end of the worker: an exception in a hook, or an error that another connection would not mend. */
  failure: { error: unknown } | undefined;
  /** Whether connections are closed for good. */
  isClosing = false;
  ended = 0;
  claimed = 0;
  /** Hears of each end. */
  heard: ((run: AnyRun, outcome: Outcome, error?: unknown) => void) | undefined;
  /** There may be something to claim, to extend or to interrupt: whoever rests looks. */
  #news = forMany();
  /** Executions that were not held here when their cancel was heard of. */
  readonly #cancels = new Set<string>();

  constructor(readonly options: Settled, readonly hooks: Hooks, readonly handlers: Handlers) {}

  get isStopping(): boolean {
    return this.stopping.signal.aborted;
  }

  stop(): void {
    this.stopping.abort();
    this.wake();
  }

  fail(error: unknown): void {
    this.failure ??= { error };
    this.stop();
  }

  wake(): void {
    this.#news.abort();
  }

  /** Taken before one looks, so that nothing that comes meanwhile is missed. */
  listens(): AbortSignal {
    if (this.#news.signal.aborted) this.#news = forMany();
    return this.#news.signal;
  }

  async tell(hook: () => unknown): Promise<void> {
    try {
      await hook();
    } catch (error) {
      this.fail(error);
    }
  }

  /** To an operator. */
  warn(message: string): Promise<void> {
    return this.tell(() => (this.hooks.warning !== undefined ? this.hooks.warning(message) : process.emitWarning(message, 'pg-scheduler')));
  }

  /** A notification says that this execution is cancelled; anybody can send one. So its heartbeat is due, also where its claim is heard of later. */
  cancelled(executionId: string): void {
    let isHeld = false;
    for (const run of this.held.values()) {
      if (run.executionId !== executionId) continue;
      run.beatAt = 0;
      isHeld = true;
    }
    if (isHeld || executionId.length !== UUID_LENGTH) return;
    this.#cancels.add(executionId);
    const [oldest] = this.#cancels;
    if (this.#cancels.size > CANCELS) this.#cancels.delete(oldest!);
  }

  /** The runs of these rows, which are held from here on. */
  take(rows: QueryResultRow[]): AnyRun[] {
    const runs = rows.map((row) => new Run<any>(row));
    this.claimed += runs.length;
    for (const run of runs) {
      if (this.isDeaf) run.beatAt = Math.min(run.beatAt, performance.now() + DEAF_BEAT_MS);
      if (this.#cancels.delete(run.executionId)) run.beatAt = 0;
      this.held.set(run.leaseToken, run);
    }
    if (runs.some((run) => run.beatAt === 0)) this.wake();
    return runs;
  }

  drop(runs: AnyRun[]): void {
    for (const run of runs) {
      this.held.delete(run.leaseToken);
      run.behind = undefined;
    }
  }

  /** How long until its lease is extended; where no notification tells of a cancel, a heartbeat does. */
  beatMs(run: AnyRun): number {
    return this.isDeaf ? Math.min(run.leaseMs / 3, DEAF_BEAT_MS) : run.leaseMs / 3;
  }

  /** How long to wait before one looks again. */
  get pollMs(): number {
    return jittered(this.options.pollMs ?? (this.isDeaf ? 1000 : 5000));
  }

  /** Counts what has ended, and tells of it. */
  async end(run: AnyRun, outcome: Outcome, error?: unknown): Promise<void> {
    if (outcome !== 'PENDING' && outcome !== 'LOST') this.ended += 1;
    this.heard?.(run, outcome, error);
    await this.tell(() => {
      if (outcome === 'SUCCESS') return this.hooks.succeeded?.(run);
      if (outcome === 'PENDING') return this.hooks.snoozed?.(run);
      return outcome === 'LOST' ? this.hooks.lost?.(run) : this.hooks.failed?.(run, error);
    });
  }
}

const DEAF_BEAT_MS = 10_000;
const UUID_LENGTH = 36;
const CANCELS = 1000;
