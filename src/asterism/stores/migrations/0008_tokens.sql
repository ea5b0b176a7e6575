-- The tokens that programs and people present to the server. Of the secret, only the hash is stored.
CREATE TABLE tokens (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL, -- token, link or session
    hash TEXT NOT NULL, -- SHA-256 of the whole token, in hexadecimal digits
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    tenant TEXT NOT NULL,
    parent TEXT NOT NULL, -- the token that a link or a session was made for
    created_at REAL NOT NULL,
    expires_at REAL NOT NULL, -- 0 for never
    revoked_at REAL NOT NULL -- 0 while it is valid
) WITHOUT ROWID;
