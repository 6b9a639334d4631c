//! Forks: the rows of the copy, their cost, damaged rows, and processes that are killed.

use std::{
    env,
    io::{BufRead, BufReader},
    time::Duration,
};

use tower_chat_history_conformance::shorthand::log_texts;
use tower_chat_history_core::{
    Append, ConversationId, Derived, Erase, Expect, Fork, ForkTo, Forked, HistoryStore, HistoryStoreExt, Incarnation,
    Labels, Load, Prefix, PruneTo, Seq, StoreError, Timestamp,
};
use tower_chat_history_sqlite::{SqliteOptions, SqliteStore, Synchronous};

use crate::support::{
    TestDatabase, assert_backend, assert_corrupt_at, assert_one_test_passed, child_test, compact, conversation,
    damaged, exchange, recalling, say, texts, window,
};

/// Forks a conversation, of which at least the row is whole.
async fn fork(store: &SqliteStore, id: &ConversationId, to: ForkTo) -> Result<Forked, StoreError> {
    let incarnation = store.read(id, Seq::new(u64::MAX), 1).await.unwrap().revision.unwrap().incarnation();
    store.fork(id, incarnation, to).await
}

/// Returns the request for a copy of the whole log.
fn whole(copy: &ConversationId) -> ForkTo {
    ForkTo::new(copy.clone(), Seq::new(u64::MAX))
}

