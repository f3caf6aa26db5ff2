//! import_from('timescaledb') on tables as its public schema has them.

use scheduler_cluster_tests::scheduler::one;
use scheduler_cluster_tests::{Client, Cluster};

/// The columns of newer versions.
pub const NEW: &str = "create schema _timescaledb_catalog; create schema _timescaledb_internal;
    create table _timescaledb_catalog.bgw_job (
        id integer primary key, application_name name not null, schedule_interval interval not null, max_runtime interval not null default '0', max_retries integer not null default -1,
        retry_period interval not null default '5 min', proc_schema name not null default 'public', proc_name name not null default 'tidy', owner regrole not null default current_user::regrole,
        scheduled bool not null default true, fixed_schedule bool not null default true, initial_start timestamptz, hypertable_id integer, config jsonb, check_schema name, check_name name, timezone text);
    create table _timescaledb_internal.bgw_job_stat_history (
        id bigint generated always as identity primary key, job_id integer not null, pid integer, execution_start timestamptz not null, execution_finish timestamptz, succeeded boolean, data jsonb)";

/// Those of 2.0.
const OLD: &str = "create schema _timescaledb_config; create schema _timescaledb_internal;
    create table _timescaledb_config.bgw_job (
        id integer primary key, application_name name not null, schedule_interval interval not null, max_runtime interval not null, max_retries integer not null,
        retry_period interval not null, proc_schema name not null, proc_name name not null, owner name not null default current_role, scheduled bool not null default true,
        hypertable_id integer, config jsonb);
    create table _timescaledb_internal.bgw_job_stat (job_id integer primary key, last_start timestamptz not null, last_finish timestamptz not null)";

pub const ACTIONS: &str = "create table done (id int, config jsonb);
    create procedure tidy(job_id int, config jsonb) language sql as 'insert into public.done values (job_id, config)';
    create function count_up(job_id int, config jsonb) returns void language sql as 'insert into public.done values (job_id, config)'";

const VERDICTS: &str = "select string_agg(concat_ws(' ', source_id, schedule_name, verdict, clock, time_zone, note), E'\\n') from sched.import_from('timescaledb')";

fn database(cluster: &Cluster, tables: &str) -> Client {
    cluster.execute("alter database postgres set timezone = 'UTC'");
    let mut db = cluster.connect();
    db.batch_execute("create extension scheduler").unwrap();
    db.batch_execute(tables).unwrap();
    db.batch_execute(ACTIONS).unwrap();
    db
}

