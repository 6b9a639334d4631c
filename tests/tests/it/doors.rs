//! One log behind both async-openai doors: the typed layer and the client with history inside, over one real server.

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
enum Door {
    Typed,
    Client,
}

struct Doors {
    server: MockServer,
    store: MemoryStore,
    typed: ChatHistory<ChatService<OpenAIConfig>, OpenAi>,
    client: Client<OpenAIConfig>,
    reports: Arc<Mutex<Vec<TurnReport>>>,
}

fn id() -> ConversationId {
    ConversationId::new(["doors"]).unwrap()
}

impl Doors {
    /// The client door in that mode, and the typed one in its own, in which all behind the head is new.
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

    /// The log as a client keeps it that has followed it: without what its types do not know.
    async fn list(&self) -> Vec<Value> {
        let log = self.log().await;
        let kept = log.iter().map(|message| {
            let known: ChatCompletionRequestMessage = serde_json::from_str(message.json()).unwrap();
            serde_json::to_value(known).unwrap()
        });
        kept.collect()
    }

    /// Sends a head and these messages, and returns the calls of the reply.
    async fn send(&mut self, door: Door, messages: &[Value]) -> Result<Vec<String>, OpenAIError> {
        let messages = [json!({"role": "system", "content": "s"})].into_iter().chain(messages.iter().cloned());
        let messages: Vec<ChatCompletionRequestMessage> =
            messages.map(|message| serde_json::from_value(message).unwrap()).collect();
        let request =
            CreateChatCompletionRequest { model: "m".into(), messages, ..CreateChatCompletionRequest::default() };
        let response = match door {
            Door::Typed => self.typed.call(InConversation::new(id(), request)).await.unwrap(),
            Door::Client => self.client.chat().header(CONVERSATION_ID, id().as_str())?.create(request).await?,
        };
        let reply = serde_json::to_value(&response.choices[0].message).unwrap();
        let calls = reply["tool_calls"].as_array().cloned().unwrap_or_default();
        Ok(calls.into_iter().map(|call| call["id"].as_str().unwrap().to_owned()).collect())
    }

    /// The last prompt without its input, byte for byte.
    fn prefix(&self, input: usize) -> Vec<String> {
        let prompt = self.server.requests().last().unwrap().messages();
        prompt[..prompt.len() - input].iter().map(|message| message.json().to_owned()).collect()
    }

    /// How many messages the last turn could not send whole.
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
    /// A question that the model answers with that many parallel calls, and their results, the latter through this door.
    Tools(usize, Door),
    /// The same, and the results never come.
    Abandoned(usize),
}

fn any_door() -> impl Strategy<Value = Door> {
    prop::sample::select(vec![Door::Typed, Door::Client])
}

/// Each step, its door, and where in the log the list begins that its caller resends if it does.
fn any_steps() -> impl Strategy<Value = Vec<(Door, Step, Index)>> {
    let step = prop_oneof![
        Just(Step::Question),
        (1usize..4, any_door()).prop_map(|(calls, door)| Step::Tools(calls, door)),
        (1usize..4).prop_map(Step::Abandoned),
    ];
    prop::collection::vec((any_door(), step, any::<Index>()), 1..8)
}

/// Asks for as many calls as the question says, with a field that only the provider knows.
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

/// Invariant 10, first half: without compaction, what stands before the input is a byte prefix of what stands there in the
/// same door's next prompt, whichever door was used in between, and whether the client's caller resends what it has or not.
#[tokio::test(flavor = "multi_thread")]
async fn invariant_10_every_prompt_is_a_prefix_of_the_same_door_s_next() {
    let mode = prop::sample::select(vec![InputMode::New, InputMode::Transcript]);
    check(48, (mode, any_steps()), async |(mode, steps)| {
        let mut doors = Doors::open(replies(), mode).await;
        let mut seen: HashMap<Door, Vec<String>> = HashMap::new();
        let mut last: Option<(Door, Vec<String>)> = None;
        let mut say = async |doors: &mut Doors, door: Door, from: Index, input: Vec<Value>| {
            let resends = door == Door::Client && mode == InputMode::Transcript;
            let mut list = if resends { doors.list().await } else { Vec::new() };
            list.drain(..from.index(list.len() + 1));
            let asked = doors.send(door, &[&list[..], &input].concat()).await.unwrap();
            let prefix = doors.prefix(input.len());
            // Twice in a row through one door, the input that was sent comes back as it was sent.
            if let Some((_, whole)) = last.take_if(|(before, _)| *before == door) {
                assert!(prefix.starts_with(&whole), "{whole:#?} is no prefix of {prefix:#?}");
            }
            last = Some((door, doors.prefix(0)));
            if let Some(before) = seen.insert(door, prefix.clone()) {
                assert!(prefix.starts_with(&before), "{before:#?} is no prefix of {prefix:#?}");
            }
            asked
        };
        let mut said = 0;
        for (door, step, from) in steps {
            let calls = match step {
                Step::Question => 0,
                Step::Tools(calls, _) | Step::Abandoned(calls) => calls,
            };
            let asked = say(&mut doors, door, from, vec![question(&calls.to_string())]).await;
            said += 2;
            if let Step::Tools(_, door) = step {
                said += asked.len() + 1;
                say(&mut doors, door, from, asked.iter().map(result).collect()).await;
            }
        }
        assert_eq!(doors.log().await.len(), said, "each message once");
    });
}

