-- {table}
DROP TRIGGER IF EXISTS scheduler_guard ON {schema}.{table}
