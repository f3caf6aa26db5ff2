-- An agent writes itself down there before it looks for work: none begins until this transaction ends.
LOCK TABLE ONLY {schema}.pga_jobagent IN SHARE ROW EXCLUSIVE MODE
