//! Compactions that cannot be read.

use libtest_mimic::Trial;
use test_servers::trials;
use tokio_postgres::Client;
use tower_chat_history_core::{
    Append, CompactOutcome, CompactionVersion, ConversationId, Expect, HistoryStore, Load, Seq, StoreError, Truncate,
};
use tower_chat_history_postgres::PostgresStore;

use crate::support::{append, compact, connect, conversation, database, exchange, say, single, texts, window};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_window_that_starts_beyond_the_log_is_corrupt,
        compaction_versions_at_the_ends_of_their_range_are_corrupt,
        a_damaged_compaction_prevents_no_append,
    ]
}

const NONE: CompactionVersion = CompactionVersion::NONE;

/// Creates the conversation of [`setup_in`] in a new database.
async fn setup() -> (PostgresStore, Client, ConversationId) {
    setup_in(&database().await).await
}

/// Creates a conversation of three turns with two exchanges each. It replaces that of an earlier call.
async fn setup_in(url: &str) -> (PostgresStore, Client, ConversationId) {
    let (store, client) = (single(url).await, connect(url).await);
    let id = conversation("damaged");
    store.delete(&id).await.unwrap();
    for turn in 0..3 {
        say(&store, &id, "question").await;
        let revision = window(&store, &id).await.revision;
        let more = exchange("more").continuing(Seq::new(2 * turn));
        store.append(&id, Append::new(Expect::Exactly(revision), more)).await.unwrap();
    }
    (store, client, id)
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
