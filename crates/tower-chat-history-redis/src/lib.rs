//! Conversations in Redis or Valkey: a store for services of many processes that already have one, or that want turns to cost
//! no disk.
//!
//! [`RedisStore`] works on a single server (also one behind a load balancer or a managed primary endpoint) and on a Cluster.
//! A load and an append are one script and one round trip each: what an append expects is checked in the same step in which it is
//! stored. What removes takes two round trips or more.
//!
//! ```no_run
//! use tower_chat_history_core::{ConversationId, HistoryStoreExt, Message};
//! use tower_chat_history_redis::RedisStore;
//!
//! # async fn talk() -> Result<(), Box<dyn std::error::Error>> {
//! let store = RedisStore::connect("redis://127.0.0.1/").await?;
//! // Or: RedisStore::connect_cluster(["redis://10.0.0.1/", "redis://10.0.0.2/"]).await?
//! let id = ConversationId::new(["acme", "user-42"])?;
//! let conversation = store.conversation(&id);
//! conversation.import([Message::user("Hey there! I'm Nemo."), Message::assistant("Hello!")]).await?;
//! assert_eq!(conversation.messages().await?[1].text(), "Hello!");
//! # Ok(())
//! # }
//! ```
//!
//! # What an acknowledgement means
//!
//! An append that is answered with `Ok` is in the memory of the master. What that is worth is a matter of the server's
//! settings:
//!
//! | setting | what can be lost |
//! |---|---|
//! | no persistence | everything, when the server ends |
//! | snapshots only (`save`, Redis's default) | the minutes since the last snapshot, when the server crashes |
//! | `appendonly yes`, `appendfsync everysec` | about the last second, when the server's machine crashes |
//! | `appendonly yes`, `appendfsync always` | nothing that was acknowledged, by a crash |
//!
//! **Replication is asynchronous**: a failover to a replica can lose the last acknowledged appends whatever is set, also in a
//! Cluster. `WAIT` would narrow that and not close it, and this store does not send it; `min-replicas-to-write` bounds how far
//! a master can be ahead. A log that lost its end is still a whole log, and who was further than it finds that it changed; but only
//! until other exchanges stand where the lost ones stood. After that [`Expect::Exactly`](tower_chat_history_core::Expect) may be
//! right about a log whose last exchange is another one than its caller saw. A load that names the newest exchange it knows, as
//! `CachedStore`'s do, gets the window anew then.
//!
//! Services that must not lose an acknowledged exchange are better served by the stores for PostgreSQL and SQLite.
//!
//! # Memory
//!
//! **Set `maxmemory-policy noeviction`.** Under every other policy a server that is full throws away conversations, or keys of
//! them. Connecting logs a warning then, or fails if [asked to](RedisOptions::require_noeviction). A conversation that lost
//! some of its keys, by eviction or by somebody's hand, is [corrupt](tower_chat_history_core::StoreError::Corrupt) (with
//! [`Damaged`] as source) in every call but `delete`, and never read as a shorter one. One that lost all keys is absent. Single
//! elements that somebody took out of a list or a hash are noticed by every call but a load that finds its window
//! [unchanged](tower_chat_history_core::Loaded::Unchanged).
//!
//! What somebody else changed is noticed too. The state has a check sum, which every call compares. A load and a page
//! compare each record with its entry in the index (the exchange's id, its number of messages, their bytes, and whether
//! it opens a turn) and the entries' sums with each other and with the state: elements of the lists that stand in each
//! other's place, or come from another conversation, are corrupt. Beyond the record's JSON itself, message texts have
//! no check sum.
//!
//! A full server that evicts nothing refuses appends with [`Full`](tower_chat_history_core::StoreError::Full). Nothing is
//! stored then; loading, deleting, truncating and pruning go on.
//!
//! Measured with generated ids and records of 582 bytes, an exchange costs about 180 bytes beside its record (230 in logs of more
//! than 512), and a conversation some 500 bytes.
//! `list-compress-depth 1` in the server's configuration compresses all of a log but its two ends.
//!
//! [`RedisOptions::expire_after`] removes conversations some time after their last append.
//!
//! # Layout
//!
//! Four keys a conversation, with its id as their hash tag: `chat:{acme/user-42}` and the same with `:log`, `:index` and
//! `:ids` behind it. An id's text is percent-encoded and has no braces, so two ids never share a key or a part of one.
//!
//! - *(no ending)*, a hash: the state, which is one field (the layout's number, the incarnation, where the log begins and ends,
//!   what its messages come to, and a check sum), and each profile's compaction.
//! - `:log`, a **list** of the exchanges' records, as every store writes them.
//! - `:index`, a list beside it: for each exchange its id, whether it opens a turn, and how many messages, bytes and
//!   turns stand before it. (An exchange without messages counts as one message.) Where a limit lets a window start, or
//!   a prune the log, is a difference of such sums and found by halving; then the window is taken out of the log in one
//!   piece. No record is touched that is not returned.
//! - `:ids`, a hash from exchange id to position, which makes appends idempotent for as long as the log has the exchange.
//!
//! Why lists: both ends can be taken off in small steps, a window is one sequential read, and small records share blocks of 8
//! KB, so an exchange costs a few bytes more than its text. A hash by position costs some hundred bytes an exchange and a
//! look-up each; a stream can lose its beginning, and not its end. What a list cannot do is take something out of the
//! middle, and no call does that.
//!
//! The state begins with the number of the layout. A conversation that a newer version of this store wrote in another layout is
//! left as it is by every call but `delete`, which removes these four keys: the calls fail for good
//! ([`Backend`](tower_chat_history_core::StoreError::Backend), with [`NewerLayout`] as source).
//!
//! A load that is told what its caller knows (the layer's `CachedStore` does that), and finds nothing new, reads the state and looks
//! whether the other keys are there, and at the newest exchange's id: no record is touched.
//!
//! A truncation or a prune moves the log's end or beginning in one step, which takes effect at once; the elements then go a
//! thousand at a time, before the call is answered, and the server serves others in between: a log of 100,000 exchanges holds
//! nobody up. A step takes about a millisecond, and 20 more for each gigabyte that it frees. If the caller leaves before it is
//! done, later appends take the rest along. Deleting looks which life the conversation is in, and then hands its keys to the
//! server's background thread (`UNLINK`) if it still is. Where others begin the conversation again each time, that is
//! tried 16 times with pauses; it is then enough that the conversation was gone in between.
//!
//! A deletion leaves no tombstone: an append of the ended incarnation names it, and is refused because it is not there. Only an
//! append that expects nothing creates a conversation.
//!
//! # Failures
//!
//! Calls share one connection, which reconnects by itself. What finds the server unreachable, loading, busy, or in a failover
//! (`LOADING`, `BUSY`, `READONLY`, `CLUSTERDOWN`, `MASTERDOWN`, `TRYAGAIN`, `NOREPLICAS`, `MISCONF`) is tried again for
//! [three seconds](RedisOptions::retry_for), and is then [not
//! available](tower_chat_history_core::StoreError::Unavailable). That is safe also where an answer got lost: the repeated
//! script finds its own first run. No step takes longer than that time and one [response
//! timeout](RedisOptions::response_timeout), also where there is no connection. Loads and appends are one step. An append that
//! finds the rest of a truncation whose caller left is more: it removes that rest first.
//!
//! Loads are refused where appends are, but for a full server: by a replica, by a master that misses replicas
//! (`min-replicas-to-write`), and by one that cannot save to its disk (`MISCONF`). So nobody goes on reading from a master that
//! is none any more, once it knows that itself.
//!
//! A call that was given up may still reach the server later, when the network held it back. An append that expects nothing, or no
//! conversation ([`Expect::AnyOrCreate`](tower_chat_history_core::Expect), `Absent`), then creates a conversation again that was
//! deleted meanwhile, with that one exchange: it cannot be told from a new call. Every other call names the life of the
//! conversation that it is for, and does nothing in another one; a deletion too.
//!
//! A connection to a single server is given up, and the address looked up anew, when an answer does not come in time, when the
//! server is no master any more, and when it refused the connection; at most twice a second. A Cluster's connections are redis-rs's
//! own: one that falls silent without breaking is given up by the system, on Linux after twice the response timeout.
//!
//! A refused password does not pass by itself: the call fails when redis-rs has tried to connect seven times, in about a second, and
//! later ones try again. Errors name the kind of a failure and never quote a server's message, which may quote a command.
//!
//! An append that carries a compaction stores its exchange also where the stored compaction cannot be read. The
//! compaction is then reported as [`Kept(None)`](tower_chat_history_core::CompactOutcome::Kept).
//!
//! Errors of opening a store name the server's host and port, or its socket ([`ConnectError`]), and never the rest of
//! the address.
//!
//! A future that is dropped leaves its script undone or done as a whole.
//!
//! While a Cluster's slot is migrated, what works depends on where its keys are: a conversation whose four keys are still on the
//! old node, or already on the new one, is there as always. In between, and for a conversation that does not exist, which could be
//! on either, the nodes answer `TRYAGAIN`. That is tried again like a failover; a migration of a slot that takes longer than
//! [`retry_for`](RedisOptions::retry_for) makes such calls not available until it is over.
//!
//! # Rights
//!
//! An ACL user needs the keys `~chat:*` (the [prefix](RedisOptions::prefix)) and `+evalsha +eval +unlink +exists +hget +hgetall
//! +hkeys +hlen +hmget +hset +hdel +lindex +llen +lrange +ltrim +rpush +persist +pexpireat +time`; `+info` lets the store
//! see the eviction policy and say how full a full server is. A Cluster's user needs `+cluster|slots +ping +asking` too, and one
//! whose address names a database `+select`. On a Cluster, users are made on every node. Scripts are sent again where a server
//! lost them. Redis 7.0 and Valkey 7.2 are the oldest servers: older ones report failures within scripts in another way. Tested
//! with Redis 7.0.
//!
//! # TLS
//!
//! `rediss://` addresses need this crate's feature `rustls` ([`ConnectError::NeedsTls`] without it), and the program a
//! rustls crypto provider (rustls's feature `ring` or `aws_lc_rs`). The server's certificate must be for the address's
//! host and signed by one of the system's roots, or by [those given](RedisOptions::root_certificates); a server that
//! asks for one gets [the program's own](RedisOptions::client_certificate).

#![cfg_attr(docsrs, feature(doc_cfg))]

mod append;
mod call;
mod compact;
mod connection;
mod delete;
mod entry;
mod error;
mod eviction;
mod keys;
mod load;
mod options;
mod prune;
mod read;
mod reply;
mod rewrite;
mod rounds;
mod scripts;
mod store;
mod sweep;
#[cfg(feature = "rustls")]
mod tls;
mod truncate;

pub use self::{
    error::{ConnectError, Damaged, NewerLayout},
    options::RedisOptions,
    store::RedisStore,
};
