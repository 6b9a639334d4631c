//! A conversation in a dialect that the stores do not know, through the engine. A store returns its messages unread.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use test_providers::signing::{Say, SigningDialect, SigningProvider};
use tests::{Storage, over_every_store};
use tower_chat_history::{
    BoxError, ContextBudget, ConversationId, Engine, ExchangeId, HistoryError, HistoryOptions, HistoryStore as _,
    HistoryStoreExt as _, Message, Reply, TurnInput, TurnReport,
    dialect::{CallId, Dialect as _, Space},
    engine::ToolResults,
    error::DialectPlace,
    recall::{Analyzer, LogRecall, LogSearch, RecallOptions, SearchError, SearchTool, ToolError},
    report::RecallOutcome,
    store::{Load, Loaded, Role, Seq},
    summary::{Summaries, SummarizeWhen, Summarizer, SummaryOutcome, SummaryPrompt, SummaryRequest, SummaryResponse},
};

over_every_store! {
    #[tokio::test(start_paused = true)]
    summaries_have_the_texts_and_no_reasoning,
    a_text_is_recalled,
    the_tool_needs_the_dialect,
    a_resent_list_is_compared_without_its_reasoning,
    a_call_without_input_names_its_dialect,
    a_repeated_call_returns_the_whole_reply,
}

/// A conversation with a provider that signs its reasoning.
struct Talk {
    engine: Engine,
    provider: SigningProvider,
    id: ConversationId,
}

impl Talk {
    fn new(storage: &Storage, options: HistoryOptions) -> Self {
        let engine = Engine::with_options(storage.store.clone(), options);
        Self { engine, provider: SigningProvider::new("one"), id: storage.conversation() }
    }

    /// Makes a call, and returns its report and the prompt.
    async fn call(&mut self, input: TurnInput, says: &[Say]) -> (Arc<TurnReport>, Vec<Message>) {
        let head = input.request.digest();
        let turn = self.engine.begin(input).await.unwrap();
        let prompt = turn.context().to_vec();
        let reply = self.provider.reply(head, &prompt, says).unwrap();
        (turn.commit(Reply::of(reply)).await.unwrap(), prompt)
    }

    async fn say(&mut self, message: Message, says: &[Say]) -> (Arc<TurnReport>, Vec<Message>) {
        self.call(TurnInput::new(self.id.clone(), [message]), says).await
    }

    /// Asks a question of about 60 tokens. The reply has reasoning of three kinds.
    async fn ask(&mut self, number: usize) -> (Arc<TurnReport>, Vec<Message>) {
        let filler = "word ".repeat(40);
        let says = [
            Say::Sealed("hidden".into()),
            Say::Plan("hidden".into()),
            Say::ThoughtAndText("hidden".into(), format!("answer {number}.")),
        ];
        self.say(user(&format!("question {number} {filler}")), &says).await
    }
}

fn user(text: &str) -> Message {
    Message::compose(&SigningDialect, &Role::User, text).unwrap()
}

fn result(id: &str) -> Message {
    let id = CallId::new(Space::DEFAULT, id);
    Message::in_dialect(&SigningDialect, SigningDialect::results([(&id, "r")], None)).unwrap()
}

fn calls(id: &str) -> Say {
    Say::Call { space: Space::DEFAULT, id: id.into() }
}

