//! The messages that remain of a conversation that is too long: by default, with watermarks, with clearing,
//! with a trimmer.

use tower_chat_history::{
    ContextBudget, ContextOptions, ConversationId, HistoryOptions, HistoryStoreExt as _, Message,
    budget::{ClearResults, Importance, KeepFirst, TrimTurn, Watermark, Watermarks},
    report::TurnTokens,
    store::Profile,
    tokens::ByteEstimate,
};
use tower_chat_history_test::check_chat_rules;

use super::{
    call_spec::{ADAPTERS, CallSpec, Integration},
    model::Answer,
    stack::Stack,
    steps::{calls, text},
};

fn id() -> ConversationId {
    ConversationId::new(["kept"]).unwrap()
}

fn context(tokens: u32) -> ContextOptions {
    ContextOptions::new().token_counter(ByteEstimate::new()).budget(ContextBudget::tokens(tokens).reply_reserve(10))
}

fn with(context: ContextOptions) -> HistoryOptions {
    HistoryOptions::new().context(context)
}

/// Asks a question. Returns the texts before it in the prompt, and the token counts.
async fn ask(stack: &Stack, profile: usize, integration: Integration, question: &str) -> (Vec<String>, TurnTokens) {
    let spec = CallSpec::new(id(), [Message::user(question)]);
    stack.call(profile, integration, &spec).await.unwrap();
    let sent = stack.model.last().messages;
    assert_eq!(check_chat_rules(&sent), Ok(()));
    let texts = sent[..sent.len() - 1].iter().map(|message| message.text().into_owned());
    (texts.collect(), stack.report(&spec.exchange).unwrap().tokens.unwrap())
}

/// Makes turns of a question `q0`, `q1`, ... and a reply `a`, with 5 tokens for each message.
async fn short_turns(stack: &Stack, integration: Integration, turns: usize) -> Vec<(Vec<String>, TurnTokens)> {
    let mut sent = Vec::new();
    for turn in 0..turns {
        sent.push(ask(stack, 0, integration, &format!("q{turn}")).await);
    }
    sent
}

#[tokio::test]
async fn a_greeting_is_sent_until_the_first_turns_are_evicted() {
    for integration in ADAPTERS {
        let stack = Stack::new(with(context(100)));
        stack.store.conversation(&id()).import([Message::assistant("Hello!")]).await.unwrap();
        let sent = short_turns(&stack, integration, 20).await;
        assert_eq!(sent[3].0, ["Hello!", "q0", "a", "q1", "a", "q2", "a"]);
        let compacted = sent.iter().position(|(_, tokens)| tokens.compacted).unwrap();
        assert!(sent[..compacted].iter().all(|(texts, _)| texts[0] == "Hello!"));
        assert!(sent[compacted..].iter().all(|(texts, _)| texts[0].starts_with('q')), "it starts with a question");
    }
}

#[tokio::test]
async fn last_turns_and_last_messages_evict_a_quarter_when_exceeded() {
    for (watermarks, turns) in [(Watermarks::last_turns(4), 4), (Watermarks::last_messages(8), 4)] {
        for integration in ADAPTERS {
            let stack = Stack::new(with(context(10_000).watermarks(watermarks)));
            let sent = short_turns(&stack, integration, 20).await;
            let kept: Vec<usize> = sent.iter().map(|(texts, _)| texts.len() / 2).collect();
            assert_eq!(kept[..turns + 1], [0, 1, 2, 3, 4], "{watermarks:?}");
            assert_eq!(kept[turns + 1..turns + 5], [3, 4, 3, 4], "{watermarks:?}");
            assert!(
                sent.iter()
                    .all(|(_, tokens)| !tokens.for_this_call && tokens.compacted == (tokens.evicted_messages > 0))
            );
        }
    }
}

#[tokio::test]
async fn keep_recent_evicts_all_but_the_newest_messages_when_the_prompt_is_too_large() {
    for integration in ADAPTERS {
        let stack = Stack::new(with(context(110).watermarks(Watermarks::keep_recent(4))));
        let sent = short_turns(&stack, integration, 12).await;
        let kept: Vec<usize> = sent.iter().map(|(texts, _)| texts.len()).collect();
        // The prompt of 9 turns of 10 tokens, 5 and 3 has 98 of 100 tokens.
        assert_eq!(kept, [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 4, 6]);
    }
}

#[tokio::test]
async fn old_results_are_cleared_before_messages_are_evicted_and_stay_in_the_log() {
    for integration in ADAPTERS {
        // Of 291 tokens, 103 must be removed. Two results have 57 tokens more than their placeholders.
        let clear = ClearResults::new().keep(1).exclude_tools(["g"]).placeholder("[gone]");
        let stack = Stack::new(with(context(350).clear_results(clear)));
        for turn in 0..3 {
            stack.model.answers(Answer::new(calls(&["x", "y"], 0)));
            stack.call(0, integration, &CallSpec::new(id(), [Message::user(format!("q{turn}"))])).await.unwrap();
            let results = [Message::tool("x", text(30)), Message::tool("y", "of g: it stays")];
            stack.call(0, integration, &CallSpec::new(id(), results)).await.unwrap();
        }
        let (sent, tokens) = ask(&stack, 0, integration, &text(30)).await;
        assert_eq!(sent.len(), 15, "no message was evicted");
        assert_eq!(sent.iter().filter(|text| *text == "[gone]").count(), 2);
        assert_eq!(sent.iter().filter(|text| *text == "of g: it stays").count(), 3);
        assert_eq!(sent[12], text(30), "the results of the newest calls are kept");
        assert!(tokens.compacted && tokens.evicted_messages == 0 && tokens.evicted_tokens >= 110, "{tokens:?}");
        assert_eq!(stack.compaction(&id(), &Profile::default()).await.unwrap().window_start.get(), 0);
        let logged = stack.log(&id()).await;
        assert_eq!(logged.iter().filter(|message| message.is_tool_result() && message.text() == text(30)).count(), 3);

        // Cleared results stay cleared, even if there is room for them again.
        let (sent, tokens) = ask(&stack, 0, integration, "short").await;
        assert_eq!((sent.iter().filter(|text| *text == "[gone]").count(), tokens.compacted), (2, false));
    }
}

