-- What each function does, and who may call it.
COMMENT ON FUNCTION sched.define_job IS
'Creates or replaces a job: how its executions are queued, leased and retried. max_attempts and retry_backoff left out mean 3 and 10 seconds, then 1 minute, for kind pull, whose worker may die; 1 and at once for the others. retry_backoff[i] is the wait after failed attempt i, the last entry repeats, empty means at once. Lengths of time have no months, days of 24 hours, and are at most 1000 years; run_timeout is shorter than stale_timeout: from then on heartbeat answers cancel. Of kind sql the server runs the command, as the owner, and ends a run at run_timeout; own_transactions and settings are for this kind. Errors: 22023 (a value that may not be), 42601 (a command that cannot be parsed), 0A000 (a statement that no command may have), 54000 (a command over 1 MiB), 42704 (unknown setting), 22008, 22004 (NULL), 42501 (another role''s job, also for a superuser who is no member of that role by a superuser''s GRANT; a setting that the caller may not set).';
COMMENT ON FUNCTION sched.alter_job IS
'Changes a job; NULL leaves an argument as it is, reset names arguments that go back to their default (of the kind that the job then has). What is stored with existing executions stays, as when it is defined anew. kind, command, settings and own_transactions of another role''s job are 42501 for a superuser who is no member of that role by a superuser''s GRANT. From PostgreSQL 16 on they are for a member who may not SET ROLE to it. A dropped role''s job that has a command is 42501 for a superuser unless the call replaces command and settings; then it is the superuser''s. owner hands the job, its schedules and what waits of it to another role. It is for superusers, who may pass a command with it, and for members of both roles. A superuser gets no job whose command another role wrote, but by a call that replaces the command; the settings are empty then unless given. Grants to enqueue the job end, and so do alerts between it, or its schedules, and jobs of roles that may not act for the new owner. A WARNING counts the executions that run or are locked and keep their owner. Errors as define_job, and 42704 for an unknown job or role, 22023 for an argument that is both given and reset.';
COMMENT ON FUNCTION sched.drop_job IS
'Drops a job; false where there was none. Errors: 2BP01 while schedules use it, as their job or alert_job, 42501 (another role''s job).';
COMMENT ON FUNCTION sched.create_schedule IS
'Creates a schedule and returns its number. It fires for the first time at the first plan time after its creation; a warning says that there is none. An alert (sched.alerts) opens where a run has not begun max_lateness after its plan time, or goes on for longer than max_duration. One opens where no run has succeeded within expect_success_within. alert_job gets an execution for each alert. The owner of the job reads the payload, also of what a superuser writes. Errors: 42710 (the name is taken), 42704 (unknown job or alert_job), 22023 (clock, zone or another argument cannot be used), 54000 (a clock over 1000 bytes, a payload over 1 MiB), 22008 (an infinite time, a length of time over 1000 years), 22004 (NULL), 42501 (another role''s job or alert_job).';
COMMENT ON FUNCTION sched.create_schedules IS
'Creates all schedules of a JSON array of objects with the arguments of create_schedule as keys, or none; returns how many. An error names the element and the key. The owner of the job reads the payload, also of what a superuser writes. Errors as create_schedule.';
COMMENT ON FUNCTION sched.declare_schedules IS
'Makes a group of schedules what a JSON array says: each is created, altered, renamed or left as it is. With prune, schedules of the group that the array does not name are dropped. An element has the arguments of create_schedule, or those of schedule_sql (with command), and may have was (the name before) and adopt (takes a schedule of no group). What it leaves out has its default, but a pause stays. Returns a row for each schedule of the group: created, altered, renamed, dropped or unchanged, and what has changed. A dry run does the same and takes it back. Calls for one group wait for one another. Errors: 42710 (a schedule of no group, or of another), 42501 (another role''s group, schedule or job), 22023 (a name twice; command with job_name; a value that cannot be used), 40001 under REPEATABLE READ and SERIALIZABLE; otherwise as create_schedule and schedule_sql.';
COMMENT ON FUNCTION sched.schedule_sql IS
'Has the server run a command at the plan times of a clock, as the caller. Makes a job of kind sql and its schedule, both of this name, and returns the schedule''s number. The call states the whole: what is left out goes to its default, but a schedule that is paused stays so where enabled is left out. The same call again changes nothing. Calls of one name wait for one another. What drop_schedule, alter_schedule and alter_job have changed of job and schedule is put right. Errors: 42710 (a job or schedule of this name was made otherwise), 42501 (another role''s, also for a superuser who is no member of that role by a superuser''s GRANT), 40001 under REPEATABLE READ and SERIALIZABLE where another transaction has just made the same, 22023 and 42601 (clock, command, setting or another argument cannot be used), 0A000 (a statement that no command may have), 54000 (a clock over 1000 bytes, a command or payload over 1 MiB), 42704 (unknown setting), 22008, 22004 (NULL).';
COMMENT ON FUNCTION sched.unschedule IS
'Drops what is left of what sched.schedule_sql made, whatever edits have made of it; false where there was none. What waits is cancelled; a run that goes on ends by itself, and is not tried again. Errors: 42710 (a job or schedule of this name was made otherwise), 42501 (another role''s), 2BP01 (another schedule uses the job).';
COMMENT ON FUNCTION sched.this_run IS
'The run that this session is on: one row inside the command of a job of kind sql, no row elsewhere. execution_id, schedule_name and scope are NULL in sched.test_job. Nothing that a command does can change it.';
COMMENT ON FUNCTION sched.test_job IS
'Runs the command of a job of kind sql now, in this transaction, as the caller and with the job''s settings. Deferred constraints are checked, and all of it is taken back. A failure is a row with ok = false and its SQLSTATE in error_code. What no rollback takes back (sequences, session locks, prepared statements) stays. Errors: 0A000 (a job with own_transactions, or of another kind), 42704 (unknown job), 42501 (a dropped role''s job; another role''s, also for a superuser who is no member of that role by a superuser''s GRANT), 22004 (NULL), 22008 (an infinite time).';
COMMENT ON FUNCTION sched.fire_now IS
'Creates one extra execution of a schedule, whatever its state, and returns its id. The plan time is now, or the next that neither the ledger nor the clock has. The timer is untouched. A superuser may fire the schedule of another role: the owner of the job reads the payload and the result. Errors: 42704, 42501, 53400 (a notify job, while the server''s queue of notifications is full).';
COMMENT ON FUNCTION sched.backfill IS
'Creates the executions for the plan times of a schedule in [from_time, to_time) that the ledger lacks, and returns how many. Errors: 42704, 42501, 22023 (the clock cannot be read, a range that is empty or ends in the future), 54000 (over 100000 plan times), 53400 (a notify job, while the server''s queue of notifications is full).';
COMMENT ON FUNCTION sched.alter_schedule IS
'Changes a schedule; NULL leaves an argument as it is, reset names arguments that go back to their default. A new clock, zone or starts_at/ends_at is a new baseline: only later plan times fire. The owner of the job reads the payload, also of what a superuser writes. Errors as create_schedule, and 42704 for an unknown schedule, 55000 (ownership external of what was taken over).';
COMMENT ON FUNCTION sched.drop_schedule IS
'Drops a schedule; false where there was none. Its executions stay; with cancel_pending those that nobody runs are cancelled. Once it has committed nothing of it is claimable, also what others had in hand at that moment: a run may end, and is not tried again. Error: 42501 (another role''s).';
COMMENT ON FUNCTION sched.pause IS 'Stops a schedule from firing until sched.resume. A superuser may pause the schedule of another role: the owner of the job reads its payload as before. Errors: 42704, 42501.';
COMMENT ON FUNCTION sched.resume IS
'Lets a paused schedule fire again, at plan times after this moment. Errors: 42704, 42501.';
COMMENT ON FUNCTION sched.dispatch_due IS
'Applies changes and fires at most max_schedules due schedules in the caller''s transaction, as the worker does; returns how many executions it created. One call creates at most 10,000, with payloads of 64 MiB; the next call goes on. Any number of callers at once. Errors: 22023; 40001 under REPEATABLE READ and SERIALIZABLE.';
COMMENT ON FUNCTION sched.now() IS
'The time in this database, by which the scheduler goes: that of the server, and in test mode what sched.advance has made of it. PostgreSQL''s now() does not follow.';
COMMENT ON FUNCTION sched.test_mode IS
'Begins or ends test mode, for a database in which an application''s tests run. In it nothing runs by itself: schedules fire by sched.dispatch_due, SQL jobs run by sched.drain_sql, and the clock is moved by sched.advance. A copy by TEMPLATE is in test mode as well, and needs no sched.adopt. The end sets the clock back and begins the timers again. For the owner of the database and superusers. Errors: 55000 (over 100,000 executions, or schedules of another role than the database''s owner have fired; an end without sched.reset), 22004 (NULL), 42501.';
COMMENT ON FUNCTION sched.advance IS
'Moves the clock of a database in test mode forward, and returns its time. sched.dispatch_due then does what would have happened meanwhile, each plan time at its time. For the owner of the database and superusers. Errors: 55000 (not in test mode, in the run of an SQL job), 22023 (zero or less), 22008 (beyond the year 9000), 22004 (NULL), 42501.';
COMMENT ON FUNCTION sched.reset IS
'Deletes executions, what is known of skipped plan times, and alerts of a database in test mode; with keep_definitions false jobs, schedules and pauses of queues too. Timers begin again, and the clock stays where it is. It can be rolled back. For the owner of the database and superusers. Errors: 55000 (not in test mode, in the run of an SQL job), 22004 (NULL), 42501.';
COMMENT ON FUNCTION sched.drain_sql IS
'Runs the SQL jobs that are due in a database in test mode, one after the other, each in a process of its own as its owner. Returns a row for each with its status when all have ended. It sees committed executions only. For the owner of the database and superusers. Errors: 55000 (not in test mode, in the run of an SQL job, a role that cannot log in), 0A000 (a transaction that is not READ COMMITTED), 53400 (no process is free), 22023 (max_executions under 1), 42501.';
COMMENT ON FUNCTION sched.prune IS
'Deletes at once what retention (sched.history_retention) no longer keeps, at most max_executions executions where that is given, and returns how many. Rows that a dispatcher would keep are kept. For superusers and the extension''s owner. Errors: 22023 (max_executions under 1), 42501.';
COMMENT ON FUNCTION sched.rebuild() IS
'Makes every timer anew from the schedules, the ledger and the skips, and returns how many are armed; fires nothing by itself. Warns of schedules that lie ahead of the clock. Dispatchers wait until the transaction ends. For superusers and the extension''s owner; 42501 for others.';
COMMENT ON FUNCTION sched.explain IS
'What became of each plan time of a schedule in [from_time, to_time), under the definition that held then, with the execution and the reason. The verdict is fired, skipped, waiting, due, planned, external or forgotten. Errors: 42704, 42501, 22023 (an empty range), 22008 (infinite times), 54000 (over 100000 plan times).';
COMMENT ON FUNCTION sched.executions_of IS
'The executions of a job and a scope with a plan time in [from_time, to_time), newest first, as rows of sched.execution. NULL, the default, leaves an end open. It reads the ledger by its key, so that the cost grows with the rows found. A role sees what it sees in sched.execution. Errors: 22004 (NULL), 22023 (an empty range, a name that cannot be one), 22008 (infinite times).';
COMMENT ON FUNCTION sched.runs_of IS
'The executions of a schedule with a plan time in [from_time, to_time), newest first, as rows of sched.execution. NULL, the default, leaves an end open. It reads the ledger by its key, so that the cost grows with the rows found. Errors: 42704 (unknown schedule), 42501 (another role''s), 22004 (NULL), 22023 (an empty range), 22008 (infinite times).';
COMMENT ON FUNCTION sched_internal.ids_of_scope IS
'internal: the executions of a job and a scope; read them through sched.executions_of.';
COMMENT ON FUNCTION sched_internal.ids_of_schedule IS
'internal: the executions of a schedule; read them through sched.runs_of.';
COMMENT ON FUNCTION sched_internal.skipped_so_far() IS
'internal: what paused and parked schedules have passed over, or keep waiting, up to now, and what an edit passes over that no dispatcher has applied yet; read it through sched.skipped.';
COMMENT ON FUNCTION sched_internal.skip_parts IS
'internal: what is left of a run of skips without the plan times that the ledger has, and without those after its definition''s end; read it through sched.skipped.';
COMMENT ON FUNCTION sched_internal.next_open IS
'internal: the first plan time of an armed schedule that the ledger lacks, and when it fires; read it through sched.schedules.';
COMMENT ON FUNCTION sched.try_claim IS
'Claims the execution of (job_name, scope_kind, scope_id, plan_time), which need not exist yet: won, stole or conflicted. A paused queue is conflicted. Never waits for another claimer. Times are intervals without months; the lease ends stale_timeout after the last heartbeat. run_timeout is the job''s. Errors: 22023, 22004, 22008, 42501, 0A000 (a job of kind sql).';
COMMENT ON FUNCTION sched.claim IS
'Claims at most max_claims executions of a queue, by priority, then plan time, skipping what others are claiming; none of a paused one. run_timeout is the job''s. A session is given one NOTICE for each queue in which all that waits belongs to other roles. Errors: 22023, 22004.';
COMMENT ON FUNCTION sched.heartbeat IS
'Extends a lease by stale_timeout from now and stores progress. Returns ok, or cancel when the run was asked to stop or has lasted for the run_timeout that its job had at the claim. Errors: 55000 (lease lost), 42501, 22023.';
COMMENT ON FUNCTION sched.finish_success IS
'Ends a run as SUCCESS. In the transaction that writes the results, a runner that lost its lease cannot commit them. Errors: 55000 (lease lost), 54000 (result over 16384 bytes), 42501.';
COMMENT ON FUNCTION sched.finish_failure IS
'Ends a run as FAILED: to be tried again at next_retry_at or by the job''s backoff while attempts are left, unless terminal. error_msg is cut to 4000 characters. Errors: 55000 (lease lost), 22023, 42501.';
COMMENT ON FUNCTION sched.enqueue IS
'Puts an execution into its job''s queue and returns its id; with run_at nobody can claim it before that time. unique_by says what is the same. By plan: one of this job, scope and plan time, whatever has become of it; a plan time that is not named is drawn so that nobody has it. By scope: one of this job, scope and owner that waits and that nobody has in hand. if_exists says what becomes of that: keep, replace (payload, run_at and priority, if it waits; it has all its attempts again) or error. By plan, replace and error need a scope and a plan time. A job that was never defined means queue default, and a warning (01000) with the name that was probably meant; sched.undefined_jobs changes that. The owner of the job reads the payload, also of what a superuser enqueues. Errors: 22023, 22004, 22008, 42501, 42704 (a job that was never defined, where sched.undefined_jobs is refuse), 23505 (if_exists error), 53400 (a notify job, while the server''s queue of notifications is full).';
COMMENT ON FUNCTION sched.enqueue_many IS
'Puts one execution for each payload into the job''s queue and returns their ids in that order. plan_times, scope_ids and run_ats, where given, pair with payloads by position; NULL among run_ats means at once. The other arguments are as in sched.enqueue, and two that are the same within one call are as in two calls. Errors: 22023 (unequal lengths, NULL elements, a name, a word), 22004, 22008, 42501, 54000 (over 1000000 elements), 53200, 23505 (if_exists error), 40001 under REPEATABLE READ and SERIALIZABLE where another transaction has just enqueued the same, 53400 (a notify job, while the server''s queue of notifications is full).';
COMMENT ON FUNCTION sched.alter_execution IS
'Changes payload, run_at (of a failed one: next_retry_at), priority, queue or max_attempts of an execution that waits. NULL leaves it as it is, and a time that has come means at once. After true, the new values are those that run. The owner of the job reads the payload, also of what a superuser writes. False, without a wait, where it is unknown, runs, has ended or is in somebody''s hand. Errors: 22023 (max_attempts that are used up, a queue that cannot be one), 22004, 22008, 42501.';
COMMENT ON FUNCTION sched.alter_many IS
'Changes queue, priority or both of at most max_executions (NULL: all) of what waits and the caller may act for, of a job, a queue or both; ids stay. An execution that a session has locked is left alone. Returns how many. Errors: 22023 (neither job_name nor queue, or nothing to change; a name that cannot be one).';
COMMENT ON FUNCTION sched.grant_enqueue IS
'Lets a role enqueue this job, which stays its owner''s: what it enqueues runs as the owner. A role without other grants may enqueue nothing else, and call nothing else. It replaces no execution, and enqueues none in the scope of a schedule or with scope_kind schedule (42501). sched.revoke_all takes it back. For the owner of the job, its members and superusers. Errors: 42704 (unknown job or role), 42501, 22004 (NULL).';
COMMENT ON FUNCTION sched.cancel_many IS
'Cancels at most max_executions of what waits and the caller may cancel, of a job, a queue and a scope_id, where given; without any of them all of it. What somebody has in hand is left alone. Returns how many. Errors: 22023, 22004.';
COMMENT ON FUNCTION sched.snooze IS
'Gives a run back until a time: its attempt does not count, and the execution is what it was before the claim, PENDING or FAILED and to be tried again. A time that has come means at once. Where the run was asked to stop it ends as CANCELLED. Errors: 55000 (lease lost; a run of kind sql), 22004 (NULL), 22008 (an infinite time), 42501.';
COMMENT ON FUNCTION sched.heartbeat_many IS
'Extends these leases, each by its own stale_timeout from now, and returns a row for each pair, in their order: ok, cancel or lost. It waits for nobody: a lease that another transaction has locked holds as it is. Lost is an execution that is unknown, has another lease or none, or is not the caller''s to act for. Ids and tokens pair by position. Errors: 22023 (unequal lengths), 22004 (NULL, also as an element), 54000 (over 1000000 elements), 53200.';
COMMENT ON FUNCTION sched.finish_success_many IS
'Ends those of these runs as SUCCESS whose lease holds, and returns the ids of those whose lease does not. Ids and tokens pair by position. Errors: 22023 (unequal lengths, NULL elements), 22004, 54000 (over 1000000 elements), 53200.';
COMMENT ON FUNCTION sched.assert_lease IS
'Locks an execution to the end of the transaction if the lease holds: what is written in it cannot be overtaken by another runner. Errors: 55000 (lease lost), 42501.';
COMMENT ON FUNCTION sched.cancel IS
'Cancels an execution, and waits for no other transaction. One that waits is CANCELLED at once. Of one that runs the next heartbeat answers cancel, and a failure ends it as CANCELLED; LISTEN "sched:cancel" hears its id. One that an open transaction claims, ends or changes is CANCELLED when that transaction has ended, unless it commits a success. False when it is unknown or has ended. The owner of the job goes on reading the payload, also of what a superuser cancels. Error: 42501.';
COMMENT ON FUNCTION sched.pause_queue IS
'Has nobody claim anything of a queue until sched.resume_queue: claim returns no row, try_claim is conflicted, the server runs no SQL job of it. Runs and fires go on, and what a fire delivers at once (kinds notify and log) is delivered. Paused twice is paused once. A pause by a superuser, or by a role with sched.grant_queue, holds for all executions. A pause by another role holds for the executions of that role, and of the owners for whom it may act and who have a job or an execution there. Errors: 22004 (NULL), 22023 (a name that cannot be one).';
COMMENT ON FUNCTION sched.resume_queue IS
'Takes back the pauses of a queue that hold for owners for whom the caller may act. One that holds for all is taken back by a superuser, or a role with sched.grant_queue. A queue that is not paused stays as it is. Errors: 42501 (the only pause holds for all, and the caller may not take it back), 22004 (NULL), 22023 (a name that cannot be one).';
COMMENT ON FUNCTION sched.mark_stale_as_failed IS
'Ends runs whose lease ran out, of one job or of all that the caller may act for: FAILED with error_code stale_timeout, to be retried by the job''s policy. Returns how many. The worker does it unasked.';
COMMENT ON FUNCTION sched.latest_plan IS
'The newest plan of a scope, of what the caller may act for, and whether a claim would take it over now; no row when there is none.';
COMMENT ON FUNCTION sched.due_plans IS
'The plan times of a clock that an application''s own tick should claim now, oldest first, at most max_plans_per_tick (up to 10000). The ledger''s executions that the caller may act for count as claimed. Errors as next_time.';
COMMENT ON FUNCTION sched.attempts_since_success IS
'Attempts of the plans of a scope after its newest SUCCESS, of what the caller may act for.';
COMMENT ON FUNCTION sched.import_crontab IS
'Makes each line of a user''s (or, with system, a system) crontab a schedule of the pull job and queue crontab, with the payload {command, user, environment, stdin}. A line that cannot be read comes back with its reason in note and stops no other; a schedule that exists stays as it is. Errors: 22023 (unknown zone), 54000 (over 1 MiB), 42501.';
COMMENT ON FUNCTION sched.import_from IS
'Makes the jobs of another scheduler (source: pg_cron, pgagent, timescaledb, celery_beat, pg_timetable) in this database schedules of ours, all of them external: nothing fires. Each of theirs has a row with a verdict: imported, changed, same, unsupported, elsewhere or removed. Changed is an edit there, which is made here too. Unsupported comes with the reason. Elsewhere is run in another database. Removed is gone there, and nothing is dropped. A second call only compares: of the job it writes the command alone, and it leaves on or off what is fired here. What was disabled there arrives disabled. SQL commands become jobs of kind sql of the role that they run as, for which the caller must be allowed to act. Tasks of Celery become jobs of kind pull in the queue celery; what they are sent with is the payload. With dry_run nothing is written. Errors: 42P01 (no tables of it), 42501 (tables that another role may have planted), 22023 (an unknown source), 22004 (NULL).';
COMMENT ON FUNCTION sched.compare IS
'What the clocks of schedules imported from a source say in [from_time, to_time), also before the import, beside what the source has written down that it ran. A line is both, late, only_here or only_there. A late run began more than tolerance later there. only_here has no run of theirs, only_there no plan time of ours. Nothing is said of what comes before its first run and after its last, as far as one day around the range is known. Nor is anything of what was fired here meanwhile. Of schedules that the caller may act for. Errors: 42P01, 42501 (tables of the source), 22023 (an unknown source, an empty range, a tolerance that may not be), 22008, 22004 (NULL), 54000 (over 100000 lines).';
COMMENT ON FUNCTION sched.next_time IS
'The least plan time of a clock strictly after an instant; NULL when it never fires again. anchor is where an every clock''s grid begins. Errors: 22023 (clock or zone cannot be used), 54000 (a clock over 1000 bytes), 22008 (infinite times).';
COMMENT ON FUNCTION sched.preview IS
'The next n (at most 10000) plan times of a clock, each with the zone''s wall clock and its offset from UTC. A note says where a clock change moved it or its reading comes twice. Errors as next_time.';
COMMENT ON FUNCTION sched.validate IS
'What is wrong (severity error) or probably not meant (warning) in a clock; no row when there is nothing to say. Errors: 22004 (NULL), 54000 (a clock over 1000 bytes).';
COMMENT ON FUNCTION sched.adopt() IS
'Lets a copy (a restored dump, a database made from a template, a cluster after pg_upgrade) fire and hand out what is in it; returns how many schedules begin anew. Only plan times after this moment fire, also where a clock that was ahead has written later ones. For superusers and the extension''s owner; 42501 for others.';
COMMENT ON FUNCTION sched.bucket(text, text) IS
'The bucket of a scope, from 0 to 1023. SHA-256 is computed over the kind, a zero byte and the id, in UTF-8; the bucket is its first two bytes, big-endian, and 1023. NULL for NULL.';
COMMENT ON FUNCTION sched.buckets() IS
'The buckets of scopes that are this server''s: all, until set_buckets says which.';
COMMENT ON FUNCTION sched.set_buckets(int4multirange) IS
'Says which buckets of scopes are this server''s; NULL: all, {}: none. Calls for scopes in others are 55000 from then on. Their schedules are in the state elsewhere and do not fire, and what waits in them is claimed by nobody. Leases that are held may be ended. What comes back begins anew: later plan times fire. Waits for open transactions that have used the extension''s tables, and keeps others waiting until the end of its own. For superusers and the extension''s owner; 42501 for others. Errors: 22023 (not within 0 to 1023).';
COMMENT ON FUNCTION sched.drop_elsewhere() IS
'Drops the schedules whose bucket is another server''s, and cancels what waits in such buckets; returns how many schedules. For the time after their scopes have moved. Leases that are held may still be ended. For superusers and the extension''s owner; 42501 for others.';
COMMENT ON FUNCTION sched.router_sql(text) IS
'The script that makes a database without the extension a router: a stub for each function and view, which PL/Proxy sends to the servers of this cluster. Run it there as a superuser, and again after each update. The PL/Proxy cluster has 1,024 partitions, one for each bucket. Errors: 22004 (NULL), 22023 (a name with other characters than letters, digits, underscores, points, hyphens and blanks).';
COMMENT ON FUNCTION sched.is_home() IS
'False in a copy that nobody has adopted: dispatch_due, claim and try_claim raise 55000 there and no worker serves it.';
COMMENT ON FUNCTION sched.health IS
'How the scheduler stands in this database, a row for each component: severity ok, warning or critical, since when, and what to do. Answers also where every worker is dead or the library is not preloaded; waits for no lock (0.5 s at most).';
COMMENT ON FUNCTION sched.healthy IS
'False where a component of sched.health() is critical, or a timer that is due has not fired for longer than max_lateness. Errors: 22004 (NULL), 22023 (a negative interval, or one with months).';
COMMENT ON FUNCTION sched.metrics IS
'What was counted in this database since the counters began anew, and how things stand: a row for each sample. Of jobs and queues it names those that the caller may act for; superusers, monitors and members of pg_monitor see all. At most 200 jobs and 200 queues of an owner have a name of their own, the others are called other. Where the library is not preloaded there are gauges only. A table that somebody has locked for long is left out.';
COMMENT ON FUNCTION sched.openmetrics IS
'The same as OpenMetrics text, which ends with # EOF.';
COMMENT ON FUNCTION sched.acknowledge IS
'Silences an alert in sched.health() until a time, which may be infinity; a time that has come ends that. The alert stays open, and is resolved as ever. Errors: 42704 (an alert that there is not, or that the caller may not read about), 42501 (of another role''s schedule), 22004 (NULL).';
COMMENT ON FUNCTION sched.report IS
'One HTML page that shows what became of each plan time in [from_time, to_time). It has a row for each schedule whose name is like schedule_like and that the caller may read about. It also has the load of the coming week, how late runs began, and health; no payload, result or token. Where a schedule has very many plan times they are counted. Labels are in time_zone (NULL: sched.time_zone). Errors: 22023 (an empty range, an unknown zone), 22008 (infinite times), 22004 (NULL).';
COMMENT ON FUNCTION sched.recent IS
'The newest executions that have ended for good, of one job or of all (NULL), the one made last first: what sched.history ORDER BY id DESC says, along an index. Rows are those that the caller may see, as in sched.history; where few are, it reads on. Errors: 22004 (max_rows is NULL), 22023 (max_rows under 1, a name that cannot be one).';
COMMENT ON FUNCTION sched.take_over IS
'Has imported schedules of a source fire here and no longer there, in one transaction. schedule_names NULL is all of them. Their rows are locked and switched off there, and ours are owned. What fell due since their last run is fired once. A trigger refuses (55006) to switch them on again there. last_theirs is when their last run began, first_ours the plan time of our first. An interval that counts from runs counts from their last. What is off there, or was imported so, is off here. Waits for up to 70 seconds for a moment that is far enough from all plan times; commit at once, for a commit that comes too late fails (40001). Errors: 55000 (in the last day they ran other than ours would have, unless force; edited since the import; fired here already; no such moment), 55P03 (a run of theirs goes on; without names such a schedule is left out, with a WARNING, and its first_ours is NULL), 42704 (not imported), 42501 (another role''s), 0A000 (what the source may run once more after it is off; a prepared transaction, or one that is not READ COMMITTED), 22023 (an unknown source), 22004 (NULL).';
COMMENT ON FUNCTION sched.hand_back IS
'Undoes sched.take_over: dispatches what is due by now, makes these schedules external, and switches their rows on again in the other scheduler where they were on. Waits, and has to be committed, as take_over. Errors: 55000 (a schedule that was not taken over, or whose job is not there any more; no moment between plan times), 42704 (not imported), 42501 (another role''s), 40001, 0A000, 22004 (NULL).';
COMMENT ON FUNCTION sched.report_fire IS
'Says that another scheduler has run this plan time of a schedule, for those that write nothing down themselves: sched.compare and sched.take_over read it. Saying it twice is saying it once. Kept for sched.history_retention. Errors: 42704 (unknown schedule), 42501 (another role''s), 22008 (infinite times), 22004 (NULL).';
COMMENT ON FUNCTION sched.timeline IS
'The same of one schedule for a terminal of 80 columns, a line in each row. Errors: 42704 (a schedule that there is not, or that the caller may not read about), 22023 (an empty range, an unknown zone), 22008 (infinite times), 22004 (NULL).';
COMMENT ON FUNCTION sched_internal.grant_again() IS 'internal: at the end of an update, gives users and monitors the rights on what it has added; takes the types of our rows from PUBLIC';
COMMENT ON FUNCTION sched_internal.grant_pg_monitor() IS 'internal: lets the members of pg_monitor ask how the scheduler stands';
COMMENT ON FUNCTION sched_internal.grant_database_owner() IS 'internal: lets the owner of the database begin and end test mode';
COMMENT ON FUNCTION sched_internal.command_statements IS 'internal: how many statements a command has, for scheduler_cron';
COMMENT ON FUNCTION sched_internal.alter_sql_job IS 'internal: has an SQL job run another command, for scheduler_cron';
COMMENT ON FUNCTION sched_internal.create_sql_job IS 'internal: makes an SQL job and its schedule where the name is free, for scheduler_cron; NULL where it is not';
COMMENT ON FUNCTION sched_internal.table_is_new IS 'internal: has every session read a table again of which it may remember something';
COMMENT ON FUNCTION sched_internal.grantee IS 'internal: the name of a role that gets rights or loses them';
COMMENT ON FUNCTION sched_internal.uuid_v7() IS 'internal: a new UUID version 7 (RFC 9562)';
COMMENT ON FUNCTION sched_internal.scope_key IS
'internal: the first 128 bits of SHA-256 over job name and scope, what the ledger is unique by together with the plan time';
COMMENT ON FUNCTION sched_internal.wake_dispatcher() IS 'internal: has the dispatcher look for changes once the transaction has committed';
COMMENT ON FUNCTION sched_internal.request_dispatcher() IS 'internal: has a dispatcher started once the transaction has committed';