/// Summarizes each request as one word, and records its prompt.
#[derive(Clone, Debug, Default)]
struct Recording(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Summarizer for Recording {
    async fn summarize(&self, request: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        assert!(request.messages.iter().all(|message| message.dialect().is_some()), "{request:?}");
        self.0.lock().unwrap().push(SummaryPrompt::default().messages(&request)[1].text().into_owned());
        Ok(SummaryResponse::new("summarized"))
    }
}

async fn summaries_have_the_texts_and_no_reasoning(storage: Storage) {
    for when in [SummarizeWhen::AfterReply { percent: 50 }, SummarizeWhen::BeforeCall, SummarizeWhen::BeforeEveryCall] {
        let recording = Recording::default();
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&outcomes);
        let summaries = Summaries::new(recording.clone())
            .when(when)
            .max_tokens(50)
            .least_room(10)
            .on_summary(move |report| seen.lock().unwrap().push(report.outcome.clone()));
        let budget = ContextBudget::tokens(1_000).reply_reserve(100).calibrate(false);
        let options = HistoryOptions::new().context(budget).summaries(summaries);
        let mut talk = Talk::new(&storage, options);
        let mut last = Vec::new();
        for number in 0..20 {
            last = talk.ask(number).await.1;
            talk.engine.drain(Duration::from_secs(60)).await.unwrap();
        }
        let outcomes = outcomes.lock().unwrap();
        assert!(!outcomes.is_empty(), "{when:?}");
        let is_made = |outcome: &SummaryOutcome| matches!(outcome, SummaryOutcome::Stored | SummaryOutcome::Made);
        assert!(outcomes.iter().all(is_made), "{when:?}: {outcomes:?}");

        let prompts = recording.0.lock().unwrap();
        assert!(prompts[0].contains("\nuser: question 0 word") && prompts[0].contains("\nassistant: answer 0."));
        assert!(prompts.iter().all(|prompt| !prompt.contains("hidden")), "{when:?}");
        let summary = &last[0];
        assert_eq!(summary.dialect().map(|dialect| dialect.name()), Some(SigningDialect::NAME));
        assert!(summary.text().contains("summarized") && *summary.role() == Role::User, "{when:?}");
    }
}

const DOG: &str = "My dog is called Rex.";
const BOAT: &str = "The boat lies in Bergen.";

/// Imports a log that names a dog at its beginning, and a boat some turns later.
async fn import(storage: &Storage, id: &ConversationId) {
    let reply = |text: &str| Message::compose(&SigningDialect, &Role::Assistant, text).unwrap();
    let mut messages = vec![user(DOG), reply("A good name!")];
    messages.extend((0..30).flat_map(|number| [user(&format!("Page {number}")), reply("Read.")]));
    messages.extend([user(BOAT), reply("Ahoy!")]);
    messages.extend((0..100).flat_map(|number| [user(&format!("Chapter {number}")), reply("Read.")]));
    storage.store.conversation(id).import(messages).await.unwrap();
}

