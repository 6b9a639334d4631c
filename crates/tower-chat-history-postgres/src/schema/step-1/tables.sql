-- One row a conversation. `version` counts changes of the log within its incarnation, each of which adds one exchange; its
-- exchanges have the positions from `first` to before `len`, and `opening` is that of the newest one that opens a turn (-1 if
-- there is none). `messages` and `bytes` are those of all exchanges that were ever appended, so that a window's size is one
-- subtraction. An exchange without messages counts as one message, in all tables.
--
-- `version` and `len` are the same number as long as nobody else writes here: a load that finds them different says so.
--
-- Keys are ASCII and compared byte by byte: collation "C" says so, and costs less than the database's own. Each append
-- updates its row, which leaves no trace in an index as long as the page has room.
create table @.conversation (
    id bigint generated always as identity primary key,
    key text collate "C" not null unique,
    incarnation uuid not null,
    version bigint not null,
    first bigint not null,
    len bigint not null,
    opening bigint not null,
    messages bigint not null,
    bytes bigint not null
) with (fillfactor = 70);

-- One row an exchange. `messages_before` and `bytes_before` are the sums of all exchanges before it: where a limit lets a window
-- begin is found without adding anything up. `call` names the append that stored it, which may ask again after its answer was
-- lost. The body is text and not jsonb, which reorders keys and refuses \u0000.
--
-- There are no foreign keys: deletion is one step, and appends pay for no look-up.
create table @.exchange (
    conversation bigint not null,
    seq bigint not null,
    messages_before bigint not null,
    bytes_before bigint not null,
    messages bigint not null,
    bytes bigint not null,
    continues bigint,
    call uuid not null,
    id text collate "C" not null,
    body text not null,
    primary key (conversation, seq),
    unique (conversation, id)
);

-- The stored compaction of each profile. The body has all of it; the positions are there to be compared, since no function
-- parses a body: PostgreSQL's functions for JSON refuse a text with \u0000. That both are of one compaction is checked by
-- the client, whenever it reads one. `call` names the call that stored it, which may ask again after its answer was lost.
create table @.compaction (
    conversation bigint not null,
    profile text collate "C" not null,
    version bigint not null,
    window_start bigint not null,
    rounds_start bigint not null,
    cleared_before bigint not null,
    covers_to bigint not null,
    call uuid not null,
    body text not null,
    primary key (conversation, profile)
);
