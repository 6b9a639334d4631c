//! Erasing conversations in steps, with other calls between them and with processes that are killed.

use std::{
    env,
    io::{self, BufRead, BufReader},
    process::Stdio,
};

use tower_chat_history_conformance::shorthand::log_texts;
use tower_chat_history_core::{
    Append, ByStore, ConversationId, Epoch, Erase, Expect, HistoryStore, Labels, LabelsOutcome, LabelsVersion, List,
    Load, Loaded, Prefix, Removed, Seq, StoreError, Truncate,
};
use tower_chat_history_sqlite::{SqliteOptions, SqliteStore, Synchronous};

use crate::support::{TestDatabase, append, assert_backend, child_test, compact, conversation, enqueue, exchange, say};

fn id(text: &str) -> ConversationId {
    text.parse().unwrap()
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

/// Returns the epoch that a load of a conversation returns that does not exist.
async fn epoch(store: &SqliteStore, id: &ConversationId) -> Epoch {
    match store.load(id, Load::new()).await.unwrap() {
        Loaded::Absent(epoch) => epoch,
        loaded => panic!("{loaded:?}"),
    }
}

/// Returns the number of rows in all tables, without those of erasures.
fn rows(database: &TestDatabase) -> i64 {
    let sql = "SELECT (SELECT count(*) FROM conversation) + (SELECT count(*) FROM exchange) \
               + (SELECT count(*) FROM compaction)";
    database.connect().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Creates a conversation with 3 exchanges, 2 compactions of which one has a summary, and labels.
async fn create(store: &SqliteStore, id: &ConversationId) {
    let mut last = None;
    for text in ["one", "two", "three"] {
        last = Some(say(store, id, text).await.revision.incarnation());
    }
    let incarnation = last.unwrap();
    for compact in [compact("default", 1, Some("a summary")), compact("other", 2, None)] {
        store.compact(id, incarnation, compact).await.unwrap();
    }
    let labels = Labels::new([("title", "Nemo")]).unwrap();
    store.set_labels(id, incarnation, LabelsVersion::NONE, labels).await.unwrap();
}

/// Returns what is stored of this number of conversations that [`create`] created.
fn created(conversations: u64) -> Removed {
    let mut removed = Removed::default();
    removed.conversations = conversations;
    (removed.exchanges, removed.exchange_ids) = (3 * conversations, 3 * conversations);
    removed.bytes =
        conversations * ["one", "two", "three"].map(|text| exchange(text).bytes() as u64).iter().sum::<u64>();
    (removed.compactions, removed.summaries) = (2 * conversations, conversations);
    removed.labels = conversations;
    removed
}

/// Erases page by page, and returns what each page removed.
async fn erase_all(store: &SqliteStore, under: &Prefix, limit: usize) -> Vec<Removed> {
    store.bar(under).await.unwrap();
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = store.erase(under, after.as_ref(), limit).await.unwrap();
        pages.push(page.removed.total());
        after = page.next;
        if after.is_none() {
            return pages;
        }
    }
}

fn sum(pages: Vec<Removed>) -> Removed {
    let mut sum = Removed::default();
    pages.into_iter().for_each(|page| sum += page);
    sum
}

#[tokio::test]
async fn every_row_is_counted_and_removed_by_each_way_to_erase() {
    let database = TestDatabase::new();
    let store = database.open().await;
    for text in ["acme", "acme-2", "acme/a", "acme/b", "acme/b/c", "acme/d"] {
        create(&store, &id(text)).await;
    }
    assert_eq!(store.count(&prefix("acme")).await.unwrap(), ByStore::of("sqlite", created(5)));
    assert_eq!(store.count(&Prefix::all()).await.unwrap().total(), created(6));
    let revision = store.describe(&id("acme/d")).await.unwrap().unwrap().revision;
    assert_eq!(store.erase_if(&id("acme/d"), revision).await.unwrap(), Some(created(1)));
    store.delete(&id("acme/a")).await.unwrap();
    assert_eq!(sum(erase_all(&store, &prefix("acme/b"), 1).await), created(2));
    assert_eq!(store.count(&prefix("acme")).await.unwrap().total(), created(1));
    assert_eq!(sum(erase_all(&store, &prefix("acme"), 100).await), created(1));
    assert_eq!(store.count(&Prefix::all()).await.unwrap().total(), created(1), "acme-2 is left");
    assert_eq!(sum(erase_all(&store, &Prefix::all(), 100).await), created(1));
    assert_eq!((rows(&database), store.count(&Prefix::all()).await.unwrap().total()), (0, created(0)));
}

#[tokio::test]
async fn a_step_ends_early_if_the_conversations_are_long() {
    let database = TestDatabase::new();
    let store = SqliteOptions::new().synchronous(Synchronous::Normal).open(&database.path).await.unwrap();
    for name in 0..30 {
        let id = id(&format!("acme/{name:02}"));
        let calls: Vec<_> = (0..100).map(|_| enqueue(store.append(&id, append("x")))).collect();
        for call in calls {
            call.await.unwrap();
        }
    }
    for name in 0..5 {
        say(&store, &id(&format!("large/{name}")), &"x".repeat(2 << 20)).await;
    }
    let counted = store.count(&Prefix::all()).await.unwrap().total();
    assert_eq!((counted.conversations, counted.exchanges), (35, 3_005), "a count has several steps");
    let pages: Vec<_> = erase_all(&store, &prefix("acme"), 1_000).await;
    let conversations: Vec<_> = pages.iter().map(|removed| removed.conversations).collect();
    assert_eq!(conversations, [10, 10, 10], "at most 1,000 rows, and the rest of the conversation");
    let pages: Vec<_> = erase_all(&store, &prefix("large"), 1_000).await;
    let conversations: Vec<_> = pages.iter().map(|removed| removed.conversations).collect();
    assert_eq!(conversations, [2, 2, 1], "at most 4 MiB, and the rest of the conversation");
}

#[tokio::test]
async fn appends_of_others_are_stored_between_the_steps() {
    let database = TestDatabase::new();
    let store = database.open().await;
    for name in 0..20 {
        create(&store, &id(&format!("acme/{name}"))).await;
    }
    let (under, other) = (prefix("acme"), conversation("other"));
    let (mut after, mut pages) = (None, 0);
    loop {
        // All of them are queued before the step runs, and none waits for more than one step.
        let step = enqueue(store.erase(&under, after.as_ref(), 3));
        let append = enqueue(store.append(&other, append("x")));
        let page = step.await.unwrap();
        append.await.unwrap();
        (after, pages) = (page.next, pages + 1);
        if after.is_none() {
            break;
        }
    }
    assert_eq!((pages, log_texts(&store, &other).await.len()), (7, 7));
}

#[tokio::test]
async fn an_epoch_is_read_with_the_absence_and_refuses_a_late_first_turn_of_another_store() {
    let database = TestDatabase::new();
    let (one, other) = (database.open().await, database.open().await);
    let id = id("acme/user/chat");
    for erased in ["", "acme", "acme/user", "acme/user/chat"] {
        let epoch = epoch(&one, &id).await;
        let first = |epoch| Append::new(Expect::AnyOrCreate, exchange("x")).since(Some(epoch));
        other.bar(&prefix("acme/use")).await.unwrap();
        other.append(&id, first(epoch)).await.unwrap();
        other.delete(&id).await.unwrap();
        let newer = Epoch::new(epoch.get() + 2);
        other.bar(&prefix(erased)).await.unwrap();
        for late in [epoch, newer] {
            assert!(matches!(one.append(&id, first(late)).await, Err(StoreError::Gone)), "{erased} {late:?}");
        }
    }
}

#[tokio::test]
async fn a_truncation_to_nothing_refuses_late_first_turns() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let id = conversation("a");
    let epoch = Epoch::FIRST;
    let revision = say(&store, &id, "x").await.revision;
    store.truncate(&id, revision, Seq::FIRST, None).await.unwrap();
    let late = Append::new(Expect::AnyOrCreate, exchange("x")).since(Some(epoch));
    assert!(matches!(store.append(&id, late).await, Err(StoreError::Gone)));
}

