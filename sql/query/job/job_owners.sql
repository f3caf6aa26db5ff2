-- Whether jobs have more than one owner.
SELECT EXISTS (SELECT FROM sched.job j WHERE j.owner <> (SELECT f.owner FROM sched.job f LIMIT 1)) AS several
