//! A search in the log of a store reads what is new, and no more than its limits.

use std::sync::Arc;

use tower_chat_history::recall::{Analyzer, Ask, Findings, Gate, LogSearch, SearchAnswer};
use tower_chat_history_conformance::shorthand::conversation;
use tower_chat_history_core::{
    Append, ConversationId, Exchange, ExchangeId, Expect, HistoryStore, HistoryStoreExt, Message, Revision, Seq,
};

use crate::halting::Halting;

/// Returns the number of bytes, as a cost.
pub(crate) fn bytes(message: &Message) -> u64 {
    message.bytes() as u64
}

pub(crate) struct Chat {
    pub(crate) store: Halting,
    pub(crate) id: ConversationId,
}

impl Chat {
    pub(crate) fn new() -> Self {
        Self { store: Halting::new(), id: conversation("recall") }
    }

    pub(crate) async fn append(&self, messages: Vec<Message>) {
        let exchange = Exchange::new(ExchangeId::generate(), messages);
        self.store.store.append(&self.id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    }

    /// Adds a turn for each text.
    pub(crate) async fn say<T: AsRef<str>>(&self, texts: impl IntoIterator<Item = T>) {
        for text in texts {
            self.append(vec![Message::user(text)]).await;
        }
    }

    pub(crate) async fn revision(&self) -> Option<Revision> {
        self.store.store.conversation(&self.id).revision().await.unwrap()
    }

    /// Returns a search with nothing in memory.
    pub(crate) fn log(&self) -> LogSearch {
        LogSearch::new(Arc::new(self.store.clone()), Analyzer::default())
    }

    /// Searches before a position, with an allowance in bytes.
    pub(crate) async fn search(&self, log: &LogSearch, query: &str, before: Seq, allowance: u64) -> SearchAnswer {
        let Some(revision) = self.revision().await else { return SearchAnswer::Gone };
        let ask = Ask {
            conversation: &self.id,
            revision: Some(revision),
            before,
            input: &[Message::user(query)],
            already: &[],
            allowance,
            cost: &bytes,
        };
        log.search(ask).await.unwrap()
    }

    pub(crate) async fn found(&self, log: &LogSearch, query: &str, before: Seq) -> Findings {
        match self.search(log, query, before, 2000).await {
            SearchAnswer::Found(found) => found,
            other => panic!("{other:?}"),
        }
    }

    /// Prepares everything before a position.
    pub(crate) async fn prepare(&self, log: &LogSearch, before: Seq) {
        while log.prepare(&self.id, self.revision().await.unwrap(), before).await.unwrap().more {}
    }
}

/// Returns the text that was recalled.
pub(crate) fn text(found: &Findings) -> String {
    found.recalled.as_ref().map_or_else(String::new, |recalled| recalled.message.text().into_owned())
}

#[tokio::test]
async fn the_newest_messages_are_searched() {
    let chat = Chat::new();
    chat.say((0..2_300).map(|number| format!("word{number} of {}", number % 13))).await;
    let before = Seq::new(2_250);
    let log = chat.log();
    let found = chat.found(&log, "Which word260?", before).await;
    assert!(text(&found).contains("word260 "));
    assert_eq!((found.documents, found.unsearched), (2_000, 250));
    assert_eq!(text(&chat.found(&log, "Which word240?", before).await), "", "it is too old");
    let all = chat.log().messages(3_000);
    let found = chat.found(&all, "Which word240?", before).await;
    assert!(text(&found).contains("word240 "));
    assert_eq!((found.documents, found.unsearched), (2_250, 0));
}

#[tokio::test]
async fn a_later_search_reads_only_what_is_new_and_what_it_shows() {
    let chat = Chat::new();
    chat.say((0..300).map(|number| format!("word{number}"))).await;
    let log = chat.log();
    let first = chat.found(&log, "Which word7?", Seq::new(280)).await;
    assert!(chat.store.read() >= 280);
    let (read, calls) = (chat.store.read(), chat.store.calls());
    assert_eq!(chat.found(&log, "Which word7?", Seq::new(280)).await, first);
    assert!(chat.store.read() - read <= 8, "{}", chat.store.read() - read);
    assert_eq!(chat.store.calls() - calls, 2, "the revision, and the exchanges that are shown");

    let read = chat.store.read();
    let later = chat.found(&log, "Which word285?", Seq::new(290)).await;
    assert!(text(&later).contains("word285"));
    assert!(chat.store.read() - read <= 10 + 16, "{}", chat.store.read() - read);
    assert_eq!(later, chat.found(&chat.log(), "Which word285?", Seq::new(290)).await, "as with nothing in memory");
}

#[tokio::test]
async fn a_search_without_room_for_terms_finds_the_same() {
    let chat = Chat::new();
    chat.say((0..300).map(|number| format!("word{number}"))).await;
    let small = chat.log().term_bytes(2_000);
    let expected = chat.found(&chat.log(), "Which word7?", Seq::new(280)).await;
    for _ in 0..2 {
        assert_eq!(chat.found(&small, "Which word7?", Seq::new(280)).await, expected);
    }
}

#[tokio::test]
async fn what_cannot_be_found_is_not_read() {
    let chat = Chat::new();
    chat.say((0..70).map(|number| format!("text {number}"))).await;
    let log = chat.log();
    assert_eq!(chat.search(&log, "text", Seq::FIRST, 900).await, SearchAnswer::Nothing);
    assert_eq!(chat.search(&log, "and the", Seq::new(70), 900).await, SearchAnswer::Nothing);
    assert_eq!(chat.search(&log, "Thanks, that was really great!", Seq::new(70), 900).await, SearchAnswer::Nothing);
    assert_eq!(chat.search(&log, "text", Seq::new(70), 0).await, SearchAnswer::Nothing);
    assert!(!log.prepare(&chat.id, chat.revision().await.unwrap(), Seq::new(70)).await.unwrap().more);
    assert_eq!(chat.store.calls(), 0);
}

#[tokio::test]
async fn results_fit_the_allowance_and_are_not_repeated() {
    let chat = Chat::new();
    chat.say((0..40).map(|number| format!("\"dog\"\n\n{}\n{number}", "\"\\ ".repeat(number)))).await;
    let log = chat.log().gate(Gate::always_open());
    let (before, mut compared) = (Seq::new(39), 0);
    for allowance in [1, 100, 200, 300, 500, 1000, 5000] {
        let SearchAnswer::Found(found) = chat.search(&log, "dog?", before, allowance).await else { panic!() };
        assert!(found.cost <= allowance);
        assert!(found.recalled.is_some() || allowance < 1000, "{allowance}");
        assert!(found.recalled.is_none() || allowance > 100, "{allowance}");
        let Some(recalled) = found.recalled else { continue };
        let cited: usize = recalled.citations.iter().map(|one| one.messages.len()).sum();
        assert_eq!(found.exchanges, cited as u64);
        let again = Ask {
            conversation: &chat.id,
            revision: chat.revision().await,
            before,
            input: &[Message::user("dog?")],
            already: &recalled.citations,
            allowance,
            cost: &bytes,
        };
        let SearchAnswer::Found(Findings { recalled: Some(other), .. }) = log.search(again).await.unwrap() else {
            continue;
        };
        assert!(other.citations.iter().all(|one| recalled.citations.iter().all(|shown| shown.seq != one.seq)));
        compared += 1;
    }
    assert!(compared > 0);
}

#[tokio::test]
async fn conversations_of_two_tenants_share_the_memory_and_nothing_else() {
    let store = Halting::new();
    let ids = ["acme/ann", "other/ann"].map(|id| id.parse::<ConversationId>().unwrap());
    for (id, name) in ids.iter().zip(["Rex", "Bello"]) {
        let texts = [format!("My dog is called {name}.")].into_iter().chain((0..60).map(|n| format!("Chapter {n}")));
        for text in texts {
            let exchange = Exchange::new(ExchangeId::generate(), [Message::user(text)]);
            store.store.append(id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
        }
    }
    let log = LogSearch::new(Arc::new(store.clone()), Analyzer::default());
    for _ in 0..2 {
        for (id, names) in ids.iter().zip([["Rex", "Bello"], ["Bello", "Rex"]]) {
            let ask = Ask {
                conversation: id,
                revision: store.store.conversation(id).revision().await.unwrap(),
                before: Seq::new(50),
                input: &[Message::user("What is my dog called?")],
                already: &[],
                allowance: 900,
                cost: &bytes,
            };
            let SearchAnswer::Found(found) = log.search(ask).await.unwrap() else { panic!() };
            assert!(text(&found).contains(names[0]) && !text(&found).contains(names[1]), "{id}");
        }
    }
}

#[test]
fn debug_shows_settings_and_no_conversations() {
    let log = Chat::new().log().messages(7);
    let expected = "LogSearch { analyzer: Analyzer([English]), messages: 7, scope: None, .. }";
    assert_eq!(format!("{log:?}"), expected);
}
