-- The last snapshot of each run that has not ended: a shortcut, which can be removed at any time.

CREATE TABLE snapshots (
    run TEXT NOT NULL PRIMARY KEY,
    seq INTEGER NOT NULL,
    rules TEXT NOT NULL, -- fingerprint of the code that made it
    body TEXT NOT NULL
);