-- A view calls a function with its reader's right to execute it, but looks for no right on its schema. So nobody needs one on sched_internal.
CREATE FUNCTION sched.grant_use(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.execution, sched.running, sched.failed, sched.history, sched.jobs, sched.schedules, sched.skipped, sched.queues, sched.late, sched.alerts, sched.last_runs, sched.waiting TO %1$s;'
        'GRANT EXECUTE ON FUNCTION sched.define_job, sched.alter_job, sched.drop_job, sched.schedule_sql, sched.unschedule, sched.this_run, sched.test_job, sched.create_schedule, sched.create_schedules, sched.alter_schedule,'
        '  sched.fire_now, sched.backfill, sched.explain, sched.executions_of, sched.runs_of, sched_internal.skipped_so_far, sched_internal.skip_parts, sched_internal.next_open, sched_internal.ids_of_scope, sched_internal.ids_of_schedule,'
        '  sched.drop_schedule, sched.pause, sched.resume, sched.dispatch_due, sched.try_claim, sched.claim,'
        '  sched.heartbeat, sched.heartbeat_many, sched.finish_success, sched.finish_failure, sched.import_crontab, sched.import_from, sched.compare, sched.take_over, sched.hand_back, sched.report_fire, sched.next_time,'
        '  sched.preview, sched.validate, sched.enqueue, sched.enqueue_many, sched.finish_success_many, sched.assert_lease,'
        '  sched.cancel, sched.snooze, sched.cancel_many, sched.alter_execution, sched.alter_many, sched.declare_schedules, sched.grant_enqueue, sched.pause_queue, sched.resume_queue, sched.mark_stale_as_failed, sched.latest_plan, sched.due_plans, sched.attempts_since_success,'
        '  sched.is_home, sched.bucket, sched.buckets, sched.health, sched.healthy, sched.metrics, sched.openmetrics, sched.acknowledge, sched.report, sched.timeline, sched.recent TO %1$s;', sched_internal.grantee(role));
