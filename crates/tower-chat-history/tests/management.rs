//! Management calls emit events with conversations and numbers, and without text. The test has its own process, because
//! a subscriber of one thread and calls on other threads would disturb each other.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::{
    fmt::{Debug, Write as _},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::StreamExt as _;
use tower_chat_history::{
    ConversationId, HistoryStoreExt as _, MemoryStore, Message,
    store::{EraseExt as _, Expiry, ExpiryRule, Labels, List, Prefix, Seq, Timestamp, erase_quotes, management},
    transfer::{Export, ExportOptions, ImportOptions, Importer},
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

const SECRET: &str = "hush-hush";

/// Collects the events, one line for each.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "action" => write!(self.0, "{value:?}").unwrap(),
            "bytes" => self.0.push_str(" bytes"),
            name => write!(self.0, " {name}={value:?}").unwrap(),
        }
    }
}

impl Subscriber for Events {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == management::TARGET
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0.replace('"', ""));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn id(text: &str) -> ConversationId {
    text.parse().unwrap()
}

async fn fill(store: &MemoryStore, id: &ConversationId, turns: usize) {
    let turn = [Message::user(SECRET), Message::assistant(SECRET)];
    store.conversation(id).import(std::iter::repeat_n(turn, turns).flatten()).await.unwrap();
}

#[tokio::test]
async fn management_calls_emit_events_without_text() {
    let events = Events::default();
    let _listening = tracing::subscriber::set_default(events.clone());
    let (store, one, copy) = (MemoryStore::new(), id("acme/anna/1"), id("acme/anna/2"));

    fill(&store, &one, 3).await;
    let conversation = store.conversation(&one);
    conversation.set_labels(Labels::new([("title", SECRET)]).unwrap()).await.unwrap();
    assert_eq!(store.describe(&one).await.unwrap().unwrap().labels.get("title"), Some(SECRET));
    conversation.fork(Seq::new(1), &copy).await.unwrap();
    conversation.keep_last_turns(2).await.unwrap();
    erase_quotes(&store, &Prefix::all(), None, 10).await.unwrap();
    conversation.take_last().await.unwrap();
    conversation.truncate(Seq::FIRST).await.unwrap();

    let lines = Export::new(Arc::new(store.clone()), "acme".parse().unwrap(), ExportOptions::new()).into_stream();
    let lines = lines.map(|line| line.map(|line| line + "\n"));
    let imported = Importer::new(Arc::new(MemoryStore::new()), ImportOptions::new()).read(lines).await.unwrap();
    assert_eq!((imported.stored, imported.skipped), (1, 0));

    store.conversation(&copy).clear().await.unwrap();
    fill(&store, &one, 1).await;
    let expiry = Expiry::new().under(Prefix::all(), ExpiryRule::Age(Duration::ZERO));
    expiry.run_once(&store, Timestamp::now(), None, 10).await.unwrap();
    fill(&store, &one, 1).await;
    store.erase_all(&"acme/anna".parse().unwrap()).await.unwrap();

    let events = events.0.lock().unwrap();
    let expected = [
        "import conversation=acme/anna/1 exchanges=3",
        "set_labels conversation=acme/anna/1",
        "fork conversation=acme/anna/1 to=acme/anna/2 exchanges=1",
        "prune conversation=acme/anna/1 exchanges=1 derived=Keep",
        "erase_quotes conversation=acme/anna/1",
        "truncate conversation=acme/anna/1 exchanges=1",
        "truncate conversation=acme/anna/1 exchanges=1",
        "import conversation=acme/anna/2 exchanges=1",
        "export under=acme conversations=1 exchanges=1 bytes",
        "delete conversation=acme/anna/2",
        "import conversation=acme/anna/1 exchanges=1",
        "expire conversation=acme/anna/1 conversations=1 exchanges=1 bytes",
        "import conversation=acme/anna/1 exchanges=1",
        "erase under=acme/anna complete=true conversations=1 exchanges=1 bytes",
    ];
    assert_eq!(*events, expected);
    assert!(!events.iter().any(|event| event.contains(SECRET)));
}
