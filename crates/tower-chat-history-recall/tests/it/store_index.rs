//! A search in a stored log finds the same as a search in the whole log, whatever is indexed.

use std::sync::Arc;

use proptest::prelude::*;
use tower_chat_history_conformance::shorthand::{cases, conversation};
use tower_chat_history_core::{
    Append, Attach, Attachment, AttachmentName, ConversationId, Derived, Exchange, ExchangeId, Expect, HistoryStore,
    HistoryStoreExt, Message, Prune, PruneTo, Revision, Seq, Truncate,
};
use tower_chat_history_recall::{
    Analyzer, Ask, Found, Gate, Indexed, Language, LogIndex, Query, Search, Searched, StoredIndex,
};

use crate::{
    halting::Halting,
    logs::{message, words},
};

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

    pub(crate) fn index(&self) -> StoredIndex {
        StoredIndex::new(Arc::new(self.store.clone()), Analyzer::default())
    }

    /// Searches before a position, with an allowance in bytes.
    pub(crate) async fn search(&self, index: &StoredIndex, query: &str, before: Seq, allowance: u64) -> Searched {
        let Some(revision) = self.revision().await else { return Searched::Gone };
        let ask = Ask {
            conversation: &self.id,
            revision: Some(revision),
            before,
            input: &[Message::user(query)],
            already: &[],
            allowance,
            cost: &bytes,
        };
        index.search(ask).await.unwrap()
    }

    pub(crate) async fn found(&self, index: &StoredIndex, query: &str, before: Seq) -> Found {
        match self.search(index, query, before, 2000).await {
            Searched::Found(found) => found,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn step(&self, index: &StoredIndex, before: Seq) -> Indexed {
        index.index(&self.id, self.revision().await.unwrap(), before).await.unwrap()
    }

    pub(crate) async fn index_all(&self, index: &StoredIndex, before: Seq) {
        while self.step(index, before).await.more {}
    }

    pub(crate) async fn stored(&self, name: &str) -> Vec<Attachment> {
        let names = [AttachmentName::new(name).unwrap()];
        self.store.store.attachments(&self.id, &names, usize::MAX).await.unwrap().attachments
    }
}

/// Returns the name of a record of the default analyzer.
pub(crate) fn record(name: &str) -> String {
    let hash = tower_chat_history_recall::Term::of(Analyzer::default().id()).get();
    format!("terms/{hash:012x}/{name}")
}

/// Compares with searches in the whole log: that of a store without attachments, and that without a store.
async fn check(chat: &Chat, index: &StoredIndex, query: &str, before: Seq) -> Result<(), TestCaseError> {
    let blind = StoredIndex::new(chat.store.blind(), Analyzer::default()).scan_limit(usize::MAX);
    let (found, fresh) = (chat.search(index, query, before, 900).await, chat.search(&blind, query, before, 900).await);
    prop_assert_eq!(&found, &fresh);
    let Searched::Found(Found { recalled, cost, best, gate, documents, unsearched, .. }) = found else { return Ok(()) };
    prop_assert_eq!(unsearched, 0);
    let log = chat.store.store.conversation(&chat.id).exchanges().await.unwrap();
    let (first, end) = (log[0].seq, log[log.len() - 1].seq.next());
    let analyzer = Analyzer::default();
    let search = Search::new(first..before.min(end), Gate::new(&analyzer));
    let ranking = search.run(&LogIndex::new(analyzer.clone()), &log, &Query::new(&analyzer, query)).unwrap();
    prop_assert_eq!((documents, gate), (ranking.documents, ranking.gate));
    prop_assert_eq!(best, ranking.hits.first().map_or(0.0, |hit| hit.score));
    prop_assert!(cost <= 900);
    if let Some(recalled) = recalled {
        prop_assert_eq!(recalled.message.bytes() as u64, cost);
        prop_assert!(recalled.citations.iter().all(|one| one.seq >= first && one.seq < before));
    }
    Ok(())
}

#[derive(Clone, Debug)]
enum Step {
    Append(u16),
    /// Interrupted after so many calls.
    Index(usize),
    /// By another process.
    IndexElsewhere(usize),
    Truncate(prop::sample::Index),
    Prune(prop::sample::Index, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..150_u16).prop_map(Step::Append),
        4 => (0..9_usize).prop_map(Step::Index),
        2 => (0..9_usize).prop_map(Step::IndexElsewhere),
        1 => any::<prop::sample::Index>().prop_map(Step::Truncate),
        2 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, erase)| Step::Prune(at, erase)),
    ]
}

