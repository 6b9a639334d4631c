//! New data keys for stored conversations, by an export and an import.

use std::sync::Arc;

use tower_chat_history::{
    encryption::EncryptedStore,
    transfer::{Export, ExportOptions, ImportOptions, Importer},
};
use tower_chat_history_core::{
    Citation, Compaction, CompactionVersion, ConversationId, Cut, Cuts, Erase, EraseExt as _, Exchange,
    HistoryStoreExt as _, Labels, LabelsVersion, List, Load, Loaded, Prefix, Profile, Provenance, Recalled, Recorded,
    Seq, Summary,
};

use crate::support::{TestDatabase, append, id, in_memory, read_at, turn};

/// Returns an exchange with all parts that are sealed.
fn with_parts(text: &str) -> Exchange {
    let mut exchange = turn(text);
    exchange.recalled = Some(Recalled::new(text, vec![Citation::new(Seq::FIRST, 0..1)]));
    exchange.provenance = Some(Provenance::default());
    exchange
}

/// Fills a conversation with 4 exchanges, a summary and a label.
async fn fill<S: List>(store: &S, id: &ConversationId) {
    for text in ["a", "b", "c"] {
        append(store, id, with_parts(text)).await;
    }
    let incarnation = append(store, id, turn("d")).await.revision.incarnation();
    let mut cut = Cut::window_from(Seq::new(1));
    cut.set_summary(Summary::new("summary"), Seq::new(1));
    let cuts = Cuts::new(cut.clone()).replacing(Some(cut));
    let compact = cuts.compact(Profile::default(), CompactionVersion::NONE).unwrap();
    store.compact(id, incarnation, compact).await.unwrap();
    let labels = Labels::new([("title", "title")]).unwrap();
    store.set_labels(id, incarnation, LabelsVersion::NONE, labels).await.unwrap();
}

async fn content<S: List>(store: &S, id: &ConversationId) -> (Vec<Recorded>, Compaction, Labels) {
    let log = store.conversation(id).exchanges().await.unwrap();
    let Loaded::Window(window) = store.load(id, Load::new()).await.unwrap() else { panic!("no window") };
    let labels = store.describe(id).await.unwrap().unwrap().labels;
    (log, window.compaction.unwrap(), labels)
}

async fn key_of<S: Erase>(store: &EncryptedStore<S>, id: &ConversationId) -> String {
    read_at(store.inner(), id, Seq::FIRST).await.unwrap().sealed.unwrap().text()[..12].to_owned()
}

async fn an_import_seals_with_a_new_key<S: Erase + Clone>(store: EncryptedStore<S>) {
    let (id, prefix) = (id("acme/anna/1"), "acme/anna".parse::<Prefix>().unwrap());
    fill(&store, &id).await;
    let before = content(&store, &id).await;
    let old_key = key_of(&store, &id).await;

    let options = ExportOptions::new().compactions([Profile::default()]).recall_data(true);
    let mut export = Export::new(Arc::new(store.clone()), prefix.clone(), options);
    let mut file = String::new();
    while let Some(line) = export.next_line().await.unwrap() {
        file += &line;
        file += "\n";
    }
    assert_eq!((export.report().exchanges, export.report().not_whole), (4, 0));

    assert!(store.erase_all(&prefix).await.unwrap().is_complete());
    assert!(store.keys().destroy(&prefix).await.unwrap());

    let mut importer = Importer::new(Arc::new(store.clone()), ImportOptions::new());
    importer.feed(file.as_bytes()).await.unwrap();
    let imported = importer.finish().await.unwrap();
    assert_eq!((imported.is_whole, imported.stored, imported.skipped), (true, 4, 0));

    assert_eq!(content(&store, &id).await, before);
    assert_ne!(key_of(&store, &id).await, old_key);
}

#[tokio::test]
async fn conversations_get_a_new_key_by_export_and_import() {
    an_import_seals_with_a_new_key(in_memory()).await;
    an_import_seals_with_a_new_key(TestDatabase::new().open().await).await;
}
