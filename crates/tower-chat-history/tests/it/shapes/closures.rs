//! Closures that fold streams, or fail.

use futures_util::{StreamExt as _, TryStreamExt as _, stream, stream::BoxStream};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, InConversation, MemoryStore, Message, Reply,
    adapt::{Custom, Flow, FoldReply},
    store::MessageError,
};

use super::{conversation, log};

#[derive(Default)]
struct Words(String, bool);

impl FoldReply<&'static str> for Words {
    fn push(&mut self, item: &&'static str) -> Flow {
        match *item {
            "." => self.1 = true,
            word => self.0.push_str(word),
        }
        Flow::Pass
    }

    fn is_complete(&self) -> bool {
        self.1
    }

    fn is_whole(&self) -> bool {
        self.1
    }

    fn reply(&self) -> Reply {
        Reply::new(Message::assistant(&self.0))
    }

    fn partial(&self) -> Option<Reply> {
        None
    }
}

#[tokio::test]
async fn closures_fold_streams() {
    let store = MemoryStore::new();
    let adapter = Custom::messages(|messages: &mut Vec<Message>| messages).fold(|_| Words::default());
    let llm = service_fn(|_: Vec<Message>| async {
        let words: BoxStream<'static, Result<&'static str, BoxError>> = stream::iter(["a", "b", "."].map(Ok)).boxed();
        Ok::<_, BoxError>(words)
    });
    let chat = ChatHistoryLayer::new(store.clone(), adapter).layer(llm);
    let stream = chat.oneshot(InConversation::new(conversation(), vec![Message::user("u")])).await.unwrap();
    assert_eq!(stream.try_collect::<Vec<_>>().await.unwrap(), ["a", "b", "."]);
    assert_eq!(log(&store, &conversation()).await, ["u", "ab"]);
}

#[tokio::test]
async fn a_closure_may_return_a_result() {
    let store = MemoryStore::new();
    let adapter = Custom::new(|text: &&'static str| Message::user(text))
        .try_fill(|text, window| if window.is_empty() { Ok(text) } else { Err("too long") })
        .reply(|answer: &&'static str| (*answer != "say nothing").then(|| Reply::new(Message::assistant(answer))));
    let llm = service_fn(|text: &'static str| async move { Ok::<_, BoxError>(text) });
    let mut chat = ChatHistoryLayer::new(store.clone(), adapter).layer(llm);
    let ask = |text: &'static str| InConversation::new(conversation(), text);

    assert_eq!(chat.ready().await.unwrap().call(ask("say nothing")).await.unwrap(), "say nothing");
    assert_eq!(log(&store, &conversation()).await.len(), 0, "without a reply nothing is stored");
    assert_eq!(chat.ready().await.unwrap().call(ask("hi")).await.unwrap(), "hi");
    assert_eq!(log(&store, &conversation()).await, ["hi", "hi"]);
    assert_eq!(chat.ready().await.unwrap().call(ask("again")).await.unwrap_err().to_string(), "too long");
}

#[tokio::test]
async fn closures_may_fail() {
    let store = MemoryStore::new();
    let adapter = Custom::new(|text: &&'static str| Message::from_json(*text))
        .try_fill(|text, window| if window.len() > 2 { Err("too long") } else { Ok(text) })
        .reply(|answer: &&'static str| Message::assistant(answer));
    let llm = service_fn(|text: &'static str| async move { Ok::<_, BoxError>(text) });
    let mut chat = ChatHistoryLayer::new(store.clone(), adapter).layer(llm);
    let ask = |text: &'static str| InConversation::new(conversation(), text);

    let error = chat.ready().await.unwrap().call(ask("no JSON")).await.unwrap_err();
    assert!(error.is::<MessageError>());
    let json = r#"{"role":"user","content":"a"}"#;
    chat.ready().await.unwrap().call(ask(json)).await.unwrap();
    chat.ready().await.unwrap().call(ask(json)).await.unwrap();
    assert_eq!(chat.ready().await.unwrap().call(ask(json)).await.unwrap_err().to_string(), "too long");
    assert_eq!(log(&store, &conversation()).await.len(), 4);
}
