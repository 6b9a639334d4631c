//! Prompts that do not fit, and what is said of them.

use tower_chat_history::{ContextBudget, ConversationId, HistoryOptions, Message};

use super::{
    asked::{ADAPTERS, Asked, tool},
    stack::{Stack, does_not_fit},
    steps::text,
};

fn id() -> ConversationId {
    ConversationId::new(["errors"]).unwrap()
}

fn options(context: u32) -> HistoryOptions {
    HistoryOptions::new().context(ContextBudget::tokens(context).reply_reserve(10))
}

#[tokio::test]
async fn an_input_that_does_not_fit_is_refused_with_sizes_and_settings_and_without_text() {
    for door in ADAPTERS {
        let stack = Stack::new(options(100));
        stack.call(0, door, &Asked::new(id(), [Message::user("short")])).await.unwrap();
        let mut asked = Asked::new(id(), [Message::user("secret ".repeat(200))]);
        asked.head.push(Message::system("secret head"));
        let error = stack.call(0, door, &asked).await.unwrap_err();
        let told = error.to_string();
        let parts = does_not_fit(&error).parts;
        assert!(parts.input > 200 && parts.head > 4 && parts.tools == 3 && parts.window == 0, "{door:?}: {parts:?}");
        for part in ["head", "tools", "response format", "summary", "window", "input", "reply reserve 10 tokens"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(told.contains(&format!("input {}", parts.input)) && told.contains("more than the 100"), "{told}");
        for setting in ["budget's window", "reply_reserve", "shrink_reply_to"] {
            assert!(told.contains(setting), "{setting}: {told}");
        }
        assert!(!format!("{told} {error:?}").contains("secret"), "{told}");
        assert_eq!((stack.model.calls(), stack.log(&id()).await.len()), (1, 2), "neither called nor stored");
    }
}

#[tokio::test]
async fn tools_and_response_format_count() {
    for door in ADAPTERS {
        let stack = Stack::new(options(200));
        let mut asked = Asked::new(id(), [Message::user("short")]);
        asked.tools = Some(tool("f", &text(20)));
        stack.call(0, door, &asked).await.unwrap();
        asked.exchange = tower_chat_history::ExchangeId::generate();
        asked.tools = Some(tool("f", &text(300)));
        let error = stack.call(0, door, &asked).await.unwrap_err();
        let parts = does_not_fit(&error).parts;
        assert!(parts.tools > 300 && parts.response_format == 0 && parts.total() < parts.tools + 20, "{parts:?}");

        asked.tools = None;
        asked.response_format = Some(format!(
            r#"{{"type":"json_schema","json_schema":{{"name":"n","description":"{}","schema":{{}}}}}}"#,
            text(300)
        ));
        let error = stack.call(0, door, &asked).await.unwrap_err();
        let parts = does_not_fit(&error).parts;
        assert!(parts.response_format > 300 && parts.tools == 3, "{parts:?}");
        assert_eq!(stack.model.calls(), 1);
    }
}

/// Results cannot be sent without their calls and the question that they serve, and the turn stays open for smaller ones.
#[tokio::test]
async fn results_that_do_not_fit_are_refused_with_their_turn_and_smaller_ones_pass() {
    for door in ADAPTERS {
        let stack = Stack::new(options(150));
        stack.model.answers(super::model::Answer::new(super::steps::calls(&["x", "y"], 0)));
        stack.call(0, door, &Asked::new(id(), [Message::user(text(30))])).await.unwrap();
        let results = |words: usize| Asked::new(id(), [Message::tool("y", "r"), Message::tool("x", text(words))]);
        let error = stack.call(0, door, &results(200)).await.unwrap_err();
        let parts = does_not_fit(&error).parts;
        assert!(parts.window > 30 && parts.input > 200, "{parts:?}");
        stack.call(0, door, &results(10)).await.unwrap();
        assert_eq!(stack.log(&id()).await.len(), 5);
    }
}
