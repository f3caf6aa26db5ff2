-- The version of the extension's objects in this database.
SELECT e.extversion FROM pg_extension e WHERE e.extname = 'scheduler'
