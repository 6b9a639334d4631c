//! Both async-openai integrations with one log and one real server: the typed layer, and the client with
//! history.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use async_openai::{
    Client,
    config::OpenAIConfig,
    error::OpenAIError,
    traits::RequestOptionsBuilder as _,
    types::chat::{ChatCompletionRequestMessage, CreateChatCompletionRequest},
};
use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};
use tests::check;
use tower::{Layer as _, Service as _};
use tower_chat_history::{
    ChatHistory, ChatHistoryLayer, ConversationId, Engine, HistoryError, HistoryOptions, HistoryStoreExt as _,
    InConversation, MemoryStore, Message, TurnReport, engine::InputMode,
};
use tower_chat_history_openai::{
    ChatService, OpenAi,
    client::{CONVERSATION_ID, OpenAiHistory},
};
use tower_chat_history_test::{MockServer, Replies, Reply};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Integration {
    Typed,
    Client,
}

struct Chats {
    server: MockServer,
    store: MemoryStore,
    typed: ChatHistory<ChatService<OpenAIConfig>, OpenAi>,
    client: Client<OpenAIConfig>,
    reports: Arc<Mutex<Vec<TurnReport>>>,
}

fn id() -> ConversationId {
    ConversationId::new(["doors"]).unwrap()
}

impl Chats {
    /// Opens the client in this input mode. The typed layer always takes the messages after the head as new.
    async fn open(replies: Replies, mode: InputMode) -> Self {
        let server = MockServer::start(replies).await.unwrap();
        let config = OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("test");
        let (store, reports) = (MemoryStore::new(), Arc::new(Mutex::new(Vec::new())));
        let options = HistoryOptions::new().on_turn({
            let reports = Arc::clone(&reports);
            move |report| reports.lock().unwrap().push(report.clone())
        });
        let engine = Engine::with_options(store.clone(), options);
        let layer = ChatHistoryLayer::from_engine(engine.clone(), OpenAi::new());
        let typed = layer.layer(ChatService::new(Client::with_config(config.clone())));
        let client = OpenAiHistory::from_engine(engine).input_mode(mode).client(config);
        Self { server, store, typed, client, reports }
    }

    async fn log(&self) -> Vec<Message> {
        self.store.conversation(&id()).messages().await.unwrap()
    }

    /// Returns the log as a client keeps it: without fields that its types do not have.
    async fn list(&self) -> Vec<Value> {
        let log = self.log().await;
        let kept = log.iter().map(|message| {
            let known: ChatCompletionRequestMessage = serde_json::from_str(message.json()).unwrap();
            serde_json::to_value(known).unwrap()
        });
        kept.collect()
    }

    /// Sends a head and these messages. Returns the ids of the calls in the reply.
    async fn send(&mut self, integration: Integration, messages: &[Value]) -> Result<Vec<String>, OpenAIError> {
        let messages = [json!({"role": "system", "content": "s"})].into_iter().chain(messages.iter().cloned());
        let messages: Vec<ChatCompletionRequestMessage> =
            messages.map(|message| serde_json::from_value(message).unwrap()).collect();
        let request =
            CreateChatCompletionRequest { model: "m".into(), messages, ..CreateChatCompletionRequest::default() };
        let response = match integration {
            Integration::Typed => self.typed.call(InConversation::new(id(), request)).await.unwrap(),
            Integration::Client => self.client.chat().header(CONVERSATION_ID, id().as_str())?.create(request).await?,
        };
        let reply = serde_json::to_value(&response.choices[0].message).unwrap();
        let calls = reply["tool_calls"].as_array().cloned().unwrap_or_default();
        Ok(calls.into_iter().map(|call| call["id"].as_str().unwrap().to_owned()).collect())
    }

    /// Returns the last prompt without its input, byte for byte.
    fn prefix(&self, input: usize) -> Vec<String> {
        let prompt = self.server.requests().last().unwrap().messages();
        prompt[..prompt.len() - input].iter().map(|message| message.json().to_owned()).collect()
    }

    /// Returns the number of messages that the last turn could not send unchanged.
    fn downgraded(&self) -> usize {
        self.reports.lock().unwrap().last().unwrap().downgraded
    }
}

