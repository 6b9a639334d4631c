//! Stores, and helpers to move logs between them.

mod store;

use std::sync::Arc;

use tower_chat_history::transfer::{Export, ExportOptions, ImportError, ImportOptions, ImportReport, Importer};
use tower_chat_history_core::{
    Append, Compaction, CompactionVersion, ConversationId, Cuts, Exchange, ExchangeId, Expect, HistoryStore, Message,
    Prefix, Profile, Seq, StoreError, Timestamp,
};

pub(crate) use self::store::{Log, Logs, TestStore};

pub(crate) fn id(text: &str) -> ConversationId {
    text.parse().unwrap()
}

pub(crate) fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

/// Returns an exchange that was created at this time, in milliseconds.
pub(crate) fn exchange(name: &str, at: u64) -> Exchange {
    let messages = [Message::user(format!("question {name}")), Message::assistant(format!("answer {name}"))];
    let mut exchange = Exchange::new(ExchangeId::new(name).unwrap(), messages);
    exchange.at = Timestamp::from_unix_millis(at);
    exchange
}

/// Stores a conversation with this number of exchanges, which begins at a position.
pub(crate) async fn fill(store: &TestStore, conversation: &str, first: u64, exchanges: u64) {
    for number in first..first + exchanges {
        let exchange = exchange(&format!("{conversation}-{number}"), 1_000 + number);
        let append = Append::new(Expect::AnyOrCreate, exchange).beginning_at(Seq::new(first));
        store.append(&id(conversation), append).await.unwrap();
    }
}

/// Returns the first compaction of the default profile, with these cuts.
pub(crate) fn compaction(cuts: &Cuts) -> Compaction {
    cuts.compact(Profile::default(), CompactionVersion::NONE).unwrap().stored_as(CompactionVersion::new(1))
}

pub(crate) async fn try_export(
    store: &TestStore,
    under: &str,
    options: ExportOptions,
) -> Result<(Vec<String>, tower_chat_history::transfer::ExportReport), StoreError> {
    let mut export = Export::new(Arc::new(store.clone()), prefix(under), options);
    let mut lines = Vec::new();
    while let Some(line) = export.next_line().await? {
        assert!(!line.contains(['\n', '\r']), "a line has no line break");
        lines.push(line);
    }
    Ok((lines, export.report().clone()))
}

pub(crate) async fn exported(store: &TestStore, under: &str) -> Vec<String> {
    let options = ExportOptions::new().compactions([Default::default()]).recall_data(true);
    try_export(store, under, options).await.unwrap().0
}

pub(crate) async fn try_import(
    store: &TestStore,
    lines: &[String],
    options: ImportOptions,
) -> Result<ImportReport, ImportError> {
    let mut importer = Importer::new(Arc::new(store.clone()), options);
    for line in lines {
        importer.feed(line.as_bytes()).await?;
        importer.feed(b"\n").await?;
    }
    importer.finish().await
}

pub(crate) async fn imported(store: &TestStore, lines: &[String]) -> ImportReport {
    try_import(store, lines, ImportOptions::new()).await.unwrap()
}

/// Returns the logs as texts, without what each store makes itself.
pub(crate) fn texts(store: &TestStore) -> Vec<String> {
    let text = |(id, log): (&String, &Log)| {
        let exchanges = log.exchanges.iter().map(|recorded| {
            let exchange = &recorded.exchange;
            let recalled = exchange.recalled.as_ref().map(|recalled| recalled.encode().unwrap());
            let provenance = exchange.provenance.as_ref().map(|provenance| provenance.encode().unwrap());
            format!("{} {} {recalled:?} {provenance:?}", recorded.seq, exchange.encode().unwrap())
        });
        let mut compactions: Vec<_> =
            log.compactions.iter().map(|(p, c)| format!("{p} {:?}", Cuts::read(c).unwrap().encode())).collect();
        compactions.sort();
        let exchanges: Vec<_> = exchanges.collect();
        format!(
            "{id} {:?} {} {exchanges:?} {compactions:?} {}",
            log.first,
            log.updated_at.as_unix_millis(),
            log.labels.encode()
        )
    };
    store.logs().iter().map(text).collect()
}

/// Asserts that the named conversation was skipped once, for a reason that contains this text.
#[track_caller]
pub(crate) fn assert_skipped(report: &ImportReport, reason: &str) {
    let [skipped] = &*report.named else { panic!("expected one skipped part, got {:?}", report.named) };
    assert!(skipped.to_string().contains(reason), "{skipped}");
}