#[tokio::test]
async fn a_copy_has_the_rows_of_the_log() {
    let database = TestDatabase::new();
    let (store, id, copy) = (database.open().await, conversation("a"), conversation("copy"));
    say(&store, &id, "zero").await;
    let opening = say(&store, &id, "one").await;
    let mut answered = recalling("two", "cites one", &[1]).continuing(opening.seq);
    answered.provenance = Some(Default::default());
    let mut cites_pruned = recalling("three", "cites zero", &[0, 1]);
    cites_pruned.provenance = Some(Default::default());
    for exchange in [answered, cites_pruned, recalling("four", "cites nothing", &[]), exchange("five")] {
        store.append(&id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    }
    store.conversation(&id).prune(PruneTo::From(Seq::new(1)), Derived::Keep).await.unwrap();
    let labels = Labels::new([("title", "Nemo")]).unwrap();
    let mut compact = compact("default", 2, Some("a summary"));
    compact.replaces = compact.replaces.next();
    let mut to = ForkTo::new(copy.clone(), Seq::new(5)).labels(labels).compact(Some(compact));
    to.at = Timestamp::from_unix_millis(1_700_000_000_000);
    let forked = fork(&store, &id, to).await.unwrap();
    assert_eq!((forked.copied, forked.revision), (4, Some(window(&store, &copy).await.revision)));

    let other = database.connect();
    let number = |sql: &str| other.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let columns = "seq, id, continues, messages, bytes, media, recalled_first, recalled, provenance, body";
    let without_recalled = "seq, id, continues, messages, bytes, media, NULL, NULL, provenance, body";
    let (log, copied) = (
        format!(
            "SELECT {columns} FROM exchange WHERE conversation = 1 AND seq IN (1, 2, 4)
             UNION ALL SELECT {without_recalled} FROM exchange WHERE conversation = 1 AND seq = 3"
        ),
        format!("SELECT {columns} FROM exchange WHERE conversation = 2"),
    );
    assert_eq!(number(&format!("SELECT count(*) FROM ({copied})")), 4);
    assert_eq!(number(&format!("SELECT count(*) FROM ({log} EXCEPT {copied})")), 0);
    assert_eq!(number("SELECT count(recalled) FROM exchange WHERE conversation = 1"), 3, "the log keeps its own");
    assert_eq!(number("SELECT count(*) FROM exchange INDEXED BY exchange_recalled WHERE recalled_first < 9"), 3);

    let row = "SELECT json_array(first, len, version, created_at, updated_at, labels_version, labels) \
               FROM conversation WHERE id = 2";
    let row: String = other.query_row(row, [], |row| row.get(0)).unwrap();
    assert_eq!(row, r#"[1,5,5,1700000000000,1700000000000,1,"{\"title\":\"Nemo\"}"]"#);
    let bytes =
        "SELECT bytes - (SELECT sum(bytes) FROM exchange WHERE conversation = 2) FROM conversation WHERE id = 2";
    assert_eq!(number(bytes), 0);
    assert_eq!(number("SELECT version FROM compaction WHERE conversation = 2"), 1);
}

#[tokio::test]
async fn a_fork_is_one_write_and_reads_no_exchange() {
    let (_database, store, id) = damaged("").await;
    let incarnation = window(&store, &id).await.revision.incarnation();
    let before = store.stats();
    store.fork(&id, incarnation, whole(&conversation("copy"))).await.unwrap();
    let after = store.stats();
    assert_eq!((after.transactions, after.writes), (before.transactions + 1, before.writes + 1));
    assert_eq!((after.reads, after.rows_read), (before.reads, before.rows_read));
}

#[tokio::test]
async fn a_fork_that_a_trigger_prevents_is_not_acknowledged() {
    let copy = conversation("copy");
    for change in [
        "INSERT ON conversation",
        "INSERT ON exchange",
        "INSERT ON exchange WHEN NEW.body LIKE '%three%'",
        "INSERT ON compaction",
    ] {
        let trigger = format!("CREATE TRIGGER swallows BEFORE {change} BEGIN SELECT RAISE(IGNORE); END");
        let (database, store, id) = damaged(&trigger).await;
        let to = whole(&copy).compact(Some(compact("default", 1, None)));
        assert_backend(fork(&store, &id, to.clone()).await, "trigger");
        assert!(store.load(&copy, Load::new()).await.unwrap().is_absent(), "{change}");

        database.connect().execute_batch("DROP TRIGGER swallows").unwrap();
        fork(&store, &id, to).await.unwrap();
        assert_eq!(log_texts(&store, &copy).await, ["one", "two", "three"], "{change}");
    }
}

#[tokio::test]
async fn damaged_exchanges_are_copied_as_they_are() {
    let copy = conversation("copy");
    for damage in [
        "UPDATE exchange SET body = '{secret'",
        "UPDATE exchange SET provenance = '{secret'",
        "UPDATE exchange SET recalled = '{secret'",
        "UPDATE exchange SET messages = 3",
        "DELETE FROM exchange",
    ] {
        let (_database, store, id) = damaged(&format!("{damage} WHERE conversation = 1 AND seq = 1")).await;
        assert_eq!(fork(&store, &id, whole(&copy)).await.unwrap().copied, 3);
        assert_corrupt_at(&store, &copy, 1).await;
        // The log before the damage is whole.
        let begin = conversation("begin");
        fork(&store, &id, ForkTo::new(begin.clone(), Seq::new(1))).await.unwrap();
        assert_eq!(log_texts(&store, &begin).await, ["one"], "{damage}");
    }
}

#[tokio::test]
async fn a_damaged_row_of_the_conversation_or_the_copy_is_corrupt() {
    let (database, store, id) = damaged("").await;
    let other = conversation("whole");
    let incarnation = window(&store, &id).await.revision.incarnation();
    let of_other = window(&store, &other).await.revision.incarnation();
    database.connect().execute_batch("UPDATE conversation SET len = 4 WHERE id = 1").unwrap();

    for error in [
        store.fork(&id, incarnation, whole(&conversation("copy"))).await.unwrap_err(),
        store.fork(&other, of_other, whole(&id)).await.unwrap_err(),
    ] {
        assert!(matches!(&error, StoreError::Corrupt { conversation, .. } if *conversation == id), "{error:?}");
    }
    assert!(store.load(&conversation("copy"), Load::new()).await.unwrap().is_absent());
}

#[tokio::test]
async fn a_copy_does_not_overwrite_exchanges_that_belong_to_no_conversation() {
    let sql =
        "INSERT INTO exchange (place, id, messages, bytes, media, body) VALUES ((3 << 32) + 2, 'lost', 1, 2, 0, '{}')";
    let (database, store, id) = damaged(sql).await;
    let copy = conversation("copy");
    let error = fork(&store, &id, whole(&copy)).await.unwrap_err();
    let named =
        matches!(&error, StoreError::Corrupt { conversation, seq, .. } if *conversation == copy && seq.get() == 2);
    assert!(named, "{error:?}");
    assert!(store.load(&copy, Load::new()).await.unwrap().is_absent());
    let left = "SELECT count(*) FROM exchange WHERE conversation = 3";
    assert_eq!(database.connect().query_row(left, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
}

#[tokio::test]
async fn a_fork_that_a_lock_prevents_can_be_repeated() {
    let database = TestDatabase::new();
    let store = SqliteOptions::new().busy_timeout(Duration::from_millis(20)).open(&database.path).await.unwrap();
    let (id, to) = (conversation("a"), whole(&conversation("copy")));
    say(&store, &id, "x").await;
    let other = database.connect();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(fork(&store, &id, to.clone()).await.unwrap_err().is_retryable());
    other.execute_batch("COMMIT").unwrap();

    let forked = fork(&store, &id, to.clone()).await.unwrap();
    assert_eq!(fork(&store, &id, to.clone()).await.unwrap(), forked);
    assert_eq!(texts(&window(&store, &to.id).await), ["x"]);
}

/// The environment variable with the path of the file, for the process that the test starts.
const CHILD: &str = "CHAT_HISTORY_FORKER";

/// Creates a log for a child process.
async fn created(database: &TestDatabase, id: &ConversationId, exchanges: u64, bytes: usize) {
    let store = SqliteOptions::new().synchronous(Synchronous::Normal).open(&database.path).await.unwrap();
    let text = "x".repeat(bytes);
    for _ in 0..exchanges {
        say(&store, id, &text).await;
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn the_memory_of_a_fork_does_not_grow_with_the_log() {
    let id = conversation("a");
    if let Ok(path) = env::var(CHILD) {
        let store = SqliteStore::open(&path).await.unwrap();
        // The limit is of the whole process, so the test has its own one. The writer's cache has 16 MiB.
        let limit = rusqlite::Connection::open(&path).unwrap();
        let value = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        assert_eq!(limit.pragma_update_and_check(None, "hard_heap_limit", 32 << 20, value).unwrap(), 32 << 20);
        assert_eq!(fork(&store, &id, whole(&conversation("copy"))).await.unwrap().copied, 64);
        return;
    }
    let database = TestDatabase::new();
    created(&database, &id, 64, 1 << 20).await;
    let test = "forking::the_memory_of_a_fork_does_not_grow_with_the_log";
    let child = child_test(env::current_exe().unwrap(), test).env(CHILD, &database.path).spawn().unwrap();
    assert_one_test_passed(child);
}

const ACKNOWLEDGED: &str = "acknowledged ";

#[tokio::test]
async fn a_copy_is_whole_or_absent_after_its_process_was_killed() {
    const EXCHANGES: u64 = 300;
    let id = conversation("a");
    if let Ok(path) = env::var(CHILD) {
        let store = SqliteOptions::new().synchronous(Synchronous::Normal).open(path).await.unwrap();
        loop {
            let name = Incarnation::random();
            fork(&store, &id, whole(&conversation(&name.to_string()))).await.unwrap();
            println!("{ACKNOWLEDGED}{name}");
        }
    }
    let database = TestDatabase::new();
    created(&database, &id, EXCHANGES, 2_000).await;
    let mut acknowledged: Vec<String> = Vec::new();
    for enough in [1, 2, 5, 10] {
        let test = "forking::a_copy_is_whole_or_absent_after_its_process_was_killed";
        let mut victim = child_test(env::current_exe().unwrap(), test).env(CHILD, &database.path).spawn().unwrap();
        let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut seen = 0;
        for line in lines {
            let Some((_, name)) = line.split_once(ACKNOWLEDGED) else { continue };
            acknowledged.push(name.into());
            seen += 1;
            if seen == enough {
                // The lines that it writes before it dies are also read.
                victim.kill().unwrap();
            }
        }
        victim.wait().unwrap();
        assert!(seen >= enough);

        let store = database.open().await;
        let stored = store.count(&Prefix::all()).await.unwrap().total();
        assert_eq!(stored.exchanges, stored.conversations * EXCHANGES, "each copy is whole or absent");
        let log = store.conversation(&id).exchanges().await.unwrap();
        for name in &acknowledged {
            assert_eq!(store.conversation(&conversation(name)).exchanges().await.unwrap(), log);
        }
        store.close().await.unwrap();
    }
}
