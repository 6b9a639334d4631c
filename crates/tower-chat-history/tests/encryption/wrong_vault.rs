//! Another vault than the one with the keys.

use tower_chat_history::{
    MemoryStore,
    encryption::{EncryptedStore, MemoryVault},
};
use tower_chat_history_core::{
    Append, CompactionVersion, Cut, Cuts, Expect, HistoryStore as _, Labels, LabelsOutcome, List as _, Profile,
    Revision, Seq, StoreError, Summary, Truncate as _,
};

use crate::support::{append, id, in_memory, keys, label, read_at, turn};

/// Returns the same database with a vault that has no keys.
fn with_a_wrong_vault(store: &EncryptedStore<MemoryStore>) -> EncryptedStore<MemoryStore> {
    EncryptedStore::new(store.inner().clone(), keys(&MemoryVault::new()))
}

/// Returns the result of each write that seals something.
async fn sealing_writes(store: &EncryptedStore<MemoryStore>, revision: Revision) -> [Result<(), StoreError>; 3] {
    let (id, incarnation) = (id("acme/anna/1"), revision.incarnation());
    let mut cut = Cut::window_from(Seq::new(1));
    cut.set_summary(Summary::new("summary"), Seq::new(1));
    let compact = Cuts::new(cut).compact(Profile::default(), CompactionVersion::NONE).unwrap();
    let labels = Labels::new([("title", "another")]).unwrap();
    let version = store.inner().describe(&id).await.unwrap().unwrap().labels_version;
    [
        store.append(&id, Append::new(Expect::AnyOrCreate, turn("b"))).await.map(drop),
        store.compact(&id, incarnation, compact).await.map(drop),
        store.set_labels(&id, incarnation, version, labels).await.map(drop),
    ]
}

#[tokio::test]
async fn a_wrong_vault_hides_labels_until_it_has_a_key_of_the_prefix() {
    let (store, first) = (in_memory(), id("acme/anna/1"));
    label(&store, &first, "title").await;
    let wrong = with_a_wrong_vault(&store);
    assert!(wrong.describe(&first).await.unwrap().unwrap().labels.is_empty());
    let error = read_at(&wrong, &first, Seq::FIRST).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert!(error.to_string().contains("no data key"), "{error}");
    append(&wrong, &id("acme/anna/2"), turn("b")).await;
    assert!(wrong.describe(&first).await.is_err());
    assert_eq!(store.describe(&first).await.unwrap().unwrap().labels.get("title"), Some("title"));
}

#[tokio::test]
async fn a_wrong_vault_refuses_writes_that_seal_until_it_has_a_key_of_the_prefix() {
    let (store, first) = (in_memory(), id("acme/anna/1"));
    let revision = label(&store, &first, "title").await.revision;
    let wrong = with_a_wrong_vault(&store);
    for refused in sealing_writes(&wrong, revision).await {
        assert!(matches!(refused, Err(StoreError::Gone)), "{refused:?}");
    }
    append(&wrong, &id("acme/anna/2"), turn("b")).await;
    for written in sealing_writes(&wrong, revision).await {
        assert!(written.is_ok(), "{written:?}");
    }
    assert!(store.describe(&first).await.is_err(), "the labels were replaced");
}

#[tokio::test]
async fn neither_vault_opens_a_log_with_keys_of_both_until_it_is_truncated() {
    let (store, first) = (in_memory(), id("acme/anna/1"));
    append(&store, &first, turn("a")).await;
    let wrong = with_a_wrong_vault(&store);
    append(&wrong, &id("acme/anna/2"), turn("b")).await;
    let revision = append(&wrong, &first, turn("c")).await.revision;
    for (seq, opens, fails) in [(0, &store, &wrong), (1, &wrong, &store)] {
        read_at(opens, &first, Seq::new(seq)).await.unwrap();
        let error = read_at(fails, &first, Seq::new(seq)).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { seq: found, .. } if found == Seq::new(seq)), "{error:?}");
    }
    assert!(store.read(&first, Seq::FIRST, 2).await.is_err());
    store.truncate(&first, revision, Seq::new(1), None).await.unwrap();
    append(&store, &first, turn("d")).await;
    assert_eq!(store.read(&first, Seq::FIRST, 3).await.unwrap().exchanges.len(), 2);
}

#[tokio::test]
async fn removals_and_compactions_without_a_summary_need_no_vault() {
    let (store, first) = (in_memory(), id("acme/anna/1"));
    label(&store, &first, "title").await;
    let revision = append(&store, &first, turn("b")).await.revision;
    let (wrong, incarnation) = (with_a_wrong_vault(&store), revision.incarnation());
    let version = store.inner().describe(&first).await.unwrap().unwrap().labels_version;
    let removed = wrong.set_labels(&first, incarnation, version, Labels::default()).await.unwrap();
    assert!(matches!(removed, LabelsOutcome::Stored(_)), "{removed:?}");
    assert!(store.describe(&first).await.unwrap().unwrap().labels.is_empty(), "they are lost");
    let cuts = Cuts::new(Cut::window_from(Seq::new(1)));
    let mut compact = cuts.compact(Profile::default(), CompactionVersion::NONE).unwrap();
    wrong.compact(&first, incarnation, compact.clone()).await.unwrap();
    compact.replaces = CompactionVersion::new(1);
    wrong.truncate(&first, revision, Seq::FIRST, Some(compact)).await.unwrap();
    assert_eq!(store.describe(&first).await.unwrap(), None);
}
