-- Those that are this server's, where several share scopes. $1 group_name
SELECT s.schedule_name FROM sched.schedule s WHERE s.group_name = $1 AND s.ownership <> 'elsewhere' ORDER BY s.schedule_name COLLATE "C"
