//! Callers that resend their list of messages, with adapters made of closures.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tower::{Layer as _, Service as _, ServiceExt as _, service_fn, util::BoxCloneService};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, HistoryError, HistoryStoreExt as _, InConversation, MemoryStore, Message,
    adapt::Custom, engine::InputMode,
};

use super::{Chat, conversation, echo, log};

type Service = BoxCloneService<InConversation<Chat>, Message, BoxError>;

/// Returns the layer over a model, and the number of the model's calls. If a question asks for tools, the model
/// makes three rounds of calls. Then it repeats the prompt.
fn chat(store: &MemoryStore) -> (Service, Arc<AtomicUsize>) {
    let adapter = Custom::messages(|chat: &mut Chat| &mut chat.messages)
        .reply(|answer: &Message| answer.clone())
        .input_mode(InputMode::Transcript);
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let llm = service_fn(move |chat: Chat| {
        counter.fetch_add(1, Ordering::Relaxed);
        async move { Ok::<_, BoxError>(answer(&chat.messages)) }
    });
    (BoxCloneService::new(ChatHistoryLayer::new(store.clone(), adapter).layer(llm)), calls)
}

fn answer(messages: &[Message]) -> Message {
    let results = messages.iter().filter(|message| message.tool_call_id().is_some()).count();
    if results == 3 || !messages.iter().any(|message| message.text() == "tools") {
        return echo(messages);
    }
    let call = format!(r#"{{"id":"c{results}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#);
    // The caller's types do not have the field `reasoning`, see below.
    let json = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{call}],"reasoning":"r"}}"#);
    Message::from_json(json).unwrap()
}

fn ask(messages: &[Message]) -> InConversation<Chat> {
    InConversation::new(conversation(), Chat { temperature: 0.5, messages: messages.to_vec() })
}

#[tokio::test]
async fn an_unmodified_tool_loop_stores_each_message_once() {
    let store = MemoryStore::new();
    let (mut chat, _) = chat(&store);
    let mut messages = vec![Message::system("S"), Message::user("tools")];
    let reply = loop {
        let reply = chat.ready().await.unwrap().call(ask(&messages)).await.unwrap();
        let call = reply.tool_calls().first().map(|call| call.id().to_owned());
        messages.push(Message::from_json(reply.json().replace(r#","reasoning":"r""#, "")).unwrap());
        let Some(call) = call else { break reply };
        messages.push(Message::tool(&call, format!("result of {call}")));
    };
    assert_eq!(
        reply.text(),
        "S|tools||result of c0||result of c1||result of c2",
        "the window replaces the resent messages"
    );
    let results = ["result of c0", "result of c1", "result of c2"];
    let [first, second, third] = results;
    assert_eq!(log(&store, &conversation()).await, ["tools", "", first, "", second, "", third, &reply.text()]);
    let stored = store.conversation(&conversation()).messages().await.unwrap();
    assert_eq!(
        stored.iter().filter(|message| message.json().contains("reasoning")).count(),
        3,
        "the log has all fields"
    );
    assert_eq!(store.conversation(&conversation()).exchanges().await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_transcript_that_differs_from_the_log_never_reaches_the_model() {
    let store = MemoryStore::new();
    let (mut chat, calls) = chat(&store);
    chat.ready().await.unwrap().call(ask(&[Message::system("S"), Message::user("a")])).await.unwrap();

    let edited = [Message::system("S"), Message::user("a"), Message::assistant("another reply"), Message::user("b")];
    let error = chat.ready().await.unwrap().call(ask(&edited)).await.unwrap_err();
    let Some(HistoryError::Transcript(mismatch)) = error.downcast_ref() else { panic!("{error}") };
    assert_eq!((mismatch.position, mismatch.seq.map(|seq| seq.get())), (1, Some(0)));
    assert_eq!((calls.load(Ordering::Relaxed), log(&store, &conversation()).await.len()), (1, 2));
}

#[tokio::test]
async fn few_shot_messages_are_head_and_not_transcript() {
    let store = MemoryStore::new();
    let (mut chat, _) = chat(&store);
    let mut messages = vec![Message::system("S"), Message::user("shown"), Message::assistant("so")];
    for (text, sent) in [("a", "S|shown|so|a"), ("b", "S|shown|so|a|S|shown|so|a|b")] {
        messages.push(Message::user(text));
        let reply = chat.ready().await.unwrap().call(ask(&messages).few_shot_messages(2)).await.unwrap();
        assert_eq!(reply.text(), sent);
        messages.push(reply);
    }
    assert_eq!(store.conversation(&conversation()).messages().await.unwrap(), messages[3..]);
}

#[tokio::test]
async fn stateless_calls_keep_resent_messages() {
    let (mut chat, _) = chat(&MemoryStore::with_limit(0));
    let messages = vec![Message::user("a"), Message::assistant("b"), Message::user("c")];
    let call = InConversation::stateless(Chat { temperature: 0.5, messages });
    assert_eq!(chat.ready().await.unwrap().call(call).await.unwrap().text(), "a|b|c");
}
