//! Sealing stored items again after a rotation.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tower_chat_history::MemoryStore;
use tower_chat_history_core::{
    Append, Citation, Compact, CompactionVersion, ConversationId, Cut, Exchange, Expect, HistoryStore,
    HistoryStoreExt as _, Labels, LabelsVersion, List, Load, Loaded, Prefix, Profile, Provenance, Recalled, Recorded,
    Reseal, Seq, StoreError, Summary,
};
use tower_chat_history_encryption::{
    EncryptedStore, KeyError, KeyRing, Keys, MasterKeys, MemoryVault, Secret, Wrapped,
};

use crate::support::{TestDatabase, append, id, in_memory, read_at, ring, turn};

fn prefix() -> Prefix {
    "acme/anna".parse().unwrap()
}

/// Returns an exchange with all parts that are sealed.
fn with_parts(text: &str) -> Exchange {
    let mut exchange = turn(text);
    exchange.recalled = Some(Recalled::new(text, vec![Citation::new(Seq::FIRST, 0..1)]));
    exchange.provenance = Some(Box::new(Provenance::default()));
    exchange
}

/// Fills a conversation with 4 exchanges, a summary and a label.
async fn fill<S: List>(store: &S, id: &ConversationId) {
    for text in ["a", "b", "c"] {
        append(store, id, with_parts(text)).await;
    }
    let incarnation = append(store, id, turn("d")).await.revision.incarnation();
    let mut cut = Cut::window_from(Seq::new(1));
    cut.summary = Some(Summary::new("summary", Seq::new(1)));
    let compact = Compact::new(Profile::default(), CompactionVersion::NONE, cut.clone()).replacing(Some(cut));
    store.compact(id, incarnation, compact).await.unwrap();
    let labels = Labels::new([("title", "title")]).unwrap();
    store.set_labels(id, incarnation, LabelsVersion::NONE, labels).await.unwrap();
}

/// Everything that can be read of a conversation, apart from the versions that a change counts.
async fn content<S: List>(store: &S, id: &ConversationId) -> (Vec<Recorded>, Cut, Labels) {
    let log = store.conversation(id).exchanges().await.unwrap();
    let Loaded::Window(window) = store.load(id, Load::new()).await.unwrap() else { panic!("no window") };
    let labels = store.describe(id).await.unwrap().unwrap().labels;
    (log, window.compaction.unwrap().cut, labels)
}

async fn all_is_sealed_again<S: Reseal + List + Clone>(store: EncryptedStore<S>) {
    let ids = ["acme/anna/1", "acme/anna/2", "acme/ben/1"].map(id);
    for id in &ids {
        fill(&store, id).await;
    }
    let mut before = Vec::new();
    for id in &ids {
        before.push((content(&store, id).await, store.describe(id).await.unwrap().unwrap().revision));
    }
    let profiles = [Profile::default()];
    let run = store.reseal(&prefix(), &profiles, None, 10).await.unwrap();
    assert_eq!((run.examined, run.items), (2, 0), "all items have the current key");
    assert!(store.keys().rotate(&prefix()).await.unwrap());
    let first = store.reseal(&Prefix::all(), &profiles, None, 1).await.unwrap();
    assert_eq!((first.examined, first.items, first.failed), (1, 6, 0));
    let rest = store.reseal(&Prefix::all(), &profiles, first.next.as_ref(), 10).await.unwrap();
    assert_eq!((rest.examined, rest.items, rest.failed, rest.next), (2, 6, 0, None));
    for (id, (content_before, revision)) in ids.iter().zip(before) {
        assert_eq!(content(&store, id).await, content_before);
        assert_eq!(store.describe(id).await.unwrap().unwrap().revision, revision, "no revision changes");
    }
    let again = store.reseal(&Prefix::all(), &profiles, None, 10).await.unwrap();
    assert_eq!((again.examined, again.items), (3, 0));
}

