//! Prompts that are not those under which the reasoning was made.

use tower_chat_history::{ContextOptions, budget::Watermarks, store::Origin};

use super::*;

/// Thinks in each reply, and calls a tool for each question.
fn replies() -> Replies {
    Replies::rules(|messages| {
        let calls = messages.len();
        match messages.last() {
            Some(last) if last.is_tool_result() => Reply::text(format!("after {calls}")).thinking("so"),
            _ => Reply::calls([("x", "f", "{}")]).thinking("look"),
        }
    })
}

/// Says `turns` questions with a tool round each. `before` changes the conversation before each question.
async fn talk(chat: &mut Chat, integration: (Integration, bool), turns: usize, before: impl Fn(&mut Chat, usize)) {
    for turn in 0..turns {
        before(chat, turn);
        for input in [user(&format!("u{turn}")), result("x")] {
            let said = chat.say(integration, &[input]).await;
            assert_eq!(said, Ok(()), "turn {turn} of {integration:?}");
        }
    }
}

#[tokio::test]
async fn nothing_is_refused_after_a_cut() {
    for (provider, name) in PROVIDERS {
        for integration in CARRYING {
            let context = ContextOptions::new().watermarks(Watermarks::last_turns(2));
            let mut chat = Chat::start(provider, Some(name), replies(), HistoryOptions::new().context(context)).await;
            talk(&mut chat, integration, 6, |_, _| {}).await;
            let prompts = chat.server.prompts_json();
            let last = prompts.last().unwrap().as_array().unwrap();
            assert!(last.len() < chat.log().await.len(), "{provider:?}: nothing was cut");
            assert!(with_reasoning(last) > 0, "{provider:?}: the current turn keeps its reasoning");
        }
    }
}

#[tokio::test]
async fn nothing_is_refused_after_a_change_of_the_head() {
    for (provider, name) in PROVIDERS {
        let mut chat = Chat::start(provider, Some(name), replies(), HistoryOptions::new()).await;
        talk(&mut chat, (Integration::Client, false), 4, |chat, turn| chat.system = format!("S{}", turn / 2)).await;
        let prompts = chat.server.prompts_json();
        let last = with_reasoning(prompts.last().unwrap().as_array().unwrap());
        let expected = match provider {
            // Anthropic's thinking of the first two turns is bound to the other head.
            ChatProvider::OpenRouter => 3,
            ChatProvider::Gemini => 4,
            // `reasoning_content` always stays. With LiteLLM, it repeats the thinking.
            _ => 7,
        };
        assert_eq!(last, expected, "{provider:?}");
        let signed = prompts.last().unwrap().to_string().matches("thinking_blocks").count();
        assert_eq!(signed, if provider == ChatProvider::LiteLlm { 3 } else { 0 });
    }
}

#[tokio::test]
async fn a_mark_for_the_cache_changes_nothing() {
    for (provider, name) in [(ChatProvider::OpenRouter, "openrouter"), (ChatProvider::LiteLlm, "litellm")] {
        let chat = Chat::start(provider, Some(name), replies(), HistoryOptions::new()).await;
        let marked = |text: &str| {
            let part = json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
            json!({"role": "user", "content": [part]})
        };
        for turn in 0..3 {
            chat.say((Integration::Client, true), &[marked(&format!("u{turn}"))]).await.unwrap();
            chat.say((Integration::Client, true), &[result("x")]).await.unwrap();
        }
        let prompts = chat.server.prompts_json();
        assert_eq!(with_reasoning(prompts.last().unwrap().as_array().unwrap()), 5, "{provider:?}");
    }
}

#[tokio::test]
async fn another_provider_gets_no_signatures() {
    for (provider, name) in PROVIDERS {
        if provider == ChatProvider::DeepSeek {
            continue; // Its reasoning is not sealed.
        }
        let first = Chat::start(provider, Some(name), replies(), HistoryOptions::new()).await;
        first.say((Integration::Json, false), &[user("u")]).await.unwrap();
        first.say((Integration::Json, false), &[result("x")]).await.unwrap();
        let server = MockServer::start(Replies::script([Reply::text("c")])).await.unwrap();
        let options = HistoryOptions::new().origin(Origin::unknown().provider("another"));
        let engine = Engine::with_options(first.store.clone(), options);
        let other = Chat { server, store: first.store.clone(), engine, name: None, system: "S".into() };
        other.say((Integration::Json, false), &[user("v")]).await.unwrap();
        let sent = other.server.prompts_json();
        let sealed = sent[0].to_string();
        for name in ["thought_signature", "reasoning_details", "thinking_blocks", "signature"] {
            assert!(!sealed.contains(name), "{provider:?}: {sealed}");
        }
    }
}
