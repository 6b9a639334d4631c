use std::sync::Arc;

use tower_chat_history::{
    BoxError, ContextBudget, ConversationId, Engine, HistoryOptions, HistoryStoreExt as _, MemoryStore, Reply, TurnInput,
};

/// A provider that signs its thinking, and accepts it only after the prompt that it was made for.
fn sign(before: Digest, thinking: &str) -> String {
    before.then(Digest::of(thinking.as_bytes())).to_string()
}

/// Returns the next reply to a prompt, or an error if one of its signatures does not fit.
fn ask(head: Digest, prompt: &[Message]) -> Result<Message, BoxError> {
    let mut before = head;
    for message in prompt {
        for (_, block) in Element::read(message.json())?.blocks {
            if let Block::Thinking { text, signature } = block
                && signature != sign(before, &text)
            {
                return Err("the thinking is bound to another prompt".into());
            }
        }
        before = before.then(message.digest());
    }
    let signature = sign(before, "Hm.");
    let said = json!([{"type": "thinking", "thinking": "Hm.", "signature": signature}, {"type": "text", "text": "Yes."}]);
    Ok(Message::in_dialect(&Blocks, json!({"role": "assistant", "content": said}).to_string())?)
}

#[tokio::test]
async fn no_prompt_is_refused_when_turns_leave_the_window() -> Result<(), BoxError> {
    let store = Arc::new(MemoryStore::new());
    let budget = ContextBudget::tokens(400).reply_reserve(50);
    let engine = Engine::with_options(Arc::clone(&store), HistoryOptions::new().context(budget));
    let id = ConversationId::new(["acme", "user-42"])?;
    let mut left_out = 0;
    for _ in 0..50 {
        let question = json!({"role": "user", "content": [{"type": "text", "text": "Is it so?"}]}).to_string();
        let input = TurnInput::new(id.clone(), [Message::in_dialect(&Blocks, question)?]);
        let head = input.request.digest();
        let turn = engine.begin(input).await?;
        let reply = ask(head, turn.context())?;
        left_out += turn.commit(Reply::new(reply)).await?.reasoning_left_out;
    }
    assert!(left_out > 0);
    assert_eq!(store.conversation(&id).messages().await?.len(), 100);
    Ok(())
}

#[test]
fn thinking_is_bound_in_any_spelling() -> Result<(), BoxError> {
    for block in [
        r#"{"type":"thinking","thinking":"Hm.","signature":"s"}"#,
        r#"{"type":"thinking","thinking":"\ud83d","signature":"s"}"#,
        r#"{"type":"thinking","thinking":"Hm.","signature":5}"#,
        r#"{"type":"thinking"}"#,
        r#"{"\ud83d":1,"type":"thinking","thinking":"Hm.","signature":"s"}"#,
    ] {
        let json = format!(r#"{{"role":"assistant","content":[{block},{{"type":"text","text":"Yes."}}]}}"#);
        let message = Message::in_dialect(&Blocks, json)?;
        assert_eq!(message.bound(), Bound::TO_PREFIX, "{block}");
        let rest = r#"{"role":"assistant","content":[{"type":"text","text":"Yes."}]}"#;
        assert_eq!(message.unbound().map(Message::json), Some(rest), "{block}");
    }
    Ok(())
}

fn samples() -> Samples {
    Samples::new(&Blocks)
        .element(r#"{"role":"user","content":[{"type":"text","text":"Is it so?","cache_control":{"type":"ephemeral"}}]}"#)
        .element(r#"{"role":"user","content":[{"type":"image","source":{}},{"type":"text","text":"And this?"}]}"#)
        .element(r#"{"role":"assistant","content":[{"type":"text","text":"Yes."}]}"#)
        .element(r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"s"}]}"#)
        .element(
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},
                {"type":"text","text":"I look."},{"type":"tool_use","id":"x","name":"look","input":{"at":[1.50]}},
                {"type":"tool_use","id":"y","name":"look","input":{}}]}"#,
        )
        .element(r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}"#)
        .element(
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"},
                {"type":"tool_result","tool_use_id":"y","content":[{"type":"text","text":"2"}],"is_error":true},
                {"type":"text","text":"Go on."}]}"#,
        )
        .unknown(r#"{"role":"checkpoint","at":"2026-11-22"}"#)
}