/// A result with few tokens may have more bytes than the placeholder.
#[tokio::test]
async fn clearing_never_makes_a_prompt_larger() {
    for integration in ADAPTERS {
        let budget = ContextBudget::tokens(1_000).reply_reserve(10);
        let clear = ClearResults::new().keep(0).clear_at_least(1_000);
        let watermarks = Watermarks::new(Watermark::Percent(20), Watermark::Percent(20)).unwrap();
        let stack = Stack::new(
            HistoryOptions::new()
                .context(ContextOptions::new().budget(budget).watermarks(watermarks).clear_results(clear)),
        );
        for _ in 0..4 {
            stack.model.answers(Answer::new(calls(&["x"], 0)));
            stack.call(0, integration, &CallSpec::new(id(), [Message::user("q")])).await.unwrap();
            stack.call(0, integration, &CallSpec::new(id(), [Message::tool("x", text(2))])).await.unwrap();
        }
        let (sent, tokens) = ask(&stack, 0, integration, &text(300)).await;
        assert!(sent.len() == 16 && tokens.evicted_messages == 0, "{tokens:?}");
        assert!(tokens.evicted_tokens < 100, "{tokens:?}");
    }
}

#[tokio::test]
async fn a_trimmer_selects_turns_for_one_call_only() {
    let order = |turn: &TrimTurn<'_>| f64::from(turn.messages.iter().any(|message| message.text() == "q1"));
    for integration in ADAPTERS {
        for (context, first, second) in [
            (context(75).trimmer(KeepFirst::new(1)), "q0", "q3"),
            (context(75).trimmer(Importance::new(order)), "q1", "q3"),
        ] {
            let stack = Stack::new(with(context));
            let sent = short_turns(&stack, integration, 9).await;
            // The prompt of 5 turns of 10 tokens, 5 and 3 has 58 of 65 tokens. One more turn does not fit.
            assert_eq!(sent[5].1.evicted_messages, 0);
            let (sent, tokens) = &sent[8];
            assert_eq!(
                (sent.len(), sent[0].as_str(), sent[2].as_str()),
                (10, first, if second == "q3" { "q4" } else { second })
            );
            assert!(tokens.for_this_call && !tokens.compacted && tokens.evicted_messages == 6, "{tokens:?}");
            assert_eq!(stack.compaction(&id(), &Profile::default()).await, None);
        }
    }
}

/// Two models with different windows in one conversation.
#[tokio::test]
async fn two_profiles_of_one_log_have_separate_compactions() {
    for integration in ADAPTERS {
        let [small, large] = ["small", "large"].map(|name| Profile::new(name).unwrap());
        let stack = Stack::of([context(60).profile(small.clone()), context(200).profile(large.clone())].map(with));
        let mut lens = Vec::new();
        for turn in 0..12 {
            let (sent, tokens) = ask(&stack, turn % 2, integration, &format!("q{turn}")).await;
            assert!(!tokens.compacted || turn % 2 == 0, "everything fits the large window");
            lens.push(sent.len());
        }
        assert_eq!(lens.iter().skip(1).step_by(2).copied().collect::<Vec<_>>(), [2, 6, 10, 14, 18, 22]);
        assert!(lens.iter().step_by(2).all(|sent| *sent <= 8), "{lens:?}");
        assert!(stack.compaction(&id(), &small).await.unwrap().window_start.get() > 0);
        assert_eq!(stack.compaction(&id(), &large).await, None);
    }
}

/// By default there is a budget if the model's window is known.
#[tokio::test]
async fn by_default_the_model_of_the_request_determines_the_budget() {
    let log = |turns: usize| (0..turns).flat_map(|_| [Message::user(text(100)), Message::assistant(text(100))]);
    for integration in ADAPTERS {
        for (model, limited) in [("gpt-4", true), ("gpt-4-0613", true), ("no-such-model", false), ("gpt-4o", false)] {
            let stack = Stack::new(HistoryOptions::new());
            stack.store.conversation(&id()).import(log(80)).await.unwrap();
            let mut spec = CallSpec::new(id(), [Message::user("short")]);
            spec.model = model;
            stack.call(0, integration, &spec).await.unwrap();
            let sent = stack.model.last().messages.len();
            let report = stack.report(&spec.exchange).unwrap();
            assert_eq!(sent < 100, limited, "{integration:?} {model}: {sent} of 161");
            assert_eq!(report.tokens.is_some(), model != "no-such-model");
            assert_eq!(stack.compaction(&id(), &Profile::default()).await.is_some(), limited);
        }
    }
}