#[tokio::test]
async fn a_trigger_that_keeps_rows_fails_an_erasure() {
    for table in ["conversation", "exchange", "compaction"] {
        let database = TestDatabase::new();
        let store = database.open().await;
        let id = id("acme/a");
        create(&store, &id).await;
        let before = rows(&database);
        let sql = format!("CREATE TRIGGER keep BEFORE DELETE ON {table} BEGIN SELECT RAISE(IGNORE); END");
        database.connect().execute_batch(&sql).unwrap();
        let revision = store.describe(&id).await.unwrap().unwrap().revision;
        assert_backend(store.erase(&prefix("acme"), None, 9).await, "row");
        assert_backend(store.erase_if(&id, revision).await, "row");
        assert_backend(store.delete(&id).await, "row");
        assert_eq!(rows(&database), before, "{table}");
        database.connect().execute_batch("DROP TRIGGER keep").unwrap();
        let epoch = Epoch::FIRST;
        let first = Append::new(Expect::AnyOrCreate, exchange("x")).since(Some(epoch));
        store.append(&id, first).await.unwrap();
        assert_eq!(sum(erase_all(&store, &prefix("acme"), 9).await).conversations, 1);
    }
    let database = TestDatabase::new();
    let store = database.open().await;
    let sql = "CREATE TRIGGER keep BEFORE INSERT ON erasure BEGIN SELECT RAISE(IGNORE); END";
    database.connect().execute_batch(sql).unwrap();
    assert_backend(store.bar(&prefix("acme")).await, "row");
    assert_backend(store.delete(&id("acme/a")).await, "row");
}

