#!/usr/bin/env node
// pg-scheduler MODULE --queue NAME: runs a worker that a module of yours exports by default, as a function of the queue's name and of options.
import { resolve } from 'node:path';
import { Worker } from './index.js';
import { main } from './main.js';

main(async (queue, options, _, [path, ...others]) => {
  if (path === undefined || others.length > 0) throw new Error('usage: pg-scheduler MODULE [--queue NAME] [--slots N] [--max N] [--until-idle]');
  const module: { default?: unknown } = await import(resolve(path));
  const made = typeof module.default === 'function' ? await module.default(queue, options) : module.default;
  if (!(made instanceof Worker)) throw new Error(`${path} exports no Worker, and no function that makes one, by default`);
  return made;
}).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
