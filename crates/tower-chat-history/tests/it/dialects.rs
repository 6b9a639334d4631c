//! Calls and messages of more than one dialect.

use async_trait::async_trait;
use test_providers::signing::SigningDialect;
use tower_chat_history::{
    BoxError, ContextBudget, ConversationId, Engine, HistoryError, HistoryOptions, HistoryStoreExt as _, MemoryStore,
    Message, Reply, SaveError, TurnInput,
    dialect::{CallId, ChatCompletions, Dialect, DialectName, Index, Part, Space},
    engine::ToolResults,
    error::{DialectPlace, InputError, OtherDialect, StoreResultsError},
    store::{Exchange, Role},
    summary::{Summaries, Summarizer, SummaryRequest, SummaryResponse},
};
use tower_chat_history_core::MessageError;
use tower_chat_history_test::{FaultStore, Op};

fn id() -> ConversationId {
    ConversationId::new(["dialects"]).unwrap()
}

fn engine() -> (FaultStore<MemoryStore>, Engine) {
    let store = FaultStore::new(MemoryStore::new());
    (store.clone(), Engine::new(store))
}

fn signing(role: &Role, text: &str) -> Message {
    Message::compose(&SigningDialect, role, text).unwrap()
}

fn element(json: &str) -> Message {
    Message::in_dialect(&SigningDialect, json).unwrap()
}

fn other_dialect(error: HistoryError) -> OtherDialect {
    match error {
        HistoryError::OtherDialect(error) => error,
        error => panic!("{error}"),
    }
}

