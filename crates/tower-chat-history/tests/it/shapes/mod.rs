//! Every form of requests and responses, and every extractor.

mod closures;
mod extractors;
mod json;
mod routed;
mod transcripts;

use std::{collections::HashMap, sync::Arc};

use serde_json::{Value, json};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ConversationId, HistoryStore, HistoryStoreExt as _, InConversation, MemoryStore,
    Message, MissingConversation, RoutedStore,
    adapt::{Custom, Json},
};

fn id(parts: &[&str]) -> ConversationId {
    ConversationId::new(parts).unwrap()
}

fn conversation() -> ConversationId {
    id(&["tests", "one"])
}

async fn log(store: &impl HistoryStore, id: &ConversationId) -> Vec<String> {
    let messages = store.conversation(id).messages().await.unwrap();
    messages.iter().map(|message| message.text().into_owned()).collect()
}

/// Returns a model's reply that repeats the texts of these messages, for tests of the prompt.
fn echo(messages: &[Message]) -> Message {
    Message::assistant(messages.iter().map(|message| message.text().into_owned()).collect::<Vec<_>>().join("|"))
}

/// Returns the same reply as JSON.
fn echo_json(request: &Value) -> Value {
    let texts =
        request["messages"].as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap_or("-"));
    let text = texts.collect::<Vec<_>>().join("|");
    json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
}

fn text_of(response: &Value) -> &str {
    response["choices"][0]["message"]["content"].as_str().unwrap()
}

fn user(text: &str) -> Value {
    json!({"messages": [{"role": "user", "content": text}]})
}

#[tokio::test]
async fn an_adapter_takes_messages_and_returns_a_message() {
    let adapter = Custom::messages(|messages: &mut Vec<Message>| messages).reply(|answer: &Message| answer.clone());
    let llm = service_fn(|messages: Vec<Message>| async move { Ok::<_, BoxError>(echo(&messages)) });
    let mut chat = ChatHistoryLayer::new(MemoryStore::new(), adapter).layer(llm);

    let ask = |text: &str| InConversation::new(conversation(), vec![Message::system("S"), Message::user(text)]);
    assert_eq!(chat.ready().await.unwrap().call(ask("a")).await.unwrap().text(), "S|a");
    assert_eq!(chat.ready().await.unwrap().call(ask("b")).await.unwrap().text(), "S|a|S|a|b");
}

#[derive(Clone, Default)]
struct Prompt {
    examples: Vec<Message>,
    history: Vec<Message>,
    question: String,
}

#[tokio::test]
async fn an_adapter_takes_a_struct_with_a_history_field() {
    let adapter = Custom::new(|prompt: &Prompt| Message::user(&prompt.question))
        .fill(|prompt, window| Prompt { history: window.to_vec(), ..prompt })
        .reply(|answer: &Message| answer.clone());
    // The template: few-shot messages, the placeholder, the question.
    let llm = service_fn(|prompt: Prompt| async move {
        let question = Message::user(format!("Q: {}", prompt.question));
        Ok::<_, BoxError>(echo(&[prompt.examples, vec![Message::user("->")], prompt.history, vec![question]].concat()))
    });
    let store = MemoryStore::new();
    let mut chat = ChatHistoryLayer::new(store.clone(), adapter).layer(llm);

    let ask = |question: &str| {
        let examples = vec![Message::user("2+2"), Message::assistant("4")];
        InConversation::new(conversation(), Prompt { examples, question: question.into(), ..Prompt::default() })
    };
    assert_eq!(chat.ready().await.unwrap().call(ask("a")).await.unwrap().text(), "2+2|4|->|Q: a");
    let second = chat.ready().await.unwrap().call(ask("b")).await.unwrap();
    assert_eq!(second.text(), "2+2|4|->|a|2+2|4|->|Q: a|Q: b");
    assert_eq!(log(&store, &conversation()).await[2], "b", "neither examples nor template are stored");
}

#[derive(Clone, Debug)]
struct Answer {
    output: String,
    sources: usize,
}

#[tokio::test]
async fn an_adapter_returns_a_struct_with_an_output_field() {
    let adapter = Custom::messages(|messages: &mut Vec<Message>| messages)
        .reply(|answer: &Answer| Message::assistant(&answer.output));
    let llm = service_fn(|messages: Vec<Message>| async move {
        Ok::<_, BoxError>(Answer { output: echo(&messages).text().into(), sources: messages.len() })
    });
    let store = MemoryStore::new();
    let mut chat = ChatHistoryLayer::new(store.clone(), adapter).layer(llm);

    let ask = |text: &str| InConversation::new(conversation(), vec![Message::user(text)]);
    chat.ready().await.unwrap().call(ask("a")).await.unwrap();
    let second = chat.ready().await.unwrap().call(ask("b")).await.unwrap();
    assert_eq!((second.output.as_str(), second.sources), ("a|a|b", 3));
    assert_eq!(log(&store, &conversation()).await, ["a", "a", "b", "a|a|b"]);
}

struct Chat {
    temperature: f32,
    messages: Vec<Message>,
}

