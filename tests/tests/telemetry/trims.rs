//! The telemetry of prompts that are too large.

use serde_json::{Value, json};
use tests::{BOTH_KINDS, CallKind, Chat, Storage, over_every_store, request};
use tower_chat_history::{
    ContextBudget, ContextOptions, HistoryOptions, HistoryStoreExt as _, InConversation, Message, budget::Watermarks,
};
use tower_chat_history_test::{Op, Replies, Reply};

use crate::{
    chats::{ask, long, small},
    seen::ReceivedSpan,
    trace::traced,
};

over_every_store! {
    #[tokio::test(start_paused = true)]
    a_prompt_that_is_over_its_budget,
    too_many_messages,
    without_a_budget,
    the_time_of_a_count,
    a_prompt_that_does_not_fit,
    a_lowered_reply_limit,
    superseded_calls,
}

fn answers() -> Replies {
    Replies::rules(|_| Reply::text(long("answer")))
}

fn number(span: &ReceivedSpan, attribute: &str) -> i64 {
    span[attribute].as_i64().unwrap_or_else(|| panic!("{attribute} of {span:#?}"))
}

/// Checks that the parts add up to the prompt.
fn check_sizes(trim: &ReceivedSpan) {
    let parts = ["head", "tools", "summary", "window", "input"]
        .map(|part| number(trim, &format!("chat_history.tokens.{part}")));
    assert_eq!(parts.iter().sum::<i64>(), number(trim, "chat_history.tokens.after"));
}

async fn a_prompt_that_is_over_its_budget(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::with_options(&storage, answers(), small()), storage.conversation());
        let mut trimmed = 0;
        for turn in 0..20 {
            let (answered, trace) = traced(ask(&chat, kind, &id, &long("question"))).await;
            assert!(answered);
            let (trim, call, save) = (trace.one("trim"), trace.one("chat mock"), trace.one("save"));
            check_sizes(trim);
            trim.assert_attributes([
                ("chat_history.tokens.budget", json!(500)),
                ("chat_history.tokenizer", json!("o200k_base")),
            ]);
            trim.assert_attributes([("chat_history.calibration", json!(1.0))]);
            let of = |attribute: &str| number(trim, &format!("chat_history.{attribute}"));
            assert_eq!(of("tokens.before") - of("tokens.evicted"), of("tokens.after"));
            assert_eq!(of("messages.before") - of("messages.evicted"), of("messages.after"));
            assert!(of("tokens.after") <= 500);
            if trim["chat_history.trim.needed"] == true {
                trimmed += 1;
                trim.assert_attributes([
                    ("chat_history.trim.reason", json!("tokens")),
                    ("chat_history.trim.strategy", json!("turns")),
                    ("chat_history.trim.compacted", json!(true)),
                    ("chat_history.trim.for_this_call", json!(false)),
                ]);
                assert!(of("tokens.before") > 500 && of("messages.evicted") > 0);
                save.assert_attributes([("chat_history.save.compaction", json!("stored"))]);
            } else {
                trim.assert_attributes([
                    ("chat_history.trim.reason", Value::Null),
                    ("chat_history.trim.strategy", Value::Null),
                    ("chat_history.trim.compacted", json!(false)),
                    ("chat_history.tokens.evicted", json!(0)),
                ]);
                save.assert_attributes([("chat_history.save.compaction", Value::Null)]);
            }
            // After a compaction, the model never gets the whole conversation again. The attribute is missing
            // instead of being false.
            let compacted = if trimmed > 0 { json!(true) } else { Value::Null };
            call.assert_attributes([("gen_ai.conversation.compacted", compacted)]);
            assert!(turn > 0 || trimmed == 0);
        }
        assert!(trimmed > 1, "{trimmed}");
    }
}

async fn too_many_messages(storage: Storage) {
    let options = HistoryOptions::new().context(ContextOptions::new().watermarks(Watermarks::last_messages(4)));
    let (chat, id) = (Chat::with_options(&storage, answers(), options), storage.conversation());
    let mut reasons = Vec::new();
    for _ in 0..4 {
        let (_, trace) = traced(ask(&chat, CallKind::Unary, &id, "u")).await;
        let trim = trace.one("trim");
        trim.assert_attributes([("chat_history.tokens.budget", Value::Null)]);
        reasons.push(trim["chat_history.trim.reason"].clone());
    }
    assert_eq!(reasons, [Value::Null, Value::Null, Value::Null, json!("messages")]);
}

