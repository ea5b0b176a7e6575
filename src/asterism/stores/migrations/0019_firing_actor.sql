-- Who commanded a run of a schedule counts as its submitter.

ALTER TABLE firings ADD COLUMN actor TEXT NOT NULL DEFAULT '';
