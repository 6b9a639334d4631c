-- One row per conversation. `version` counts the changes of the log since its incarnation began. If a truncation
-- began the incarnation, each position before it counts as one change, so `version` equals `len`. The log's exchanges
-- have the positions from `first` up to `len`, which is the next one, without gaps. `first` is greater than 0 after a
-- prune. (The first row of `exchange` has the same position, but then a row that another program removed would look
-- pruned.) An id has 31 bits, so that it fits into a place.
CREATE TABLE conversation (
    id INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 2147483647),
    key TEXT NOT NULL UNIQUE,
    incarnation BLOB NOT NULL,
    version INTEGER NOT NULL,
    first INTEGER NOT NULL,
    len INTEGER NOT NULL
) STRICT;

-- One row per exchange. A place is conversation << 32 | seq. The rowid itself is thus the primary key (conversation,
-- seq): the exchanges of a conversation lie side by side, and a window of 30 is one descent and a few neighboring
-- pages. Rowids in the order of arrival would scatter the window, with one page and one index entry for each
-- exchange. With bodies of 0.7 and 2 KB, that was measured to take 1.3 to 2.8 times as long to read, from memory as
-- from disk. Writes would be about 30 microseconds cheaper, but they wait for the disk anyway. WITHOUT ROWID would
-- also keep the exchanges side by side, but such a table moves rows longer than a quarter of a page to separate
-- pages, as most bodies are. That table was half as large again, and the slowest to write.
--
-- The body is the last column, so that the other columns are read without it.
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

-- The stored compaction of each profile. No exchange depends on it.
CREATE TABLE compaction (
    conversation INTEGER NOT NULL,
    profile TEXT NOT NULL,
    version INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (conversation, profile)
) STRICT, WITHOUT ROWID;
