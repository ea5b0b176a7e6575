-- The newest version that has written to each run: the journal's format and the rules of its machine (kernel.journal.version_of).
-- Only for databases without runs: older journals do not say by which rules they were written.

ALTER TABLE runs ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
