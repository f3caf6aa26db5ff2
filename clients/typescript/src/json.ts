// JSON with all its digits: JSON.parse of the Node versions that are supported does not say how a number was written.
import { randomUUID } from 'node:crypto';

/**
 * The value that a payload's JSON becomes.
 *
 * - `"number"`: as by JSON.parse. An integer that is not safe, or digits that a number cannot hold, fail the run with a RangeError.
 * - `"bigint"`: numbers that are written without a fraction are `bigint`, all others as before.
 * - `"text"`: the JSON itself, a string.
 * - a function: its value for that string.
 */
export type JsonMode = 'number' | 'bigint' | 'text' | ((text: string) => unknown);

/** It is not known outside this process, so no payload has it. */
const MARK = randomUUID();
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, 'g');

/** The value of a JSON text. @throws RangeError where a number cannot keep its value. */
export function readJson(text: string, mode: JsonMode): unknown {
  if (typeof mode === 'function') return mode(text);
  if (mode === 'text') return text;
  let marked = '';
  let end = 0;
  for (const [from, to] of numbersIn(text)) {
    const literal = text.slice(from, to);
    if (mode === 'bigint' && isWhole(literal)) {
      marked += `${text.slice(end, from)}"${MARK}${literal}"`;
      end = to;
    } else check(literal, mode);
  }
  if (end === 0) return JSON.parse(text);
  return JSON.parse(marked + text.slice(end), (_, value: unknown) =>
    typeof value === 'string' && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value);
}

const isWhole = (literal: string): boolean => /^-?\d+$/.test(literal);

function check(literal: string, mode: 'number' | 'bigint'): void {
  const number = Number(literal);
  if (!Number.isSafeInteger(number) && (Number.isInteger(number) || isWhole(literal))) {
    throw new RangeError(`a number cannot hold the integer ${shortened(literal)} of the payload${mode === 'number' ? ': take json: "bigint" or "text"' : ''}`);
  }
  if (String(number) !== literal && canonical(String(number)) !== canonical(literal)) {
    throw new RangeError(`a number cannot hold all digits of ${shortened(literal)} of the payload: take json: "text", or a function`);
  }
}

const shortened = (literal: string): string => (literal.length <= 60 ? literal : `${literal.slice(0, 60)}…`);

/** The same text for the same value: its digits without zeros at either end, and the power of ten of the last. */
function canonical(literal: string): string {
  const [, sign, whole, fraction = '', power = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal) ?? [];
  if (whole === undefined) return literal; // Infinity
  const digits = (whole + fraction).replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  if (significant === '') return '0';
  return `${sign}${significant}e${Number(power) - fraction.length + digits.length - significant.length}`;
}

/** Where the numbers of a JSON text begin and end. */
function* numbersIn(text: string): Generator<[number, number]> {
  for (let at = 0; at < text.length; ) {
    const code = text.charCodeAt(at);
    if (code === 0x22) {
      at = endOfString(text, at);
    } else if (code === 0x2d || (code >= 0x30 && code <= 0x39)) {
      const from = at;
      while (at < text.length && /[-+.0-9eE]/.test(text[at]!)) at += 1;
      yield [from, at];
    } else at += 1;
  }
}

function endOfString(text: string, from: number): number {
  for (let quote = text.indexOf('"', from + 1); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let slash = quote;
    while (text[slash - 1] === '\\') slash -= 1;
    if ((quote - slash) % 2 === 0) return quote + 1;
  }
  return text.length;
}

/**
 * The JSON of a value; a `bigint` becomes a number with all its digits.
 *
 * @throws RangeError for an integer `number` that is not safe: it may have lost digits already. A `bigint` keeps them.
 */
export function writeJson(value: unknown): string | undefined {
  let hasMarks = false;
  const json = JSON.stringify(value, function (this: Record<string, unknown>, key: string, written: unknown) {
    const own = this[key]; // before a toJSON
    if (typeof own === 'bigint') {
      hasMarks = true;
      return `${MARK}${own}`;
    }
    if (typeof written === 'number' && Number.isInteger(written) && !Number.isSafeInteger(written)) {
      throw new RangeError(`${written} is no safe integer${key === '' ? '' : ` (at "${key}")`}: a bigint keeps all digits`);
    }
    return written;
  }) as string | undefined;
  return hasMarks ? json!.replace(MARKED, '$1') : json;
}

/**
 * The JSON of an object.
 *
 * @param what - What it is called in the error.
 * @throws TypeError where its JSON is no object.
 */
export function writeObject(value: unknown, what: string): string {
  const json = typeof value === 'object' && value !== null ? writeJson(value) : undefined;
  if (json === undefined || !json.startsWith('{')) {
    const got = value === null ? 'null' : Array.isArray(value) ? 'an array' : value instanceof Date ? 'a Date' : `a ${typeof value}`;
    throw new TypeError(`${what} is a JSON object, not ${got}`);
  }
  return json;
}
