//! The adapter of the guide "Writing an adapter", with the guide's own test and tests of what the guide says about it.

use tower::Service as _;
use tower_chat_history::{ContextBudget, HistoryOptions, HistoryStore as _, store::Seq};

include!("../../docs/writing_an_adapter.rs");
include!("../../docs/writing_an_adapter_test.rs");

fn ask(question: &str, max_tokens: Option<u32>) -> Ask {
    let (model, instructions) = ("small".to_owned(), "Be brief.".to_owned());
    Ask { model, instructions, history: Vec::new(), question: question.to_owned(), max_tokens }
}

fn id() -> ConversationId {
    ConversationId::new(["tests"]).unwrap()
}

#[tokio::test]
async fn instructions_are_not_stored_and_usage_is() {
    let store = MemoryStore::new();
    let model = service_fn(|_: Ask| async {
        Ok::<_, BoxError>(Answer { text: "Hello!".into(), input_tokens: 9, output_tokens: 2 })
    });
    let chat = ChatHistoryLayer::new(store.clone(), AskAdapter).layer(model);
    assert_eq!(chat.oneshot(InConversation::new(id(), ask("Hi", None))).await.unwrap().text, "Hello!");
    let page = store.read(&id(), Seq::FIRST, 9).await.unwrap();
    let [recorded] = &page.exchanges[..] else { panic!("not one exchange") };
    assert_eq!(recorded.exchange.messages, [Message::user("Hi"), Message::assistant("Hello!")]);
    assert_eq!(recorded.exchange.usage, Some(Usage::new(9, 2)));
}

#[tokio::test]
async fn a_stateless_call_passes_through() {
    let model = service_fn(|ask: Ask| async move {
        Ok::<_, BoxError>(Answer { text: format!("{ask:?}"), input_tokens: 9, output_tokens: 2 })
    });
    let chat = ChatHistoryLayer::new(MemoryStore::new(), AskAdapter).layer(model);
    let answer = chat.oneshot(InConversation::stateless(ask("Hi", None))).await.unwrap();
    assert_eq!(answer.text, format!("{:?}", ask("Hi", None)));
}

#[tokio::test]
async fn messages_with_tools_are_counted_as_downgraded() {
    let call =
        r#"{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    let window = [Message::user("Hi"), Message::from_json(call).unwrap(), Message::tool("x", "1")];
    let completed = AskDraft(ask("Hi", Some(100))).complete(Prompt::new(&window)).unwrap();
    assert_eq!(completed.downgraded, 2);
    assert_eq!(completed.request.history, ["user: Hi", "assistant: ", "tool: 1"]);
    assert_eq!(completed.request.max_tokens, Some(100));
}

#[tokio::test]
async fn the_reply_limit_is_lowered() {
    let limit = |ask: Ask| async move {
        let limit = ask.max_tokens.map_or("none".to_owned(), |tokens| tokens.to_string());
        Ok::<_, BoxError>(Answer { text: limit, input_tokens: 9, output_tokens: 2 })
    };
    let options = HistoryOptions::new().context(ContextBudget::tokens(200).shrink_reply_to(20));
    let mut chat = ChatHistoryLayer::with_options(MemoryStore::new(), AskAdapter, options).layer(service_fn(limit));
    let answer = chat.ready().await.unwrap().call(InConversation::new(id(), ask("Hi", Some(190)))).await.unwrap();
    let lowered: u32 = answer.text.parse().unwrap();
    assert!((20..190).contains(&lowered), "{lowered}");
}
