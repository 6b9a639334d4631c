-- One row a conversation. `version` counts changes of the log since its incarnation began; an incarnation that a truncation began
-- counts each position before it as one change, so `version` equals `len`. The log's exchanges have the positions from `first`
-- up to `len`, the next one, without a gap. `first` is more than 0 after a prune. (The first row of `exchange` would tell it as
-- well, but then a row that somebody else took out would pass for pruned.) An id has 31 bits, so that it fits a place.
CREATE TABLE conversation (
    id INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 2147483647),
    key TEXT NOT NULL UNIQUE,
    incarnation BLOB NOT NULL,
    version INTEGER NOT NULL,
    first INTEGER NOT NULL,
    len INTEGER NOT NULL
) STRICT;

-- One row an exchange. A place is conversation << 32 | seq: the rowid itself is the primary key (conversation, seq), so the
-- exchanges of a conversation lie side by side, and a window of 30 is one descent and a few neighbouring pages. Rowids by
-- arrival would scatter it, one page and one index entry each. Measured with bodies of 0.7 and 2 KB, that takes 1.3 to 2.8
-- times as long to read, from memory as from disk. It would make writes cheaper, by some 30 microseconds, but those wait
-- for the disk anyway. WITHOUT ROWID would put them side by side as well, but such a table moves what is longer than a
-- quarter of a page to pages of its own, as most bodies are: half as large again, and the slowest to write.
--
-- The body comes last: the columns before it are read without it.
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
