-- The permissions of the sender of a command, as JSON. A program of an earlier version that is still running writes the lowest.
-- What is pending came past doors that asked for no other permission than these.

ALTER TABLE inbox ADD COLUMN permissions TEXT NOT NULL DEFAULT '["view"]';

UPDATE inbox SET permissions = '["view","submit","command","edit","answer"]' WHERE verdict = '';