fn question(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn result(id: &String) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "r"})
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Question,
    /// A question that the model answers with this many parallel calls, and their results through this
    /// integration.
    Tools(usize, Integration),
    /// Like `Tools`, without the results.
    Abandoned(usize),
}

fn any_integration() -> impl Strategy<Value = Integration> {
    prop::sample::select(vec![Integration::Typed, Integration::Client])
}

/// Random steps, each with its integration and the position in the log from which its caller resends, if it
/// does.
fn any_steps() -> impl Strategy<Value = Vec<(Integration, Step, Index)>> {
    let step = prop_oneof![
        Just(Step::Question),
        (1usize..4, any_integration()).prop_map(|(calls, integration)| Step::Tools(calls, integration)),
        (1usize..4).prop_map(Step::Abandoned),
    ];
    prop::collection::vec((any_integration(), step, any::<Index>()), 1..8)
}

/// Arguments that are no JSON, and the object that is sent in their place.
const BROKEN: &str = r#""arguments":"{""#;
const MENDED: &str = r#""arguments":"{\"INVALID_JSON\":\"{\"}""#;

/// Makes as many calls as the question says. Each reply has a field that async-openai does not know.
fn replies() -> Replies {
    Replies::rules(|messages: &[Message]| {
        let last = messages.last().unwrap();
        let calls: usize = if last.is_tool_result() { 0 } else { last.text().parse().unwrap() };
        let calls = (0..calls).map(|call| (format!("call-{}-{call}", messages.len()), "f".to_owned(), "{".to_owned()));
        let reply = match calls.len() {
            0 => Reply::text(format!("after {}", messages.len())),
            _ => Reply::calls(calls),
        };
        reply.field("reasoning_content", "r")
    })
}

/// Invariant 10, first half: without compaction, the messages before the input are a byte prefix of those in
/// the next prompt of the same integration. It does not matter which integration is used in between, and
/// whether the client resends messages.
#[tokio::test(flavor = "multi_thread")]
async fn invariant_10_every_prompt_is_a_prefix_of_the_next_one_of_its_integration() {
    let mode = prop::sample::select(vec![InputMode::New, InputMode::Transcript]);
    check(48, (mode, any_steps()), async |(mode, steps)| {
        let mut chats = Chats::open(replies(), mode).await;
        let mut seen: HashMap<Integration, Vec<String>> = HashMap::new();
        let mut last: Option<(Integration, Vec<String>)> = None;
        let mut send_next = async |chats: &mut Chats, integration: Integration, from: Index, input: Vec<Value>| {
            let resends = integration == Integration::Client && mode == InputMode::Transcript;
            let mut list = if resends { chats.list().await } else { Vec::new() };
            list.drain(..from.index(list.len() + 1));
            let asked = chats.send(integration, &[&list[..], &input].concat()).await.unwrap();
            let prefix = chats.prefix(input.len());
            // In consecutive calls of one integration, the sent input is repeated exactly.
            if let Some((_, whole)) = last.take_if(|(before, _)| *before == integration) {
                assert!(prefix.starts_with(&whole), "{whole:#?} is not a prefix of {prefix:#?}");
            }
            last = Some((integration, chats.prefix(0)));
            if let Some(before) = seen.insert(integration, prefix.clone()) {
                assert!(prefix.starts_with(&before), "{before:#?} is not a prefix of {prefix:#?}");
            }
            asked
        };
        let mut messages = 0;
        for (integration, step, from) in steps {
            let calls = match step {
                Step::Question => 0,
                Step::Tools(calls, _) | Step::Abandoned(calls) => calls,
            };
            let asked = send_next(&mut chats, integration, from, vec![question(&calls.to_string())]).await;
            messages += 2;
            if let Step::Tools(_, integration) = step {
                messages += asked.len() + 1;
                send_next(&mut chats, integration, from, asked.iter().map(result).collect()).await;
            }
        }
        assert_eq!(chats.log().await.len(), messages, "each message once");
    });
}

