// The command line of a worker.
import { parseArgs, type ParseArgsConfig } from 'node:util';
import type { Hooks, WorkerOptions } from './options.js';
import type { Worker } from './worker.js';

type Given = Record<string, string | boolean | (string | boolean)[] | undefined>;

const said = (what: string): void => console.log(`${new Date().toISOString().slice(11, 19)} ${what}`);

/** Runs the worker that `make` makes for a queue, with these options and with what the command line says:
 *  --queue NAME, --slots N, --until-idle (or --drain): leave when nothing is left to claim, --max N: leave after N that have ended; `own` beside them. */
export async function main(
  make: (queue: string, options: WorkerOptions, given: Given, positionals: string[]) => Worker | Promise<Worker>,
  own: NonNullable<ParseArgsConfig['options']> = {},
): Promise<void> {
  const options = {
    queue: { type: 'string', default: 'default' }, slots: { type: 'string', default: '1' }, max: { type: 'string', default: 'Infinity' },
    'until-idle': { type: 'boolean', default: false }, drain: { type: 'boolean', default: false },
  } as const;
  const { values, positionals } = parseArgs({ options: { ...options, ...own }, allowPositionals: true });
  let left = Number(values.max);
  if (!(left >= 1) || !(Number(values.slots) >= 1)) throw new Error('--max and --slots are at least 1');
  const ended = (what: string): void => {
    said(what);
    left -= 1;
    if (left <= 0) worker.stop();
  };
  const hooks: Hooks = {
    succeeded: (run) => ended(`${run.jobName} planned for ${run.planTime.toISOString().slice(11, 19)}: done`),
    failed: (run, error) => ended(`${run.jobName} planned for ${run.planTime.toISOString().slice(11, 19)}: failed: ${error instanceof Error ? error.message : error}`),
    broken: (error, pauseMs) => said(`connection: ${error instanceof Error ? error.message : error}; again in about ${pauseMs} ms`),
  };
  const worker = await make(values.queue as string, { hooks, slots: Number(values.slots) }, values as Given, positionals);
  await (values['until-idle'] || values.drain ? worker.drain() : worker.run());
}