async fn run(messages: &[Message], steps: &[Step], query: &str, window: u64) -> Result<(), TestCaseError> {
    let chat = Chat::new();
    let (index, elsewhere) = (chat.index().scan_limit(usize::MAX), chat.index());
    let mut next = messages.iter().cycle().cloned();
    for step in steps {
        let revision = chat.revision().await;
        let before = |revision: Revision| Seq::new(revision.next().get().saturating_sub(window));
        let position = |at: &prop::sample::Index, revision: Revision| {
            Seq::new(revision.first().get() + at.index(usize::try_from(revision.len()).unwrap()) as u64)
        };
        match (step, revision) {
            (Step::Append(count), _) => {
                for _ in 0..*count {
                    chat.append(next.next().into_iter().collect()).await;
                }
            }
            (Step::Index(calls) | Step::IndexElsewhere(calls), Some(revision)) => {
                chat.store.halt_after(*calls);
                let index = if matches!(step, Step::Index(_)) { &index } else { &elsewhere };
                let _ = index.index(&chat.id, revision, before(revision)).await;
                chat.store.halt_after(usize::MAX);
            }
            (Step::Truncate(at), Some(revision)) => {
                chat.store.store.truncate(&chat.id, revision, position(at, revision)).await.unwrap();
            }
            (Step::Prune(at, erase), Some(revision)) => {
                let derived = if *erase { Derived::Erase } else { Derived::Keep };
                let to = PruneTo::From(position(at, revision));
                chat.store.store.prune(&chat.id, revision.incarnation(), to, derived).await.unwrap();
            }
            (_, None) => {}
        }
        if let Some(revision) = chat.revision().await {
            check(&chat, &index, query, before(revision)).await?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(48)))]

    #[test]
    fn a_search_finds_the_same_whatever_is_indexed(
        messages in prop::collection::vec(message(), 1..40),
        steps in prop::collection::vec(step(), 1..14),
        query in words(1..5),
        window in 0..90_u64,
        question in any::<bool>(),
    ) {
        let query = if question { format!("{query}?") } else { query };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(&messages, &steps, &query, window))?;
    }
}

#[tokio::test]
async fn segments_are_merged_in_steps_that_can_be_interrupted() {
    let chat = Chat::new();
    chat.say((0..4300).map(|number| format!("word{} of {}", number % 700, number % 13))).await;
    let before = Seq::new(4250);
    let index = chat.index();
    let query = "Which word77 and word401?";
    let blind = StoredIndex::new(chat.store.blind(), Analyzer::default()).scan_limit(usize::MAX);
    let fresh = chat.found(&blind, query, before).await;
    assert!(fresh.recalled.is_some());
    assert_eq!(chat.found(&index, query, before).await.unsearched, 4250 - 512, "nothing is indexed yet");

    let (mut steps, mut halts) = (0, 0);
    loop {
        // Each step is interrupted after each of its calls first.
        let mut calls = 0;
        let done = loop {
            chat.store.halt_after(calls);
            let done = index.index(&chat.id, chat.revision().await.unwrap(), before).await;
            chat.store.halt_after(usize::MAX);
            if steps >= 4 {
                let found = chat.found(&index, query, before).await;
                assert_eq!((found.recalled, found.unsearched), (fresh.recalled.clone(), 0));
            }
            match done {
                Ok(done) => break done,
                Err(error) => assert_eq!(error.kind(), "unavailable"),
            }
            (calls, halts) = (calls + 1, halts + 1);
        };
        steps += 1;
        if !done.more {
            break;
        }
    }
    assert!(steps > 4 && halts > 10, "{steps} {halts}");
    assert_eq!(chat.stored(&record("docs")).await.len(), 1);
    assert_eq!(chat.stored(&record("all")).await.len(), 2, "two blocks after the segment");
    let found = chat.found(&index, query, before).await;
    assert_eq!(found, fresh);

    // Within a segment, and after everything was done.
    assert_eq!(chat.found(&index, query, Seq::new(1000)).await, chat.found(&blind, query, Seq::new(1000)).await);
    let calls = chat.store.calls();
    assert_eq!(chat.step(&index, before).await, Indexed::default());
    assert_eq!(chat.store.calls(), calls, "nothing is read if all is done");

    // A truncation within the segment removes it.
    let revision = chat.revision().await.unwrap();
    chat.store.store.truncate(&chat.id, revision, Seq::new(3000)).await.unwrap();
    assert_eq!(chat.stored(&record("docs")).await.len(), 0);
    let blind = chat.found(&blind, query, before).await;
    let all = chat.index().scan_limit(usize::MAX);
    assert_eq!(chat.found(&all, query, before).await, blind);
    chat.index_all(&index, before).await;
    assert_eq!(chat.found(&index, query, before).await, blind);
}