/// What is fixed becomes a grid, what drifts counts from the end, and what would not be the same is refused.
#[test]
fn its_jobs_are_imported_and_run_as_there() {
    let cluster = Cluster::new();
    let mut db = database(&cluster, NEW);
    db.batch_execute(
        r#"create role tenant login; select sched.grant_use('tenant'); grant usage on schema _timescaledb_catalog to tenant; grant select on _timescaledb_catalog.bgw_job to tenant;
        insert into _timescaledb_catalog.bgw_job (id, application_name, schedule_interval, fixed_schedule, initial_start, timezone, proc_name, proc_schema, config, scheduled, owner, max_runtime) values
            (1, 'Telemetry Reporter', '1 day', false, null, null, 'policy_telemetry', '_timescaledb_functions', null, true, current_user::regrole, '0'),
            (1000, 'drifts', '1 day 12 hours', false, null, null, 'tidy', 'public', '{"a": "it''s a \\ \"b\""}', true, current_user::regrole, '0'),
            (1001, 'fixed', '15 minutes', true, '2026-01-01 00:05:00.5+00', null, 'count_up', 'public', null, false, current_user::regrole, '1 minute'),
            (1002, 'days', '2 days', true, '2026-01-01 09:30+00', 'UTC', 'tidy', 'public', null, true, current_user::regrole, '0'),
            (1003, 'months', '1 month', true, '2026-01-31 09:30+00', null, 'tidy', 'public', null, true, current_user::regrole, '0'),
            (1004, 'hours in a zone', '6 hours', true, '2026-01-31 09:30+00', 'Europe/Berlin', 'tidy', 'public', null, true, current_user::regrole, '0'),
            (1005, 'days in a zone', '1 day', true, '2026-01-31 09:30+00', 'Europe/Berlin', 'tidy', 'public', null, true, current_user::regrole, '0'),
            (1006, 'gone', '1 day', false, null, null, 'nothing', 'public', null, true, current_user::regrole, '0'),
            (1007, 'mine', '30 seconds', false, null, null, 'tidy', 'public', null, true, 'tenant', '0'),
            (1008, 'no start', '1 day', true, null, null, 'tidy', 'public', null, true, current_user::regrole, '0')"#,
    )
    .unwrap();
    let mut tenant = cluster.connect_as("tenant", "postgres");
    let mine = "select string_agg(concat_ws(' ', source_id, schedule_name), ', ') from sched.import_from('timescaledb') where verdict = 'imported'";
    assert_eq!(one::<String>(&mut tenant, mine), "1007 mine");
    assert_eq!(one::<String>(&mut db, "select owner::text from sched.job where job_name = 'mine'"), "tenant");
    let change = "its slots are those of zone Europe/Berlin, and TimescaleDB steps from slot to slot in the database's zone UTC: where clocks change (2026-03-29 02:00:00) it runs at another time of the day";
    let expected = [
        "1 unsupported policy_telemetry is TimescaleDB's own policy, which its own scheduler has to run".to_owned(),
        "1000 drifts imported every 1 day 12 hours after end UTC".to_owned(),
        "1001 fixed imported every 15 minutes from 2026-01-01 00:05:00.5+00 UTC set run_timeout: its runs are stopped there after 00:01:00".to_owned(),
        "1002 days imported every 2 days from 2026-01-01 09:30:00+00 UTC".to_owned(),
        "1003 months imported every 1 month from 2026-01-31 09:30:00+00 UTC".to_owned(),
        format!("1004 unsupported {change}"),
        format!("1005 unsupported {change}"),
        "1006 unsupported public.nothing(integer, jsonb) is no procedure or function here".to_owned(),
        "1007 mine same every 30 seconds after end UTC".to_owned(),
        "1008 unsupported it has a fixed schedule and no first start".to_owned(),
    ];
    assert_eq!(one::<String>(&mut db, VERDICTS), expected.join("\n"));
    let state = "select string_agg(concat_ws(' ', schedule_name, enabled, rearm, own_transactions), ', ' order by schedule_name) from sched.schedule join sched.job using (job_name)";
    assert_eq!(
        one::<String>(&mut db, state),
        "days t on_dispatch t, drifts t on_terminal t, fixed f on_dispatch f, mine t on_terminal t, months t on_dispatch t"
    );
    // The commands are what it calls.
    for name in ["drifts", "fixed"] {
        let command: String = one(&mut db, &format!("select command from sched.job where job_name = '{name}'"));
        db.batch_execute(&command).unwrap();
    }
    let same = "select count(*) from done join _timescaledb_catalog.bgw_job j using (id) where done.config is not distinct from j.config";
    assert_eq!(one::<i64>(&mut db, same), 2);
    db.batch_execute("update _timescaledb_catalog.bgw_job set config = '{}' where id = 1000; delete from _timescaledb_catalog.bgw_job where id = 1003").unwrap();
    let again = "select string_agg(concat_ws(' ', source_id, verdict), ', ') from sched.import_from('timescaledb') where verdict not in ('same', 'unsupported')";
    assert_eq!(one::<String>(&mut db, again), "1000 changed, 1003 removed");
}

#[test]
fn what_it_has_run_is_compared() {
    let cluster = Cluster::new();
    let mut db = database(&cluster, NEW);
    db.batch_execute(
        "set timezone = 'UTC';
         insert into _timescaledb_catalog.bgw_job (id, application_name, schedule_interval, fixed_schedule, initial_start) values
            (1000, 'drifts', '1 hour', false, null), (1001, 'fixed', '1 hour', true, '2026-01-01 00:05:00+00');
         insert into _timescaledb_internal.bgw_job_stat_history (job_id, execution_start, execution_finish) values
            (1000, '2026-05-01 00:00+00', '2026-05-01 00:10+00'), (1000, '2026-05-01 01:10:02+00', '2026-05-01 01:20+00'), (1000, '2026-05-01 02:30+00', '2026-05-01 02:31+00'),
            (1001, '2026-05-01 00:05:01+00', '2026-05-01 00:10+00'), (1001, '2026-05-01 02:05:01+00', '2026-05-01 02:10+00');
         select sched.import_from('timescaledb')",
    )
    .unwrap();
    let lines = "select string_agg(concat_ws(' ', schedule_name, to_char(plan_time, 'HH24:MI'), verdict), ', ') from sched.compare('timescaledb', '2026-05-01', '2026-05-02')";
    assert_eq!(
        one::<String>(&mut db, lines),
        "drifts 01:10 both, drifts 02:20 late, fixed 00:05 both, fixed 01:05 only_here, fixed 02:05 both"
    );
}