#[tokio::test]
async fn a_trigger_that_keeps_labels_is_not_hidden() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let id = conversation("a");
    let incarnation = say(&store, &id, "x").await.revision.incarnation();
    let sql = "CREATE TRIGGER keep BEFORE UPDATE OF labels ON conversation BEGIN SELECT RAISE(IGNORE); END";
    database.connect().execute_batch(sql).unwrap();
    let labels = Labels::new([("title", "x")]).unwrap();
    let refused = store.set_labels(&id, incarnation, LabelsVersion::NONE, labels.clone()).await;
    assert_backend(refused, "row");
    database.connect().execute_batch("DROP TRIGGER keep").unwrap();
    let stored = store.set_labels(&id, incarnation, LabelsVersion::NONE, labels).await.unwrap();
    assert_eq!(stored, LabelsOutcome::Stored(LabelsVersion::new(1)));
}

/// The environment variable with the path of the file, for the process that the test starts and kills.
const VICTIM: &str = "CHAT_HISTORY_ERASER";
const ERASED: &str = "erased ";

/// The most conversations that one process erases. It may be killed late, and ten of them must leave some of the 400.
const MOST: u32 = 39;

#[tokio::test]
async fn an_erasure_continues_after_its_process_was_killed() {
    let under = prefix("acme/user");
    if let Ok(path) = env::var(VICTIM) {
        let store = SqliteOptions::new().synchronous(Synchronous::Normal).open(path).await.unwrap();
        store.bar(&under).await.unwrap();
        for _ in 0..MOST {
            // From the beginning each time, as a repeated erasure does.
            let page = store.erase(&under, None, 1).await.unwrap();
            println!("{ERASED}{}", page.removed.total().conversations);
        }
        // Nothing is written to the input. The process waits here until it is killed.
        io::copy(&mut io::stdin(), &mut io::sink()).unwrap();
        return;
    }
    let database = TestDatabase::new();
    let store = SqliteOptions::new().synchronous(Synchronous::Normal).open(&database.path).await.unwrap();
    let mut left = 400;
    for name in 0..left {
        create(&store, &id(&format!("acme/user/{name}"))).await;
    }
    let others = ["acme", "acme/user-2", "acme/user.a/1", "acme/users", "b"];
    for other in others {
        create(&store, &id(other)).await;
    }
    let of_others = rows(&database) - rows(&database) / (left as i64 + 5) * left as i64;
    let epoch = epoch(&store, &id("acme/user/new")).await;
    store.close().await.unwrap();
    for enough in [1, 2, 5, 1, 9, 3, 1, 4, 7, 2] {
        let test = "erasing::an_erasure_continues_after_its_process_was_killed";
        let mut victim = child_test(env::current_exe().unwrap(), test);
        let mut victim = victim.env(VICTIM, &database.path).stdin(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut acknowledged = 0;
        for line in lines.filter(|line| line.contains(ERASED)) {
            assert!(line.ends_with('1'), "{line}");
            acknowledged += 1;
            if acknowledged == enough {
                // The lines that it writes before it dies are also read.
                victim.kill().unwrap();
            }
        }
        victim.wait().unwrap();
        let store = database.open().await;
        let counted = store.count(&under).await.unwrap().total();
        assert!(counted.conversations + acknowledged <= left, "what was acknowledged is gone");
        assert_eq!(counted, created(counted.conversations), "each conversation is whole or gone");
        left = counted.conversations;
        store.close().await.unwrap();
    }
    let store = database.open().await;
    assert!(left > 0);
    assert_eq!(sum(erase_all(&store, &under, 7).await), created(left));
    assert_eq!(store.count(&under).await.unwrap().total(), created(0));
    assert_eq!((rows(&database), store.count(&Prefix::all()).await.unwrap().total()), (of_others, created(5)));
    for other in others {
        assert_eq!(log_texts(&store, &id(other)).await, ["one", "two", "three"]);
    }
    let late = Append::new(Expect::AnyOrCreate, exchange("x")).since(Some(epoch));
    assert!(matches!(store.append(&id("acme/user/new"), late).await, Err(StoreError::Gone)));
}
