-- Retention looks for the oldest ended runs again and again, and deletes their questions.

CREATE INDEX runs_ended ON runs (updated_at) WHERE status = 'ended' AND root = run;

CREATE INDEX inquiries_of_a_run ON inquiries (run);
