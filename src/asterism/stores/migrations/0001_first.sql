-- Runs, their journals, what is asked of people, and what people send.
-- Lists are in order of arrival where they say "oldest first": that is the order of rowid.

CREATE TABLE runs (
    run TEXT NOT NULL PRIMARY KEY,
    machine TEXT NOT NULL,
    title TEXT NOT NULL,
    state TEXT NOT NULL,
    status TEXT NOT NULL,
    outcome TEXT NOT NULL,
    session TEXT NOT NULL,
    parent TEXT NOT NULL,
    tenant TEXT NOT NULL,
    actor TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    owner TEXT NOT NULL, -- id of the owning process: the name of its file in the owners folder
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL
);

CREATE INDEX runs_newest ON runs (created_at);

-- With its rowid: what many runs append in one commit then lies together, which measures twice as fast.
CREATE TABLE entries (
    run TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    actor TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    key TEXT NOT NULL,
    note TEXT NOT NULL,
    version INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    PRIMARY KEY (run, seq)
);

CREATE TABLE inquiries (
    inquiry TEXT NOT NULL PRIMARY KEY,
    run TEXT NOT NULL,
    prompt TEXT NOT NULL,
    verbs TEXT NOT NULL, -- a JSON list of words
    subject TEXT NOT NULL,
    schema TEXT NOT NULL,
    risk TEXT NOT NULL,
    asked_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    answer TEXT NOT NULL
);

CREATE INDEX inquiries_open ON inquiries (answer) WHERE answer = '';

CREATE TABLE inbox (
    run TEXT NOT NULL,
    key TEXT NOT NULL,
    actor TEXT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    at REAL NOT NULL,
    verdict TEXT NOT NULL,
    PRIMARY KEY (run, key)
);

-- Drivers look several times a second, and mostly nothing is there: that look is one seek in an empty index.
CREATE INDEX inbox_unfolded ON inbox (verdict) WHERE verdict = '';
