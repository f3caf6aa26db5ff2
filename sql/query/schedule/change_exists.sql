-- By the primary key: the rows of a bulk load that were applied a moment ago are dead, and passed over at less cost in the index.
-- $1 change_id to begin after
SELECT 1 FROM sched.schedule_change c WHERE c.change_id > $1 ORDER BY c.change_id LIMIT 1
