//! Rows that another program changed: calls fail, and never return a wrong history.

use libtest_mimic::Trial;
use test_servers::trials;
use tokio_postgres::Client;
use tower_chat_history_core::{
    Append, CompactOutcome, CompactionVersion, ConversationId, Derived, Exchange, Expect, HistoryStore, KnownState,
    Load, LoadLimit, Loaded, Prune, PruneTo, Seq, StoreError, Truncate,
};
use tower_chat_history_postgres::PostgresStore;

use crate::support::{append, compact, connect, conversation, database, exchange, say, single, texts, window};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_record_of_another_exchange_is_corrupt,
        a_record_of_another_exchange_is_not_returned_as_recorded,
        counters_that_contradict_each_other_are_corrupt,
        damaged_counters_of_a_pruned_log_are_corrupt,
        a_window_that_starts_beyond_the_log_is_corrupt,
        counters_at_the_ends_of_their_range_are_corrupt,
        counters_of_exchanges_at_the_ends_of_their_range_are_corrupt,
        too_large_counters_before_the_start_of_a_limited_window_are_corrupt,
        positions_at_the_ends_of_their_range_are_corrupt,
        compaction_versions_at_the_ends_of_their_range_are_corrupt,
        a_damaged_compaction_prevents_no_append,
    ]
}

/// Creates the conversations of [`setup_in`] in a new database.
async fn setup() -> (PostgresStore, Client, ConversationId) {
    setup_in(&database().await).await
}

/// Creates a conversation of three turns with two exchanges each, and another conversation. Both replace those of an
/// earlier call, which may be damaged.
async fn setup_in(url: &str) -> (PostgresStore, Client, ConversationId) {
    let (store, client) = (single(url).await, connect(url).await);
    let id = conversation("damaged");
    for left in [&id, &conversation("whole")] {
        store.delete(left).await.unwrap();
    }
    for turn in 0..3 {
        say(&store, &id, "question").await;
        let revision = window(&store, &id).await.revision;
        let more = exchange("more").continuing(Seq::new(2 * turn));
        store.append(&id, Append::new(Expect::Exactly(revision), more)).await.unwrap();
    }
    say(&store, &conversation("whole"), "whole").await;
    (store, client, id)
}

fn assert_corrupt<T: std::fmt::Debug>(answer: Result<T, StoreError>, id: &ConversationId, damage: &str) {
    let error = answer.unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { conversation, .. } if conversation == id), "{damage}: {error:?}");
}

async fn a_record_of_another_exchange_is_corrupt() {
    let url = database().await;
    for damage in [
        // Two swapped records, and a record of another conversation.
        "update chat_history.exchange e set body = o.body from chat_history.exchange o \
            where o.conversation = e.conversation and (e.seq, o.seq) in ((2, 4), (4, 2))",
        "update chat_history.exchange e set body = o.body from chat_history.exchange o, chat_history.conversation c \
            where e.seq = 2 and o.conversation = c.id and c.key = 'test/whole'",
        // Two swapped rows.
        "update chat_history.exchange e set id = o.id || 'x', body = replace(o.body, o.id, o.id || 'x'), bytes = o.bytes + 1 \
            from chat_history.exchange o where o.conversation = e.conversation and (e.seq, o.seq) in ((2, 4))",
    ] {
        let (store, client, id) = setup_in(&url).await;
        client.batch_execute(damage).await.unwrap();
        assert_corrupt(store.load(&id, Load::new()).await, &id, damage);
        assert_corrupt(store.read(&id, Seq::FIRST, 9).await, &id, damage);
        assert_eq!(texts(&store, &conversation("whole")).await, ["whole"]);
    }
}

async fn a_record_of_another_exchange_is_not_returned_as_recorded() {
    let (store, client, id) = setup().await;
    let asked = window(&store, &id).await.exchanges[1].exchange.id.clone();
    let damage = "update chat_history.exchange e set body = o.body from chat_history.exchange o \
                  where o.conversation = e.conversation and e.seq = 1 and o.seq = 3";
    client.batch_execute(damage).await.unwrap();
    assert_corrupt(store.load(&id, Load::new().exchange(asked)).await, &id, damage);
}

