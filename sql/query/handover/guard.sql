-- {table}, {arguments} of sched_internal.guard_taken_over
CREATE OR REPLACE TRIGGER scheduler_guard BEFORE INSERT OR UPDATE ON {schema}.{table}
    FOR EACH ROW EXECUTE FUNCTION sched_internal.guard_taken_over({arguments})