/// Returns messages that a store read without knowing their dialect.
fn unread(messages: &str) -> Vec<Message> {
    let record = format!(r#"{{"v":1,"id":"e1","at":0,"dialect":"test/signing","messages":{messages},"reply_len":0}}"#);
    Exchange::decode(&record).unwrap().messages
}

#[tokio::test]
async fn a_message_in_another_dialect_is_refused_before_the_store_is_called() {
    let (store, engine) = engine();
    let (ours, theirs) = (signing(&Role::User, "u"), Message::user("u"));
    let input = |messages: &[&Message]| TurnInput::new(id(), messages.iter().map(|message| (*message).clone()));
    let mut instead = input(&[&ours]);
    instead.options = instead.options.store_instead([ours.clone(), ours.clone(), theirs.clone()]);
    let mut chat_instead = input(&[&theirs]);
    chat_instead.options = chat_instead.options.store_instead([ours.clone()]);
    for (input, place, text) in [
        (input(&[&ours, &theirs]), DialectPlace::Input(1), "message 1 of the input"),
        (input(&[&ours]).dialect(&ChatCompletions), DialectPlace::Input(0), "message 0 of the input"),
        (
            input(&[&ours]).transcript([ours.clone(), theirs.clone()]),
            DialectPlace::Transcript(1),
            "message 1 of the transcript",
        ),
        (instead, DialectPlace::Instead(2), "message 2 of `store_instead`"),
        (chat_instead, DialectPlace::Instead(0), "message 0 of `store_instead`"),
    ] {
        let error = engine.begin(input).await.unwrap_err();
        assert_eq!(error.kind(), "other_dialect");
        let error = other_dialect(error);
        assert_eq!(error.place, place);
        let names = (error.found.clone().unwrap(), error.called.clone());
        assert_ne!(names.0, names.1);
        assert_eq!(
            error.to_string(),
            format!("{text} is in the dialect {}, and the call is in the dialect {}", names.0, names.1)
        );
    }
    let results = ToolResults::new(id(), [Message::tool("x", "r"), ours]);
    let StoreResultsError::History(error) = engine.store_results(results).await.unwrap_err() else { panic!() };
    assert_eq!(other_dialect(error).place, DialectPlace::Input(1));
    assert_eq!((store.calls(Op::Load), store.calls(Op::Append)), (0, 0));
}

#[tokio::test]
async fn a_reply_in_another_dialect_is_handed_over_with_the_error_of_its_save() {
    let (store, engine) = engine();
    for (question, replies, found, called) in [
        (
            signing(&Role::User, "u"),
            vec![signing(&Role::Assistant, "a"), Message::assistant("a")],
            DialectName::CHAT_COMPLETIONS,
            DialectName::of(&SigningDialect),
        ),
        (
            Message::user("u"),
            vec![Message::assistant("a"), signing(&Role::Assistant, "a")],
            DialectName::of(&SigningDialect),
            DialectName::CHAT_COMPLETIONS,
        ),
    ] {
        let turn = engine.begin(TurnInput::new(id(), [question])).await.unwrap();
        let unsaved = turn.commit(Reply::of(replies.clone())).await.unwrap_err();
        assert_eq!(unsaved.response().messages, replies);
        assert_eq!(unsaved.reason().kind(), "other_dialect");
        let SaveError::OtherDialect(error) = unsaved.reason() else { panic!("{unsaved}") };
        assert_eq!(
            (error.place, error.found.clone(), error.called.clone()),
            (DialectPlace::Reply(1), Some(found), called)
        );
    }
    assert_eq!(store.calls(Op::Append), 0);
    assert!(store.conversation(&id()).exchanges().await.unwrap().is_empty());
}

#[tokio::test]
async fn messages_that_no_dialect_has_read_are_read_in_that_of_the_call() {
    let (store, engine) = engine();
    let messages = unread(r#"[{"from":"user","text":"u"}]"#);
    assert!(messages[0].dialect().is_none());
    let turn = engine.begin(TurnInput::new(id(), messages).dialect(&SigningDialect)).await.unwrap();
    assert_eq!(turn.input()[0].text(), "u");
    turn.commit(Reply::of(unread(r#"[{"from":"model","text":"a"}]"#))).await.unwrap();
    let stored = store.conversation(&id()).exchanges().await.unwrap();
    assert_eq!((stored[0].exchange.dialect.as_str(), stored[0].exchange.reply_len), (SigningDialect::NAME, 1));

    let input = TurnInput::new(id(), unread(r#"[{"to":"user"}]"#)).dialect(&SigningDialect);
    let error = other_dialect(engine.begin(input).await.unwrap_err());
    assert_eq!((error.place, error.found.clone()), (DialectPlace::Input(0), None));
    assert!(error.to_string().contains("is in an unknown dialect"), "{error}");
}

#[tokio::test]
async fn a_resent_reply_of_several_elements_is_refused_and_the_callers_own_calls_are_not() {
    let (_, engine) = engine();
    let thought = element(r#"{"from":"model","thinking":"hm","signature":"00"}"#);
    let text = signing(&Role::Assistant, "a");
    let call = element(r#"{"from":"model","call":{"id":"x","kind":"f","name":"f","input":""}}"#);
    let call_id = CallId::new(Space::DEFAULT, "x");
    let result = element(&SigningDialect::results([(&call_id, "r")], None));
    let question = signing(&Role::User, "u");
    for (input, position) in [
        (vec![question.clone(), thought.clone(), text.clone(), question.clone()], 1),
        (vec![text.clone(), question.clone()], 0),
        (vec![question.clone(), text.clone(), call.clone(), result.clone(), thought.clone(), text.clone()], 4),
    ] {
        let error = engine.begin(TurnInput::new(id(), input)).await.unwrap_err();
        let HistoryError::Input(error) = error else { panic!("{error}") };
        assert_eq!(error, InputError::Resent { position });
    }
    let own = [question.clone(), thought, text, call, result, question];
    let turn = engine.begin(TurnInput::new(id(), own.clone())).await.unwrap();
    assert_eq!(turn.context(), own);
}

#[tokio::test]
async fn the_dialect_of_a_call_without_input_is_that_of_its_transcript() {
    let (_, engine) = engine();
    let (question, reply) = (signing(&Role::User, "u"), signing(&Role::Assistant, "a"));
    let turn = engine.begin(TurnInput::new(id(), [question.clone()])).await.unwrap();
    turn.commit(Reply::new(reply.clone())).await.unwrap();
    let empty = TurnInput::new(id(), []).transcript([question, reply]);
    let HistoryError::Input(error) = engine.begin(empty).await.unwrap_err() else { panic!() };
    assert_eq!(error, InputError::Empty, "the log was read, and it awaits no reply");
}

/// A dialect that cannot read what it composes.
#[derive(Debug)]
struct Broken;

impl Dialect for Broken {
    fn name(&self) -> &'static str {
        "test/broken"
    }

    fn index(&self, json: &str) -> Result<Index, MessageError> {
        if json == "1" { Ok(Index::new(Role::User)) } else { Err(MessageError::new("it is not 1")) }
    }

    fn parts<'m>(&self, _: &'m Message, _: &mut dyn FnMut(Part<'m>)) {}

    fn compose(&self, _: &Role, _: &str) -> String {
        "2".to_owned()
    }

    fn abandoned(&self, _: &CallId) -> String {
        "1".to_owned()
    }

    fn cleared(&self, _: &Message, _: &dyn Fn(&CallId) -> bool, _: &str) -> Option<String> {
        None
    }
}

#[derive(Debug)]
struct Never;

#[async_trait]
impl Summarizer for Never {
    async fn summarize(&self, _: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        Err("nothing is summarized".into())
    }
}

#[tokio::test(start_paused = true)]
async fn a_dialect_that_cannot_read_its_own_message_is_an_error() {
    let options = HistoryOptions::new().context(ContextBudget::tokens(1_000)).summaries(Summaries::new(Never));
    let engine = Engine::with_options(MemoryStore::new(), options);
    let input = [Message::in_dialect(&Broken, "1").unwrap()];
    let error = engine.begin(TurnInput::new(id(), input)).await.unwrap_err();
    assert_eq!(error.kind(), "composed");
    let HistoryError::Composed { dialect, source } = error else { panic!("{error}") };
    assert!(dialect.as_str() == "test/broken" && source.to_string().contains("it is not 1"), "{source}");
}
