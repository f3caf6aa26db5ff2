// node main.mjs '{"peer": …, "task": …}': runs one task of a contestant and prints its result as the last line.
import { readFileSync } from "node:fs";
import { asked } from "./common.mjs";

let result;
if (asked.task === "versions") {
  const packages = new URL("../../node_modules/", import.meta.url);
  const version = (name) => JSON.parse(readFileSync(new URL(`${name}/package.json`, packages))).version;
  result = Object.fromEntries(["graphile-worker", "pg-boss", "pg"].map((name) => [name, version(name)]));
  result.node = process.version;
} else {
  result = (await (await import(`./${asked.peer}.mjs`))[asked.task]()) ?? {};
}
process.stdout.write(`\n${JSON.stringify(result)}\n`, () => process.exit(0));
