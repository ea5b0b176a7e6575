-- A run that works on what came over the network names no file of this computer by a text.
-- The actor of those that were submitted before has the form NAME@ROLE.

ALTER TABLE runs ADD COLUMN via TEXT NOT NULL DEFAULT '';

UPDATE runs SET via = 'network' WHERE run = root AND actor LIKE '%@%';
