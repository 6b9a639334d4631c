//! A search in other conversations finds those under a prefix of the conversation's own id, and no others.

use std::{collections::BTreeSet, num::NonZeroUsize, sync::Arc, time::Duration};

use proptest::prelude::*;
use serde_json::Value;
use tower_chat_history::recall::{Analyzer, Ask, Findings, Gate, LogSearch, SearchAnswer, SearchScope};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_core::{
    Append, Citation, ConversationId, Exchange, ExchangeId, Expect, HistoryStore, HistoryStoreExt, Message, Prefix,
    Recalled, Seq,
};

use crate::{halting::Halting, store::bytes};

pub(crate) fn id(text: &str) -> ConversationId {
    text.parse().unwrap()
}

/// Adds a turn for each text.
pub(crate) async fn say<T: AsRef<str>>(store: &Halting, id: &ConversationId, texts: impl IntoIterator<Item = T>) {
    for text in texts {
        let exchange = Exchange::new(ExchangeId::generate(), [Message::user(text)]);
        store.store.append(id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    }
}

/// Returns texts about nothing that is searched for.
pub(crate) fn chapters(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("Then there was chapter {number}."))
}

pub(crate) fn scope(parts: usize) -> SearchScope {
    SearchScope::parts(NonZeroUsize::new(parts).unwrap())
}

pub(crate) fn index(store: &Halting, scope: SearchScope) -> LogSearch {
    LogSearch::under(Arc::new(store.clone()), Analyzer::default(), scope)
}

/// Searches for a conversation, before a position of its log.
pub(crate) async fn search(
    store: &Halting,
    index: &LogSearch,
    id: &ConversationId,
    before: Seq,
    text: &str,
    already: &[Citation],
) -> SearchAnswer {
    let ask = Ask {
        conversation: id,
        revision: store.store.conversation(id).revision().await.unwrap(),
        before,
        input: &[Message::user(text)],
        already,
        allowance: 4000,
        cost: &bytes,
    };
    index.search(ask).await.unwrap()
}

pub(crate) async fn found(store: &Halting, index: &LogSearch, of: &ConversationId, text: &str) -> Findings {
    match search(store, index, of, Seq::FIRST, text, &[]).await {
        SearchAnswer::Found(found) => found,
        other => panic!("{other:?}"),
    }
}

/// Returns the conversations and texts of the lines of a block, in order.
fn lines(recalled: &Recalled) -> Vec<(Option<u64>, String)> {
    let text = recalled.message.text().into_owned();
    let lines: Vec<&str> = text.split('\n').collect();
    let line = |line: &&str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let texts = line["messages"].as_array().unwrap().iter().map(|message| message["text"].as_str().unwrap_or(""));
        (line["conversation"].as_u64(), texts.collect::<Vec<_>>().join("|"))
    };
    lines[1..lines.len() - 1].iter().map(line).collect()
}

fn cited(found: &Findings) -> BTreeSet<Option<ConversationId>> {
    found.recalled.iter().flat_map(|recalled| &recalled.citations).map(|one| one.conversation.clone()).collect()
}

#[tokio::test]
async fn the_first_turn_of_a_conversation_recalls_from_others() {
    let store = Halting::new();
    say(&store, &id("acme/ann/1"), ["My dog is called Rex."].map(str::to_owned).into_iter().chain(chapters(30))).await;
    let (ann, new) = (index(&store, scope(2)), id("acme/ann/2"));
    assert!(ann.covers_others(&new) && !ann.covers_others(&id("acme/ann")));
    let found = found(&store, &ann, &new, "What is my dog called?").await;
    let recalled = found.recalled.unwrap();
    assert_eq!(recalled.citations[0], Citation::new(Seq::FIRST, 0..1).of(id("acme/ann/1")));
    assert_eq!(lines(&recalled)[0], (Some(1), "My dog is called Rex.".to_owned()));
    assert!(!recalled.message.text().contains("acme"), "ids are not shown");
    assert_eq!((found.conversations, found.others.searched, found.others.failed), (1, 1, 0));
    // The same index without a scope, and other users.
    let alone = LogSearch::new(Arc::new(store.clone()), Analyzer::default());
    for (index, of) in [(&alone, "acme/ann/2"), (&ann, "acme/bob/2"), (&ann, "acme/ann"), (&ann, "acme/anne/1")] {
        let searched = search(&store, index, &id(of), Seq::FIRST, "What is my dog called?", &[]).await;
        let SearchAnswer::Found(found) = searched else { continue };
        assert_eq!((found.recalled, found.conversations), (None, 0), "{of}");
    }
}

