-- Also where session_replication_role says that triggers rest. {table}
ALTER TABLE {schema}.{table} ENABLE ALWAYS TRIGGER scheduler_guard