#[tokio::test]
async fn a_pass_seals_everything_again_and_changes_no_revision() {
    all_is_sealed_again(in_memory()).await;
    all_is_sealed_again(TestDatabase::new().open().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passes_and_appends_at_the_same_time_lose_nothing() {
    let database = TestDatabase::new();
    let stores = [Arc::new(database.open().await), Arc::new(database.open().await)];
    let id = id("acme/anna/1");
    fill(&*stores[0], &id).await;
    let mut tasks = Vec::new();
    for round in 0..5 {
        stores[0].keys().rotate(&prefix()).await.unwrap();
        for store in &stores {
            let (passing, appending, id) = (Arc::clone(store), Arc::clone(store), id.clone());
            tasks.push(tokio::spawn(async move {
                let run = passing.reseal(&prefix(), &[Profile::default()], None, 10).await.unwrap();
                assert_eq!(run.failed, 0, "{:?}", run.first_failure);
            }));
            tasks.push(tokio::spawn(async move {
                for n in 0..5 {
                    append(&*appending, &id, with_parts(&format!("{round}, {n}"))).await;
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    let log = stores[0].conversation(&id).exchanges().await.unwrap();
    assert_eq!(log.len(), 4 + 5 * 2 * 5);
}

#[tokio::test]
async fn a_process_with_an_old_key_in_memory_does_not_bring_it_back() {
    let database = TestDatabase::new();
    let (one, two) = (database.open().await, database.open().await);
    let id = id("acme/anna/1");
    fill(&one, &id).await;
    // The second process has the first key in memory.
    content(&two, &id).await;
    assert!(one.keys().rotate(&prefix()).await.unwrap());
    let profiles = [Profile::default()];
    assert_eq!(one.reseal(&prefix(), &profiles, None, 10).await.unwrap().items, 6);
    let stored = one.inner().conversation(&id).revision().await.unwrap();
    let sealed = one.inner().read(&id, Seq::FIRST, 10).await.unwrap();
    assert_eq!(two.reseal(&prefix(), &profiles, None, 10).await.unwrap().items, 0);
    assert_eq!(one.inner().read(&id, Seq::FIRST, 10).await.unwrap(), sealed);
    assert_eq!(one.inner().conversation(&id).revision().await.unwrap(), stored);
}

/// Master keys that replace the compaction of a conversation each time that a key is unwrapped.
#[derive(Debug)]
struct Meddling(KeyRing, MemoryStore, ConversationId);

#[async_trait]
impl MasterKeys for Meddling {
    async fn wrap(&self, key: &Secret, context: &[u8]) -> Result<Wrapped, KeyError> {
        self.0.wrap(key, context).await
    }

    async fn unwrap(&self, wrapped: &Wrapped, context: &[u8]) -> Result<Secret, KeyError> {
        let Self(ring, store, id) = self;
        if let Loaded::Window(window) = store.load(id, Load::new()).await.unwrap()
            && let Some(compaction) = window.compaction
        {
            let compact = Compact::new(Profile::default(), compaction.version, compaction.cut);
            store.compact(id, window.revision.incarnation(), compact).await.unwrap();
        }
        ring.unwrap(wrapped, context).await
    }
}

#[tokio::test]
async fn a_compaction_that_others_replaced_in_the_meantime_does_not_count() {
    let (inner, id) = (MemoryStore::new(), id("acme/anna/1"));
    let keys = Keys::new(Meddling(ring("m", 1), inner.clone(), id.clone()), MemoryVault::new(), 2);
    let store = EncryptedStore::new(inner, keys.with_lifetime(Duration::ZERO));
    append(&store, &id, turn("a")).await;
    let incarnation = append(&store, &id, turn("b")).await.revision.incarnation();
    let mut cut = Cut::window_from(Seq::new(1));
    cut.summary = Some(Summary::new("summary", Seq::new(1)));
    store.compact(&id, incarnation, Compact::new(Profile::default(), CompactionVersion::NONE, cut)).await.unwrap();
    store.keys().rotate(&prefix()).await.unwrap();
    let run = store.reseal(&prefix(), &[Profile::default()], None, 10).await.unwrap();
    assert_eq!((run.items, run.failed), (2, 0), "the two exchanges");
}

#[tokio::test]
async fn a_pass_makes_no_key() {
    let store = in_memory();
    append(store.inner(), &id("acme/anna/1"), turn("a").sealed_as("x".repeat(100)).unwrap()).await;
    let run = store.reseal(&prefix(), &[], None, 10).await.unwrap();
    assert_eq!((run.examined, run.items, run.failed), (1, 0, 1));
    assert!(!store.keys().destroy(&prefix()).await.unwrap(), "there is no key");
}

#[tokio::test]
async fn a_sealed_exchange_is_not_sealed_again() {
    let (store, id) = (in_memory(), id("acme/anna/1"));
    let sealed = turn("a").sealed_as("x".repeat(100)).unwrap();
    let refused = store.append(&id, Append::new(Expect::AnyOrCreate, sealed)).await;
    assert!(matches!(refused, Err(StoreError::Sealed { .. })), "{refused:?}");
    assert!(store.describe(&id).await.unwrap().is_none());
}

#[tokio::test]
async fn an_item_that_does_not_open_fails_its_conversation_and_no_other() {
    let (store, ids) = (in_memory(), ["acme/anna/1", "acme/anna/2"].map(id));
    append(store.inner(), &ids[0], turn("planted")).await;
    append(&store, &ids[1], turn("a")).await;
    store.keys().rotate(&prefix()).await.unwrap();
    let run = store.reseal(&prefix(), &[], None, 10).await.unwrap();
    assert_eq!((run.examined, run.items, run.failed), (2, 1, 1));
    assert_eq!(run.first_failure.unwrap().id, ids[0]);
}

/// The contract of `Reseal`.
async fn only_the_expected_form_is_replaced<S: Reseal>(store: &S) {
    let id = id("acme/anna/1");
    let sealed = |exchange: &Exchange, text: &str| exchange.sealed_as(text.repeat(100)).unwrap();
    let (first, second) = (turn("a"), turn("b"));
    let incarnation = append(store, &id, sealed(&first, "1")).await.revision.incarnation();
    let revision = append(store, &id, sealed(&second, "1")).await.revision;
    let reseal = async |seq: u64, from: &str, to: Exchange| {
        store.reseal(&id, incarnation, Seq::new(seq), &sealed(&first, from), to).await.unwrap()
    };
    assert!(!reseal(0, "2", sealed(&first, "3")).await, "it has other content");
    assert!(!reseal(1, "1", sealed(&first, "3")).await, "it is another exchange");
    assert!(!reseal(2, "1", sealed(&first, "3")).await, "there is no such exchange");
    assert!(!reseal(0, "1", first.clone()).await, "the new form is not sealed");
    assert!(reseal(0, "1", sealed(&first, "2")).await);
    assert!(!reseal(0, "1", sealed(&first, "3")).await, "it was replaced already");
    assert_eq!(read_at(store, &id, Seq::FIRST).await.unwrap(), sealed(&first, "2"));
    assert_eq!(store.read(&id, Seq::FIRST, 0).await.unwrap().revision, Some(revision));
    store.delete(&id).await.unwrap();
    append(store, &id, sealed(&first, "2")).await;
    let gone = store.reseal(&id, incarnation, Seq::FIRST, &sealed(&first, "2"), sealed(&first, "3")).await;
    assert!(matches!(gone, Err(StoreError::Gone)), "{gone:?}");
    // An append is not refused.
    let known = store.append(&id, Append::new(Expect::AnyOrCreate, sealed(&second, "1"))).await.unwrap();
    assert_eq!(known.seq, Seq::new(1));
}

#[tokio::test]
async fn stores_replace_the_expected_form_of_the_same_exchange_only() {
    only_the_expected_form_is_replaced(in_memory().inner()).await;
    only_the_expected_form_is_replaced(TestDatabase::new().open().await.inner()).await;
}