#[tokio::test]
async fn the_conversation_comes_last_in_the_block_and_its_window_is_never_recalled() {
    let store = Halting::new();
    let [one, two, own] = ["acme/ann/1", "acme/ann/2", "acme/ann/3"].map(id);
    say(&store, &one, ["The dog Rex barked."]).await;
    say(&store, &two, ["The dog Rex slept."]).await;
    say(&store, &own, ["The dog Rex ate.", "So be it.", "No.", "The dog Rex ran.", "The dog Rex sat."]).await;
    let index = index(&store, scope(2)).gate(Gate::always_open());
    let searched = search(&store, &index, &own, Seq::new(3), "dog Rex?", &[]).await;
    let SearchAnswer::Found(found) = searched else { panic!() };
    let recalled = found.recalled.unwrap();
    let lines = lines(&recalled);
    let texts: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
    assert!(texts[..3] == ["The dog Rex barked.", "The dog Rex slept.", "The dog Rex ate."], "{lines:?}");
    assert_eq!(lines.iter().take(3).map(|line| line.0).collect::<Vec<_>>(), [Some(1), Some(2), None]);
    let own = recalled.citations.iter().filter(|citation| citation.conversation.is_none());
    assert!(own.map(|citation| citation.seq).max() < Some(Seq::new(3)));
    assert_eq!((found.conversations, found.others.searched, found.exchanges), (3, 2, lines.len() as u64));

    // The same messages are not shown twice.
    let searched = search(&store, &index, &id("acme/ann/3"), Seq::new(3), "dog Rex?", &recalled.citations).await;
    let SearchAnswer::Found(again) = searched else { panic!() };
    let shown: BTreeSet<String> = again.recalled.iter().flat_map(lines_of).collect();
    assert!(shown.iter().all(|text| !text.contains("Rex")), "{shown:?}");
}

fn lines_of(recalled: &Recalled) -> Vec<String> {
    lines(recalled).into_iter().map(|(_, text)| text).collect()
}

#[tokio::test]
async fn the_gate_decides_by_the_words_of_all_conversations_together() {
    let store = Halting::new();
    // Each conversation alone is too short for a word to be rare.
    for number in 0..12 {
        say(&store, &id(&format!("acme/ann/{number}")), chapters(6)).await;
    }
    say(&store, &id("acme/ann/dog"), ["My dog is called Rex.", "A chapter.", "There was one."]).await;
    let index = index(&store, scope(2));
    let new = id("acme/ann/new");
    let rare = found(&store, &index, &new, "What is my dog called?").await;
    assert!(rare.gate.open && cited(&rare) == BTreeSet::from([Some(id("acme/ann/dog"))]), "{rare:?}");
    assert!(rare.gate.needed > 5.0, "{:?}", rare.gate);
    let common = found(&store, &index, &new, "Which chapter?").await;
    assert_eq!((common.gate.open, common.recalled), (false, None), "all conversations have the word");
}

#[tokio::test]
async fn scores_of_short_and_long_conversations_are_comparable() {
    let store = Halting::new();
    // In a long conversation, even the commoner word is rarer than any word of a short one.
    let long = (0..400).map(|number| if number % 20 == 0 { "The river.".to_owned() } else { format!("No {number}.") });
    say(&store, &id("acme/ann/long"), long).await;
    say(&store, &id("acme/ann/short"), ["A zebra at the river.", "Yes.", "So it is."]).await;
    let index = index(&store, scope(2)).gate(Gate::always_open());
    let ask = Ask {
        conversation: &id("acme/ann/new"),
        revision: None,
        before: Seq::FIRST,
        input: &[Message::user("Which zebra at the river?")],
        already: &[],
        allowance: 420,
        cost: &bytes,
    };
    let SearchAnswer::Found(found) = index.search(ask).await.unwrap() else { panic!() };
    assert_eq!(cited(&found), BTreeSet::from([Some(id("acme/ann/short"))]), "{:?}", found.recalled);
}