#[tokio::test]
async fn a_log_within_the_window_costs_nothing() {
    let chat = Chat::new();
    chat.say((0..70).map(|number| format!("text {number}"))).await;
    let index = chat.index();
    for before in [0, 63] {
        assert_eq!(chat.step(&index, Seq::new(before)).await, Indexed::default());
    }
    assert_eq!(chat.search(&index, "text", Seq::FIRST, 900).await, Searched::Nothing);
    assert_eq!(chat.search(&index, "and the", Seq::new(70), 900).await, Searched::Nothing);
    assert_eq!(chat.search(&index, "text", Seq::new(70), 0).await, Searched::Nothing);
    assert_eq!(chat.store.calls(), 0);
    let done = chat.step(&index, Seq::new(64)).await;
    assert_eq!((done.blocks, done.more), (1, false));
}

#[tokio::test]
async fn another_incarnation_is_neither_searched_nor_indexed() {
    let chat = Chat::new();
    chat.say(["a dog", "a cat", "a bird"]).await;
    let revision = chat.revision().await.unwrap();
    chat.store.store.delete(&chat.id).await.unwrap();
    let index = chat.index();
    for round in 0..2 {
        let input = [Message::user("Which dog?")];
        let ask = Ask {
            conversation: &chat.id,
            revision: Some(revision),
            before: Seq::new(2),
            input: &input,
            already: &[],
            allowance: 900,
            cost: &bytes,
        };
        assert_eq!(index.search(ask).await.unwrap(), Searched::Gone, "{round}");
        let old = Revision::new(revision.incarnation(), 500);
        assert!(index.index(&chat.id, old, Seq::new(400)).await.unwrap().gone, "{round}");
        chat.say((0..200).map(|number| format!("a dog {number}"))).await;
    }
    assert_eq!(chat.store.writes(), 0);
}

#[tokio::test]
async fn damaged_records_are_read_from_the_log_and_replaced() {
    let chat = Chat::new();
    chat.say((0..200).map(|number| format!("word{number}"))).await;
    let (index, before) = (chat.index(), Seq::new(190));
    let fresh = chat.found(&index, "word7?", before).await;
    let incarnation = chat.revision().await.unwrap().incarnation();
    let name = AttachmentName::new(record("all")).unwrap();
    let bad = |start: u64, body: &[u8]| Attachment::new(name.clone(), Seq::new(start)..Seq::new(start + 64), body);
    chat.store.store.attach(&chat.id, incarnation, &[], &[bad(0, b"?"), bad(64, b"")]).await.unwrap();
    let found = chat.found(&index, "word7?", before).await;
    assert_eq!((found.damaged, found.recalled), (2, fresh.recalled.clone()));
    let done = chat.step(&index, before).await;
    assert_eq!((done.removed, done.blocks), (2, 2));
    assert_eq!(chat.found(&index, "word7?", before).await, fresh);
}

