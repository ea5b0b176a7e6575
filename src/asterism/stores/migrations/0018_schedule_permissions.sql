-- A schedule carries the permissions of who added it. One that came over the network has its goal in its row.

ALTER TABLE schedules ADD COLUMN permissions TEXT NOT NULL DEFAULT '["view"]';

UPDATE schedules SET permissions = CASE WHEN what LIKE '{"asterism":"goal"%'
THEN '["view","submit","command","edit","answer"]' ELSE '["view","submit","command","edit","answer","admin","local"]' END;
