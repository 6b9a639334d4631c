-- A database as version 2 of the schema wrote it. Such files are out there: this one is never changed.
PRAGMA application_id = 1950574664;
PRAGMA user_version = 2;
BEGIN;
CREATE TABLE conversation (
    id INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 2147483647),
    key TEXT NOT NULL UNIQUE,
    incarnation BLOB NOT NULL,
    version INTEGER NOT NULL,
    len INTEGER NOT NULL
) STRICT;

CREATE TABLE exchange (
    place INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    continues INTEGER,
    messages INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    body TEXT NOT NULL,
    conversation INTEGER NOT NULL GENERATED ALWAYS AS (place >> 32) VIRTUAL,
    seq INTEGER NOT NULL GENERATED ALWAYS AS (place & 4294967295) VIRTUAL,
    UNIQUE (conversation, id)
) STRICT;

CREATE TABLE compaction (
    conversation INTEGER NOT NULL,
    profile TEXT NOT NULL,
    version INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (conversation, profile)
) STRICT, WITHOUT ROWID;
ALTER TABLE conversation ADD COLUMN first INTEGER NOT NULL DEFAULT 0;
-- A log that was pruned: it begins at position 2.
INSERT INTO conversation VALUES (1, 'acme/user%2042', x'00112233445566778899aabbccddeeff', 4, 4, 2);
INSERT INTO exchange (place, id, continues, messages, bytes, body) VALUES (4294967298, 'e2', NULL, 2, 150,
    '{"v":1,"id":"e2","at":1700000002000,"messages":[{ "role": "user", "content": "And \u0000 now?", "x": 1.0 },{"role":"assistant","content":"Bye."}],"model":"gpt-4o","finish_reason":"stop"}');
INSERT INTO exchange (place, id, continues, messages, bytes, body) VALUES (4294967299, 'e3', NULL, 1, 40,
    '{"v":1,"id":"e3","at":1700000003000,"messages":[{"role":"user","content":"Bye."}]}');
INSERT INTO compaction VALUES (1, 'default', 1,
    '{"v":1,"window_start":1,"rounds_start":1,"cleared_before":0,"summary":{"text":"They greeted each other.","covers_to":1}}');
COMMIT;
