//! Errors for prompts that do not fit.

use tower_chat_history::{ContextBudget, ConversationId, HistoryOptions, Message};

use super::{
    call_spec::{ADAPTERS, CallSpec, tool},
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
async fn an_input_that_does_not_fit_is_refused_with_an_error_that_has_sizes_and_settings_but_no_text() {
    for integration in ADAPTERS {
        let stack = Stack::new(options(100));
        stack.call(0, integration, &CallSpec::new(id(), [Message::user("short")])).await.unwrap();
        let mut spec = CallSpec::new(id(), [Message::user("secret ".repeat(200))]);
        spec.head.push(Message::system("secret head"));
        let error = stack.call(0, integration, &spec).await.unwrap_err();
        let text_of_error = error.to_string();
        let parts = does_not_fit(&error).parts;
        assert!(
            parts.input > 200 && parts.head > 4 && parts.tools == 3 && parts.window == 0,
            "{integration:?}: {parts:?}"
        );
        for part in ["head", "tools", "response format", "summary", "window", "input", "reply reserve 10"] {
            assert!(text_of_error.contains(part), "{part}: {text_of_error}");
        }
        assert!(
            text_of_error.contains(&format!("input {}", parts.input))
                && text_of_error.contains("exceed the context window of 100 tokens"),
            "{text_of_error}"
        );
        for setting in ["budget's context window", "reply_reserve", "shrink_reply_to"] {
            assert!(text_of_error.contains(setting), "{setting}: {text_of_error}");
        }
        assert!(!format!("{text_of_error} {error:?}").contains("secret"), "{text_of_error}");
        assert_eq!((stack.model.calls(), stack.log(&id()).await.len()), (1, 2), "neither called nor stored");
    }
}

#[tokio::test]
async fn tools_and_response_format_count() {
    for integration in ADAPTERS {
        let stack = Stack::new(options(200));
        let mut spec = CallSpec::new(id(), [Message::user("short")]);
        spec.tools = Some(tool("f", &text(20)));
        stack.call(0, integration, &spec).await.unwrap();
        spec.exchange = tower_chat_history::ExchangeId::generate();
        spec.tools = Some(tool("f", &text(300)));
        let error = stack.call(0, integration, &spec).await.unwrap_err();
        let parts = does_not_fit(&error).parts;
        assert!(parts.tools > 300 && parts.response_format == 0 && parts.total() < parts.tools + 20, "{parts:?}");

        spec.tools = None;
        spec.response_format = Some(format!(
            r#"{{"type":"json_schema","json_schema":{{"name":"n","description":"{}","schema":{{}}}}}}"#,
            text(300)
        ));
        let error = stack.call(0, integration, &spec).await.unwrap_err();
        let parts = does_not_fit(&error).parts;
        assert!(parts.response_format > 300 && parts.tools == 3, "{parts:?}");
        assert_eq!(stack.model.calls(), 1);
    }
}

/// Results need their calls and the question that these serve. The turn stays open for smaller results.
#[tokio::test]
async fn results_that_do_not_fit_are_refused_and_smaller_ones_are_accepted() {
    for integration in ADAPTERS {
        let stack = Stack::new(options(150));
        stack.model.answers(super::model::Answer::new(super::steps::calls(&["x", "y"], 0)));
        stack.call(0, integration, &CallSpec::new(id(), [Message::user(text(30))])).await.unwrap();
        let results = |words: usize| CallSpec::new(id(), [Message::tool("y", "r"), Message::tool("x", text(words))]);
        let error = stack.call(0, integration, &results(200)).await.unwrap_err();
        let parts = does_not_fit(&error).parts;
        assert!(parts.window > 30 && parts.input > 200, "{parts:?}");
        stack.call(0, integration, &results(10)).await.unwrap();
        assert_eq!(stack.log(&id()).await.len(), 5);
    }
}