#[tokio::test]
async fn an_adapter_takes_a_struct_with_all_messages() {
    let adapter = Custom::messages(|chat: &mut Chat| &mut chat.messages).reply(|answer: &Message| answer.clone());
    let llm = service_fn(|chat: Chat| async move {
        assert!(chat.temperature > 0.4);
        Ok::<_, BoxError>(echo(&chat.messages))
    });
    let store = MemoryStore::new();
    let mut chat = ChatHistoryLayer::new(store.clone(), adapter).layer(llm);

    let ask = |text: &str| {
        let head = [Message::system("S"), Message::user("example"), Message::assistant("shown")];
        let messages = head.into_iter().chain([Message::user(text)]).collect();
        InConversation::new(conversation(), Chat { temperature: 0.5, messages }).few_shot_messages(2)
    };
    assert_eq!(chat.ready().await.unwrap().call(ask("a")).await.unwrap().text(), "S|example|shown|a");
    let second = chat.ready().await.unwrap().call(ask("b")).await.unwrap();
    assert_eq!(second.text(), "S|example|shown|a|S|example|shown|a|b");
    assert_eq!(log(&store, &conversation()).await.len(), 4, "the head is never stored");
}

#[tokio::test]
async fn an_adapter_takes_and_returns_text() {
    // The model's request type differs from the caller's.
    let adapter = Custom::new(|text: &String| Message::user(text))
        .fill(|text, window| [window, &[Message::user(text)]].concat())
        .reply(|answer: &String| Message::assistant(answer));
    let llm =
        service_fn(|messages: Vec<Message>| async move { Ok::<_, BoxError>(echo(&messages).text().into_owned()) });
    let mut chat = ChatHistoryLayer::new(MemoryStore::new(), adapter).layer(llm);

    let ask = |text: &str| InConversation::new(conversation(), text.to_owned());
    assert_eq!(chat.ready().await.unwrap().call(ask("a")).await.unwrap(), "a");
    assert_eq!(chat.ready().await.unwrap().call(ask("b")).await.unwrap(), "a|a|b");
}

#[tokio::test]
async fn another_user_with_the_same_conversation_part_starts_empty() {
    let adapter = Json::new().id_from(|request: &Value| {
        let part = |name: &str| request[name].as_str().ok_or(MissingConversation);
        Ok::<_, BoxError>(ConversationId::new([part("user_id")?, part("conversation_id")?])?)
    });
    let llm = service_fn(|request: Value| async move { Ok::<_, BoxError>(echo_json(&request)) });
    let mut chat = ChatHistoryLayer::new(MemoryStore::new(), adapter).layer(llm);

    let mut ask = async |user_id: &str, text: &str| {
        let mut request = user(text);
        request["user_id"] = user_id.into();
        request["conversation_id"] = "1".into();
        text_of(&chat.ready().await.unwrap().call(request).await.unwrap()).to_owned()
    };
    assert_eq!(ask("ann", "a").await, "a");
    assert_eq!(ask("ann", "b").await, "a|a|b");
    assert_eq!(ask("bob", "c").await, "c");
}

#[tokio::test]
async fn an_explicitly_stateless_call_is_passed_on() {
    let llm = service_fn(|request: Value| async move { Ok::<_, BoxError>(request) });
    let mut chat = ChatHistoryLayer::new(MemoryStore::with_limit(0), Json::new()).layer(llm);
    // Passed on unchanged, in any format.
    let odd = json!({"messages": 7});
    assert_eq!(chat.ready().await.unwrap().call(InConversation::stateless(odd.clone())).await.unwrap(), odd);

    let adapter = Custom::new(|text: &&'static str| Message::user(text))
        .fill(|text, window| (window.len(), text))
        .reply(|_: &usize| None::<Message>);
    let llm = service_fn(|(window, text): (usize, &'static str)| async move { Ok::<_, BoxError>(window + text.len()) });
    let chat = ChatHistoryLayer::new(MemoryStore::with_limit(0), adapter).layer(llm);
    assert_eq!(chat.oneshot(InConversation::stateless("abc")).await.unwrap(), 3);
}

#[tokio::test]
async fn a_routed_store_picks_the_store_by_conversation() {
    let stores: HashMap<_, _> = ["acme", "umbrella"].map(|tenant| (tenant, Arc::new(MemoryStore::new()))).into();
    let known = stores.clone();
    let fallback = Arc::new(MemoryStore::new());
    let routed = RoutedStore::new(move |id: &ConversationId| -> Arc<dyn HistoryStore> {
        let store = id.parts().next().and_then(|tenant| known.get(&*tenant));
        store.map_or_else(|| Arc::clone(&fallback), Arc::clone)
    });
    let llm = service_fn(|request: Value| async move { Ok::<_, BoxError>(echo_json(&request)) });
    let mut chat = ChatHistoryLayer::new(routed.clone(), Json::new()).layer(llm);

    for (tenant, text) in [("acme", "a"), ("umbrella", "b"), ("acme", "c"), ("other", "d")] {
        let call = InConversation::new(id(&[tenant, "1"]), user(text));
        chat.ready().await.unwrap().call(call).await.unwrap();
    }
    assert_eq!(log(&stores["acme"], &id(&["acme", "1"])).await, ["a", "a", "c", "a|a|c"]);
    assert_eq!(log(&stores["umbrella"], &id(&["umbrella", "1"])).await, ["b", "b"]);
    assert_eq!(log(&routed, &id(&["other", "1"])).await, ["d", "d"]);
    assert!(log(&stores["acme"], &id(&["other", "1"])).await.is_empty());

    routed.delete(&id(&["acme", "1"])).await.unwrap();
    assert!(log(&stores["acme"], &id(&["acme", "1"])).await.is_empty());
}
