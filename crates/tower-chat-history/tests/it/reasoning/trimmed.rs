//! Trimmers, and a model that thinks with a budget: the provider refuses results before which no thinking is.

use serde_json::{Value, json};
use tower_chat_history::{
    ContextBudget, ContextOptions, ConversationId, Engine, HistoryError, HistoryOptions, MemoryStore, Message, Reply,
    TurnInput, budget::KeepFirst, dialect::AnthropicMessages, tokens::ByteEstimate,
};
use tower_chat_history_test::messages::{MessagesProvider, Say};

fn message(json: &Value) -> Message {
    Message::in_dialect(&AnthropicMessages, json.to_string()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_thinks_with_a_budget_continues_under_a_trimmer() {
    let budget = ContextBudget::tokens(400).reply_reserve(20).calibrate(false);
    let context = ContextOptions::new().budget(budget).token_counter(ByteEstimate::new()).trimmer(KeepFirst::new(1));
    let engine = Engine::with_options(MemoryStore::new(), HistoryOptions::new().context(context));
    let (id, provider) = (ConversationId::new(["trimmed"]).unwrap(), MessagesProvider::new("one"));
    let (mut calls, mut compacted) = (0, 0);
    for turn in 0..12 {
        let mut input = message(&json!({"role": "user", "content": format!("{turn} {}", "x".repeat(120))}));
        for round in 0..3 {
            let mut call = TurnInput::new(id.clone(), vec![input]).dialect(&AnthropicMessages);
            call.request.thinks_with_budget = true;
            let begun = match engine.begin(call).await {
                Ok(begun) => begun,
                // A turn with thinking is not cut.
                Err(HistoryError::DoesNotFit(_)) => break,
                Err(error) => panic!("{error}"),
            };
            let context: Vec<&str> = begun.context().iter().map(Message::json).collect();
            let body = format!(
                r#"{{"model":"m","max_tokens":9,"thinking":{{"type":"enabled","budget_tokens":1024}},"messages":[{}]}}"#,
                context.join(",")
            );
            let tool_call = format!("toolu_{turn}_{round}");
            let says =
                if round < 2 { Say::call(tool_call.clone(), "f", json!({})) } else { Say::Text(tool_call.clone()) };
            let made = provider.reply(&body, &[Say::thinking("hm"), says]).unwrap();
            let made: Value = serde_json::from_str(&made.body()).unwrap();
            let reply = message(&json!({"role": "assistant", "content": made["content"]}));
            let report = begun.commit(Reply::of([reply])).await.unwrap();
            compacted += u32::from(report.tokens.is_some_and(|tokens| tokens.trimming.left_out_turns));
            calls += 1;
            let result = json!({"type": "tool_result", "tool_use_id": tool_call, "content": "r".repeat(60)});
            input = message(&json!({"role": "user", "content": [result]}));
        }
    }
    assert!(calls > 30 && compacted > 0, "{calls} calls, {compacted} compacted");
}
