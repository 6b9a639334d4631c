//! Messages that were removed from a log are never shown, whatever is in memory. Others are found as in a fresh log.

use proptest::prelude::*;
use tower_chat_history::recall::{Analyzer, Ask, Findings, Gate, LogSearch, LogTerms, Search, SearchAnswer};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_core::{
    Derived, HistoryStore, HistoryStoreExt, Message, Prune, PruneTo, Revision, Seq, Truncate,
};

use crate::{
    logs::{message, words},
    store::{Chat, bytes, text},
};

/// Compares with a search that has nothing in memory, and with one without a store.
async fn check(chat: &Chat, log: &LogSearch, query: &str, before: Seq) -> Result<(), TestCaseError> {
    let found = chat.search(log, query, before, 900).await;
    prop_assert_eq!(&found, &chat.search(&chat.log(), query, before, 900).await);
    let SearchAnswer::Found(Findings { recalled, cost, best, gate, documents, unsearched, .. }) = found else {
        return Ok(());
    };
    let exchanges = chat.store.store.conversation(&chat.id).exchanges().await.unwrap();
    let first = exchanges[0].seq;
    let within = Seq::new(first.get() + unsearched)..before.min(exchanges[exchanges.len() - 1].seq.next());
    let analyzer = Analyzer::default();
    let search = Search::new(within.clone(), Gate::new(&analyzer));
    let ranking = search.run(&LogTerms::of(&analyzer, &exchanges), query);
    prop_assert_eq!((documents, gate), (ranking.documents, ranking.gate));
    prop_assert_eq!(best, ranking.hits.first().map_or(0.0, |hit| hit.score));
    prop_assert!(cost <= 900);
    if let Some(recalled) = recalled {
        prop_assert_eq!(recalled.message.bytes() as u64, cost);
        prop_assert!(recalled.citations.iter().all(|one| within.contains(&one.seq)));
    }
    Ok(())
}

#[derive(Clone, Debug)]
enum Step {
    Append(u16),
    /// A search that is interrupted after so many calls.
    Interrupted(usize),
    Truncate(prop::sample::Index),
    Prune(prop::sample::Index, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..150_u16).prop_map(Step::Append),
        2 => (0..9_usize).prop_map(Step::Interrupted),
        1 => any::<prop::sample::Index>().prop_map(Step::Truncate),
        2 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, erase)| Step::Prune(at, erase)),
    ]
}

async fn run(messages: &[Message], steps: &[Step], query: &str, window: u64) -> Result<(), TestCaseError> {
    let chat = Chat::new();
    let log = chat.log();
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
            (Step::Interrupted(calls), Some(revision)) => {
                let input = [Message::user(query)];
                let ask = Ask {
                    conversation: &chat.id,
                    revision: Some(revision),
                    before: before(revision),
                    input: &input,
                    already: &[],
                    allowance: 900,
                    cost: &bytes,
                };
                chat.store.halt_after(*calls);
                let _ = log.search(ask).await;
                chat.store.halt_after(usize::MAX);
            }
            (Step::Truncate(at), Some(revision)) => {
                chat.store.store.truncate(&chat.id, revision, position(at, revision), None).await.unwrap();
            }
            (Step::Prune(at, erase), Some(revision)) => {
                let derived = if *erase { Derived::Erase } else { Derived::Keep };
                let to = PruneTo::From(position(at, revision));
                chat.store.store.prune(&chat.id, revision.incarnation(), to, derived).await.unwrap();
            }
            (_, None) => {}
        }
        if let Some(revision) = chat.revision().await {
            check(&chat, &log, query, before(revision)).await?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(48)))]

    #[test]
    fn a_search_finds_the_same_whatever_is_in_memory(
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
async fn messages_that_were_cut_off_between_two_searches_are_not_found() {
    let chat = Chat::new();
    let log = chat.log();
    let before = Seq::new(200);
    chat.say((0..200).map(|number| format!("word{number}"))).await;
    for word in ["word150", "word20"] {
        assert!(text(&chat.found(&log, &format!("Which {word}?"), before).await).contains(word));
    }
    chat.store.store.truncate(&chat.id, chat.revision().await.unwrap(), Seq::new(100), None).await.unwrap();
    assert_eq!(text(&chat.found(&log, "Which word150?", before).await), "");
    chat.say((0..100).map(|number| format!("other{number}"))).await;
    let found = chat.found(&log, "Which word150?", before).await;
    assert_eq!((text(&found), found.documents), (String::new(), 200));
    assert!(text(&chat.found(&log, "Which other50?", before).await).contains("other50"));

    for (derived, first) in [(Derived::Keep, 30), (Derived::Erase, 60)] {
        let incarnation = chat.revision().await.unwrap().incarnation();
        let to = PruneTo::From(Seq::new(first));
        chat.store.store.prune(&chat.id, incarnation, to, derived).await.unwrap();
        assert_eq!(text(&chat.found(&log, "Which word20?", before).await), "");
        let found = chat.found(&log, "Which word80?", before).await;
        assert!(text(&found).contains("word80"));
        assert_eq!(u64::from(found.documents), 200 - first);
    }
}

#[tokio::test]
async fn another_incarnation_is_not_searched() {
    let chat = Chat::new();
    chat.say(["a dog", "a cat", "a bird"]).await;
    let revision = chat.revision().await.unwrap();
    let log = chat.log();
    chat.found(&log, "Which dog?", Seq::new(2)).await;
    chat.store.store.delete(&chat.id).await.unwrap();
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
        assert_eq!(log.search(ask).await.unwrap(), SearchAnswer::Gone, "{round}");
        chat.say((0..200).map(|number| format!("a dog {number}"))).await;
    }
}
