//! Conversations of several people, with everything that a store keeps of them.

use std::collections::BTreeMap;

use tests::Storage;
use tower_chat_history::{
    ConversationId, HistoryStore as _, Message,
    store::{
        Append, CompactionVersion, Cut, Cuts, Exchange, ExchangeId, Expect, Labels, LabelsVersion, List as _, Listed,
        Prefix, Profile, Recorded, Seq, Summary, Timestamp,
    },
};

/// Everything that was read of a conversation.
#[derive(Debug, PartialEq)]
pub(super) struct Kept {
    listed: Listed,
    log: Vec<Recorded>,
}

pub(super) fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

/// Stores a conversation with two exchanges, a summary and labels. Each of them contains `said`.
pub(super) async fn store(storage: &Storage, id: &ConversationId, said: &str, at: Timestamp) {
    let mut appended = None;
    for turn in ["one", "two"] {
        let messages = [Message::user(format!("{said} {turn}")), Message::assistant(format!("reply to {said}"))];
        let mut exchange = Exchange::new(ExchangeId::new(turn).unwrap(), messages);
        exchange.at = at;
        let mut append = Append::new(Expect::AnyOrCreate, exchange);
        if turn == "two" {
            let mut cut = Cut::window_from(Seq::new(1));
            cut.set_summary(Summary::new(format!("summary of {said}")), Seq::new(1));
            append = append.compact(Cuts::new(cut).compact(Profile::default(), CompactionVersion::NONE).unwrap());
        }
        appended = Some(storage.store.append(id, append).await.unwrap());
    }
    let incarnation = appended.unwrap().revision.incarnation();
    let labels = Labels::new([("title", format!("about {said}"))]).unwrap();
    storage.store.set_labels(id, incarnation, LabelsVersion::NONE, labels).await.unwrap();
}

/// Reads everything under the prefix.
pub(super) async fn read_all(storage: &Storage, under: &Prefix) -> BTreeMap<String, Kept> {
    let mut kept = BTreeMap::new();
    let mut after = None;
    loop {
        let page = storage.store.list(under, after.as_ref(), 50).await.unwrap();
        for listed in page.conversations {
            let log = storage.store.read(&listed.id, Seq::FIRST, usize::MAX).await.unwrap().exchanges;
            kept.insert(listed.id.to_string(), Kept { listed, log });
        }
        after = page.next;
        if after.is_none() {
            return kept;
        }
    }
}
