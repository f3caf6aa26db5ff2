-- Two imports, one after the other: what one makes, the other knows. Nobody else waits, nor is waited for.
LOCK TABLE sched.imported IN SHARE ROW EXCLUSIVE MODE
