-- One row per conversation. `len` is the position of the next exchange. The log has the positions from `first` to
-- before `len`, without gaps. `first` is greater than 0 after a prune. (It is stored although the first row of
-- `exchange` has the same position: otherwise a row that another program removed would look pruned.) `version` counts
-- the changes of the log since its incarnation began. If a truncation began the incarnation, each remaining position
-- counts as one change, so `version` always equals `len`. An id has 31 bits, so that it fits into the `place` of an
-- exchange (see below).
--
-- Times are milliseconds of Unix time. `created_at` is that of the first append, and `updated_at` is the latest of all
-- appends. `bytes` is the sum of the column `bytes` of the exchanges. `labels` is a JSON object, or NULL if there are
-- no labels. All of them are in this row, which each append writes anyway. A page of a listing is a range of the index
-- on `key`.
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

-- One row per exchange. `media` is how many of its `bytes` are media. A place is conversation << 32 | seq, and it is
-- the rowid. The exchanges of a conversation are therefore stored next to each other, and reading a window of 30
-- exchanges is one search in the tree and a few neighboring pages. With rowids in the order of arrival, each exchange
-- of a window would be on another page and need its own index entry. In a measurement with bodies of 0.7 and 2 KB,
-- reading such a window took 1.3 to 2.8 times as long, both from memory and from disk. Writes would be about 30
-- microseconds cheaper, but they wait for the disk anyway. A table WITHOUT ROWID would also store the exchanges next to
-- each other. But it moves rows that are longer than a quarter of a page to separate pages, and most rows are longer.
-- In the measurement, that table was 1.5 times as large, and the slowest to write.
--
-- `recalled` has the recalled messages of the exchange, and `recalled_first` is the first position that they cite, or
-- -1 if they cite another conversation. Both are NULL in most rows, which takes one byte for each. They are not part of
-- the body, so that a prune can remove them. `provenance` is the provenance of the exchange, or NULL. It is not part of
-- the body for the same reason.
--
-- The body is the last column, so that the other columns are read without it.
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

-- Finds the recalled messages that a prune removes. Exchanges without recalled messages have no entry.
CREATE INDEX exchange_recalled ON exchange (conversation, recalled_first) WHERE recalled_first IS NOT NULL;

-- The stored compaction of each profile of each conversation. Exchanges do not depend on it. The store reads
-- neither `state` nor `derived`: they belong to whoever compacts. `derived` has text that was made from messages, such
-- as a summary, or is NULL. `state` has no such text.
CREATE TABLE compaction (
    conversation INTEGER NOT NULL,
    profile TEXT NOT NULL,
    version INTEGER NOT NULL,
    window_start INTEGER NOT NULL,
    state BLOB NOT NULL,
    derived BLOB,
    PRIMARY KEY (conversation, profile)
) STRICT, WITHOUT ROWID;

-- The newest deletion of each id, and the newest erasure of each prefix of ids. The epochs count them, so the largest
-- one is the current epoch. Those of the last 100,000 epochs are kept, which are as many rows or fewer. `erased` is a
-- digest of the id or of the prefix, so that the ids of erased conversations are not kept.
CREATE TABLE erasure (
    epoch INTEGER PRIMARY KEY,
    erased TEXT NOT NULL UNIQUE
) STRICT;
