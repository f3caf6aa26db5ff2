-- Every database whose rows these are.
SELECT h.system_identifier, h.database FROM sched.home h
