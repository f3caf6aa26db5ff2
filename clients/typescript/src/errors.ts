// Exceptions of handlers, and their text in the ledger.

/**
 * Thrown by a handler: the attempt has failed, and another one is to come.
 *
 * @param after - When: a number of seconds from now, by the database's clock, or an instant. Without it the job's `retry_backoff` decides.
 * @param message - The words in the ledger (`error_msg`).
 * @param options - `cause`: what led to it; the ledger is told of that as well.
 */
export class Retry extends Error {
  constructor(readonly after?: number | Date, message = 'to be tried again', options?: ErrorOptions) {
    super(message, options);
  }
}

/** Thrown by a handler: the execution has failed for good, whatever attempts are left. */
export class Discard extends Error {}

/**
 * Thrown by a handler: the execution waits until then, and the attempt does not count. The handler's writes commit with the snooze.
 *
 * @param until - A number of seconds from now, by the database's clock, or an instant. A time that has come means at once.
 * @throws RangeError where that is no time.
 */
export class Snooze extends Error {
  constructor(readonly until: number | Date, message = 'to be done later', options?: ErrorOptions) {
    super(message, options);
    checkTime(until);
  }
}

/** Thrown in a handler that is to stop: its run was cancelled (`cancel`), the worker ends (`shutdown`), or the lease is lost (`lost`). */
export class Stopped extends Error {}

/** The error of a run whose handler has ended the library's transaction, by COMMIT or ROLLBACK. */
export class TransactionEnded extends Error {}

/** Throws RangeError where it is no number of seconds and no instant. */
export function checkTime(time: number | Date): void {
  const number = time instanceof Date ? time.getTime() : time;
  if (typeof number !== 'number' || !Number.isFinite(number)) throw new RangeError(`not a time: ${String(time)} (a number of seconds, or a Date)`);
}

/** The characters that the ledger keeps of an error. */
export const LONGEST = 4000;
const LONGEST_MESSAGE = 1500;

/** A text as PostgreSQL takes it. */
const text = (what: unknown): string => String(what).replaceAll('\0', '');

/** The name of the error's class; `Error` for what is none. */
export function codeOf(error: unknown): string {
  return (error instanceof Error && text(error.constructor.name)) || 'Error';
}

/** Type, message and stack, then the same of its causes. Where that is too long the middle goes: the end is where it came from. */
export function messageOf(error: unknown): string {
  const head = headOf(error);
  const rest = [...framesOf(error), ...causesOf(error)].join('\n');
  if (rest === '') return clipped(head, LONGEST);
  const whole = `${head}\n${rest}`;
  if (whole.length <= LONGEST) return whole;
  const begin = clipped(head, LONGEST_MESSAGE);
  return `${begin}\n…\n${wellFormed(rest.slice(-(LONGEST - begin.length - 3)))}`;
}

function headOf(error: unknown): string {
  if (!(error instanceof Error)) return `Error: ${text(error)}`;
  const { code } = error as { code?: unknown };
  // A driver's code (a SQLSTATE, ECONNREFUSED) is no part of its message.
  return `${codeOf(error)}: ${text(error.message)}${typeof code === 'string' && code !== '' ? ` (${text(code)})` : ''}`;
}

/** The stack's lines without the message, which may have several. */
function framesOf(error: unknown): string[] {
  if (!(error instanceof Error) || typeof error.stack !== 'string') return [];
  return text(error.stack).split('\n').filter((line) => /^\s+at /.test(line));
}

/** Of each cause, and of each error of an AggregateError, what {@link messageOf} says of one. A circle ends. */
function causesOf(error: unknown, seen = new Set<unknown>([error])): string[] {
  if (!(error instanceof Error)) return [];
  const { errors } = error as { errors?: unknown };
  const lines: string[] = [];
  for (const cause of [error.cause, ...(Array.isArray(errors) ? errors : [])]) {
    if (cause === undefined || seen.has(cause)) continue;
    seen.add(cause);
    lines.push(`Caused by ${clipped(headOf(cause), LONGEST_MESSAGE)}`, ...framesOf(cause), ...causesOf(cause, seen));
  }
  return lines;
}

const clipped = (what: string, length: number): string => (what.length <= length ? what : `${wellFormed(what.slice(0, length - 1))}…`);
/** Without the half of a character at which it was cut. */
const wellFormed = (what: string): string => what.replace(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, '');
