//! A conversation between callers of three APIs, their engines, a store and the providers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use proptest::{prop_assert, prop_assert_eq, test_runner::TestCaseError};
use tests::FullStore;
use tower_chat_history::{
    ConversationId, Engine, HistoryError, HistoryStoreExt as _, Message, Reply, TurnInput,
    dialect::{CallId, ToolCall},
    engine::ToolResults,
    error::{DialectPlace, StoreResultsError},
    report::TranslationReport,
    store::{Cuts, Load, Loaded, Profile, Seq, Summary},
};

use super::{
    api::Providers,
    calls::Calls,
    case::{Api, Case, Question, Results, Said, Setup, Step},
};

pub(super) type Checked<T = ()> = Result<T, TestCaseError>;

/// The numbers of things that happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) requests: u64,
    pub(super) translated: u64,
    pub(super) left_out: u64,
    pub(super) compared: u64,
    pub(super) calls: u64,
    pub(super) refused_turns: u64,
    pub(super) too_large: u64,
    pub(super) abandoned: u64,
}

impl Figures {
    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.translated += other.translated;
        self.left_out += other.left_out;
        self.compared += other.compared;
        self.calls += other.calls;
        self.refused_turns += other.refused_turns;
        self.too_large += other.too_large;
        self.abandoned += other.abandoned;
    }
}

/// The state of a case.
pub(super) struct World {
    store: Arc<dyn FullStore>,
    id: ConversationId,
    setup: Setup,
    /// The engine of each API, and a second one, as another process has it.
    engines: [[Engine; 2]; 3],
    providers: Providers,
    /// The API of the newest reply, and its calls without a result.
    open: (Api, Vec<CallId>),
    /// The newest prompt of each API, if the next one must begin with it.
    before: [Option<Vec<Message>>; 3],
    /// The texts of all questions and complete replies.
    said: Vec<String>,
    calls: Calls,
    pub(super) figures: Figures,
}

fn number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Relaxed)
}

/// Returns texts that no other result has.
fn texts(results: usize) -> Vec<String> {
    let number = number();
    (0..results).map(|at| format!("r{number}.{at};")).collect()
}

fn failed(error: impl std::fmt::Display) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}

impl World {
    pub(super) fn new(case: &Case, stores: [Arc<dyn FullStore>; 2]) -> Self {
        let engines = Api::ALL
            .map(|api| stores.each_ref().map(|store| Engine::with_options(Arc::clone(store), case.setup.options(api))));
        let [store, _] = stores;
        Self {
            store,
            id: ConversationId::new(["switching", &number().to_string()]).unwrap(),
            setup: case.setup.clone(),
            engines,
            providers: Providers::new(&case.setup),
            open: (Api::Chat, Vec::new()),
            before: Default::default(),
            said: Vec::new(),
            calls: Calls::default(),
            figures: Figures::default(),
        }
    }

