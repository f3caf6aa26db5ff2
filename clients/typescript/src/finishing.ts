// Mode "finish": a handler that runs has no connection. A transaction at its end has its effect and its finish.
import type { Client } from 'pg';
import { Snooze, Stopped } from './errors.js';
import { report } from './failure.js';
import { GivenUp, insisting, type Lender } from './pool.js';
import type { AnyRun, Behind } from './run.js';
import type { Session } from './session.js';
import { rest, type Outcome, type State } from './state.js';
import * as statements from './statements.js';
import { Broken, repeated, told, transaction, type Ended, type Outside } from './transaction.js';

/** So often a broken connection has the work of `finishing` done again: it may be what breaks it. */
const BREAKS = 3;

/** Claims for many slots by one statement. */
export class Claims {
  #waiting: { count: number; then: (runs: AnyRun[]) => void; fail: (error: unknown) => void }[] = [];
  #isAsking = false;

  constructor(private readonly state: State, private readonly lender: Lender, private readonly claim: (count: number, clock: string) => string, private readonly over: AbortSignal) {}

  /** At most so many; none where the worker stops. */
  take(count: number): Promise<AnyRun[]> {
    return new Promise((then, fail) => {
      this.#waiting.push({ count, then, fail });
      void this.#ask();
    });
  }

  async #ask(): Promise<void> {
    if (this.#isAsking) return;
    this.#isAsking = true;
    while (this.#waiting.length > 0) {
      const waiting = this.#waiting.splice(0);
      const count = waiting.reduce((sum, { count }) => sum + count, 0);
      try {
        const runs = this.state.isStopping ? [] : await insisting(this.state, this.state.stopping.signal, () => this.#claimed(count));
        for (const { count, then } of waiting) then(runs.splice(0, count));
      } catch (error) {
        // Where the worker stops there is nothing to claim.
        for (const { then, fail } of waiting) if (this.state.isStopping || this.over.aborted) then([]); else fail(error);
      }
    }
    this.#isAsking = false;
  }

  async #claimed(count: number): Promise<AnyRun[]> {
    return this.lender.use(async (session) =>
      this.state.take(await repeated(() => session.own(this.claim(count, session.clock), 20_000), () => this.state.isStopping)));
  }
}

/** Does runs whose handlers have no connection. */
export class Finisher {
  constructor(
    private readonly state: State,
    private readonly behind: Behind,
    private readonly outside: Outside | undefined,
    private readonly lender: Lender,
    private readonly over: AbortSignal,
  ) {}

  /** Works until the worker stops. */
  async loop(claims: Claims): Promise<void> {
    while (!this.state.isStopping) {
      const news = this.state.listens();
      await this.drain(claims);
      if (!this.state.isStopping) await rest(this.state.pollMs, news);
    }
  }

  /** Works until nothing is left to claim. */
  async drain(claims: Claims): Promise<void> {
    for (let runs = await claims.take(this.state.options.batch); runs.length > 0; runs = await claims.take(this.state.options.batch)) {
      try {
        for (const group of this.state.handlers.groups(runs)) await this.#together(group);
      } finally {
        this.state.drop(runs);
      }
    }
  }

  async #together(group: AnyRun[]): Promise<void> {
    try {
      if (this.state.isStopping) throw new Stopped('the worker ends');
      await told(this.state, await this.#ended(group));
    } catch (error) {
      await this.#insisting(() => this.lender.use((session) => report(this.state, session, group, error)));
    }
  }

  /** Calls the handler of these runs, and ends them. */
  async #ended(group: AnyRun[]): Promise<Ended> {
    const handler = this.state.handlers.get(group[0]!.jobName);
    let ending: Promise<Ended> | undefined;
    const finishing = async (work: (db: Client) => Promise<unknown>): Promise<unknown> => {
      if (ending !== undefined) throw new Error('run.finishing ends a run, once');
      let returned: unknown;
      let snooze: unknown;
      ending = this.#ending(group, async () => {
        try {
          return (returned = await work(group[0]!.db));
        } catch (error) {
          snooze = error;
          throw error;
        }
      }, BREAKS);
      ending.catch(() => {});
      await ending;
      if (snooze instanceof Snooze) throw snooze;
      return returned;
    };
    const call = (): Promise<unknown> => handler.call(group);
    let returned: unknown;
    try {
      for (const run of group) {
        run.behind = { progress: (of, json) => this.behind.progress(of, json), finishing };
        run.check();
        run.read(this.state.options.json, handler.parse);
      }
      returned = await (this.state.hooks.around?.(group[0]!, call) ?? call());
    } catch (error) {
      if (ending === undefined) {
        if (error instanceof Snooze) return this.#ending(group, () => Promise.reject(error));
        throw error;
      }
      const ended = await ending; // where that has failed, the run has
      if (!(error instanceof Snooze)) await this.state.warn(`a handler of job "${group[0]!.jobName}" threw after its run had been committed: ${String(error)}`);
      return ended;
    }
    return ending ?? this.#ending(group, async () => returned);
  }

  /** Ends these runs in a transaction with this work; again where that meets a conflict, or its connection breaks. */
  async #ending(group: AnyRun[], work: () => Promise<unknown>, breaks = Infinity): Promise<Ended> {
    let broke = 0;
    const tried = await this.#insisting(() => this.lender.use(async (session): Promise<{ ended: Ended } | { error: unknown }> => {
      if (broke > 0 && (await this.#isCommitted(group, session))) {
        return { ended: { outcomes: new Map<AnyRun, Outcome>(group.map((run) => [run, 'SUCCESS'])), next: [] } };
      }
      try {
        return { ended: await transaction(session, group, work, this.outside) };
      } catch (error) {
        if (!(error instanceof Broken)) return { error };
        if (error.hasBegun) broke += 1;
        if (broke < breaks && !group.some((run) => run.stopReason !== undefined)) throw error;
        throw new GivenUp(error.message, { cause: error.cause });
      }
    })).catch((error: unknown) => {
      if (error instanceof GivenUp) return { error: error.cause };
      throw error;
    });
    if ('ended' in tried) return tried.ended;
    throw tried.error;
  }

  /** Whether a commit was done of which the connection broke before it said so. */
  async #isCommitted(group: AnyRun[], session: Session): Promise<boolean> {
    const rows = await session.own(statements.statuses(group));
    return group.every((run) => rows.some((row) => row['id'] === run.executionId && row['status'] === 'SUCCESS' && row['lease_token'] === run.leaseToken));
  }

  #insisting<T>(work: () => Promise<T>): Promise<T> {
    return insisting(this.state, this.over, work);
  }
}
