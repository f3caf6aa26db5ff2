// The work beside the handlers: heartbeats for all leases, cancels of statements, and notifications.
import { randomUUID } from 'node:crypto';
import { escapeIdentifier, type QueryResultRow } from 'pg';
import type { AnyRun } from './run.js';
import { ANSWERS_IN_MS, isBroken, isLeaseLost, type Session } from './session.js';
import { aborted, rest, type State } from './state.js';
import * as statements from './statements.js';
import { repeated, type Outside } from './transaction.js';

/** After so long a notification of one's own will not come any more. */
const ARRIVES_IN_MS = 5000;

export class Heart implements Outside {
  /** The connection of heartbeats, where there is one. */
  session: Session | undefined;
  #waiting: ((session: Session) => void)[] = [];

  constructor(private readonly state: State) {}

  /** Asks on the connection of heartbeats, where that is there or comes soon. */
  async ask(statement: string): Promise<QueryResultRow[]> {
    for (let breaks = 1; ; breaks += 1) {
      const session = this.session ?? (await this.#next());
      try {
        return await repeated(() => session.own(statement, ANSWERS_IN_MS), () => session !== this.session);
      } catch (error) {
        if (!isBroken(error) || breaks === 3) throw error;
        if (session === this.session) this.session = undefined;
      }
    }
  }

  #next(): Promise<Session> {
    return new Promise((then, fail) => {
      const late = setTimeout(() => fail(new Error('the worker has no connection')), ANSWERS_IN_MS);
      late.unref();
      this.#waiting.push((session) => {
        clearTimeout(late);
        then(session);
      });
    });
  }

  /** Stores it; what a heartbeat answers. */
  async progress(run: AnyRun, json: string): Promise<string> {
    try {
      const [row] = await this.ask(statements.IMPATIENT + statements.progress(run, json));
      run.beatAt = performance.now() + this.state.beatMs(run);
      return row!['answer'];
    } catch (error) {
      if (isLeaseLost(error)) return 'lost';
      throw error;
    }
  }

  /** One statement extends all leases, three times in the shortest of them. */
  async beat(session: Session, over: AbortSignal, isHere: (run: AnyRun) => boolean): Promise<void> {
    this.session = session;
    let isGone = false;
    session.db.once('end', () => {
      isGone = true;
      this.state.wake();
    });
    for (const then of this.#waiting.splice(0)) then(session);
    try {
      while (!over.aborted) {
        const news = this.state.listens();
        if (isGone) throw new Error('the connection has ended');
        const held = [...this.state.held.values()];
        const now = performance.now();
        if (held.some((run) => run.beatAt <= now)) {
          for (const run of held) run.beatAt = now + this.state.beatMs(run);
          const rows = await repeated(() => session.own(statements.heartbeat(held), ANSWERS_IN_MS), () => over.aborted);
          for (const [place, { answer }] of rows.entries()) if (answer !== 'ok') held[place]!.stop(answer);
        }
        for (const run of held) if (run.stopReason !== undefined) if (run.pid !== undefined) await this.#interrupt(run, run.pid, session, isHere(run));
        await rest(Math.max(0, Math.min(1000, ...held.map((run) => run.beatAt - performance.now()))), news);
      }
    } finally {
      if (this.session === session) this.session = undefined;
    }
  }

  /** Ends the statement that a run waits for: again and again, until one runs. */
  async #interrupt(run: AnyRun, pid: number, session: Session, isHere: boolean): Promise<void> {
    const isDeaf = run.stopReason === 'lost' && performance.now() - run.stoppedAt > 10_000;
    // There is nothing that it could say to a server that is not the one any more.
    if (isDeaf || !isHere) void run.db.end().catch(() => {});
    else await (run.interrupting = session.own(statements.cancel(pid), ANSWERS_IN_MS).catch(() => {}));
  }

  /** Hears of work and of cancels. Where notifications do not arrive, as behind a pooler in transaction mode, it says so once, and listens no more. */
  async listen(session: Session, over: AbortSignal, queues: string[], isOwnWay: boolean): Promise<void> {
    const { db } = session;
    const gone = new Promise<never>((_, reject) => db.once('end', () => reject(new Error('the connection has ended'))));
    gone.catch(() => {});
    const probe = `pg_scheduler:${randomUUID()}`;
    let heard!: () => void;
    const arrived = new Promise<boolean>((then) => (heard = () => then(true)));
    db.on('notification', ({ channel, payload }) => {
      if (channel === probe) return heard();
      // Anybody can send one. So this asks at once, and a heartbeat's answer says whether the run is to stop.
      if (payload !== undefined && payload !== '') this.state.cancelled(payload);
      this.state.wake();
    });
    const hear = async (): Promise<void> => {
      for (const channel of [...queues.map((queue) => `sched:${queue}`), 'sched:cancel']) await db.query(`LISTEN ${escapeIdentifier(channel)}`);
      // Something may have come before we listened.
      for (const run of this.state.held.values()) run.beatAt = 0;
      this.state.wake();
    };
    // Behind a pooler, LISTEN goes on for the connection's next client: the first one is for a channel whose name no other client has.
    await db.query(`LISTEN ${escapeIdentifier(probe)}`);
    if (!session.isPooled) await hear();
    const late = this.ask(`SELECT pg_notify(${statements.text(probe)}, '')`).then(() => rest(ARRIVES_IN_MS, over)).then(() => false);
    late.catch(() => {});
    if (await Promise.race([arrived, late, gone, aborted(over)])) {
      if (isOwnWay) this.state.sharing.isOurs = true;
      if (session.isPooled) await hear();
      this.state.isDeaf = false;
    } else if (!over.aborted) {
      await this.#deaf();
      if (session.isPooled) await session.close();
    }
    await Promise.race([...(session.isPooled && this.state.isDeaf ? [] : [gone]), aborted(over)]);
  }

  async #deaf(): Promise<void> {
    const isNews = !this.state.isDeaf;
    this.state.isDeaf = true;
    this.state.wake();
    if (!isNews || this.#hasWarned) return;
    this.#hasWarned = true;
    await this.state.warn('notifications do not arrive: LISTEN has no effect on this connection, as behind a pooler in transaction mode. The worker polls. '
      + 'With the option listenDsn it listens on a direct connection.');
  }

  #hasWarned = false;
}
