// The names of options.

/** The same in snake_case. */
export const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
/** The same in camelCase. */
export const camel = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/**
 * Throws TypeError where an option has none of these names. Of a name in snake_case it gives the one in camelCase.
 *
 * @param what - Whose options they are.
 */
export function checkNames(options: object, names: readonly string[], what: string): void {
  if (typeof options !== 'object' || options === null) throw new TypeError(`the options of ${what} are an object`);
  for (const name of Object.keys(options)) {
    if (names.includes(name)) continue;
    const isKnown = names.includes(camel(name));
    throw new TypeError(isKnown ? `${what} has no option "${name}": write ${camel(name)}` : `${what} has no option "${name}" (it has ${names.join(', ')})`);
  }
}