    pub(super) async fn run(&mut self, case: &Case) -> Checked {
        for step in &case.steps {
            self.step(step).await.map_err(|error| failed(format!("{step:?}: {error}")))?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Checked {
        match step {
            Step::Ask(api, form, script) => self.ask(*api, *form, script, usize::MAX).await,
            Step::Interrupted(api, script, many) => self.ask(*api, Question::Text, script, *many).await,
            Step::Answer(form, asks, script) => {
                let (api, calls) = self.open.clone();
                if calls.is_empty() {
                    return Ok(());
                }
                let texts = texts(calls.len());
                let mut input = api.results(&calls, *form, &texts);
                self.calls.answer(calls.len(), &texts, &input);
                if *asks {
                    let text = format!("q{};", number());
                    input.extend(api.question(Question::Text, &text));
                    self.said.push(text);
                }
                let is_stored = self.call(api, input, script, usize::MAX).await?;
                if !is_stored {
                    self.calls.answer(calls.len(), &vec![String::new(); calls.len()], &[]);
                }
                Ok(())
            }
            Step::Store(results) => {
                for _ in 0..*results {
                    self.store_one().await?;
                }
                Ok(())
            }
            Step::AnswerInOther(api) => self.answer_in_other(*api).await,
            Step::Summarize => self.summarize().await,
            Step::Truncate(exchanges) => self.truncate(*exchanges).await,
        }
    }

    /// Returns the form in which a question can be asked. DeepSeek refuses media.
    const fn form(&self, api: Api, form: Question) -> Question {
        match (api, form) {
            (Api::Chat, Question::WithImage | Question::WithFile) if self.setup.deepseek => Question::Text,
            _ => form,
        }
    }

    async fn ask(&mut self, api: Api, form: Question, script: &[Said], arrive: usize) -> Checked {
        let text = format!("q{};", number());
        self.said.push(text.clone());
        self.figures.abandoned += u64::from(!self.open.1.is_empty());
        let form = self.form(api, form);
        self.call(api, api.question(form, &text), script, arrive).await.map(|_| ())
    }

    /// Begins a turn, calls the provider, and stores its reply. Returns `true` if something is stored.
    async fn call(&mut self, api: Api, input: Vec<Message>, script: &[Said], arrive: usize) -> Checked<bool> {
        let thinks = self.setup.thinks && api == Api::Messages;
        let begin = |engine: &Engine, id: &ConversationId| {
            let mut turn = TurnInput::new(id.clone(), input.clone()).dialect(api.dialect());
            turn.request.thinks_with_budget = thinks;
            let engine = engine.clone();
            async move { engine.begin(turn).await }
        };
        let [one, other] = &self.engines[api as usize];
        let turn = match begin(one, &self.id).await {
            Ok(turn) => turn,
            Err(HistoryError::DoesNotFit(_)) => {
                self.figures.too_large += 1;
                // The question was not asked.
                self.said.retain(|text| !input.iter().any(|message| message.json().contains(text)));
                return Ok(false);
            }
            Err(error) => return Err(failed(error)),
        };
        let again = begin(other, &self.id).await.map_err(failed)?;
        prop_assert_eq!(again.context(), turn.context(), "another engine sends the same bytes");
        drop(again);
        let prompt = turn.context().to_vec();
        self.compare(api, &prompt)?;
        let text = format!("a{};", number());
        let made = self.providers.call(api, &prompt, script, &text).map_err(failed)?;
        self.figures.requests += 1;
        let is_cut = arrive < made.len();
        let made: Vec<Message> = made.into_iter().take(arrive).collect();
        let mut reply = Reply::of(made.clone());
        reply.incomplete = is_cut;
        let is_stored = !made.is_empty();
        let report = turn.commit(reply).await.map_err(|unsaved| failed(unsaved.reason()))?;
        prop_assert_eq!(report.revision().is_some(), is_stored);
        if let Some(TranslationReport { exchanges, left_out, .. }) = report.translation {
            self.figures.translated += exchanges as u64;
            self.figures.left_out += left_out.total() as u64;
        }
        if !is_stored {
            self.said.retain(|text| !input.iter().any(|message| message.json().contains(text)));
            return Ok(false);
        }
        self.before[api as usize] = Some(prompt);
        if made.iter().any(|message| message.json().contains(&text)) {
            self.said.push(text);
        }
        let calls: Vec<&ToolCall> = made.iter().flat_map(|message| message.tool_calls()).collect();
        self.calls.add(&calls);
        let calls = calls.iter().map(|call| call.call_id().clone());
        self.open = (api, if is_cut { Vec::new() } else { calls.collect() });
        Ok(true)
    }

    /// Checks that the prompt begins with the one before it, and has all texts, if nothing was left out.
    fn compare(&mut self, api: Api, prompt: &[Message]) -> Checked {
        if !self.setup.sends_everything() {
            return Ok(());
        }
        let all: String = prompt.iter().map(Message::json).collect();
        // The provider's own compaction replaces what is before it.
        if api == Api::Responses && all.contains(r#""type":"compaction""#) {
            return Ok(());
        }
        if let Some(before) = &self.before[api as usize] {
            prop_assert_eq!(prompt.get(..before.len()), Some(before.as_slice()), "the prompt before it is its prefix");
            self.figures.compared += 1;
        }
        let missing = self.said.iter().find(|text| !all.contains(text.as_str()));
        prop_assert!(missing.is_none(), "{missing:?} is missing in {all}");
        self.calls.check(prompt).map_err(|found| failed(format!("{found} in {all}")))?;
        self.figures.calls += self.calls.len() as u64;
        Ok(())
    }

    /// Stores the result of the first open call.
    async fn store_one(&mut self) -> Checked {
        let (api, calls) = self.open.clone();
        let Some(call) = calls.first() else { return Ok(()) };
        let texts = texts(1);
        let results = api.results(std::slice::from_ref(call), Results::WithImage, &texts);
        self.calls.answer(calls.len(), &texts, &results);
        let [engine, _] = &self.engines[api as usize];
        let stored = engine.store_results(ToolResults::new(self.id.clone(), results)).await.map_err(failed)?;
        self.open.1.remove(0);
        prop_assert_eq!(stored.open.ids().count(), self.open.1.len());
        Ok(())
    }

    /// Answers the open calls in another dialect, with their ids as they are.
    async fn answer_in_other(&mut self, api: Api) -> Checked {
        let (asked, calls) = self.open.clone();
        if calls.is_empty() || asked == api {
            return Ok(());
        }
        let calls: Vec<CallId> =
            calls.iter().map(|call| CallId::new(tower_chat_history::dialect::Space::DEFAULT, call.as_str())).collect();
        let results = api.results(&calls, Results::Text, &texts(calls.len()));
        let [engine, _] = &self.engines[api as usize];
        let turn = TurnInput::new(self.id.clone(), results.clone()).dialect(api.dialect());
        let Err(HistoryError::OtherDialect(error)) = engine.begin(turn).await else {
            return Err(failed("the results are not refused"));
        };
        prop_assert!(matches!(error.place, DialectPlace::OpenTurn(_)));
        prop_assert_eq!(error.found.as_ref().map(|found| found.as_str()), Some(asked.dialect().name()));
        let stored = engine.store_results(ToolResults::new(self.id.clone(), results)).await;
        let Err(StoreResultsError::History(HistoryError::OtherDialect(error))) = stored else {
            return Err(failed("the results are stored"));
        };
        prop_assert!(matches!(error.place, DialectPlace::OpenTurn(_)));
        self.figures.refused_turns += 1;
        Ok(())
    }

    async fn truncate(&mut self, exchanges: u64) -> Checked {
        let conversation = self.store.conversation(&self.id);
        let log = conversation.exchanges().await.map_err(failed)?;
        let len = log.len() as u64;
        if len == 0 {
            return Ok(());
        }
        conversation.truncate(Seq::new(len.saturating_sub(exchanges))).await.map_err(failed)?;
        self.open = (Api::Chat, Vec::new());
        self.before = Default::default();
        let left = conversation.exchanges().await.map_err(failed)?;
        let left = left.iter().flat_map(|recorded| &recorded.exchange.messages);
        self.calls.truncate(left.clone());
        let window = match self.store.load(&self.id, Load::new()).await.map_err(failed)? {
            Loaded::Window(window) => window.exchanges,
            _ => Vec::new(),
        };
        self.calls.set_window(window.iter().flat_map(|recorded| &recorded.exchange.messages));
        let left: String = left.map(Message::json).collect();
        self.said.retain(|text| left.contains(text.as_str()));
        Ok(())
    }

    /// Stores a compaction as another process would: it summarizes everything before the last turn.
    async fn summarize(&mut self) -> Checked {
        let loaded = self.store.load(&self.id, Load::new()).await.map_err(failed)?;
        let Loaded::Window(window) = loaded else { return Ok(()) };
        let opens = |recorded: &&tower_chat_history::store::Recorded| recorded.exchange.opens_turn();
        let Some(turn) = window.exchanges.iter().rfind(opens) else { return Ok(()) };
        let replaced = window.compaction.as_ref().map(Cuts::read).transpose().map_err(failed)?.map(|cuts| cuts.cut);
        let mut cut = replaced.clone().unwrap_or_default();
        if turn.seq <= cut.window_start || turn.seq <= cut.covers_to || !self.open.1.is_empty() {
            return Ok(());
        }
        cut.window_start = turn.seq;
        cut.rounds_start = cut.rounds_start.max(turn.seq);
        cut.set_summary(Summary::new("what was said"), turn.seq);
        let cuts = Cuts::new(cut).replacing(replaced);
        let compact = cuts.compact(Profile::default(), window.compaction_version()).map_err(failed)?;
        self.store.compact(&self.id, window.revision.incarnation(), compact).await.map_err(failed)?;
        self.before = Default::default();
        let window = window.exchanges.iter().filter(|recorded| recorded.seq >= turn.seq);
        let window = window.flat_map(|recorded| &recorded.exchange.messages);
        self.calls.set_window(window.clone());
        let window: String = window.map(Message::json).collect();
        self.said.retain(|text| window.contains(text.as_str()));
        Ok(())
    }

    pub(super) async fn end(&self) {
        for engine in self.engines.iter().flatten() {
            engine.drain(Duration::from_secs(60)).await.unwrap();
        }
    }
}
