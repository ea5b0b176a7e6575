-- Events from outside. A wait for one is an open inquiry with the name of the event: ``seen`` is the number of the last event that was
-- compared with it, and ``given`` that of the event that it has got.
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    data TEXT NOT NULL,
    deliver TEXT NOT NULL,
    at REAL NOT NULL,
    expires_at REAL NOT NULL,
    actor TEXT NOT NULL,
    taken INTEGER NOT NULL,
    UNIQUE (tenant, id)
);
CREATE INDEX events_of_a_name ON events (tenant, name, number);

ALTER TABLE inquiries ADD COLUMN event TEXT NOT NULL DEFAULT '';
ALTER TABLE inquiries ADD COLUMN seen INTEGER NOT NULL DEFAULT 0;
ALTER TABLE inquiries ADD COLUMN given INTEGER NOT NULL DEFAULT 0;
CREATE INDEX inquiries_for_events ON inquiries (tenant, event) WHERE answer = '' AND event <> '' AND given = 0;
