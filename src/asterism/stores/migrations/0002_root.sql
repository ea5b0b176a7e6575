-- Runs form trees: the run at the top of each one's tree; itself for a run that nobody started.

ALTER TABLE runs ADD COLUMN root TEXT NOT NULL DEFAULT '';

UPDATE runs SET root = run;

CREATE INDEX runs_of_a_tree ON runs (root);
