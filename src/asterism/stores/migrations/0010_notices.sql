-- Facts that people are to hear of, and the messages about them.
CREATE TABLE notices (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    run TEXT NOT NULL,
    subject TEXT NOT NULL,
    text TEXT NOT NULL,
    at REAL NOT NULL,
    routed INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX notices_unrouted ON notices (number) WHERE NOT routed;
CREATE INDEX notices_run ON notices (run);

CREATE TABLE deliveries (
    notice INTEGER NOT NULL,
    channel TEXT NOT NULL,
    status TEXT NOT NULL,
    tries INTEGER NOT NULL,
    next_at REAL NOT NULL,
    error TEXT NOT NULL,
    PRIMARY KEY (notice, channel)
) WITHOUT ROWID;
CREATE INDEX deliveries_due ON deliveries (next_at) WHERE status IN ('waiting', 'sending');
