-- Schedules, and what each of their due times came to.
CREATE TABLE schedules (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    cron TEXT NOT NULL,
    zone TEXT NOT NULL,
    what TEXT NOT NULL,
    params TEXT NOT NULL,
    options TEXT NOT NULL,
    overlap TEXT NOT NULL,
    missed TEXT NOT NULL,
    paused INTEGER NOT NULL,
    next_at REAL NOT NULL,
    created_at REAL NOT NULL,
    actor TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

CREATE TABLE firings (
    tenant TEXT NOT NULL,
    schedule TEXT NOT NULL,
    due_at REAL NOT NULL,
    run TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (tenant, schedule, due_at)
) WITHOUT ROWID;
CREATE INDEX firings_due ON firings (due_at) WHERE status = 'due';
CREATE INDEX firings_status ON firings (tenant, schedule, status, due_at);
