#!/usr/bin/env node
// pg-scheduler MODULE --queue NAME: runs a worker that a module of yours exports by default, as a function of the queue's name.
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { Worker } from './index.js';

async function main(): Promise<void> {
  const options = { queue: { type: 'string', default: 'default' }, drain: { type: 'boolean', default: false } } as const;
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  if (positionals.length !== 1) throw new Error('usage: pg-scheduler MODULE [--queue NAME] [--drain]');
  const module: { default?: unknown } = await import(resolve(positionals[0]!));
  const made = typeof module.default === 'function' ? await module.default(values.queue) : module.default;
  if (!(made instanceof Worker)) throw new Error(`${positionals[0]} exports no Worker, and no function that makes one, by default`);
  await (values.drain ? made.drain() : made.run());
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
