//! The summary modes of other libraries.

use tower_chat_history::{
    ContextBudget, Engine, HistoryStoreExt as _, MemoryStore, Message, Reply, Role,
    budget::Watermarks,
    store::Usage,
    summary::{Summaries, SummarizeWhen, SummaryFormat},
    tokens::{ByteEstimate, TokenCounter as _},
};

use super::support::{Facts, begin, context, id, mentions, options, turn};

/// LangChain's how-to on memory: before each call, one summary replaces everything stored. Here the log is not
/// changed.
#[tokio::test]
async fn every_call_replaces_the_log_by_a_summary() {
    let store = MemoryStore::new();
    let said = [
        Message::user("Hey there! I'm fact-Nemo ."),
        Message::assistant("Hello!"),
        Message::user("How are you today?"),
        Message::assistant("Fine thanks!"),
    ];
    store.conversation(&id()).import(said.to_vec()).await.unwrap();
    let summaries = Summaries::new(Facts::new()).when(SummarizeWhen::BeforeEveryCall);
    let options =
        options(summaries).context(context().summary_format(SummaryFormat::new("Here is a summary:\n\n", "")));
    let engine = Engine::with_options(store.clone(), options);

    let (context, report) = turn(&engine, "What did I say my name was?").await;
    assert_eq!(context.len(), 3, "a summary, a constant reply and the question");
    assert_eq!(context[0].text(), "Here is a summary:\n\nknown: fact-Nemo");
    assert_eq!(report.summary.as_ref().unwrap().to.get(), 2);
    // The next summary is made of the previous one and the new messages.
    let (context, report) = turn(&engine, "And now? fact-two").await;
    assert!(context.len() == 3 && mentions(&context, "fact-Nemo"));
    assert_eq!((report.summary.as_ref().unwrap().from.get(), report.summary.as_ref().unwrap().to.get()), (2, 3));
    let (context, _) = turn(&engine, "And then?").await;
    assert!(mentions(&context, "fact-Nemo") && mentions(&context, "fact-two"));
    assert_eq!(store.conversation(&id()).messages().await.unwrap()[..4], said);
}

/// The last messages are kept and the others are summarized: as the how-to suggests, and as beluga's
/// keep_recent.
#[tokio::test]
async fn recent_messages_are_kept_and_the_rest_is_summarized() {
    let summaries = Summaries::new(Facts::new()).when(SummarizeWhen::BeforeCall);
    let options = options(summaries)
        .context(context().watermarks(Watermarks::keep_recent(4)).summary_format(SummaryFormat::new("Summary: ", "")));
    let engine = Engine::with_options(MemoryStore::new(), options);
    turn(&engine, "fact-nemo").await;
    let mut compacted = 0;
    for number in 0..40 {
        let (context, report) = turn(&engine, &format!("question {number}")).await;
        assert!(mentions(&context, "fact-nemo"), "turn {number}");
        if report.summary.is_some() {
            compacted += 1;
            assert_eq!(context.len(), 2 + 4 + 1, "the summary with its reply, the last messages, the question");
            assert_eq!(context[0].text(), "Summary: known: fact-nemo");
            assert_eq!(context[0].role(), &Role::User);
        }
    }
    assert!(compacted > 3, "{compacted}");
}

/// beluga's three tiers: system messages are kept, recent messages are kept, and the others become a summary if
/// there is room for one. If that is still too large, older messages are left out.
#[tokio::test]
async fn system_messages_recent_messages_and_a_summary_are_sent() {
    let facts = Facts::new();
    let summaries = Summaries::new(facts.clone()).when(SummarizeWhen::BeforeCall).least_room(100);
    let options = options(summaries).context(context().watermarks(Watermarks::keep_recent(4)));
    let engine = Engine::with_options(MemoryStore::new(), options);
    for number in 0..6 {
        turn(&engine, &format!("question {number}")).await;
    }
    assert_eq!(facts.calls(), 0, "nothing happens at or under the limit");
    // A question this large leaves no room for a summary. None is made, and the prompt fits.
    let large = begin(&engine, &"word ".repeat(310)).await;
    assert_eq!(facts.calls(), 0);
    assert!(large.context().len() < 5);
    drop(large);
    for number in 0..4 {
        turn(&engine, &format!("question {number}")).await;
    }
    assert!(facts.calls() > 0);
}

/// The default: after the reply, at a percentage of the watermark.
#[tokio::test]
async fn summaries_are_made_after_the_reply_by_watermark() {
    let facts = Facts::new();
    let engine = Engine::with_options(MemoryStore::new(), options(Summaries::new(facts.clone())));
    for number in 0..30 {
        let (_, report) = turn(&engine, &format!("question {number}")).await;
        assert!(report.summary.is_none(), "no call waits");
        engine.drain(std::time::Duration::from_secs(10)).await.unwrap();
    }
    assert!(facts.calls() > 2);
}

/// Spare tokens raise the limit of one prompt only, so they do not delay a summary.
#[tokio::test]
async fn a_summary_starts_at_the_plain_limit_if_the_counter_counts_too_many_tokens() {
    const PLAIN: u64 = 1_800;
    let facts = Facts::new();
    let summaries = Summaries::new(facts.clone()).when(SummarizeWhen::AfterReply { percent: 100 });
    let options = options(summaries).context(ContextBudget::tokens(2_000).reply_reserve(200));
    let engine = Engine::with_options(MemoryStore::new(), options);
    let mut was_raised = false;
    for number in 0..60 {
        let turn = begin(&engine, &format!("question {number}")).await;
        let counted: u64 = turn.context().iter().map(|m| u64::from(ByteEstimate::new().count_message(m))).sum();
        let mut reply = Reply::new(Message::assistant("a".repeat(80)));
        reply.usage = Some(Usage::new(counted * 80 / 100, 1));
        let tokens = turn.commit(reply).await.unwrap().tokens.unwrap();
        engine.drain(std::time::Duration::from_secs(10)).await.unwrap();
        was_raised |= tokens.limit > PLAIN;
        if facts.calls() > 0 {
            assert!(was_raised && tokens.prompt.total() <= PLAIN, "{tokens:?}");
            return;
        }
        assert!(tokens.prompt.total() <= PLAIN, "no summary was made: {tokens:?}");
    }
    panic!("no summary was made");
}
