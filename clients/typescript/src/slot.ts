// Mode "run": a slot has a connection, and its handlers run in the transactions that end their runs.
import type { QueryResultRow } from 'pg';
import { Stopped } from './errors.js';
import { givenBack, report } from './failure.js';
import type { AnyRun, Behind } from './run.js';
import type { Session } from './session.js';
import { rest, type State } from './state.js';
import * as statements from './statements.js';
import { Broken, repeated, told, transaction, type Outside } from './transaction.js';

/** The work of a slot, on a connection of the worker or of a caller. */
export class Slot {
  #left: { group: AnyRun[]; error: unknown; others: AnyRun[] } | undefined;

  constructor(
    private readonly state: State,
    private readonly behind: Behind,
    /** Undefined where nobody else sees the runs. */
    private readonly outside: Outside | undefined,
    /** The statement that claims. */
    private readonly claim: (clock: string) => string,
  ) {}

  /** Works until the worker stops. */
  async loop(session: Session): Promise<void> {
    await this.#settle(session);
    while (!this.state.isStopping) {
      const news = this.state.listens();
      await this.drain(session);
      await session.clean();
      if (!this.state.isStopping) await rest(this.state.pollMs, news);
    }
  }

  /** Works until nothing is left to claim. */
  async drain(session: Session): Promise<void> {
    let runs = await this.#claim(session);
    while (runs.length > 0) {
      const next = await this.#work(session, runs);
      runs = next !== undefined && next.length > 0 ? next : await this.#claim(session);
    }
  }

  async #claim(session: Session): Promise<AnyRun[]> {
    if (this.state.isStopping) return [];
    return this.state.take(await repeated(() => session.own(this.claim(session.clock), 20_000), () => this.state.isStopping));
  }

  /** Does these runs; what was claimed with the end of the last, undefined where it has failed. Gives them back where the worker is to stop. */
  async #work(session: Session, runs: AnyRun[]): Promise<AnyRun[] | undefined> {
    const groups = this.state.handlers.groups(runs);
    let next: AnyRun[] | undefined;
    for (const [place, group] of groups.entries()) {
      try {
        next = await this.#ended(session, group, place === groups.length - 1);
      } catch (error) {
        // The connection is of no use any more. Their leases are kept until another one is there.
        const hasBegun = !(error instanceof Broken) || error.hasBegun;
        this.#left = { group: hasBegun ? group : [], error: error instanceof Broken ? error.cause : error, others: groups.slice(hasBegun ? place + 1 : place).flat() };
        throw error;
      }
      this.state.drop(group);
    }
    return next;
  }

  /** What was claimed with its end; undefined where it has failed, and the ledger says so. */
  async #ended(session: Session, group: AnyRun[], isLast: boolean): Promise<AnyRun[] | undefined> {
    try {
      if (this.state.isStopping) throw new Stopped('the worker ends');
      return this.state.take(await this.#together(session, group, isLast));
    } catch (error) {
      if (error instanceof Broken) throw error;
      await report(this.state, session, group, error);
      return undefined;
    }
  }

  /** Ends those that a connection has left which broke. Those that had not begun are given back. */
  async #settle(session: Session): Promise<void> {
    if (this.#left === undefined) return;
    const { group, error, others } = this.#left;
    const rows = await session.own(statements.statuses(group));
    const isCommitted = (run: AnyRun): boolean => rows.some((row) => row['id'] === run.executionId && row['status'] === 'SUCCESS' && row['lease_token'] === run.leaseToken);
    if (group.every(isCommitted)) for (const run of group) await this.state.end(run, 'SUCCESS');
    else await report(this.state, session, group, error);
    for (const run of others) await givenBack(this.state, session, run);
    this.state.drop([...group, ...others]);
    this.#left = undefined;
  }

  /** Calls the handler of these runs and ends them, in one transaction; what was claimed in it. */
  async #together(session: Session, group: AnyRun[], claims: boolean): Promise<QueryResultRow[]> {
    const handler = this.state.handlers.get(group[0]!.jobName);
    const call = (): Promise<unknown> => handler.call(group);
    const body = async (): Promise<unknown> => {
      for (const run of group) {
        run.behind = this.behind;
        run.read(this.state.options.json, handler.parse);
      }
      return this.state.hooks.around?.(group[0]!, call) ?? call();
    };
    const claim = (): string | undefined => (claims && !this.state.isStopping ? this.claim(session.clock) : undefined);
    const ended = await transaction(session, group, body, this.outside, claim);
    await told(this.state, ended);
    return ended.next;
  }
}