async fn counters_that_contradict_each_other_are_corrupt() {
    let url = database().await;
    for damage in [
        "version = 5",
        "version = 7",
        "len = 5",
        "len = 7",
        "len = 0",
        "len = -1",
        "(version, len) = (4, 4)",
        "(version, len, opening) = (4, 4, 2)",
        "(version, len) = (7, 7)",
        "(version, len) = (-1, -1)",
        "first = 2",
        "first = 6",
        "first = 9",
        "first = -1",
        "opening = 2",
        "opening = 5",
        "opening = 6",
        "opening = -1",
        "messages = messages - 1",
        "messages = messages + 1",
        "bytes = bytes - 1",
        "bytes = 0",
    ] {
        let (store, client, id) = setup_in(&url).await;
        let change = format!("update chat_history.conversation set {damage} where key = 'test/damaged'");
        client.batch_execute(&change).await.unwrap();
        assert_corrupt(store.load(&id, Load::new()).await, &id, damage);
        assert_eq!(texts(&store, &conversation("whole")).await, ["whole"]);
        store.delete(&id).await.unwrap();
        assert!(store.load(&id, Load::new()).await.unwrap().is_absent());
    }
    for damage in ["messages_before = messages_before + 1", "bytes_before = 0", "messages = 0", "bytes = bytes + 1"] {
        let (store, client, id) = setup_in(&url).await;
        let change = format!("update chat_history.exchange set {damage} where seq = 3");
        client.batch_execute(&change).await.unwrap();
        assert_corrupt(store.load(&id, Load::new()).await, &id, damage);
        assert_corrupt(store.read(&id, Seq::FIRST, 9).await, &id, damage);
    }
}

async fn damaged_counters_of_a_pruned_log_are_corrupt() {
    let url = database().await;
    for damage in ["first = 1", "first = 3", "first = 4"] {
        let (store, client, id) = setup_in(&url).await;
        let incarnation = window(&store, &id).await.revision.incarnation();
        store.prune(&id, incarnation, PruneTo::LastTurns(2), Derived::Keep).await.unwrap();
        assert_eq!(window(&store, &id).await.exchanges.len(), 4);
        let change = format!("update chat_history.conversation set {damage} where key = 'test/damaged'");
        client.batch_execute(&change).await.unwrap();
        assert_corrupt(store.load(&id, Load::new()).await, &id, damage);
        assert_corrupt(store.read(&id, Seq::FIRST, 9).await, &id, damage);
    }
}

async fn a_window_that_starts_beyond_the_log_is_corrupt() {
    let (store, client, id) = setup().await;
    for start in [6, 7, 99] {
        let change = format!(
            "delete from chat_history.compaction; insert into chat_history.compaction \
             select id, 'default', 1, {start}, 0, 0, 0, 0, 0, 0, gen_random_uuid(), \
                '{{\"v\":1,\"window_start\":{start},\"rounds_start\":0,\"cleared_before\":0}}' \
             from chat_history.conversation where key = 'test/damaged'"
        );
        client.batch_execute(&change).await.unwrap();
        let error = store.load(&id, Load::new()).await.unwrap_err();
        assert!(matches!(error, StoreError::CorruptCompaction { .. }), "{start}: {error:?}");
    }
}

