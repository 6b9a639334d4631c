-- Logs can be pruned: the position at which a conversation's log begins. Its exchanges are those from there to `len`, the next
-- position, without a gap. (The first row would tell it as well, but then one that somebody else took out would pass for
-- pruned.)
ALTER TABLE conversation ADD COLUMN first INTEGER NOT NULL DEFAULT 0;