END
$$;
COMMENT ON FUNCTION sched.grant_use IS
'Lets a role define jobs and schedules of its own, claim their executions and read them. For superusers and the extension''s owner; 42501 for others.';

CREATE FUNCTION sched.grant_monitor(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.monitor, sched.execution, sched.running, sched.failed, sched.history, sched.jobs, sched.schedules, sched.skipped, sched.queues, sched.late, sched.alerts, sched.last_runs, sched.waiting TO %1$s;'
        'GRANT EXECUTE ON FUNCTION sched.is_home, sched.bucket, sched.buckets, sched.health, sched.healthy, sched.metrics, sched.openmetrics, sched.report, sched.timeline, sched.recent, sched.explain, sched.executions_of, sched.runs_of, sched_internal.skipped_so_far, sched_internal.skip_parts, sched_internal.next_open, sched_internal.ids_of_scope, sched_internal.ids_of_schedule TO %1$s;', sched_internal.grantee(role));
END
$$;
COMMENT ON FUNCTION sched.grant_monitor IS
'Lets a role read every row of the views, with payload, result, progress, error messages and lease tokens hidden. For superusers and the extension''s owner; 42501 for others.';

-- What a dispatcher's statements need when it is no superuser (sched.worker_role): it reads what applications said, and writes what
-- follows from it. FOR UPDATE takes the right to update. Whoever can log in as this role reads every payload and can make
-- executions up, but runs no code as another role: TRIGGER and REFERENCES are nobody's.
CREATE FUNCTION sched.grant_worker(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.test_clock, sched.home, sched.shard, sched.job, sched.schedule, sched.paused_queue, sched.imported TO %1$s;'
        'GRANT SELECT, INSERT, UPDATE, DELETE ON sched.schedule_change, sched.timer, sched.ledger, sched.ready, sched.retry TO %1$s;'
        'GRANT SELECT, UPDATE, DELETE ON sched.lease TO %1$s;'
        'GRANT SELECT, INSERT, UPDATE, DELETE ON sched.awaited TO %1$s;'
        'GRANT SELECT, UPDATE, DELETE ON sched.schedule_definition, sched.schedule_dropped, sched.cancel_request, sched.unique_scope TO %1$s;'
        'GRANT SELECT, INSERT, UPDATE, DELETE ON sched.skip, sched.timer_state, sched.alert, sched.alert_watch, sched.alert_state TO %1$s;', sched_internal.grantee(role));