#[tokio::test]
async fn a_conversation_that_fails_costs_its_results_only() {
    let store = Halting::new();
    let [one, two] = ["acme/ann/1", "acme/ann/2"].map(id);
    for id in [&one, &two] {
        say(&store, id, ["My dog is called Rex."].map(str::to_owned).into_iter().chain(chapters(30))).await;
    }
    store.fail_for(&one);
    let index = index(&store, scope(2));
    let found = found(&store, &index, &id("acme/ann/3"), "What is my dog called?").await;
    assert_eq!((found.others.searched, found.others.failed), (1, 1));
    assert_eq!(cited(&found), BTreeSet::from([Some(two.clone())]));
    // If nothing can be listed, the conversation itself is searched.
    store.halt_after(0);
    store.fail_for(&two);
    let own = search(&store, &index, &id("acme/ann/3"), Seq::FIRST, "What is my dog called?", &[]).await;
    let SearchAnswer::Found(own) = own else { panic!() };
    assert_eq!((own.others.searched, own.others.failed, own.recalled), (0, 1, None));
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_does_not_answer_costs_its_results_only() {
    let store = Halting::new();
    let [one, two, own] = ["acme/ann/1", "acme/ann/2", "acme/ann/3"].map(id);
    for id in [&one, &two, &own] {
        let name = [format!("My dog is called {}.", if *id == own { "Bello" } else { "Rex" })];
        say(&store, id, name.into_iter().chain(chapters(30))).await;
    }
    store.hang_for(&two);
    let time = Duration::from_secs(3600);
    let index = index(&store, scope(2)).time_for_others(time);
    let begun = tokio::time::Instant::now();
    let searched = search(&store, &index, &own, Seq::new(20), "What is my dog called?", &[]).await;
    assert!(begun.elapsed() <= time && begun.elapsed() > time / 2, "{:?}", begun.elapsed());
    let SearchAnswer::Found(found) = searched else { panic!() };
    assert_eq!((found.conversations, found.others.searched, found.others.failed), (2, 1, 1));
    assert_eq!(cited(&found), BTreeSet::from([None, Some(one)]));
}

#[tokio::test]
async fn a_conversation_that_was_erased_after_the_listing_is_not_recalled() {
    let store = Halting::new();
    let gone = id("acme/ann/1");
    say(&store, &gone, ["My dog is called Rex."].map(str::to_owned).into_iter().chain(chapters(30))).await;
    let index = index(&store, scope(2));
    assert!(found(&store, &index, &id("acme/ann/2"), "What is my dog called?").await.recalled.is_some());
    store.erase_after_listing(&gone);
    let found = found(&store, &index, &id("acme/ann/2"), "What is my dog called?").await;
    assert_eq!((found.recalled, found.others.failed), (None, 0));
}

#[tokio::test]
async fn a_store_that_lists_strangers_does_not_widen_the_search() {
    let store = Halting::new();
    let stranger = id("acme-2/ann/1");
    say(&store, &stranger, ["My dog is called Rex."].map(str::to_owned).into_iter().chain(chapters(30))).await;
    store.list_everywhere(&stranger).await;
    let index = index(&store, scope(1));
    let found = found(&store, &index, &id("acme/ann/2"), "What is my dog called?").await;
    assert_eq!((found.recalled, found.others.searched), (None, 0));
}

fn hostile_part() -> impl Strategy<Value = String> {
    let parts = ["acme", "acme-2", "acme/x", "acme%2Fx", "acme.x", "x", "ACME", "acme\u{0}", "acm", "a"];
    prop_oneof![prop::sample::select(parts.to_vec()).prop_map(str::to_owned), "[a/%2F.~-]{1,3}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(64)))]

    #[test]
    fn nothing_crosses_a_prefix_of_colliding_ids(
        ids in prop::collection::btree_set(prop::collection::vec(hostile_part(), 1..4), 2..14),
        asker in prop::collection::vec(hostile_part(), 1..4),
        parts in 1..4_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ids: BTreeSet<ConversationId> = ids.iter().map(|parts| ConversationId::new(parts).unwrap()).collect();
        let own = ConversationId::new(&asker).unwrap();
        let found = runtime.block_on(async {
            let store = Halting::new();
            for id in &ids {
                say(&store, id, [format!("My dog is called {id}.")]).await;
            }
            let index = index(&store, scope(parts)).gate(Gate::always_open());
            // The own log is not searched: it is in the window.
            search(&store, &index, &own, Seq::FIRST, "What is my dog called?", &[]).await
        });
        let allowed: BTreeSet<Option<ConversationId>> = match asker.len() > parts {
            true => {
                let prefix = Prefix::new(&asker[..parts]).unwrap();
                ids.iter().filter(|id| prefix.contains(id) && **id != own).cloned().map(Some).collect()
            }
            false => BTreeSet::new(),
        };
        match found {
            SearchAnswer::Found(found) => {
                prop_assert_eq!(found.others.searched as usize, allowed.len());
                prop_assert_eq!(cited(&found), allowed);
            }
            other => prop_assert!(allowed.is_empty() && asker.len() <= parts, "{:?}", other),
        }
    }

    #[test]
    fn nothing_breaks_out_of_a_block_with_several_conversations(
        texts in prop::collection::vec(
            "(</earlier_messages>|<earlier_messages note=\"x\">|\"conversation\":7,|\\{|\\}|<|/|\"|\n|dog ){1,6}",
            2..6,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = runtime.block_on(async {
            let store = Halting::new();
            for (number, text) in texts.iter().enumerate() {
                say(&store, &id(&format!("acme/ann/{number}")), [format!("dog {text}")]).await;
            }
            let index = index(&store, scope(2)).gate(Gate::always_open());
            found(&store, &index, &id("acme/ann/new"), "dog?").await
        });
        let recalled = found.recalled.unwrap();
        let block = recalled.message.text().to_lowercase();
        prop_assert_eq!(block.matches("<earlier_messages").count(), 1);
        prop_assert_eq!(block.matches("</earlier_messages").count(), 1);
        let lines = lines(&recalled);
        let numbers: Vec<Option<u64>> = lines.iter().map(|line| line.0).collect();
        prop_assert_eq!(numbers, (1..=texts.len() as u64).map(Some).collect::<Vec<_>>());
        let mut shown: Vec<String> = lines.into_iter().map(|line| line.1).collect();
        let mut said: Vec<String> = texts.iter().map(|text| format!("dog {text}")).collect();
        shown.sort();
        said.sort();
        prop_assert_eq!(shown, said);
    }
}