/// The schema and columns of 2.0: nothing is fixed, and only the last run is known.
#[test]
fn the_older_tables_are_read() {
    let cluster = Cluster::new();
    let mut db = database(&cluster, OLD);
    db.batch_execute(
        "create role \"A b\"; insert into _timescaledb_config.bgw_job values
            (1000, 'hourly', '1 hour', '0', -1, '5 min', 'public', 'tidy', current_user, true, null, '{}'),
            (1001, 'b', '1 hour', '0', 2, '5 min', 'public', 'tidy', 'A b', true, null, null);
         insert into _timescaledb_internal.bgw_job_stat values (1000, '2026-05-01 00:00+00', '-infinity')",
    )
    .unwrap();
    assert_eq!(
        one::<String>(&mut db, VERDICTS),
        "1000 hourly imported every 1 hour after end UTC\n1001 b imported every 1 hour after end UTC"
    );
    assert_eq!(
        one::<String>(&mut db, "select owner::text || max_attempts from sched.job where job_name = 'b'"),
        "\"A b\"3"
    );
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.compare('timescaledb', '2026-05-01', '2026-05-02')"), 0);
}

/// The slots that TimescaleDB's rule gives, computed as it does: by buckets from the first start on.
#[test]
fn slots_are_those_of_its_buckets() {
    let cluster = Cluster::new();
    let mut db = database(&cluster, NEW);
    db.batch_execute(
        "set timezone = 'UTC';
         insert into _timescaledb_catalog.bgw_job (id, application_name, schedule_interval, initial_start)
         select i, 'job ' || i, (array['7 minutes', '90 minutes', '1 day', '3 days', '1 day 5 hours', '00:00:00.25', '2 weeks', '1 month', '3 months', '1 year'])[1 + i % 10]::interval,
                '2026-01-28'::timestamptz + i * interval '37 hours 11.25 seconds' from generate_series(1, 200) as i;
         select sched.import_from('timescaledb')",
    )
    .unwrap();
    // Of months it counts those between the buckets, and adds them to the first start.
    let differ = "with slot as (
            select j.id, s.clock, s.time_zone, slot.theirs, lag(slot.theirs) over (partition by j.id order by slot.theirs) as before
              from _timescaledb_catalog.bgw_job j join sched.imported i on i.source_id = j.id::text join sched.schedule s using (schedule_id)
             cross join lateral (
                select case when extract(month from j.schedule_interval) + extract(year from j.schedule_interval) > 0
                            then j.initial_start + n * (extract(month from j.schedule_interval) + 12 * extract(year from j.schedule_interval))::int * interval '1 month'
                            else date_bin(j.schedule_interval, j.initial_start + n * j.schedule_interval, j.initial_start) end as theirs
                  from generate_series(0, 60) as n) as slot)
        select count(*) filter (where sched.next_time(clock, before, time_zone) is distinct from theirs) || ' of ' || count(*) from slot where before is not null";
    assert_eq!(one::<String>(&mut db, differ), "0 of 12000");
}

/// When TimescaleDB runs a job of a fixed schedule next, as `ts_get_next_scheduled_execution_slot` (job_stat.c, 2.11 and later) says: buckets of months
/// begin in January 2000 and are only counted from the one that a run ends in, all others begin at the first start; days have 24 hours on the wall clock of the job's zone, or in
/// UTC. From a bucket on it steps in the zone of the session, which in its workers is the database's.
const THEIR_NEXT: &str = r"
    create function month_of(timestamptz, zone text, months int) returns timestamptz language sql as $$
        select (timestamp '2000-01-01' + floor(((extract(year from wall) - 2000) * 12 + extract(month from wall) - 1) / months)::int * months * interval '1 month') at time zone zone
          from (values ($1 at time zone zone)) as v (wall) $$;
    create function micros(interval) returns numeric language sql as $$ select extract(epoch from $1) * 1000000 $$;
    create function their_next(every interval, first timestamptz, zone text, finish timestamptz) returns timestamptz language plpgsql as $$
    declare
        months int := extract(year from every) * 12 + extract(month from every);
        width numeric := micros(every);
        its_zone text := coalesce(zone, 'UTC');
        following timestamptz;
        begins timestamptz;
        slot timestamptz;
    begin
        if first is null then return finish + every; end if;
        if months > 0 then
            begins := month_of(first, its_zone, months);
            following := month_of(finish, its_zone, months) + every;
            slot := first + make_interval(months => ((extract(year from following) - extract(year from begins)) * 12 + extract(month from following) - extract(month from begins))::int);
        else
            slot := ((first at time zone its_zone)
                     + floor(micros((finish at time zone its_zone) - (first at time zone its_zone)) / width) * width * interval '1 microsecond') at time zone its_zone;
        end if;
        while slot <= finish loop slot := slot + every; end loop;
        return slot;
    end $$";

