-- Nothing but this library writes these tables. The calls rely on that, and do not compare the numbers with each other.

-- One row for each conversation. The exchanges have the positions from `first` to before `len`, which is also the
-- version of the log. `opening` is the position of the newest one that opens a turn. `messages`, `bytes` and `media`
-- are the sums of all exchanges ever appended, so the size of a window is one subtraction. In all tables, `media` is
-- how many of the bytes are media, and an exchange without messages counts as one message.
--
-- A log that begins at a later position counts one message for each position before it, so `messages` is never less
-- than `len`.
--
-- The times are those of the exchanges, in milliseconds since 1970 (UTC). `updated_at` is the latest one of all
-- exchanges ever appended, and `updated_before` is its value before the newest append. If that append turns out to be a
-- duplicate, it restores the value.
--
-- `labels` is a JSON object, or null if there are no labels. `labels_call` names the call that stored them.
--
-- Keys are ASCII and compared byte by byte. Collation "C" states that, and costs less than the database's own. A page
-- of a listing is a range of the keys' index. Each append updates the row. As long as the page has room, the update
-- does not touch an index.
create table @.conversation (
    id bigint generated always as identity primary key,
    key text collate "C" not null unique,
    incarnation uuid not null,
    first bigint not null,
    len bigint not null,
    opening bigint not null,
    messages bigint not null,
    bytes bigint not null,
    media bigint not null,
    created_at bigint not null,
    updated_at bigint not null,
    updated_before bigint not null,
    labels_version bigint not null default 0,
    labels_call uuid,
    labels text
) with (fillfactor = 70);

-- One row for each exchange. `messages_before`, `bytes_before` and `media_before` are the sums of all exchanges before
-- it, so the start of a limited window is found without adding anything up. `call` names the append that stored the
-- exchange, so that its repetition after a lost response finds it. The body is text and not jsonb, which reorders keys
-- and refuses \u0000. `recalled` is the record of the recalled messages, and `recalled_first` the first position that
-- they cite, or -1 if they cite another conversation. Both are null if there are none. `provenance` is the record of
-- the provenance, or null.
--
-- There are no foreign keys: a deletion is one step, and appends need no look-up.
create table @.exchange (
    conversation bigint not null,
    seq bigint not null,
    messages_before bigint not null,
    bytes_before bigint not null,
    media_before bigint not null,
    messages bigint not null,
    bytes bigint not null,
    media bigint not null,
    continues bigint,
    call uuid not null,
    id text collate "C" not null,
    body text not null,
    recalled_first bigint,
    recalled text,
    provenance text,
    primary key (conversation, seq),
    unique (conversation, id)
);

-- The stored compaction of each profile. The store does not look into `state` and `derived`, which belong to whoever
-- compacts. `derived` is text that was made from messages, such as a summary, or null. `state` has no such text. `call`
-- names the call that stored the compaction, so that its repetition after a lost response finds it.
create table @.compaction (
    conversation bigint not null,
    profile text collate "C" not null,
    version bigint not null,
    window_start bigint not null,
    call uuid not null,
    state bytea not null,
    derived bytea,
    primary key (conversation, profile)
);

-- One row for each prefix that was erased, and for each conversation that was deleted, with the epoch of its newest
-- erasure. `erased` is the SHA-256 digest of the conversation's key, or of the text form of the prefix with `/` after
-- it, so that the ids of erased conversations are not kept.
create table @.erasure (
    erased bytea primary key,
    epoch bigint not null unique
);

-- The only row: the epoch of the newest erasure, the epoch of the newest one that was forgotten, and the number of rows
-- in the table `erasure`.
create table @.epoch (
    one boolean primary key default true check (one),
    newest bigint not null,
    forgotten bigint not null,
    kept bigint not null
);
insert into @.epoch (newest, forgotten, kept) values (0, 0, 0);

-- `analyze` copies values of a column to PostgreSQL's own tables, where an erasure would not remove them. No plan needs
-- them, so none are collected for texts and bytes.
alter table @.conversation
    alter column key set statistics 0, alter column labels set statistics 0;
alter table @.exchange
    alter column id set statistics 0, alter column body set statistics 0, alter column recalled set statistics 0,
    alter column provenance set statistics 0;
alter table @.compaction
    alter column profile set statistics 0, alter column state set statistics 0, alter column derived set statistics 0;
