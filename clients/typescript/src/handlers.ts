// Which function does which job.
import type { AnyRun } from './run.js';

export interface Handler {
  call: (runs: AnyRun[]) => Promise<unknown>;
  parse: (payload: unknown) => unknown;
  isBatch: boolean;
}

export class Handlers {
  readonly #named = new Map<string, Handler>();

  add(jobName: string, handler: Handler): void {
    if (this.#named.has(jobName)) throw new Error(`job "${jobName}" has a handler already`);
    this.#named.set(jobName, handler);
  }

  find(jobName: string): Handler | undefined {
    return this.#named.get(jobName) ?? this.#named.get('*');
  }

  /** The same, or an error that says what there is. */
  get(jobName: string): Handler {
    const handler = this.find(jobName);
    if (handler !== undefined) return handler;
    const known = [...this.#named.keys()].sort().join(', ') || 'none';
    throw new Error(`no handler for job "${jobName}" (this worker has: ${known})`);
  }

  /** Those of a batch together, the others alone. */
  groups(runs: AnyRun[]): AnyRun[][] {
    const groups = new Map<string, AnyRun[]>();
    for (const run of runs) {
      const name = this.find(run.jobName)?.isBatch ? run.jobName : run.executionId;
      const others = groups.get(name);
      if (others === undefined) groups.set(name, [run]);
      else others.push(run);
    }
    return [...groups.values()];
  }
}