async fn a_text_is_recalled(storage: Storage) {
    let budget = ContextBudget::tokens(1_000).reply_reserve(100).calibrate(false);
    let recall = RecallOptions::new(LogRecall::new(storage.store.clone())).percent(20);
    let options = HistoryOptions::new().context(budget).recall(recall);
    let mut talk = Talk::new(&storage, options);
    import(&storage, &talk.id).await;
    // The second search has the terms in memory.
    for (question, text) in [("What is my dog called?", DOG), ("Where does the boat lie?", BOAT)] {
        let (report, prompt) = talk.say(user(question), &[Say::Text("I know.".into())]).await;
        let recall = report.recall.as_ref().unwrap();
        assert!(matches!(recall.outcome, RecallOutcome::Shown), "{question}: {recall:?}");
        let [.., shown, reply, _] = &*prompt else { panic!("{prompt:?}") };
        assert_eq!((reply.role(), &*reply.text()), (&Role::Assistant, "Understood."));
        assert_eq!(shown.dialect().map(|dialect| dialect.name()), Some(SigningDialect::NAME));
        assert!(shown.text().contains(&format!(r#"{{"role":"user","text":"{text}"}}"#)), "{}", shown.text());
        talk.engine.drain(Duration::from_secs(60)).await.unwrap();
    }
    let search = LogSearch::new(Arc::new(storage.store.clone()), Analyzer::default()).dialect(&SigningDialect);
    // A busy machine may need longer than the default limit.
    let tool = SearchTool::new(search).time_limit(Duration::from_secs(60));
    let found = tool.call(&talk.id, r#"{"query":"dog"}"#).await.unwrap();
    assert!(found.contains(DOG), "{found}");
}

async fn the_tool_needs_the_dialect(storage: Storage) {
    let id = storage.conversation();
    import(&storage, &id).await;
    let replica = storage.replica().await;
    let Loaded::Window(window) = replica.store.load(&id, Load::new()).await.unwrap() else { panic!("it is there") };
    let is_unread = window.exchanges[0].exchange.messages[0].dialect().is_none();
    let search = LogSearch::new(Arc::new(replica.store.clone()), Analyzer::default());
    let call = async |search: &LogSearch| {
        let tool = SearchTool::new(search.clone()).time_limit(Duration::from_secs(60));
        tool.call(&id, r#"{"query":"dog"}"#).await
    };
    let found = call(&search).await;
    if is_unread {
        let Err(ToolError::Search(SearchError::UnknownDialect { dialect, .. })) = found else { panic!("{found:?}") };
        assert_eq!(dialect.as_str(), SigningDialect.name());
    } else {
        // Only stores in memory keep messages as they were read.
        assert!(storage.address().is_none());
    }
    assert!(call(&search.dialect(&SigningDialect)).await.unwrap().contains(DOG));
}

async fn a_resent_list_is_compared_without_its_reasoning(storage: Storage) {
    let mut talk = Talk::new(&storage, HistoryOptions::new());
    talk.say(user("one"), &[Say::Thought("hidden".into()), calls("x")]).await;
    let (_, mut list) = talk.say(result("x"), &[Say::Sealed("hidden".into()), Say::Text("two".into())]).await;
    list.push(Message::compose(&SigningDialect, &Role::Assistant, " two\n").unwrap());
    let unbound: Vec<Message> = list.iter().filter_map(|message| message.unbound().cloned()).collect();
    assert!(unbound.len() < list.len());

    let replica = storage.replica().await;
    talk.engine = Engine::new(replica.store.clone());
    let input = |list: &[Message]| TurnInput::new(talk.id.clone(), [user("three")]).transcript(list.to_vec());
    let mut edited = unbound.clone();
    edited[0] = user("other");
    let error = talk.engine.begin(input(&edited)).await.unwrap_err();
    let HistoryError::Transcript(error) = error else { panic!("{error}") };
    assert_eq!((error.position, error.seq), (0, Some(Seq::FIRST)));
    let (_, prompt) = talk.call(input(&unbound), &[Say::Text("four".into())]).await;
    assert!(prompt[1].json().contains("hidden"), "the log's own messages are sent");
}

async fn a_call_without_input_names_its_dialect(storage: Storage) {
    let mut talk = Talk::new(&storage, HistoryOptions::new());
    talk.say(user("one"), &[calls("x"), calls("y")]).await;
    let replica = storage.replica().await;
    talk.engine = Engine::new(replica.store.clone());
    for (id, open) in [("x", 1), ("y", 0)] {
        let stored = talk.engine.store_results(ToolResults::new(talk.id.clone(), [result(id)])).await.unwrap();
        assert_eq!(stored.open.len(), open);
    }
    let error = talk.engine.begin(TurnInput::new(talk.id.clone(), [])).await.unwrap_err();
    let HistoryError::OtherDialect(error) = error else { panic!("{error}") };
    assert_eq!(error.place, DialectPlace::Stored(Seq::FIRST));
    let empty = TurnInput::new(talk.id.clone(), []).dialect(&SigningDialect);
    let (_, prompt) = talk.call(empty, &[Say::Text("two".into())]).await;
    assert_eq!(prompt.len(), 5);
}

async fn a_repeated_call_returns_the_whole_reply(storage: Storage) {
    let mut talk = Talk::new(&storage, HistoryOptions::new());
    let input =
        |id: &ConversationId| TurnInput::new(id.clone(), [user("one")]).exchange(ExchangeId::new("m-1").unwrap());
    let says = [Say::Thought("hm".into()), Say::Text("two".into()), calls("x")];
    talk.call(input(&talk.id), &says).await;
    let replica = storage.replica().await;
    let error = Engine::new(replica.store.clone()).begin(input(&talk.id)).await.unwrap_err();
    let HistoryError::AlreadyRecorded(recorded) = error else { panic!("{error}") };
    let reply = Reply::recorded(&recorded).unwrap();
    assert_eq!((reply.messages.len(), &*reply.messages[1].text()), (3, "two"));
    assert_eq!(reply.messages[2].tool_calls()[0].id(), "x");
    assert_eq!(tower_chat_history::adapt::to_json_response(&recorded), None, "it is no chat completion");
}
