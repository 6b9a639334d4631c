//! The modes of other libraries.

use tower_chat_history::{
    Engine, HistoryStoreExt as _, MemoryStore, Message, Role,
    budget::Watermarks,
    summary::{Summaries, SummarizeWhen, SummaryFormat},
};

use super::support::{Facts, begin, context, id, options, says, turn};

/// LangChain's how-to on memory: before each call everything stored is replaced by one summary. Here the log stays.
#[tokio::test]
async fn summary_memory() {
    let store = MemoryStore::new();
    let said = [
        Message::user("Hey there! I'm fact-Nemo ."),
        Message::assistant("Hello!"),
        Message::user("How are you today?"),
        Message::assistant("Fine thanks!"),
    ];
    store.conversation(&id()).import(said.to_vec()).await.unwrap();
    let summaries = Summaries::new(Facts::new()).when(SummarizeWhen::BeforeEveryCall);
    let options = options(summaries).context(context().summary_format(SummaryFormat::langchain()));
    let engine = Engine::with_options(store.clone(), options);

    let (context, report) = turn(&engine, "What did I say my name was?").await;
    assert_eq!(context.len(), 2, "a summary and the question");
    assert_eq!(context[0].text(), "Here is a summary of the conversation to date:\n\nknown: fact-Nemo");
    assert_eq!(report.summary.as_ref().unwrap().to.get(), 2);
    // The next one summarizes the summary and what is new.
    let (context, report) = turn(&engine, "And now? fact-two").await;
    assert!(context.len() == 2 && says(&context, "fact-Nemo"));
    assert_eq!((report.summary.as_ref().unwrap().from.get(), report.summary.as_ref().unwrap().to.get()), (2, 3));
    let (context, _) = turn(&engine, "And then?").await;
    assert!(says(&context, "fact-Nemo") && says(&context, "fact-two"));
    assert_eq!(store.conversation(&id()).messages().await.unwrap()[..4], said);
}

/// The last messages are kept, and the rest is summarized: the how-to's suggestion, and beluga's keep_recent.
#[tokio::test]
async fn hybrid_keep_recent() {
    let summaries = Summaries::new(Facts::new()).when(SummarizeWhen::BeforeCall);
    let options = options(summaries)
        .context(context().watermarks(Watermarks::keep_recent(4)).summary_format(SummaryFormat::beluga()));
    let engine = Engine::with_options(MemoryStore::new(), options);
    turn(&engine, "fact-nemo").await;
    let mut compacted = 0;
    for number in 0..40 {
        let (context, report) = turn(&engine, &format!("question {number}")).await;
        assert!(says(&context, "fact-nemo"), "turn {number}");
        if report.summary.is_some() {
            compacted += 1;
            assert_eq!(context.len(), 1 + 4 + 1, "the summary, the last messages, the question");
            assert_eq!(context[0].text(), "Previous conversation summary: known: fact-nemo");
            assert_eq!(context[0].role(), &Role::System);
        }
    }
    assert!(compacted > 3, "{compacted}");
}

/// beluga's three tiers: system messages stay, recent messages stay, the rest becomes a summary if there is room for one; and
/// if that is still too much, the newest messages come first.
#[tokio::test]
async fn three_tiers_with_a_safety_net() {
    let facts = Facts::new();
    let summaries = Summaries::new(facts.clone()).when(SummarizeWhen::BeforeCall).least_room(100);
    let options = options(summaries).context(context().watermarks(Watermarks::keep_recent(4)));
    let engine = Engine::with_options(MemoryStore::new(), options);
    for number in 0..6 {
        turn(&engine, &format!("question {number}")).await;
    }
    assert_eq!(facts.calls(), 0, "nothing happens at or under the limit");
    // There is no room for a summary beside so large a question: none is paid for, and what is sent fits.
    let large = begin(&engine, &"word ".repeat(310)).await;
    assert_eq!(facts.calls(), 0);
    assert!(large.context().len() < 5);
    drop(large);
    for number in 0..4 {
        turn(&engine, &format!("question {number}")).await;
    }
    assert!(facts.calls() > 0);
}

/// The default: by watermark, after the reply.
#[tokio::test]
async fn by_watermark() {
    let facts = Facts::new();
    let engine = Engine::with_options(MemoryStore::new(), options(Summaries::new(facts.clone())));
    for number in 0..30 {
        let (_, report) = turn(&engine, &format!("question {number}")).await;
        assert!(report.summary.is_none(), "nobody waits");
        engine.drain(std::time::Duration::from_secs(10)).await.unwrap();
    }
    assert!(facts.calls() > 2);
}
