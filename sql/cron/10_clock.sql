-- pg_cron's schedules as clocks of sched, by the rules of its entry.c and job_metadata.c. NULL is what it would refuse.

-- A name of the field, or digits. (C reads more than nine of them as something else.)
CREATE FUNCTION cron_internal.number(word text, low integer, names text[]) RETURNS integer
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
    SELECT CASE WHEN lower(word) = ANY (names) THEN low + array_position(names, lower(word)) - 1
                WHEN word ~ '^[0-9]{1,9}$' THEN word::integer END
$$;
COMMENT ON FUNCTION cron_internal.number IS 'internal: a value of a field, NULL where it is none';

-- What follows an item up to the next blank is ignored there. A range that runs backwards is refused here: it sets the bits that its
-- bytes happen to have.
CREATE FUNCTION cron_internal.field(field text, low integer, high integer, names text[]) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
DECLARE
    rest   text := field;
    items  text := '';
    part   text[];
    first  integer;
    last   integer;
    step   integer;
BEGIN
    LOOP
        -- all of it, the star, the number, its range, the end of that, its step, the number of that
        part := regexp_match(rest, '^((?:(\*)|([A-Za-z0-9]+)(?:(-)([A-Za-z0-9]*))?)(?:(/)([A-Za-z0-9]*))?)');
        IF part IS NULL THEN
            RETURN NULL;
        END IF;
        first := CASE WHEN part[2] IS NULL THEN cron_internal.number(part[3], low, names) ELSE low END;
        last := CASE WHEN part[2] IS NOT NULL THEN high WHEN part[4] IS NULL THEN first ELSE cron_internal.number(part[5], low, names) END;
        step := CASE WHEN part[6] IS NULL THEN 1 ELSE cron_internal.number(part[7], 0, '{}') END;
        IF (first >= low AND last <= high AND first <= last AND step BETWEEN 1 AND high) IS NOT TRUE
           OR (part[2] IS NULL AND part[4] IS NULL AND part[6] IS NOT NULL) THEN
            RETURN NULL;
        END IF;
        items := items || CASE WHEN part[2] IS NOT NULL THEN '*' WHEN part[4] IS NOT NULL THEN first || '-' || last ELSE first::text END
                       || CASE WHEN step > 1 THEN '/' || step ELSE '' END;
        rest := substr(rest, length(part[1]) + 1);
        EXIT WHEN NOT starts_with(rest, ',');
        items := items || ',';
        rest := substr(rest, 2);
    END LOOP;
    RETURN items;
END
$$;
COMMENT ON FUNCTION cron_internal.field IS 'internal: a field of pg_cron in the words of sched, NULL where it is none';

CREATE FUNCTION cron_internal.clock(schedule text, zone text, both_days boolean) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
DECLARE
    -- blank lines and comments before it are skipped
    rest    text := regexp_replace(schedule, '^([ \t]*(#[^\n]*)?\n)*[ \t]*', '');
    lows    CONSTANT integer[] := '{0, 0, 1, 1, 0}';
    highs   CONSTANT integer[] := '{59, 23, 31, 12, 7}';
    names   text[];
    chunk   text;
    fields  text[] := '{}';
    seconds text;
