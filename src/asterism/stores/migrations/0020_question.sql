-- The text of a question is a phrase in JSON, which the views word.
ALTER TABLE inquiries RENAME COLUMN prompt TO question;
