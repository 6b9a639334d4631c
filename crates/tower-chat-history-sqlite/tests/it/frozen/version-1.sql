-- A database as version 1 of the schema writes it. Before release 0.1.0, it changes with the schema. From 0.1.0 on,
-- such files exist, and this one is never changed.
PRAGMA application_id = 1950574664;
PRAGMA user_version = 1;
BEGIN;
CREATE TABLE conversation (
    id INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 2147483647),
    key TEXT NOT NULL UNIQUE,
    incarnation BLOB NOT NULL,
    version INTEGER NOT NULL,
    first INTEGER NOT NULL,
    len INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    labels_version INTEGER NOT NULL,
    labels TEXT
) STRICT;

CREATE TABLE exchange (
    place INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    continues INTEGER,
    messages INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    media INTEGER NOT NULL,
    recalled_first INTEGER,
    recalled TEXT,
    provenance TEXT,
    body TEXT NOT NULL,
    conversation INTEGER NOT NULL GENERATED ALWAYS AS (place >> 32) VIRTUAL,
    seq INTEGER NOT NULL GENERATED ALWAYS AS (place & 4294967295) VIRTUAL,
    UNIQUE (conversation, id)
) STRICT;

CREATE INDEX exchange_recalled ON exchange (conversation, recalled_first) WHERE recalled_first IS NOT NULL;

CREATE TABLE compaction (
    conversation INTEGER NOT NULL,
    profile TEXT NOT NULL,
    version INTEGER NOT NULL,
    window_start INTEGER NOT NULL,
    state BLOB NOT NULL,
    derived BLOB,
    PRIMARY KEY (conversation, profile)
) STRICT, WITHOUT ROWID;

CREATE TABLE erasure (
    epoch INTEGER PRIMARY KEY,
    erased TEXT NOT NULL UNIQUE
) STRICT;

INSERT INTO conversation VALUES (1, 'acme/user%2042', x'00112233445566778899aabbccddeeff', 3, 0, 3,
    1700000000000, 1700000002000, 346, 2, '{"pinned":"","title":"Nemo \u0000"}');
INSERT INTO exchange (place, id, continues, messages, bytes, media, body) VALUES (4294967296, 'e0', NULL, 2, 163, 0,
    '{"v":1,"id":"e0","at":1700000000000,"messages":[{"role":"user","content":"Hi! I am Nemo."},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}],"tokens":{"counter":"o200k_base","counts":[5,6]}}');
INSERT INTO exchange (place, id, continues, messages, bytes, media, provenance, body) VALUES (4294967297, 'e1', 0, 2, 88, 0,
    '[1,1,1,34,"LQaABTjTlMIAESIzRFVmd4iZqrvM3e7_",[2,2,0,2,0,5,3],["p\u0000"]]',
    '{"v":1,"id":"e1","at":1700000001000,"continues":0,"messages":[{"role":"tool","tool_call_id":"c1","content":"r"},{"role":"assistant","content":"Hello!"}]}');
INSERT INTO exchange (place, id, continues, messages, bytes, media, recalled_first, recalled, body) VALUES (4294967298, 'e2', NULL, 2, 95, 0, 0,
    '{"v":1,"message":{"role":"user","content":"You said: \u0000 Nemo."},"citations":[[0,0,1],[1,1,2]],"tokens":9}',
    '{"v":1,"id":"e2","at":1700000002000,"messages":[{ "role": "user", "content": "And \u0000 now?", "x": 1.0 },{"role":"assistant","content":"Bye."}],"model":"gpt-4o","finish_reason":"stop"}');
INSERT INTO compaction VALUES (1, 'default', 1, 2, CAST('{"v":1,"cut":[2,2,2]}' AS BLOB),
    CAST('{"summary":{"text":"They greeted each other."}}' AS BLOB));
-- A pruned log, which begins at position 2.
INSERT INTO conversation VALUES (2, 'acme/pruned', x'ffeeddccbbaa99887766554433221100', 4, 2, 4,
    1700000000000, 1700000003000, 127, 0, NULL);
INSERT INTO exchange (place, id, continues, messages, bytes, media, body) VALUES (8589934594, 'e2', NULL, 2, 95, 0,
    '{"v":1,"id":"e2","at":1700000002000,"messages":[{ "role": "user", "content": "And \u0000 now?", "x": 1.0 },{"role":"assistant","content":"Bye."}],"model":"gpt-4o","finish_reason":"stop"}');
INSERT INTO exchange (place, id, continues, messages, bytes, media, body) VALUES (8589934595, 'e3', NULL, 1, 32, 0,
    '{"v":1,"id":"e3","at":1700000003000,"messages":[{"role":"user","content":"Bye."}]}');
INSERT INTO compaction VALUES (2, 'default', 1, 1,
    CAST('{"v":1,"cut":[1,1,1,0,3,4,2],"replaced":[0,1]}' AS BLOB),
    CAST('{"summary":{"text":"They greeted each other."}}' AS BLOB));
-- The erasures of all conversations (epoch 6) and of the prefix `acme/user%2042` (epoch 7).
INSERT INTO erasure VALUES (6, '474292953285562e');
INSERT INTO erasure VALUES (7, '8f1974fccff0260e');
COMMIT;
