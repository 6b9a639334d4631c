//! A conversation between a caller, an engine, a store and a provider of the Responses API.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use proptest::{prop_assert, test_runner::TestCaseError};
use serde_json::Value;
use tower_chat_history::{
    ConversationId, Engine, HistoryError, HistoryOptions, HistoryStore as _, HistoryStoreExt as _, MemoryStore,
    Message, Reply, Turn, TurnInput, TurnReport,
    dialect::Dialect,
    store::{Cuts, Load, Loaded, Origin, Profile, Seq, Summary},
};
use tower_chat_history_test::responses::{MadeResponse, ResponsesProvider, Say};

use super::case::{Case, Step, origin};

/// The question of all turns. It is longer than most other items, so that small windows are soon full.
pub(super) const QUESTION: &str = r#"{"role":"user","content":"And what about this one, which is the next of them?"}"#;

/// The text of all outputs.
pub(super) const RESULT: &str =
    "a result that is long enough to be cleared, because its placeholder is shorter than it";

/// The numbers of things that happened.
#[derive(Debug, Default)]
pub(super) struct Figures(Mutex<BTreeMap<&'static str, u64>>);

impl Figures {
    pub(super) fn count(&self, name: &'static str, many: bool) {
        *self.0.lock().unwrap().entry(name).or_default() += u64::from(many);
    }

    pub(super) fn check_that_all_happened(&self) {
        for (name, count) in self.0.lock().unwrap().iter() {
            assert!(*count > 0, "{name}: never");
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.lock().unwrap().iter().try_for_each(|(name, count)| write!(f, "{name}: {count}; "))
    }
}

/// A conversation.
pub(super) struct Talk {
    pub(super) store: Arc<MemoryStore>,
    dialect: &'static dyn Dialect,
    options: HistoryOptions,
    engine: Engine,
    origin: Origin,
    providers: BTreeMap<String, ResponsesProvider>,
    pub(super) id: ConversationId,
    /// The outputs of the last response's calls.
    pub(super) results: Vec<String>,
    /// True if no reasoning may be left out: all responses had the same origin, and none with a compaction was made
    /// at the same time as another one.
    pub(super) keeps_reasoning: bool,
    /// The report of the last turn.
    pub(super) report: Option<Arc<TurnReport>>,
}

/// A turn that has begun, and the response to its request.
pub(super) struct Called {
    turn: Turn,
    body: String,
    pub(super) made: MadeResponse,
}

/// The reason why a call failed.
#[derive(Debug)]
pub(super) enum Failure {
    DoesNotFit,
    Other(String),
}

impl Failure {
    pub(super) fn other(error: impl fmt::Display) -> Self {
        Self::Other(error.to_string())
    }
}

/// Returns the type of an item.
pub(super) fn kind(json: &str) -> String {
    let item: Value = serde_json::from_str(json).unwrap();
    item["type"].as_str().unwrap_or("message").to_owned()
}

impl Talk {
    pub(super) fn new(dialect: &'static dyn Dialect, options: HistoryOptions) -> Self {
        let store = Arc::new(MemoryStore::new());
        let engine = Engine::with_options(Arc::clone(&store), options.clone());
        let id = ConversationId::new(["acme", "responses"]).unwrap();
        let origin = Origin::unknown().provider("one");
        let (providers, results) = (BTreeMap::new(), Vec::new());
        Self { store, dialect, options, engine, origin, providers, id, results, keeps_reasoning: true, report: None }
    }

    /// Makes all further calls with this origin.
    pub(super) fn call_as(&mut self, origin: Origin) {
        self.keeps_reasoning &= self.origin == origin;
        self.engine = Engine::with_options(Arc::clone(&self.store), self.options.clone().origin(origin.clone()));
        self.origin = origin;
    }

    pub(super) async fn ask(&mut self, script: &[Say]) -> Result<MadeResponse, Failure> {
        self.interrupted(script, usize::MAX).await
    }

    /// Asks a question. Only this number of items of the response arrives.
    pub(super) async fn interrupted(&mut self, script: &[Say], items: usize) -> Result<MadeResponse, Failure> {
        self.call(vec![QUESTION.to_owned()], script, items, &Figures::default()).await
    }

    /// Answers all calls of the last response, and says a text.
    pub(super) async fn answer(&mut self, script: &[Say], text: Option<&str>) -> Result<MadeResponse, Failure> {
        let input = self.results.iter().cloned().chain(text.map(str::to_owned)).collect();
        self.call(input, script, usize::MAX, &Figures::default()).await
    }

    /// Returns the items of a question's request.
    pub(super) async fn next_prompt(&mut self) -> Vec<String> {
        let turn = self.engine.begin(self.input(&[QUESTION.to_owned()]).unwrap()).await.unwrap();
        let prompt: Vec<String> = turn.context().iter().map(|message| message.json().to_owned()).collect();
        self.provider().check(&body(&prompt)).unwrap();
        prompt
    }

    /// Sends these items and a question.
    pub(super) async fn send(&mut self, items: &[String], script: &[Say]) -> Result<MadeResponse, Failure> {
        let items = items.iter().cloned().chain([QUESTION.to_owned()]).collect();
        self.call(items, script, usize::MAX, &Figures::default()).await
    }

    /// Waits for background work.
    pub(super) async fn wait(&self) {
        self.engine.drain(Duration::from_secs(60)).await.unwrap();
    }

    pub(super) async fn has_summary(&self) -> bool {
        let loaded = self.store.load(&self.id, Load::new()).await.unwrap();
        let Loaded::Window(window) = loaded else { return false };
        window.compaction.is_some_and(|compaction| compaction.derived.is_some())
    }

    /// Reads an item.
    pub(super) fn read(&self, item: &str) -> Result<Message, Failure> {
        Message::in_dialect(self.dialect, item).map_err(Failure::other)
    }

    fn input(&self, items: &[String]) -> Result<TurnInput, Failure> {
        let items: Vec<Message> = items.iter().map(|item| self.read(item)).collect::<Result<_, _>>()?;
        let mut input = TurnInput::new(self.id.clone(), items);
        input.dialect = Some(self.dialect);
        Ok(input)
    }

    /// Returns the provider. Each origin can read only its own encrypted content.
    fn provider(&mut self) -> &mut ResponsesProvider {
        let Origin { provider, route, account, .. } = &self.origin;
        let name = format!("{provider:?} {route:?} {account:?}");
        self.providers.entry(name.clone()).or_insert_with(|| ResponsesProvider::new(name))
    }

    async fn call(
        &mut self,
        items: Vec<String>,
        script: &[Say],
        arrive: usize,
        figures: &Figures,
    ) -> Result<MadeResponse, Failure> {
        let mut called = self.begin(&items, script).await?;
        called.made.output.truncate(arrive);
        let incomplete = called.made.output.len() < script.len();
        let made = self.commit(called, incomplete, figures).await?;
        self.results = made.answers(RESULT);
        Ok(made)
    }

    /// Sends these items. The response is not stored yet.
    pub(super) async fn begin(&mut self, items: &[String], script: &[Say]) -> Result<Called, Failure> {
        let turn = match self.engine.begin(self.input(items)?).await {
            Ok(turn) => turn,
            Err(HistoryError::DoesNotFit(_)) => return Err(Failure::DoesNotFit),
            Err(error) => return Err(Failure::other(error)),
        };
        let prompt: Vec<String> = turn.context().iter().map(|message| message.json().to_owned()).collect();
        let body = body(&prompt);
        let made = self.provider().reply(&body, script);
        let made = made.map_err(|refusal| Failure::Other(format!("refused: {refusal}\n{body}")))?;
        Ok(Called { turn, body, made })
    }

    /// Stores the response. If it is `incomplete`, it broke off after its last item.
    pub(super) async fn commit(
        &mut self,
        Called { turn, body, made }: Called,
        incomplete: bool,
        figures: &Figures,
    ) -> Result<MadeResponse, Failure> {
        let reply: Result<Vec<Message>, Failure> = made.output.iter().map(|item| self.read(item)).collect();
        let mut reply = Reply::of(reply?);
        reply.incomplete = incomplete;
        let report = turn.commit(reply).await.map_err(|unsaved| Failure::other(unsaved.reason()))?;
        self.report = Some(Arc::clone(&report));
        if self.keeps_reasoning && report.reasoning_left_out > 0 {
            return Err(Failure::Other(format!("{} items lack their reasoning\n{body}", report.reasoning_left_out)));
        }
        let trimming = report.tokens.map(|tokens| tokens.trimming).unwrap_or_default();
        let has = |kind: &str| body.contains(kind);
        figures.count("reasoning sent", has(r#""type":"reasoning""#));
        figures.count("reasoning left out", report.reasoning_left_out > 0);
        figures.count("compactions sent", has(r#""type":"compaction""#));
        figures.count("summaries sent", has("what was said"));
        figures.count("abandoned calls", has("this call was abandoned"));
        figures.count("turns left out", trimming.left_out_turns);
        figures.count("rounds left out", trimming.left_out_rounds);
        figures.count("results cleared", trimming.cleared_results);
        figures.count("truncated loads", report.truncated);
        figures.count("interrupted responses", incomplete);
        Ok(made)
    }

    async fn step(&mut self, step: &Step, figures: &Figures) -> Result<(), Failure> {
        match step {
            Step::Ask(script) => self.call(vec![QUESTION.to_owned()], script, usize::MAX, figures).await.map(|_| ()),
            Step::Interrupted(script, items) => {
                self.call(vec![QUESTION.to_owned()], script, *items, figures).await.map(|_| ())
            }
            Step::Answer(script, asks) => {
                if self.results.is_empty() {
                    return Ok(());
                }
                let question = asks.then(|| QUESTION.to_owned());
                let input = self.results.iter().cloned().chain(question).collect();
                self.call(input, script, usize::MAX, figures).await.map(|_| ())
            }
            Step::AnswerTwice(first, second) => self.answer_twice([first, second], figures).await,
            Step::AnswerInterrupted(script, items) => self.answer_interrupted(script, *items, figures).await,
            Step::Origin(number) => {
                self.engine.drain(Duration::from_secs(60)).await.map_err(Failure::other)?;
                self.call_as(origin(*number));
                Ok(())
            }
            Step::Summarize => self.summarize().await,
            Step::Truncate(exchanges) => {
                let conversation = self.store.conversation(&self.id);
                let len = conversation.exchanges().await.map_err(Failure::other)?.len() as u64;
                self.results = Vec::new();
                conversation.truncate(Seq::new(len.saturating_sub(*exchanges))).await.map_err(Failure::other)?;
                Ok(())
            }
            Step::Wait => self.engine.drain(Duration::from_secs(60)).await.map_err(Failure::other),
        }
    }

    /// Stores a compaction as another process would: it summarizes everything before the last turn.
    async fn summarize(&self) -> Result<(), Failure> {
        let loaded = self.store.load(&self.id, Load::new()).await.map_err(Failure::other)?;
        let Loaded::Window(window) = loaded else { return Ok(()) };
        let Some(turn) = window.exchanges.iter().rfind(|recorded| recorded.exchange.opens_turn()) else {
            return Ok(());
        };
        let read = window.compaction.as_ref().map(Cuts::read).transpose().map_err(Failure::other)?;
        let replaced = read.map(|cuts| cuts.cut);
        let mut cut = replaced.clone().unwrap_or_default();
        if turn.seq <= cut.window_start || turn.seq <= cut.covers_to {
            return Ok(());
        }
        cut.window_start = turn.seq;
        cut.rounds_start = cut.rounds_start.max(turn.seq);
        cut.set_summary(Summary::new("what was said"), turn.seq);
        let cuts = Cuts::new(cut).replacing(replaced);
        let compact = cuts.compact(Profile::default(), window.compaction_version()).map_err(Failure::other)?;
        self.store.compact(&self.id, window.revision.incarnation(), compact).await.map_err(Failure::other)?;
        Ok(())
    }
}

/// Returns the body of a request with these items.
fn body(items: &[String]) -> String {
    let items = items.join(",");
    format!(r#"{{"model":"gpt-5.5","instructions":"Be brief.","tools":[],"store":false,"input":[{items}]}}"#)
}

/// Runs a case.
pub(super) async fn run(dialect: &'static dyn Dialect, case: &Case, figures: &Figures) -> Result<(), TestCaseError> {
    let mut talk = Talk::new(dialect, case.setup.options());
    talk.origin = origin(0);
    for step in &case.steps {
        match talk.step(step, figures).await {
            Ok(()) => {}
            Err(Failure::DoesNotFit) => figures.count("prompts that do not fit", true),
            Err(Failure::Other(error)) => prop_assert!(false, "{step:?}: {error}"),
        }
    }
    talk.engine.drain(Duration::from_secs(60)).await.map_err(|error| TestCaseError::fail(error.to_string()))
}