/// A list of one's own is the log's end until somebody else adds to it. Then it may not be resent; what came after may.
#[tokio::test]
async fn a_caller_that_knows_its_own_part_resends_what_agrees_or_nothing() {
    let mut doors = Doors::open(replies(), InputMode::Transcript).await;
    doors.send(Door::Client, &[question("0")]).await.unwrap();
    let own = doors.list().await;
    doors.send(Door::Client, &[&own[..], &[question("0")]].concat()).await.unwrap();
    let own = doors.list().await;
    doors.send(Door::Typed, &[question("0")]).await.unwrap();

    let refused = doors.send(Door::Client, &[&own[..], &[question("0")]].concat()).await.unwrap_err();
    let OpenAIError::Boxed(refused) = refused else { panic!("{refused}") };
    assert!(matches!(refused.downcast_ref(), Some(HistoryError::Transcript(_))), "{refused}");
    assert_eq!((doors.server.requests().len(), doors.log().await.len()), (3, 6));

    doors.send(Door::Client, &[question("0")]).await.unwrap();
    let own = doors.list().await.split_off(6);
    doors.send(Door::Client, &[&own[..], &[question("0")]].concat()).await.unwrap();
    assert_eq!(doors.log().await.len(), 10);
}

/// What a provider adds survives the client door byte for byte; the typed door leaves it out and says so.
#[tokio::test]
async fn what_only_the_provider_knows_is_sent_by_one_door_and_reported_by_the_other() {
    let mut doors = Doors::open(replies(), InputMode::New).await;
    let asked = doors.send(Door::Client, &[question("2")]).await.unwrap();

    // A tool turn that one door began and the other ends.
    doors.send(Door::Typed, &asked.iter().map(result).collect::<Vec<_>>()).await.unwrap();
    assert!(!doors.prefix(2).concat().contains("reasoning_content"));
    assert_eq!(doors.downgraded(), 1);

    doors.send(Door::Client, &[question("0")]).await.unwrap();
    let (log, sent) = (doors.log().await, doors.prefix(1));
    let stored: Vec<&str> = log[..log.len() - 2].iter().map(Message::json).collect();
    assert_eq!(sent[1..], stored, "head, then the log as it is");
    assert!(sent[2].contains(r#""reasoning_content":"r""#), "{}", sent[2]);
    assert_eq!(doors.downgraded(), 0);
}

/// The same for what callers add, in messages and in parts of them.
#[tokio::test]
async fn what_only_some_callers_know_is_sent_by_one_door_and_reported_by_the_other() {
    let mut doors = Doors::open(Replies::rules(|_| Reply::text("a")), InputMode::Transcript).await;
    let log = [
        r#"{"role":"user","content":[ {"type":"text","text":"u0","cache_control":{"type":"ephemeral"}} ]}"#,
        r#"{ "role":"assistant", "content":"a0","reasoning_content":"\u00e4" }"#,
        r#"{"role":"user","content":[{"type":"video_url","video_url":{"url":"v","fps":1.50}},{"type":"text","text":"u1"}]}"#,
        r#"{"role":"assistant","content":"a1"}"#,
        r#"{"cache_control":{"ttl":1e0},"role":"user","content":"u2"}"#,
        r#"{"role":"assistant","content":"a2"}"#,
    ];
    let messages = log.map(|json| Message::from_json(json).unwrap());
    doors.store.conversation(&id()).import(messages).await.unwrap();

    doors.send(Door::Client, &[question("u3")]).await.unwrap();
    assert_eq!(doors.prefix(1)[1..], log);
    assert_eq!(doors.downgraded(), 0);

    doors.send(Door::Typed, &[question("u4")]).await.unwrap();
    let sent: Vec<Value> = doors.prefix(1)[1..].iter().map(|json| serde_json::from_str(json).unwrap()).collect();
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    assert_eq!(sent[0], json!({"role": "user", "content": text("u0")}));
    assert_eq!(sent[1], json!({"role": "assistant", "content": "a0"}));
    assert_eq!(sent[2], json!({"role": "user", "content": text("u1")}));
    assert_eq!(sent[4], json!({"role": "user", "content": "u2"}));
    assert_eq!(doors.downgraded(), 4);

    doors.send(Door::Client, &[question("u5")]).await.unwrap();
    assert_eq!(doors.prefix(1)[1..=log.len()], log, "the log keeps it");
}
