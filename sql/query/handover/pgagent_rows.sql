-- Each schedule with its job, whose steps are in pgagent_steps. Times are microseconds since 1970, days of exceptions count from 2000-01-01. $1 the zone
SELECT j.jobid::text || '/' || s.jscid::text AS id, j.jobid::text AS job, j.jobname AS name, s.jscname AS schedule, j.jobhostagent AS host,
       (j.jobenabled AND s.jscenabled)::text AS enabled, s.jscminutes::text AS minutes, s.jschours::text AS hours, s.jscweekdays::text AS weekdays,
       s.jscmonthdays::text AS monthdays, s.jscmonths::text AS months,
       CASE WHEN isfinite(s.jscstart) THEN (EXTRACT(epoch FROM s.jscstart) * 1000000)::bigint::text ELSE s.jscstart::text END AS starts,
       CASE WHEN isfinite(s.jscend) THEN (EXTRACT(epoch FROM s.jscend) * 1000000)::bigint::text ELSE s.jscend::text END AS ends,
       CASE WHEN isfinite(s.jscstart) THEN EXTRACT(minute FROM s.jscstart AT TIME ZONE $1)::int::text END AS start_minute,
       (SELECT string_agg(COALESCE((e.jexdate - date '2000-01-01')::text, '') || ' '
                          || COALESCE((EXTRACT(epoch FROM e.jextime) * 1000000)::bigint::text, ''), ',' ORDER BY e.jexid)
          FROM ONLY {schema}.pga_exception AS e
         WHERE e.jexscid = s.jscid AND (e.jexdate IS NULL OR isfinite(e.jexdate))) AS exceptions
  FROM ONLY {schema}.pga_job AS j
  JOIN ONLY {schema}.pga_schedule AS s ON s.jscjobid = j.jobid
 ORDER BY j.jobid, s.jscid