BEGIN
    seconds := (regexp_match(schedule, '^\s*\+?([0-9]{1,9})\s*second(?:s\s*)?$', 'i'))[1];
    IF seconds IS NOT NULL THEN
        RETURN CASE WHEN seconds::integer BETWEEN 1 AND 59 THEN format('every %s second%s after start', seconds::integer, CASE WHEN seconds::integer > 1 THEN 's' ELSE '' END) END;
    END IF;
    IF octet_length(schedule) >= 1000 THEN
        RETURN NULL;
    END IF;
    IF starts_with(rest, '@') THEN
        CASE substring(rest FROM '^@([^ \t\n]*)')
            WHEN 'reboot', 'restart' THEN RETURN 'never';
            WHEN 'yearly', 'annually' THEN fields := '{0, 0, 1, 1, *}';
            WHEN 'monthly' THEN fields := '{0, 0, 1, *, *}';
            WHEN 'weekly' THEN fields := '{0, 0, *, *, 0}';
            WHEN 'daily', 'midnight' THEN fields := '{0, 0, *, *, *}';
            WHEN 'hourly' THEN fields := '{0, *, *, *, *}';
            ELSE RETURN NULL;
        END CASE;
    ELSE
        -- what follows the fifth is ignored
        FOR i IN 1..5 LOOP
            chunk := substring(rest FROM '^[^ \t\n]*');
            rest := substr(rest, length(chunk) + 1);
            IF i = 3 AND starts_with(chunk, '$') THEN
                chunk := CASE WHEN chunk = '$' AND rest ~ '^[ \t]' THEN 'L' END;
            ELSE
                names := CASE i WHEN 4 THEN '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}'
                                WHEN 5 THEN '{sun,mon,tue,wed,thu,fri,sat}' ELSE '{}' END;
                chunk := cron_internal.field(chunk, lows[i], highs[i], names);
            END IF;
            IF chunk IS NULL THEN
                RETURN NULL;
            END IF;
            fields := fields || chunk;
            rest := ltrim(rest, E' \t');
        END LOOP;
    END IF;
    IF both_days AND NOT starts_with(fields[3], '*') AND NOT starts_with(fields[5], '*') THEN
        fields[5] := '+' || fields[5];
    END IF;
    -- pg_cron looks at the zone's wall clock once a minute, for each of its schedules. So does sched for those that begin with a star in
    -- the minute or the hour, and one that has a 0 there can be said so.
    IF zone !~* '^(etc/)?(gmt|utc|uct|zulu|universal|greenwich)$' AND NOT starts_with(fields[1], '*') AND NOT starts_with(fields[2], '*') THEN
        IF fields[1] ~ '(^|,)0(,|-|$)' THEN
            fields[1] := '*/60,' || fields[1];
        ELSIF fields[2] ~ '(^|,)0(,|-|$)' THEN
            fields[2] := '*/24,' || fields[2];
        END IF;
    END IF;
    RETURN array_to_string(fields, ' ');
END
$$;
COMMENT ON FUNCTION cron_internal.clock IS 'internal: a schedule of pg_cron as a clock of sched; NULL where it would refuse it';

CREATE FUNCTION cron_internal.zone() RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$ SELECT COALESCE(NULLIF(current_setting('cron.timezone', true), ''), 'GMT') $$;
COMMENT ON FUNCTION cron_internal.zone IS 'internal: in which zone a schedule is read';

CREATE FUNCTION cron_internal.required_clock(schedule text) RETURNS text
    LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
DECLARE
    both_days CONSTANT boolean := COALESCE(NULLIF(current_setting('cron.match_dom_and_dow', true), ''), 'off')::boolean;
    zone      CONSTANT text := cron_internal.zone();
    clock     CONSTANT text := cron_internal.clock(schedule, zone, both_days);
    highs     CONSTANT integer[] := '{59, 23, 31, 12, 7}';
    units     CONSTANT text[] := '{minutes, hours, days, months, days of the week}';
    fields    text[];
    field     text;
    long      text;
    hint      text := 'Use cron format (e.g. 5 4 * * *), or interval format ''[1-59] seconds''';
BEGIN
    IF clock IS NULL THEN
        -- A step that is longer than its field leaves the first value.
        fields := (regexp_split_to_array(btrim(left(schedule, 1000), E' \t\n'), '[ \t]+'))[1:5];
        FOR i IN 1..cardinality(fields) LOOP
            SELECT string_agg(CASE WHEN p.step[3]::integer > highs[i] THEN COALESCE(p.step[2], CASE WHEN i IN (3, 4) THEN '1' ELSE '0' END) ELSE p.item END, ',' ORDER BY p.n),
                   COALESCE(long, min(format('A step of %s is longer than the field of %s', p.step[3], units[i])) FILTER (WHERE p.step[3]::integer > highs[i]))
              INTO field, long
              FROM (SELECT s.item, s.n, regexp_match(s.item, '^(?:(\*)|([0-9A-Za-z]+)-[0-9A-Za-z]+)/([0-9]{1,9})$') AS step
                      FROM unnest(string_to_array(fields[i], ',')) WITH ORDINALITY AS s (item, n)) AS p;
            fields[i] := field;
        END LOOP;
        IF long IS NOT NULL AND cron_internal.clock(array_to_string(fields, ' '), zone, both_days) IS NOT NULL THEN
            hint := format('%s, and not every version of pg_cron takes it: write ''%s''', long, array_to_string(fields, ' '));
        END IF;
        RAISE EXCEPTION 'invalid schedule: %', schedule USING ERRCODE = 'invalid_parameter_value', HINT = hint;
    END IF;
    RETURN clock;
END
$$;
COMMENT ON FUNCTION cron_internal.required_clock IS 'internal: the same with cron.timezone and cron.match_dom_and_dow; 22023 where there is none';
