-- The API lists the open questions page by page, by time and id.

CREATE INDEX inquiries_by_time ON inquiries (asked_at, inquiry) WHERE answer = '';
