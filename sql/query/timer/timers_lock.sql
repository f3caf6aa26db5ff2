-- Dispatchers wait, as they lock rows of it; readers do not.
LOCK TABLE sched.timer IN EXCLUSIVE MODE