/// The exchange was paid for, so it is stored whatever the state of the stored compaction.
async fn a_damaged_compaction_prevents_no_append() {
    let url = database().await;
    let record = |window: u64, rounds: u64| {
        format!(r#"body = '{{"v":1,"window_start":{window},"rounds_start":{rounds},"cleared_before":0}}'"#)
    };
    let mut damages = vec![
        format!("window_start = 4, {}", record(2, 2)),
        format!("window_start = 99, rounds_start = 99, {}", record(99, 99)),
        format!("rounds_start = 99, {}", record(2, 99)),
        format!("recalled_from = 99, {}", record(2, 2).replace("}'", ",\"recalled_from\":99}'")),
        format!("reasoning_from = 99, {}", record(2, 2).replace("}'", ",\"reasoning_from\":99}'")),
        format!("encrypted_from = 99, {}", record(2, 2).replace("}'", ",\"encrypted_from\":99}'")),
        "rounds_start = 5, body = 'secret'".to_owned(),
    ];
    for column in [
        "window_start",
        "rounds_start",
        "cleared_before",
        "recalled_from",
        "reasoning_from",
        "encrypted_from",
        "covers_to",
    ] {
        damages.extend([5, 99, i64::MAX - 1, i64::MAX].map(|position| format!("{column} = {position}")));
    }
    for damage in damages {
        let (store, client, id) = setup_in(&url).await;
        let incarnation = window(&store, &id).await.revision.incarnation();
        store.compact(&id, incarnation, compact(NONE, 2)).await.unwrap();
        client.batch_execute(&format!("update chat_history.compaction set {damage}")).await.unwrap();
        let error = store.load(&id, Load::new()).await.unwrap_err();
        assert!(matches!(error, StoreError::CorruptCompaction { .. }), "{damage}: {error:?}");
        let first = CompactionVersion::new(1);
        for (text, wrong_start) in [("a rule kept", 2), ("a rule broken", 3)] {
            let appended = store.append(&id, append(text).compact(compact(first, wrong_start))).await.unwrap();
            assert_eq!(appended.compaction, Some(CompactOutcome::Kept(None)), "{damage}, {text}");
        }
        let mut own = append("its own window");
        own = own.compact(compact(CompactionVersion::new(7), 8));
        assert_eq!(store.append(&id, own).await.unwrap().compaction, Some(CompactOutcome::Kept(None)), "{damage}");
        assert_eq!(texts(&store, &id).await[6..], ["a rule kept", "a rule broken", "its own window"], "{damage}");
    }
}

/// The smallest and the largest numbers, and their neighbors.
const ENDS: [i64; 4] = [i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX];

const NONE: CompactionVersion = CompactionVersion::NONE;

/// Neither a wrong history, nor an error of the server that does not name the conversation.
async fn counters_at_the_ends_of_their_range_are_corrupt() {
    let url = database().await;
    let columns = ["version", "first", "len", "opening", "messages", "bytes"];
    let mut damages: Vec<_> = columns.iter().flat_map(|of| ENDS.map(|end| format!("{of} = {end}"))).collect();
    damages.extend(ENDS.map(|end| format!("(version, len) = ({end}, {end})")));
    damages.extend(ENDS.map(|end| format!("(version, len, messages) = ({end}, {end}, {end})")));
    damages.extend(ENDS.map(|end| format!("(first, opening, version, len) = ({end}, {end}, {end}, {end})")));
    for damage in damages {
        let (store, client, id) = setup_in(&url).await;
        let before = window(&store, &id).await;
        let (revision, known) = (before.revision, before.known());
        let change = format!("update chat_history.conversation set {damage} where key = 'test/damaged'");
        client.batch_execute(&change).await.unwrap();
        let asked = before.exchanges[0].exchange.id.clone();
        for load in [
            Load::new(),
            Load::new().exchange(asked),
            Load::new().known(known.clone()),
            Load::new().known(KnownState { newest: None, ..known }),
        ] {
            assert_corrupt(store.load(&id, load).await, &id, &damage);
        }
        assert_corrupt(store.read(&id, Seq::FIRST, 2).await, &id, &damage);
        assert_corrupt(store.read(&id, Seq::new(u64::MAX), usize::MAX).await, &id, &damage);
        assert_corrupt(store.append(&id, append("more")).await, &id, &damage);
        assert_corrupt(store.append(&id, append("more").compact(compact(NONE, 0))).await, &id, &damage);
        assert_corrupt(store.compact(&id, revision.incarnation(), compact(NONE, 0)).await, &id, &damage);
        for from in [0, 3, u64::MAX] {
            assert_corrupt(store.truncate(&id, revision, Seq::new(from)).await, &id, &damage);
        }
        for derived in [Derived::Keep, Derived::Erase] {
            assert_corrupt(
                store.prune(&id, revision.incarnation(), PruneTo::LastTurns(1), derived).await,
                &id,
                &damage,
            );
        }
        assert_eq!(texts(&store, &conversation("whole")).await, ["whole"]);
        store.delete(&id).await.unwrap();
        assert!(store.load(&id, Load::new()).await.unwrap().is_absent());
        let left = "select count(*) from chat_history.exchange";
        assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 1, "{damage}");
    }
}

