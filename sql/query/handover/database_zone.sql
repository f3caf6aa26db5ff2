-- The zone that sessions of this database begin with: its own default, else what this session would reset to.
SELECT COALESCE((SELECT substr(o.setting, strpos(o.setting, '=') + 1)
                   FROM pg_db_role_setting AS d, unnest(d.setconfig) AS o (setting)
                  WHERE d.setrole = 0 AND d.setdatabase = (SELECT b.oid FROM pg_database AS b WHERE b.datname = current_database())
                    AND lower(o.setting) LIKE 'timezone=%'),
                (SELECT s.reset_val FROM pg_settings AS s WHERE s.name = 'TimeZone')) AS zone,
       EXISTS (SELECT FROM pg_db_role_setting AS d, unnest(d.setconfig) AS o (setting)
                WHERE d.setrole = 0 AND d.setdatabase = (SELECT b.oid FROM pg_database AS b WHERE b.datname = current_database())
                  AND lower(o.setting) LIKE 'timezone=%')::text AS is_own,
       has_function_privilege('pg_show_all_file_settings()', 'EXECUTE')::text AS may_read_files,
       ((SELECT s.source FROM pg_settings AS s WHERE s.name = 'TimeZone') IN ('client', 'user', 'database user'))::text AS is_sessions
