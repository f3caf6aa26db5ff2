// Schedules that an application declares: by a call, when its worker starts, or beside a handler.
import type { Queryable } from './enqueue.js';
import { writeJson } from './json.js';
import { camel, checkNames, snake } from './names.js';
import { literal } from './session.js';

/**
 * A schedule as it is to be. Its keys are those of `sched.declare_schedules` in camelCase; the server checks them.
 *
 * A length of time is an interval of PostgreSQL (`'5 min'`).
 */
export interface ScheduleSpec extends ScheduleOptions {
  scheduleName: string;
  /** A cron line, `every …` or a time. */
  clock: string;
  /** The job whose executions it makes; or a `command`. */
  jobName?: string | undefined;
  /** SQL for the server to run: the job of that has the schedule's name. With it go the arguments of `sched.schedule_sql`. */
  command?: string | undefined;
  runTimeout?: string | undefined;
  maxAttempts?: number | undefined;
  retryBackoff?: string[] | undefined;
  ownTransactions?: boolean | undefined;
  settings?: object | undefined;
  priority?: number | undefined;
}

/** The arguments of `sched.create_schedule` but for name, clock and job; one that is left out has its default. */
export interface ScheduleOptions {
  timeZone?: string | undefined;
  payload?: object | undefined;
  scopeKind?: string | undefined;
  scopeId?: string | undefined;
  catchUp?: string | undefined;
  catchUpWindow?: string | undefined;
  maxPlansPerTick?: number | undefined;
  rearm?: string | undefined;
  overlap?: string | undefined;
  delay?: string | undefined;
  jitter?: string | undefined;
  startsAt?: Date | string | undefined;
  endsAt?: Date | string | undefined;
  ownership?: string | undefined;
  /** Left out, a pause by hand stays. */
  enabled?: boolean | undefined;
  maxLateness?: string | undefined;
  maxDuration?: string | undefined;
  expectSuccessWithin?: string | undefined;
  alertJob?: string | undefined;
  /** The name that the schedule had before. It may stay in the code. */
  was?: string | undefined;
  /** Whether a schedule of no group is taken into the group. */
  adopt?: boolean | undefined;
}

/** The schedule of a job, beside its handler: the schedule has the job's name. The job is defined where it is not. */
export interface JobOptions extends ScheduleOptions {
  /** The clock: a cron line, `every …` or a time. */
  schedule: string;
  /** The queue of the job that is defined: needed where the worker has several. */
  queue?: string | undefined;
}

export interface DeclareOptions {
  /** Whether the call only returns what it would do (false). */
  dryRun?: boolean | undefined;
  /** Whether schedules of the group that are not named are dropped (true). */
  prune?: boolean | undefined;
}

/** The fate of one schedule of the group. */
export interface Declared {
  scheduleName: string;
  action: 'created' | 'altered' | 'renamed' | 'dropped' | 'unchanged';
  /** Of one that was altered: each argument with its old and its new value. */
  detail: string | null;
}

/** The JSON of the specs, with the keys of SQL. A payload and settings stay as they are. */
function specsJson(specs: readonly ScheduleSpec[]): string {
  if (!Array.isArray(specs)) throw new TypeError('specs is an array');
  const inSql = specs.map((spec: unknown) => {
    if (typeof spec !== 'object' || spec === null || Array.isArray(spec)) throw new TypeError('a spec is an object');
    return Object.fromEntries(Object.entries(spec).map(([name, value]) => {
      if (name.includes('_')) throw new TypeError(`a spec has no key "${name}": write ${camel(name)}`);
      return [snake(name), value];
    }));
  });
  return writeJson(inSql)!;
}

const COLUMNS = 'schedule_name AS "scheduleName", action, detail';

/**
 * Makes the schedules of a group what `specs` says, on the caller's connection and in its transaction. The same call again changes nothing, so that
 * each instance may call it at each start.
 *
 * @param specs - `{ scheduleName, clock, jobName, … }`, or with `command` in place of `jobName`.
 * @returns a row for each schedule of the group.
 * @throws TypeError for a key in snake_case and an unknown option. Else the server's error: 42710 where a schedule is not of the group, 42501 where the
 *   group is another role's, 22023 for a value or key that cannot be used.
 */
export async function declareSchedules(db: Queryable, group: string, specs: readonly ScheduleSpec[], options: DeclareOptions = {}): Promise<Declared[]> {
  checkNames(options, ['dryRun', 'prune'], 'declareSchedules');
  const { dryRun = false, prune = true } = options;
  const { rows } = await db.query(`SELECT ${COLUMNS} FROM sched.declare_schedules($1, $2::jsonb, dry_run => $3, prune => $4)`, [group, specsJson(specs), dryRun, prune]);
  return rows as Declared[];
}

/** What a worker declares when it starts. */
export class Declaration {
  /** Whether the server has heard of it. */
  isDone = false;
  readonly #specs: ScheduleSpec[];
  readonly #jobs: { jobName: string; queue: string }[] = [];

  /** @param queues - Those of the worker. */
  constructor(private readonly group: string | undefined, specs: readonly ScheduleSpec[] | undefined, private readonly queues: readonly string[]) {
    if (group === undefined && specs !== undefined) throw new TypeError('schedules are of a group: the option scheduleGroup names it');
    specsJson(specs ?? []);
    this.#specs = [...(specs ?? [])];
  }

  /** @throws TypeError where the worker declares no group, or the job's queue is not known. */
  add(jobName: string, options: JobOptions): void {
    const { schedule, queue = this.queues.length === 1 ? this.queues[0] : undefined, ...others } = options;
    const spec = { ...others, scheduleName: jobName, clock: schedule, jobName };
    specsJson([spec]);
    if (typeof schedule !== 'string') throw new TypeError(`the options of job "${jobName}" have no schedule`);
    if (jobName === '*') throw new TypeError('a schedule is of one job: "*" is none');
    if (this.group === undefined) throw new TypeError(`the schedule of job "${jobName}" is of a group: the worker's option scheduleGroup names it`);
    if (queue === undefined || !this.queues.includes(queue)) {
      throw new TypeError(`the option queue of job "${jobName}" is one of the worker's: ${this.queues.join(', ')}`);
    }
    this.#jobs.push({ jobName, queue });
    this.#specs.push(spec);
  }

  /** The statements, where there is a group. */
  get sql(): string | undefined {
    if (this.group === undefined) return undefined;
    const jobs = this.#jobs.map(({ jobName, queue }) =>
      `SELECT sched.define_job(${literal(jobName)}, queue => ${literal(queue)}) WHERE NOT EXISTS (SELECT FROM sched.jobs WHERE job_name = ${literal(jobName)})`);
    return [...jobs, `SELECT ${COLUMNS} FROM sched.declare_schedules(${literal(this.group)}, ${literal(specsJson(this.#specs))}::jsonb)`].join('; ');
  }
}