/// Random jobs in databases of several zones: whatever is imported has the next time of theirs after any moment of five years, above all around
/// changes of clocks. `+ i * 0` has each row draw anew. (One of months that ends in a later bucket than it began in skips a slot there: of these, after any of its slots.)
fn as_timescaledb_says(count: i32, seed: f64) {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = database(&cluster, NEW);
    db.batch_execute(THEIR_NEXT).unwrap();
    println!("seed {seed}");
    let (mut imported, mut compared) = (0, 0);
    for zone in ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"] {
        cluster.execute(&format!("alter database postgres set timezone = '{zone}'"));
        let mut db = cluster.connect();
        db.batch_execute(&format!(
            "select setseed({seed});
             truncate _timescaledb_catalog.bgw_job;
             insert into _timescaledb_catalog.bgw_job (id, application_name, schedule_interval, fixed_schedule, initial_start, timezone)
             select i, 'job ' || i, every, fixed, case when fixed then first end, case when fixed then zone end
               from generate_series(1, {count} / 4) as i
              cross join lateral (select
                (array[make_interval(mins => n), make_interval(hours => n % 200), make_interval(days => 1 + n % 40), make_interval(weeks => 1 + n % 6), make_interval(months => 1 + n % 30),
                       make_interval(years => 1 + n % 2), make_interval(days => n % 3, hours => 1 + n % 30), make_interval(secs => n * 0.25), make_interval(months => 1, days => n % 2)])[1 + floor(random() * 9)::int] as every
                from (select 1 + floor(random() * 500 + i * 0)::int as n) as n) as e
              cross join lateral (select random() + i * 0 < 0.85 as fixed) as f
              cross join lateral (select date_trunc((array['hour', 'minute', 'second', 'microseconds', 'day'])[1 + floor(random() * 5 + i * 0)::int],
                                                    timestamptz '2020-01-01 00:00+00' + random() * interval '6 years') as first) as s
              cross join lateral (select (array[null, null, null, 'UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe'])[1 + floor(random() * 8 + i * 0)::int] as zone) as z;
             create temp table found as select source_id::int as id, clock, time_zone, verdict, note from sched.import_from('timescaledb', dry_run => true);
             create temp table moment as
             select j.id, f.clock, f.time_zone, j.schedule_interval as every, j.initial_start as first, j.timezone as zone, finish,
                    their_next(j.schedule_interval, j.initial_start, j.timezone, finish) as theirs
               from _timescaledb_catalog.bgw_job j join found f using (id)
              cross join lateral (
                select case when extract(epoch from date_trunc('month', j.schedule_interval)) = 0 then moment else sched.next_time(f.clock, moment, f.time_zone) end as finish from (
                select now() + random() * interval '5 years' as moment from generate_series(1, 20 + j.id * 0)
                union all
                select change + (random() - 0.5) * interval '50 hours'
                  from unnest('{{2027-03-14 07:00+00, 2027-03-28 01:00+00, 2027-10-31 01:00+00, 2027-11-07 06:00+00, 2029-03-25 01:00+00, 2030-11-03 06:00+00, 2028-04-01 15:00+00}}'::timestamptz[]) as change,
                       generate_series(1, 3 + j.id * 0)) as moments) as m
              where f.verdict = 'imported';
             analyze moment",
        ))
        .unwrap();
        let silent =
            "select count(*) from found where verdict <> 'imported' and (verdict <> 'unsupported' or note is null)";
        assert_eq!(one::<i64>(&mut db, silent), 0, "{zone}");
        let differ = "select coalesce(string_agg(concat_ws(' | ', every, first, zone, clock, time_zone, finish, theirs, ours), e'\\n'), '')
                        from (select *, sched.next_time(clock, finish, time_zone) as ours from moment) m where ours is distinct from theirs";
        assert_eq!(one::<String>(&mut db, differ), "", "{zone}");
        imported += one::<i64>(&mut db, "select count(*) from found where verdict = 'imported'");
        compared += one::<i64>(&mut db, "select count(*) from moment");
    }
    println!("{imported} of {count} imported, {compared} next times compared");
    assert!(imported > i64::from(count) / 4);
}

#[test]
fn three_hundred_random_jobs_are_as_timescaledb_says() {
    as_timescaledb_says(300, 0.20261124);
}

#[test]
#[ignore = "long: 10,000 jobs over five years"]
fn long_ten_thousand_random_jobs_are_as_timescaledb_says() {
    as_timescaledb_says(10_000, 0.42);
}
