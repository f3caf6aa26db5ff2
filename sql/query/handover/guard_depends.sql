-- It goes with the extension. {table}
ALTER TRIGGER scheduler_guard ON {schema}.{table} DEPENDS ON EXTENSION scheduler