END
$$;
COMMENT ON FUNCTION sched.grant_worker IS
'Gives a role the rights that dispatchers need to work as it (setting sched.worker_role), and no others. For superusers and the extension''s owner; 42501 for others.';

CREATE FUNCTION sched.grant_queue(queue text, role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    IF queue IS NULL OR queue = '' OR octet_length(queue) > 57 THEN
        RAISE USING ERRCODE = CASE WHEN queue IS NULL THEN '22004' ELSE '22023' END,
            MESSAGE = CASE WHEN queue IS NULL THEN 'queue must not be NULL' ELSE format('"%s" is no name of a queue', left(queue, 40)) END,
            HINT = 'Pass a name of 1 to 57 bytes.';
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s; GRANT EXECUTE ON FUNCTION sched.pause_queue, sched.resume_queue TO %1$s;', sched_internal.grantee(role));
    INSERT INTO sched.queue_grant VALUES (grant_queue.queue, grant_queue.role) ON CONFLICT DO NOTHING;
END
$$;
COMMENT ON FUNCTION sched.grant_queue IS
'Has a pause of this queue by a role hold for all executions, as one by a superuser does, and lets the role resume it. For superusers and the extension''s owner. Errors: 42501, 22004 (NULL), 22023 (a name that cannot be one).';

CREATE FUNCTION sched.revoke_all(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('REVOKE ALL ON SCHEMA sched, sched_internal FROM %1$s;'
        'REVOKE ALL ON ALL TABLES IN SCHEMA sched, sched_internal FROM %1$s;'
        'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched, sched_internal FROM %1$s;', sched_internal.grantee(role, true));
    DELETE FROM sched.queue_grant g WHERE g.role = revoke_all.role;
    DELETE FROM sched.enqueue_grant g WHERE g.role = revoke_all.role;
END
$$;
COMMENT ON FUNCTION sched.revoke_all IS
'Takes back all that sched.grant_use, sched.grant_monitor, sched.grant_worker, sched.grant_queue and sched.grant_enqueue gave to a role. For superusers and the extension''s owner; 42501 for others.';

-- Nothing to anybody: not to PUBLIC, and not to those whom ALTER DEFAULT PRIVILEGES would have given something. A right to
-- create triggers on these tables would be a right to run code as whoever dispatches.
REVOKE ALL ON SCHEMA sched, sched_internal FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA sched, sched_internal FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA sched, sched_internal FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched, sched_internal FROM PUBLIC;
DO $$
DECLARE
    grantee oid;
BEGIN
    FOR grantee IN
        SELECT a.grantee
          FROM (SELECT n.nspowner AS owner, n.nspacl AS acl FROM pg_catalog.pg_namespace n WHERE n.nspname IN ('sched', 'sched_internal')
                UNION ALL
                SELECT c.relowner, c.relacl FROM pg_catalog.pg_class c WHERE c.relnamespace IN ('sched'::pg_catalog.regnamespace, 'sched_internal'::pg_catalog.regnamespace)
                UNION ALL
                SELECT p.proowner, p.proacl FROM pg_catalog.pg_proc p WHERE p.pronamespace IN ('sched'::pg_catalog.regnamespace, 'sched_internal'::pg_catalog.regnamespace)
               ) AS o
         CROSS JOIN LATERAL pg_catalog.aclexplode(o.acl) AS a
         WHERE a.grantee NOT IN (0, o.owner)
         GROUP BY a.grantee
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON SCHEMA sched, sched_internal FROM %1$s CASCADE;'
            'REVOKE ALL ON ALL TABLES IN SCHEMA sched, sched_internal FROM %1$s CASCADE;'
            'REVOKE ALL ON ALL SEQUENCES IN SCHEMA sched, sched_internal FROM %1$s CASCADE;'
            'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched, sched_internal FROM %1$s CASCADE;', grantee::pg_catalog.regrole);
    END LOOP;
END
$$;
-- Views and defaults call it with the right of who reads and writes.
GRANT EXECUTE ON FUNCTION sched.now TO PUBLIC;
-- Test mode belongs to the database.
SELECT sched_internal.grant_database_owner();
-- Whoever may watch the server may ask how the scheduler stands.
SELECT sched_internal.grant_pg_monitor();
-- And the types of their rows; not by REVOKE here, which pg_dump would not know what to do with.
SELECT sched_internal.grant_again();

-- Once CREATE EXTENSION has committed, the launcher starts a dispatcher here.
SELECT sched_internal.request_dispatcher();