async fn without_a_budget(storage: Storage) {
    let options = HistoryOptions::new().context(ContextBudget::unlimited());
    let (chat, id) = (Chat::with_options(&storage, answers(), options), storage.conversation());
    let (_, trace) = traced(ask(&chat, CallKind::Unary, &id, "u")).await;
    let trim = trace.one("trim");
    trim.assert_attributes([
        ("chat_history.trim.needed", json!(false)),
        ("chat_history.messages.before", json!(1)),
        ("chat_history.messages.after", json!(1)),
        ("chat_history.messages.evicted", json!(0)),
    ]);
    assert!(!trim.has("chat_history.tokens.before"), "tokens are not counted without a budget");
    assert!(!trace.turn().has("chat_history.estimate.error"));
}

async fn the_time_of_a_count(storage: Storage) {
    let options = HistoryOptions::new().context(ContextBudget::tokens(100_000));
    let (chat, id) = (Chat::with_options(&storage, answers(), options), storage.conversation());
    let log = (0..900).map(|number| Message::user(format!("question {number}")));
    storage.store.conversation(&id).import(log).await.unwrap();

    let (_, trace) = traced(ask(&chat, CallKind::Unary, &id, "u")).await;
    let trim = trace.one("trim");
    assert!(number(trim, "chat_history.count.texts") > 900, "imported messages have no counts");
    assert!(trim["chat_history.count.duration_ms"].as_f64().unwrap() > 0.0);

    let (_, trace) = traced(ask(&chat, CallKind::Unary, &id, "new")).await;
    let trim = trace.one("trim");
    assert_eq!(number(trim, "chat_history.count.texts"), 1, "the others were counted in the first turn");

    let (_, trace) = traced(ask(&chat, CallKind::Unary, &id, "new")).await;
    let trim = trace.one("trim");
    assert!(!trim.has("chat_history.count.texts") && !trim.has("chat_history.count.duration_ms"));
}

async fn a_prompt_that_does_not_fit(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::with_options(&storage, [], small()), storage.conversation());
        let (answered, trace) = traced(ask(&chat, kind, &id, &"word ".repeat(900))).await;
        assert!(!answered && chat.llm.requests().is_empty() && storage.store.calls(Op::Append) == 0);
        assert_eq!(trace.tree(), ["chat_history !does_not_fit", "  load", "  trim !does_not_fit"]);
        trace.turn().assert_attributes([("chat_history.outcome", json!("refused"))]);
        let trim = trace.one("trim");
        check_sizes(trim);
        trim.assert_attributes([("chat_history.trim.needed", json!(true)), ("chat_history.tokens.budget", json!(500))]);
        assert!(number(trim, "chat_history.tokens.input") > 900);
    }
}

async fn a_lowered_reply_limit(storage: Storage) {
    let budget = tower_chat_history::ContextBudget::tokens(600).shrink_reply_to(50).calibrate(false);
    let (chat, id) =
        (Chat::with_options(&storage, answers(), HistoryOptions::new().context(budget)), storage.conversation());
    let mut typed_request = request([Message::user("word ".repeat(300))]);
    typed_request.max_completion_tokens = Some(400);
    typed_request.n = Some(2);
    let call = InConversation::new(id, typed_request);
    let (answered, trace) = traced(chat.call(CallKind::Unary, call)).await;
    answered.unwrap();
    let limit = number(trace.one("trim"), "chat_history.reply.limit");
    assert!((50..400).contains(&limit), "{limit}");
    trace.one("trim").assert_attributes([("chat_history.trim.strategy", json!("shrink_reply"))]);
    trace.one("chat mock").assert_attributes([
        ("gen_ai.request.max_tokens", json!(limit)),
        ("gen_ai.request.choice.count", json!(2)),
        ("gen_ai.conversation.compacted", Value::Null),
    ]);
    assert_eq!(i64::from(chat.llm.requests()[0].max_completion_tokens.unwrap()), limit);
}

async fn superseded_calls(storage: Storage) {
    let replies = [Reply::calls([("x", "f", "{}"), ("y", "f", "{}")]), Reply::text("a")];
    let (chat, id) = (Chat::new(&storage, replies), storage.conversation());
    let (_, trace) = traced(async {
        assert!(ask(&chat, CallKind::Unary, &id, "u0").await && ask(&chat, CallKind::Unary, &id, "u1").await);
    })
    .await;
    let superseded: Vec<_> =
        trace.all("chat_history").into_iter().map(|turn| turn["chat_history.superseded_calls"].clone()).collect();
    assert_eq!(superseded, [Value::Null, json!(2)]);
    trace.all("chat mock")[0].assert_attributes([("gen_ai.response.finish_reasons", json!(["tool_calls"]))]);
}
