-- What ALTER ROLE and ALTER DATABASE ... SET say for a session. $1 database, $2 role
SELECT COALESCE(string_agg(concat_ws(' ', s.setdatabase, s.setrole, s.setconfig), E'\n' ORDER BY s.setdatabase, s.setrole), '') AS settings
  FROM pg_db_role_setting s
 WHERE s.setdatabase IN (0, $1) AND s.setrole IN (0, $2)
