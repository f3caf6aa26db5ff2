// Connections that come again when they break, and a few of them for many.
import { isConflict, isPermanent, type Session } from './session.js';
import { jittered, rest, type State } from './state.js';

/** Does its part on a connection, and on another one where that breaks: after a failover to the new primary. */
export async function forever(state: State, open: () => Promise<Session>, part: (session: Session) => Promise<void>, over: AbortSignal): Promise<void> {
  for (let pause = 100; !over.aborted; ) {
    let since = Infinity;
    try {
      const session = await open();
      since = performance.now();
      try {
        await part(session);
      } finally {
        await session.close();
      }
    } catch (error) {
      if (isPermanent(error)) return state.fail(error);
      if (over.aborted || state.isClosing) return;
      pause = isConflict(error) || performance.now() - since > 10_000 ? 200 : Math.min(pause * 2, 10_000);
      await broken(state, error, pause);
      await rest(jittered(pause), over);
    }
  }
}

function broken(state: State, error: unknown, pause: number): Promise<void> {
  return state.tell(() => {
    if (state.hooks.broken !== undefined) return state.hooks.broken(error, pause);
    console.error(`pg-scheduler: ${error instanceof Error ? error.message : error}; connects again in about ${pause} ms`);
  });
}

/** Lends a connection for a while. */
export interface Lender {
  /** @throws what `work` throws: the connection is then given up. */
  use<T>(work: (session: Session) => Promise<T>): Promise<T>;
}

/** At most so many connections; who wants one waits for it. They are opened when they are wanted. */
export class Pool implements Lender {
  readonly #idle: Session[] = [];
  readonly #waiting: (() => void)[] = [];
  #lent = 0;

  constructor(private readonly size: number, private readonly open: () => Promise<Session>) {}

  async use<T>(work: (session: Session) => Promise<T>): Promise<T> {
    while (this.#lent >= this.size) await new Promise<void>((then) => this.#waiting.push(then));
    this.#lent += 1;
    let session: Session | undefined;
    try {
      session = this.#idle.pop() ?? (await this.open());
      const returned = await work(session);
      await this.#take(session);
      return returned;
    } catch (error) {
      void session?.close();
      throw error;
    } finally {
      this.#lent -= 1;
      this.#waiting.shift()?.();
    }
  }

  /** Has it back, as new. Where it has broken meanwhile, the work was done nevertheless. */
  async #take(session: Session): Promise<void> {
    try {
      await session.clean();
      this.#idle.push(session);
    } catch {
      void session.close();
    }
  }
}

/** It is not to be done again; its cause is what happened. */
export class GivenUp extends Error {}

/** The same again on another connection where one breaks, until it is over; then, and where no connection would help, it throws. */
export async function insisting<T>(state: State, over: AbortSignal, work: () => Promise<T>): Promise<T> {
  for (let pause = 100; ; pause = Math.min(pause * 2, 10_000)) {
    try {
      return await work();
    } catch (error) {
      if (isPermanent(error)) state.fail(error);
      if (isPermanent(error) || error instanceof GivenUp || over.aborted) throw error;
      await broken(state, error, pause);
    }
    await rest(jittered(pause), over);
  }
}
