//! Conversations that change their dialect.

use std::{
    sync::Mutex,
    thread::{self, ThreadId},
};

use test_providers::signing::SigningDialect;
use tower_chat_history::{
    ConversationId, Engine, HistoryError, HistoryOptions, HistoryStoreExt as _, MemoryStore, Message, Policies, Reply,
    TurnInput, TurnReport,
    dialect::{
        AnthropicMessages, CallId, ChatCompletions, Dialect, DialectName, Expressed, Index, LeftOut, MessageError,
        OpenAiResponses, Part, Statement,
    },
    engine::ToolResults,
    error::{DialectPlace, OtherDialect, StoreResultsError, TranscriptError},
    policy::{OnOtherDialect, OnTranscriptMismatch},
    report::TranslationReport,
    store::{Exchange, Origin, Role, Seq},
};
use tower_chat_history_test::messages::{MessagesProvider, Say};

fn id() -> ConversationId {
    ConversationId::new(["translation"]).unwrap()
}

fn options() -> HistoryOptions {
    HistoryOptions::new().policies(Policies::new().on_other_dialect(OnOtherDialect::Translate))
}

fn engine() -> (MemoryStore, Engine) {
    let store = MemoryStore::new();
    (store.clone(), Engine::with_options(store, options()))
}

fn said(dialect: &'static dyn Dialect, role: &Role, text: &str) -> Message {
    Message::compose(dialect, role, text).unwrap()
}

async fn talk(engine: &Engine, input: Message, reply: Message) -> (Vec<String>, TurnReport) {
    let turn = engine.begin(TurnInput::new(id(), [input])).await.unwrap();
    let prompt = turn.context().iter().map(|message| message.json().to_owned()).collect();
    let report = turn.commit(Reply::new(reply)).await.unwrap();
    (prompt, TurnReport::clone(&report))
}

/// A turn of a question and an answer.
async fn turn(engine: &Engine, dialect: &'static dyn Dialect, text: &str) -> (Vec<String>, TurnReport) {
    talk(engine, said(dialect, &Role::User, text), said(dialect, &Role::Assistant, text)).await
}

fn other_dialect(error: HistoryError) -> OtherDialect {
    match error {
        HistoryError::OtherDialect(error) => error,
        error => panic!("{error}"),
    }
}

#[tokio::test]
async fn by_default_an_exchange_of_another_dialect_is_an_error_that_names_both() {
    let (store, engine) = engine();
    turn(&engine, &ChatCompletions, "one").await;
    let strict = Engine::new(store);
    let input = TurnInput::new(id(), [said(&AnthropicMessages, &Role::User, "two")]);
    let error = other_dialect(strict.begin(input).await.unwrap_err());
    assert_eq!((error.place, error.found), (DialectPlace::Stored(Seq::FIRST), Some(DialectName::CHAT_COMPLETIONS)));
    assert_eq!(error.called.as_str(), AnthropicMessages::NAME);
}

