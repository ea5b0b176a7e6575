-- The files of each tree of runs. Their contents are outside the database, by digest.
CREATE TABLE files (
    root TEXT NOT NULL,
    digest TEXT NOT NULL,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size INTEGER NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (root, digest, name)
) WITHOUT ROWID;
