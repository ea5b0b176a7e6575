-- Commands find a run by the beginning of its id, or of its part after the first "-", and the runs that have not ended.

CREATE INDEX runs_by_part ON runs (substr(run, instr(run, '-') + 1));

CREATE INDEX runs_open ON runs (created_at) WHERE status <> 'ended';
