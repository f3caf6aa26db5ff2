-- Schedules that came from other schedulers: which row of theirs each one stands for, and how that was when it was last looked at.
CREATE TABLE sched.imported (
    source        text        NOT NULL,
    source_schema text        NOT NULL,
    source_id     text        NOT NULL,
    schedule_id   bigint      NOT NULL,
    fingerprint   text        NOT NULL,
    job_name      text        NOT NULL,
    imported_at   timestamptz NOT NULL DEFAULT sched.now(),
    taken_over_at timestamptz,
    was_enabled   boolean,
    source_name   text,
    PRIMARY KEY (source, source_schema, source_id)
);
CREATE UNIQUE INDEX imported_schedule ON sched.imported (schedule_id);
-- What dispatchers look at.
CREATE INDEX imported_taken_over ON sched.imported (source, source_schema) WHERE taken_over_at IS NOT NULL;
COMMENT ON TABLE sched.imported IS 'schedules that came from other schedulers (sched.import_from)';
COMMENT ON COLUMN sched.imported.source_id IS 'what their scheduler knows it by, as text';
COMMENT ON COLUMN sched.imported.fingerprint IS 'a hash of what their row said when it was imported; another one is an edit';
COMMENT ON COLUMN sched.imported.job_name IS 'the job that was made of it: the only one that a later import writes';
COMMENT ON COLUMN sched.imported.taken_over_at IS 'since when it is fired here (sched.take_over); NULL while it is not, and once it was handed back';
COMMENT ON COLUMN sched.imported.was_enabled IS 'whether it was on there when it was taken over';
COMMENT ON COLUMN sched.imported.source_name IS 'what it is called there, or what stands for that; NULL = an older release has imported it';

-- What another scheduler has run that writes nothing down itself.
CREATE TABLE sched.reported_fire (
    schedule_id bigint      NOT NULL,
    plan_time   timestamptz NOT NULL,
    fired_at    timestamptz NOT NULL,
    PRIMARY KEY (schedule_id, plan_time)
);
COMMENT ON TABLE sched.reported_fire IS 'runs of other schedulers that they were reported to have had (sched.report_fire)';

-- Refuses to switch a row of another scheduler on whose schedule is fired here now. Arguments: the source, the column that says whether a row is
-- on, and those that are its id. A row whose schedule was dropped here is theirs again.
CREATE FUNCTION sched_internal.guard_taken_over() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    reading text;
    id      text;
    is_on   boolean;
    taken   text;
BEGIN
    -- Whoever has the table decides what its columns are made of, and so what runs when they are read: only numbers and booleans of Postgres' own are.
    SELECT format('SELECT concat_ws(''/'', %s), ($1).%I', string_agg(format('($1).%I', g.name), ', ' ORDER BY g.place) FILTER (WHERE g.place > 2), TG_ARGV[1])
      INTO reading
      FROM unnest(TG_ARGV) WITH ORDINALITY AS g (name, place)
      JOIN pg_attribute a ON a.attrelid = TG_RELID AND a.attname = g.name AND a.attnum > 0 AND NOT a.attisdropped
     WHERE g.place > 1 AND a.atttypid = ANY (ARRAY['int2', 'int4', 'int8', 'bool']::regtype[])
    HAVING count(*) = cardinality(TG_ARGV) - 1;
    IF reading IS NULL THEN
        RETURN NEW;
    END IF;
    EXECUTE reading INTO id, is_on USING NEW;
    IF is_on IS NOT FALSE THEN
        SELECT s.schedule_name
          INTO taken
          FROM sched.imported i
          JOIN sched.schedule s ON s.schedule_id = i.schedule_id
          LEFT JOIN sched.job j ON j.job_name = s.job_name
          JOIN pg_class c ON c.oid = TG_RELID
          LEFT JOIN pg_roles r ON r.oid = c.relowner
         WHERE i.source = TG_ARGV[0] AND i.source_schema = TG_TABLE_SCHEMA AND i.source_id = id AND i.taken_over_at IS NOT NULL AND s.ownership = 'owned'
           -- A role's own table speaks for that role alone: what is another's came from one that had this name before.
           AND (r.rolsuper OR j.owner IS NULL OR j.owner::oid = c.relowner);
        IF FOUND THEN
            RAISE EXCEPTION USING
                ERRCODE = 'object_in_use',
                MESSAGE = format('%s %s is fired by schedule "%s" of scheduler now', TG_ARGV[0], id, taken),
                HINT = format('SELECT sched.hand_back(ARRAY[%L]) gives it back.', taken);
        END IF;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION sched_internal.guard_taken_over() IS 'internal: keeps another scheduler from running again what sched.take_over has taken from it';

-- Views show a schedule's name to monitors. So the name of an imported crontab line has the program's name and a hash of the line, by which a
-- second import finds it, and the hash is keyed: nobody who reads the name can try out commands.
CREATE TABLE sched.crontab_secret (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    secret   bytea   NOT NULL
);
COMMENT ON TABLE sched.crontab_secret IS 'the key of the hashes in the names of imported crontab lines; empty before the first import';
