-- When somebody should look at a root run again, the fleet that can drive it, and why it is stuck.
-- `due_at` is empty while a run is owned, after it has ended, and in the row of a child run.

ALTER TABLE runs ADD COLUMN fleet TEXT NOT NULL DEFAULT '';

ALTER TABLE runs ADD COLUMN due_at REAL;

ALTER TABLE runs ADD COLUMN tries INTEGER NOT NULL DEFAULT 0; -- drives in a row that ended with a problem

ALTER TABLE runs ADD COLUMN problem TEXT NOT NULL DEFAULT '';

-- Nobody knows their timers: a driver that looks at them sets the time of the next look.
UPDATE runs SET due_at = 0 WHERE root = run AND status <> 'ended';

CREATE INDEX runs_due ON runs (tenant, due_at, fleet) WHERE due_at IS NOT NULL;

CREATE INDEX runs_owned ON runs (owner) WHERE owner <> '';

-- A search reads this index only, newest first, up to the rows that it returns.
CREATE INDEX runs_listed ON runs (created_at, run, tenant, status, machine, root, title);