#[tokio::test]
async fn a_segment_without_a_table_is_made_again() {
    let chat = Chat::new();
    chat.say((0..4200).map(|number| format!("word{}", number % 900))).await;
    let (index, before) = (chat.index(), Seq::new(4180));
    chat.index_all(&index, before).await;
    let fresh = chat.found(&index, "word7?", before).await;
    let bucket = tower_chat_history_recall::Term::of("word7").bucket();
    let lost = chat.stored(&record(&format!("b{bucket:02}"))).await;
    let incarnation = chat.revision().await.unwrap().incarnation();
    chat.store.store.attach(&chat.id, incarnation, &[lost[0].key()], &[]).await.unwrap();
    let found = chat.found(&index, "word7?", before).await;
    assert_eq!((found.damaged, found.unsearched > 0), (1, true));
    chat.index_all(&index, before).await;
    assert_eq!(chat.found(&index, "word7?", before).await, fresh);
}

#[tokio::test]
async fn records_of_former_analyzers_are_removed() {
    let chat = Chat::new();
    chat.say((0..200).map(|number| format!("word{number}"))).await;
    let before = Seq::new(190);
    chat.index_all(&chat.index(), before).await;
    assert_eq!(chat.stored(&record("all")).await.len(), 2);
    let german = StoredIndex::new(Arc::new(chat.store.clone()), Analyzer::new([Language::German]));
    assert_eq!(chat.found(&german, "word7?", before).await.damaged, 0);
    chat.index_all(&german, before).await;
    assert_eq!(chat.stored(&record("all")).await.len(), 2, "the analyzer is not named as a former one");
    let german = StoredIndex::new(Arc::new(chat.store.clone()), Analyzer::new([Language::German]))
        .former_analyzers([Analyzer::default().id()]);
    chat.index_all(&german, before).await;
    assert_eq!(chat.stored(&record("all")).await.len(), 0);
    assert_eq!(chat.found(&german, "word7?", before).await.documents, 190);
}

#[tokio::test]
async fn a_block_of_exchanges_with_too_many_words_is_stored_and_searched() {
    let chat = Chat::new();
    // 63 exchanges of 10,000 different words, and an honest one.
    let text = |exchange: u32| -> String {
        (0..10_000).map(|word| format!("{:x} ", u64::from(exchange * 10_000 + word) * 0x9e37_79b9)).collect()
    };
    chat.say((0..40).map(text)).await;
    chat.say(["a dog"]).await;
    chat.say((41..64).map(text)).await;
    chat.say(["a cat", "another"]).await;
    let (index, before) = (chat.index(), Seq::new(65));
    let fresh = chat.found(&index, "Which dog?", before).await;
    assert!(fresh.recalled.as_ref().unwrap().message.text().contains("a dog"));
    let done = chat.step(&index, before).await;
    assert_eq!((done.blocks, done.cut), (1, 63));
    let stored = chat.stored(&record("all")).await;
    assert!(stored[0].body.len() > Attachment::MAX_BYTES - (400 << 10), "{}", stored[0].body.len());
    let found = chat.found(&index, "Which dog?", before).await;
    assert_eq!((found.recalled, fresh.unsearched > 0, found.unsearched), (fresh.recalled, true, 0));
    let done = chat.step(&index, Seq::new(66)).await;
    assert_eq!((done.blocks, done.cut), (0, 0));
}

#[tokio::test]
async fn results_fit_the_allowance_and_are_not_repeated() {
    let chat = Chat::new();
    chat.say((0..40).map(|number| format!("\"dog\"\n\n{}\n{number}", "\"\\ ".repeat(number)))).await;
    let index = chat.index().gate(Gate::always_open());
    let (before, mut compared) = (Seq::new(39), 0);
    for allowance in [1, 100, 200, 300, 500, 1000, 5000] {
        let Searched::Found(found) = chat.search(&index, "dog?", before, allowance).await else { panic!() };
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
        let Searched::Found(Found { recalled: Some(other), .. }) = index.search(again).await.unwrap() else { continue };
        assert!(other.citations.iter().all(|one| recalled.citations.iter().all(|shown| shown.seq != one.seq)));
        compared += 1;
    }
    assert!(compared > 0);
}
