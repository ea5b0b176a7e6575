-- What the attempts of a run print: text of one stream in order of arrival, and its place in that stream.

CREATE TABLE logs (
    seq INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    key TEXT NOT NULL, -- id of the effect that printed it; empty where the middle of a run's output was removed
    task TEXT NOT NULL,
    number INTEGER NOT NULL,
    stream TEXT NOT NULL,
    position INTEGER NOT NULL, -- bytes of the stream before it
    at REAL NOT NULL,
    data BLOB NOT NULL
);

CREATE INDEX logs_in_order ON logs (run);

CREATE INDEX logs_of_a_stream ON logs (run, key, stream, position);