async fn counters_of_exchanges_at_the_ends_of_their_range_are_corrupt() {
    let url = database().await;
    for column in ["messages_before", "bytes_before", "messages", "bytes"] {
        for end in ENDS {
            for seq in [0, 3, 5] {
                let (store, client, id) = setup_in(&url).await;
                let revision = window(&store, &id).await.revision;
                let change = format!("update chat_history.exchange set {column} = {end} where seq = {seq}");
                let change =
                    format!("{change} and id <> (select id from chat_history.exchange where body like '%whole%')");
                client.batch_execute(&change).await.unwrap();
                let damage = format!("{column} = {end} at {seq}");
                assert_corrupt(store.load(&id, Load::new()).await, &id, &damage);
                assert_corrupt(store.read(&id, Seq::FIRST, 9).await, &id, &damage);
                if column.starts_with("messages") && seq > 0 {
                    // With the wrong count of messages, the prune would remove exchanges that must stay.
                    let keep = PruneTo::LastMessages(8);
                    assert_corrupt(store.prune(&id, revision.incarnation(), keep, Derived::Keep).await, &id, &damage);
                }
                if seq == 3 {
                    assert_corrupt(store.truncate(&id, revision, Seq::new(4)).await, &id, &damage);
                }
            }
        }
    }
}

async fn too_large_counters_before_the_start_of_a_limited_window_are_corrupt() {
    let limit = LoadLimit::new(4, usize::MAX).unwrap();
    for damage in ["messages_before = 100", "messages_before = 9223372036854775807"] {
        let (store, client, id) = setup().await;
        let load = || Load::new().limit(limit);
        let Loaded::Window(whole) = store.load(&id, load()).await.unwrap() else { panic!("the conversation exists") };
        assert!(whole.truncated && whole.exchanges.len() < 6, "{whole:?}");
        let change = format!("update chat_history.exchange set {damage} where seq = 0 and body like '%question%'");
        assert_eq!(client.execute(&change, &[]).await.unwrap(), 1);
        assert_corrupt(store.load(&id, load()).await, &id, damage);
    }
}

/// A row with another position is missing at its own position. If it is found by its id, the wrong position
/// is not returned.
async fn positions_at_the_ends_of_their_range_are_corrupt() {
    let url = database().await;
    for end in ENDS {
        let (store, client, id) = setup_in(&url).await;
        let newest = window(&store, &id).await.exchanges.pop().unwrap();
        let newest = Exchange::clone(&newest.exchange);
        let change = format!("update chat_history.exchange set seq = {end} where seq = 5");
        client.batch_execute(&change).await.unwrap();
        let damage = format!("seq = {end}");
        assert_corrupt(store.load(&id, Load::new()).await, &id, &damage);
        assert_corrupt(store.load(&id, Load::new().exchange(newest.id.clone())).await, &id, &damage);
        assert_corrupt(store.append(&id, Append::new(Expect::AnyOrCreate, newest)).await, &id, &damage);
        store.delete(&id).await.unwrap();
        let left = "select count(*) from chat_history.exchange";
        assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 1, "{damage}");
    }
}

async fn compaction_versions_at_the_ends_of_their_range_are_corrupt() {
    let url = database().await;
    for version in [i64::MIN, -1, 0, i64::MAX] {
        let (store, client, id) = setup_in(&url).await;
        let incarnation = window(&store, &id).await.revision.incarnation();
        store.compact(&id, incarnation, compact(NONE, 2)).await.unwrap();
        client.batch_execute(&format!("update chat_history.compaction set version = {version}")).await.unwrap();
        let error = store.load(&id, Load::new()).await.unwrap_err();
        assert!(matches!(error, StoreError::CorruptCompaction { .. }), "{version}: {error:?}");
        let replaces = CompactionVersion::new(u64::try_from(version).unwrap_or(7).max(1));
        let error = store.compact(&id, incarnation, compact(replaces, 2)).await.unwrap_err();
        assert!(matches!(error, StoreError::CorruptCompaction { .. }), "{version}: {error:?}");
        // The exchange was paid for, so it is stored whatever the state of the stored compaction.
        let appended = store.append(&id, append("more").compact(compact(replaces, 2))).await.unwrap();
        assert_eq!(appended.compaction, Some(CompactOutcome::Kept(None)), "{version}");
        store.truncate(&id, appended.revision, appended.seq).await.unwrap();
        let window = window(&store, &id).await;
        assert_eq!((window.compaction, window.exchanges.len()), (None, 6), "a damaged compaction is removed");
    }
}