#[tokio::test]
async fn a_conversation_continues_in_all_dialects_and_the_log_stays_as_it_was_said() {
    let (store, engine) = engine();
    let dialects: [&'static dyn Dialect; 3] = [&ChatCompletions, &AnthropicMessages, &OpenAiResponses];
    let mut prompts = Vec::new();
    for (number, dialect) in dialects.into_iter().cycle().take(9).enumerate() {
        let (prompt, report) = turn(&engine, dialect, &format!("t{number}")).await;
        let read = |json: &String| Message::in_dialect(dialect, json.as_str()).unwrap().text().into_owned();
        let texts: Vec<String> = prompt.iter().map(read).collect();
        let expected: Vec<String> = (0..number).flat_map(|said| [format!("t{said}"), format!("t{said}")]).collect();
        assert_eq!(texts[..2 * number], expected);
        let translated = report.translation.map_or(0, |report| report.exchanges);
        assert_eq!(translated, number - number / 3, "turn {number}");
        assert_eq!(report.translation.is_some(), number > 0);
        prompts.push(prompt);
    }
    for (number, prompt) in prompts.iter().enumerate().skip(3) {
        assert!(prompt.starts_with(&prompts[number - 3]), "the prompt of turn {number} begins with the one before it");
    }
    let log = store.conversation(&id()).exchanges().await.unwrap();
    let names: Vec<&str> = log.iter().map(|recorded| recorded.exchange.dialect.as_str()).collect();
    assert_eq!(names[..3], dialects.map(Dialect::name));
    assert_eq!(log[0].exchange.messages[0], Message::user("t0"));
}

#[tokio::test]
async fn reasoning_is_left_out_and_reported_and_comes_back_with_its_dialect() {
    let (_, engine) = engine();
    let provider = MessagesProvider::new("acme");
    let body = |prompt: &[String]| format!(r#"{{"model":"claude","max_tokens":9,"messages":[{}]}}"#, prompt.join(","));
    let question = said(&AnthropicMessages, &Role::User, "u");
    let says = [Say::Thinking("Hm.".into()), Say::Search("srvtoolu_1".into()), Say::Text("So.".into())];
    let made = provider.reply(&body(&[question.json().to_owned()]), &says).unwrap();
    let made: serde_json::Value = serde_json::from_str(&made.body()).unwrap();
    let reply = serde_json::json!({"role": "assistant", "content": made["content"]}).to_string();
    talk(&engine, question, Message::in_dialect(&AnthropicMessages, reply.as_str()).unwrap()).await;

    let (prompt, report) = turn(&engine, &ChatCompletions, "chat").await;
    assert_eq!(prompt[1], r#"{"role":"assistant","content":"So."}"#);
    let TranslationReport { exchanges, left_out, .. } = report.translation.unwrap();
    assert_eq!((exchanges, left_out.reasoning, left_out.provider_calls, left_out.total()), (1, 1, 2, 3));

    let (prompt, report) = turn(&engine, &AnthropicMessages, "again").await;
    assert_eq!((prompt[1].as_str(), report.reasoning_left_out), (reply.as_str(), 0), "the signed thinking is valid");
    provider.check(&body(&prompt)).unwrap();
    assert_eq!(report.translation.unwrap().left_out, LeftOut::default());
}

fn call() -> Message {
    let call =
        r#"{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    Message::from_json(call).unwrap()
}

#[tokio::test]
async fn results_for_calls_of_another_dialect_are_refused_and_a_question_abandons_them() {
    let (_, engine) = engine();
    talk(&engine, Message::user("u"), call()).await;
    let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}"#;
    let result = Message::in_dialect(&AnthropicMessages, result).unwrap();
    let error = other_dialect(engine.begin(TurnInput::new(id(), [result.clone()])).await.unwrap_err());
    assert_eq!(error.place, DialectPlace::OpenTurn(Seq::FIRST));
    assert_eq!(
        error.to_string(),
        "exchange 0 of the open turn is in the dialect chat_completions, and the call is in the dialect anthropic_messages"
    );
    let results = ToolResults::new(id(), [result]);
    let StoreResultsError::History(error) = engine.store_results(results).await.unwrap_err() else { panic!() };
    assert_eq!(other_dialect(error).place, DialectPlace::OpenTurn(Seq::FIRST));

    // The results in their own dialect, and then a call without input in the other one.
    engine.store_results(ToolResults::new(id(), [Message::tool("x", "1")])).await.unwrap();
    let empty = TurnInput::new(id(), []).dialect(&AnthropicMessages);
    let error = other_dialect(engine.begin(empty).await.unwrap_err());
    assert_eq!(error.place, DialectPlace::OpenTurn(Seq::FIRST));
    engine.begin(TurnInput::new(id(), [])).await.unwrap();

    let (prompt, report) = turn(&engine, &AnthropicMessages, "two").await;
    assert!(prompt[2].contains(r#""content":"1""#), "{prompt:?}");
    assert_eq!((report.superseded_calls, prompt.len()), (0, 5));
    talk(&engine, Message::user("u"), call()).await;
    let (prompt, report) = turn(&engine, &OpenAiResponses, "three").await;
    assert_eq!(report.superseded_calls, 1);
    assert!(prompt[prompt.len() - 3].contains("this call was abandoned"), "{prompt:?}");
}

#[tokio::test]
async fn an_interrupted_exchange_is_translated_as_far_as_it_arrived() {
    let (_, engine) = engine();
    let turn_of = engine.begin(TurnInput::new(id(), [Message::user("u")])).await.unwrap();
    let mut reply = Reply::new(Message::assistant("I th"));
    reply.incomplete = true;
    turn_of.commit(reply).await.unwrap();
    let (prompt, _) = turn(&engine, &AnthropicMessages, "two").await;
    assert_eq!(prompt[1], r#"{"role":"assistant","content":[{"type":"text","text":"I th"}]}"#);
}

#[tokio::test]
async fn a_resent_list_is_compared_with_the_translation() {
    let policies = Policies::new().on_other_dialect(OnOtherDialect::Translate);
    let engine = Engine::with_options(MemoryStore::new(), HistoryOptions::new().policies(policies.clone()));
    turn(&engine, &ChatCompletions, "one").await;
    let resent = [Role::User, Role::Assistant].map(|role| said(&AnthropicMessages, &role, "one"));
    let question = said(&AnthropicMessages, &Role::User, "two");
    let input = TurnInput::new(id(), [question.clone()]);
    engine.begin(input.clone().transcript(resent)).await.unwrap();
    let differs = [Role::User, Role::Assistant].map(|role| said(&AnthropicMessages, &role, "none"));
    let error = engine.begin(input.transcript(differs)).await.unwrap_err();
    let HistoryError::Transcript(TranscriptError { position, .. }) = error else { panic!("{error}") };
    assert_eq!(position, 1);
    let _ = policies.on_transcript_mismatch(OnTranscriptMismatch::TrustLog);
}

#[tokio::test]
async fn a_dialect_of_another_crate_must_be_known() {
    let (store, engine) = engine();
    turn(&engine, &SigningDialect, "one").await;
    let input = TurnInput::new(id(), [Message::user("two")]);
    let error = other_dialect(engine.begin(input).await.unwrap_err());
    assert_eq!(
        (error.place, error.found.as_ref().map(DialectName::as_str)),
        (DialectPlace::Stored(Seq::FIRST), Some(SigningDialect::NAME))
    );
    let engine = Engine::with_options(store, options().dialects([&SigningDialect as &'static dyn Dialect]));
    let (prompt, _) = turn(&engine, &ChatCompletions, "two").await;
    assert_eq!(prompt[1], r#"{"role":"assistant","content":"one"}"#);
    // In the other direction, the dialect of the call is enough.
    let (prompt, _) = turn(&engine, &SigningDialect, "three").await;
    assert_eq!(prompt[0], said(&SigningDialect, &Role::User, "one").json());
    assert_eq!(prompt[2], said(&SigningDialect, &Role::User, "two").json());
}

#[tokio::test]
async fn deepseek_gets_the_field_that_it_requires() {
    let (_, engine) = engine();
    let call = r#"{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]}"#;
    let question = said(&AnthropicMessages, &Role::User, "u");
    talk(&engine, question, Message::in_dialect(&AnthropicMessages, call).unwrap()).await;
    let mut input = TurnInput::new(id(), [Message::user("two")]);
    input.request.origin = Origin::unknown().provider("deepseek");
    let turn = engine.begin(input).await.unwrap();
    let prompt: Vec<&str> = turn.context().iter().map(Message::json).collect();
    let body = format!(r#"{{"model":"deepseek-v4-pro","messages":[{}]}}"#, prompt.join(","));
    tower_chat_history_test::ChatProvider::DeepSeek.check(&body).unwrap();
    assert!(prompt[1].contains(r#""reasoning_content":"""#), "{body}");
}

/// Chat completions under another name, which notes how the newest translation was made.
#[derive(Debug, Default)]
struct Noted(Mutex<Option<(ThreadId, Origin)>>);

impl Noted {
    /// A dialect that only one test uses.
    fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    /// The thread that made the newest translation, and the provider for which it was made.
    fn newest(&self) -> (ThreadId, Origin) {
        self.0.lock().unwrap().clone().unwrap()
    }
}

impl Dialect for Noted {
    fn name(&self) -> &'static str {
        "test/noted"
    }

    fn index(&self, json: &str) -> Result<Index, MessageError> {
        ChatCompletions.index(json)
    }

    fn parts<'m>(&self, message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
        ChatCompletions.parts(message, visit);
    }

    fn compose(&self, role: &Role, text: &str) -> String {
        ChatCompletions.compose(role, text)
    }

    fn abandoned(&self, call: &CallId) -> String {
        ChatCompletions.abandoned(call)
    }

    fn cleared(&self, message: &Message, clears: &dyn Fn(&CallId) -> bool, placeholder: &str) -> Option<String> {
        ChatCompletions.cleared(message, clears, placeholder)
    }

    fn express(&self, statements: &[Statement<'_>], expressed: &mut Expressed<'_>) -> Vec<String> {
        *self.0.lock().unwrap() = Some((thread::current().id(), expressed.reader.clone()));
        ChatCompletions.express(statements, expressed)
    }
}

#[tokio::test]
async fn a_dialect_sees_only_the_provider_of_the_call() {
    let noted = Noted::new();
    let engine = Engine::with_options(MemoryStore::new(), options());
    turn(&engine, &AnthropicMessages, "u").await;
    let mut input = TurnInput::new(id(), [said(noted, &Role::User, "v")]);
    input.request.origin = Origin::unknown().provider("p").model("a");
    engine.begin(input).await.unwrap();
    assert_eq!(noted.newest().1, Origin::unknown().provider("p"));
}

#[tokio::test]
async fn a_large_window_is_translated_on_another_thread() {
    for (bytes, is_here) in [(1_000, true), (100_000, false)] {
        let noted = Noted::new();
        let engine = Engine::with_options(MemoryStore::new(), options());
        turn(&engine, &AnthropicMessages, &"x".repeat(bytes)).await;
        turn(&engine, noted, "u").await;
        assert_eq!(noted.newest().0 == thread::current().id(), is_here, "{bytes}");
    }
}

#[tokio::test]
async fn an_exchange_that_says_nothing_in_the_other_dialect_is_left_out() {
    let (store, engine) = engine();
    let question = said(&AnthropicMessages, &Role::User, "u");
    let thinking = r#"{"role":"assistant","content":[{"type":"redacted_thinking","data":"d"}]}"#;
    talk(&engine, question, Message::in_dialect(&AnthropicMessages, thinking).unwrap()).await;
    let (prompt, report) = turn(&engine, &ChatCompletions, "two").await;
    assert_eq!(
        prompt,
        [
            r#"{"role":"user","content":"u"}"#,
            r#"{"role":"assistant","content":"[no reply]"}"#,
            r#"{"role":"user","content":"two"}"#
        ]
    );
    assert_eq!(report.translation.unwrap().left_out.reasoning, 1);
    let log = store.conversation(&id()).exchanges().await.unwrap();
    let first: &Exchange = &log[0].exchange;
    assert_eq!(first.messages[1].json(), thinking);
}