/// A caller's own list is the end of the log until another caller adds to it. Then it may not be resent, but
/// later messages may.
#[tokio::test]
async fn a_caller_may_resend_only_messages_at_the_end_of_the_log() {
    let mut chats = Chats::open(replies(), InputMode::Transcript).await;
    chats.send(Integration::Client, &[question("0")]).await.unwrap();
    let own = chats.list().await;
    chats.send(Integration::Client, &[&own[..], &[question("0")]].concat()).await.unwrap();
    let own = chats.list().await;
    chats.send(Integration::Typed, &[question("0")]).await.unwrap();

    let refused = chats.send(Integration::Client, &[&own[..], &[question("0")]].concat()).await.unwrap_err();
    let OpenAIError::Boxed(refused) = refused else { panic!("{refused}") };
    assert!(matches!(refused.downcast_ref(), Some(HistoryError::Transcript(_))), "{refused}");
    assert_eq!((chats.server.requests().len(), chats.log().await.len()), (3, 6));

    chats.send(Integration::Client, &[question("0")]).await.unwrap();
    let own = chats.list().await.split_off(6);
    chats.send(Integration::Client, &[&own[..], &[question("0")]].concat()).await.unwrap();
    assert_eq!(chats.log().await.len(), 10);
}

/// The client sends fields of a provider byte for byte. The typed integration leaves them out and reports
/// that.
#[tokio::test]
async fn provider_fields_are_sent_by_the_client_and_reported_by_the_typed_integration() {
    let mut chats = Chats::open(replies(), InputMode::New).await;
    let asked = chats.send(Integration::Client, &[question("2")]).await.unwrap();

    // A tool turn that begins in one integration and ends in the other.
    chats.send(Integration::Typed, &asked.iter().map(result).collect::<Vec<_>>()).await.unwrap();
    assert!(!chats.prefix(2).concat().contains("reasoning_content"));
    assert_eq!(chats.downgraded(), 1);

    chats.send(Integration::Client, &[question("0")]).await.unwrap();
    let (log, sent) = (chats.log().await, chats.prefix(1));
    let stored: Vec<String> =
        log[..log.len() - 2].iter().map(|message| message.json().replace(BROKEN, MENDED)).collect();
    assert_eq!(sent[1..], stored, "head, then the log as it is, except for arguments that are no JSON");
    assert!(sent[2].contains(r#""reasoning_content":"r""#), "{}", sent[2]);
    assert_eq!(chats.downgraded(), 0);
}

/// The same for fields that callers add, in messages and their parts.
#[tokio::test]
async fn caller_fields_are_sent_by_the_client_and_reported_by_the_typed_integration() {
    let mut chats = Chats::open(Replies::rules(|_| Reply::text("a")), InputMode::Transcript).await;
    let log = [
        r#"{"role":"user","content":[ {"type":"text","text":"u0","cache_control":{"type":"ephemeral"}} ]}"#,
        r#"{ "role":"assistant", "content":"a0","reasoning_content":"\u00e4" }"#,
        r#"{"role":"user","content":[{"type":"video_url","video_url":{"url":"v","fps":1.50}},{"type":"text","text":"u1"}]}"#,
        r#"{"role":"assistant","content":"a1"}"#,
        r#"{"cache_control":{"ttl":1e0},"role":"user","content":"u2"}"#,
        r#"{"role":"assistant","content":"a2"}"#,
    ];
    let messages = log.map(|json| Message::from_json(json).unwrap());
    chats.store.conversation(&id()).import(messages).await.unwrap();

    chats.send(Integration::Client, &[question("u3")]).await.unwrap();
    assert_eq!(chats.prefix(1)[1..], log);
    assert_eq!(chats.downgraded(), 0);

    chats.send(Integration::Typed, &[question("u4")]).await.unwrap();
    let sent: Vec<Value> = chats.prefix(1)[1..].iter().map(|json| serde_json::from_str(json).unwrap()).collect();
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    assert_eq!(sent[0], json!({"role": "user", "content": text("u0")}));
    assert_eq!(sent[1], json!({"role": "assistant", "content": "a0"}));
    assert_eq!(sent[2], json!({"role": "user", "content": text("u1")}));
    assert_eq!(sent[4], json!({"role": "user", "content": "u2"}));
    assert_eq!(chats.downgraded(), 4);

    chats.send(Integration::Client, &[question("u5")]).await.unwrap();
    assert_eq!(chats.prefix(1)[1..=log.len()], log, "the log keeps it");
}
