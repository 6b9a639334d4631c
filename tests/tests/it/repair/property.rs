//! Whenever the provider replaces its key: each key is refused once, each turn makes at most one more call, and prompts
//! begin with each other.

use std::{cell::RefCell, sync::Arc};

use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};
use serde_json::Value;
use tests::FullStore;
use tower_chat_history::{
    ConversationId, HistoryError, HistoryStoreExt as _, MemoryStore, refusal::Remedy, store::Seq,
};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_sqlite::SqliteStore;
use tower_chat_history_test::responses::{CallType, Say};

use super::{Open, QUESTION, Replica, provider::Provider};

/// Something that happens to a conversation.
#[derive(Clone, Debug)]
enum Step {
    /// A question, or the outputs of all open calls, sent by the first or the second replica, and a response.
    Ask { answers: bool, by_second: bool, streams: bool, script: Vec<Say> },
    /// Questions of both replicas at the same time.
    AskBoth(Vec<Say>),
    /// The provider replaces its key.
    Rotate,
    /// The log loses its last exchanges.
    Truncate(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let ask = (any::<bool>(), any::<bool>(), any::<bool>(), any_script());
    let ask = ask.prop_map(|(answers, by_second, streams, script)| Step::Ask { answers, by_second, streams, script });
    prop_oneof![
        8 => ask,
        2 => any_script().prop_map(Step::AskBoth),
        3 => Just(Step::Rotate),
        1 => (1..4u64).prop_map(Step::Truncate),
    ]
}

fn any_script() -> impl Strategy<Value = Vec<Say>> {
    let call = prop::sample::select(&CallType::ALL[..]);
    let call = call.prop_map(|kind| Say::Call { kind, id: "x".into(), name: "look".into(), arguments: "{}".into() });
    let output = prop_oneof![
        5 => Just(Say::reasoning()),
        3 => Just(Say::text("I look.")),
        3 => call,
        1 => Just(Say::WebSearch),
        1 => Just(Say::Compaction),
        1 => Just(Say::Unknown),
    ];
    // A complete response does not end with reasoning.
    (prop::collection::vec(output, 0..4), any::<bool>()).prop_map(|(mut outputs, calls)| {
        outputs.push(if calls { Say::call("z", "look", "{}") } else { Say::text("so") });
        outputs
    })
}

/// The numbers of things that happened in all cases.
#[derive(Debug, Default)]
struct Figures {
    calls: usize,
    repaired: usize,
    compared: usize,
    too_large: usize,
    races: usize,
}

/// A conversation of two replicas.
struct World {
    replicas: [Replica; 2],
    store: Arc<dyn FullStore>,
    provider: Provider,
    /// The outputs of the newest response's calls.
    results: Vec<String>,
    /// The items of the newest prompt, if the next one must begin with them.
    prompt: Option<Vec<Value>>,
    /// The number of requests that may still be refused: those of the turns that first see a new key.
    refusals: usize,
    has_budget: bool,
    figures: Figures,
}

impl World {
    fn new(open: Open<'_>, window: Option<u32>) -> Self {
        let (provider, id) = (Provider::new(), ConversationId::new(["repair", &unique()]).unwrap());
        let replicas = [(); 2].map(|()| Replica::new(open(), provider.clone(), id.clone(), window));
        let (results, prompt, figures) = (Vec::new(), None, Figures::default());
        Self { replicas, store: open(), provider, results, prompt, refusals: 0, has_budget: window.is_some(), figures }
    }

    async fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Rotate => {
                self.provider.rotate_key();
                self.refusals = 1;
            }
            Step::Truncate(exchanges) => {
                let conversation = self.store.conversation(&self.replicas[0].id);
                let log = conversation.exchanges().await.unwrap();
                let keep = (log.len() as u64).saturating_sub(*exchanges);
                conversation.truncate(Seq::new(keep)).await.unwrap();
                (self.results, self.prompt) = (Vec::new(), None);
            }
            Step::Ask { answers, by_second, streams, script } => {
                let input = match *answers && !self.results.is_empty() {
                    true => std::mem::take(&mut self.results),
                    false => vec![QUESTION.to_owned()],
                };
                self.ask(&input, usize::from(*by_second), *streams, script).await?;
            }
            Step::AskBoth(script) => self.ask_both(script).await?,
        }
        Ok(())
    }

    async fn ask(
        &mut self,
        input: &[String],
        replica: usize,
        streams: bool,
        script: &[Say],
    ) -> Result<(), TestCaseError> {
        self.provider.prepare(script);
        let (requests, refused) = (self.provider.requests().len(), self.provider.refused());
        let answer = self.replicas[replica].send(input, streams).await;
        let refused = self.provider.refused() - refused;
        prop_assert!(refused <= self.refusals, "the provider refused what it had refused before");
        let (status, body) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let is_too_large = matches!(error.downcast_ref(), Some(HistoryError::DoesNotFit(_)));
                prop_assert!(is_too_large && self.provider.requests().len() == requests, "{error}");
                self.figures.too_large += 1;
                (self.results, self.prompt) = (Vec::new(), None);
                return Ok(());
            }
        };
        prop_assert_eq!(status, 200, "{}", body);
        prop_assert_eq!(self.provider.requests().len(), requests + 1 + refused, "at most one more call");
        let report = self.replicas[replica].report();
        prop_assert_eq!(report.remedies == [Remedy::WithoutEncrypted], refused > 0);
        self.refusals -= refused;
        self.figures.calls += 1;
        self.figures.repaired += refused;
        self.results = self.provider.made().unwrap().answers("a result");
        self.compare(refused > 0)
    }

    /// Compares the newest prompt with the one before it.
    fn compare(&mut self, is_repaired: bool) -> Result<(), TestCaseError> {
        let request: Value = serde_json::from_str(self.provider.requests().last().unwrap()).unwrap();
        let items = request["input"].as_array().unwrap().clone();
        let is_comparable = !is_repaired && !self.has_budget;
        // A compaction stands for the items before it.
        let restarts =
            |before: &[Value]| items.iter().any(|item| item["type"] == "compaction" && !before.contains(item));
        if let Some(before) = self.prompt.take().filter(|before| is_comparable && !restarts(before)) {
            prop_assert!(items.starts_with(&before), "{items:#?}\n{before:#?}");
            self.figures.compared += 1;
        }
        self.prompt = Some(items);
        Ok(())
    }

    async fn ask_both(&mut self, script: &[Say]) -> Result<(), TestCaseError> {
        self.provider.prepare(script);
        let (requests, refused) = (self.provider.requests().len(), self.provider.refused());
        let input = [QUESTION.to_owned()];
        let [one, two] = &self.replicas;
        let answers = tokio::join!(one.send(&input, false), two.send(&input, true));
        let refused = self.provider.refused() - refused;
        prop_assert!(refused <= 2 * self.refusals, "the provider refused what it had refused before");
        let mut answered = 0;
        for answer in [answers.0, answers.1] {
            match answer {
                Ok((status, body)) => {
                    prop_assert_eq!(status, 200, "{}", body);
                    answered += 1;
                }
                Err(error) => prop_assert!(matches!(error.downcast_ref(), Some(HistoryError::DoesNotFit(_)))),
            }
        }
        prop_assert_eq!(self.provider.requests().len(), requests + answered + refused, "at most one more call each");
        self.refusals = if refused > 0 { 0 } else { self.refusals };
        self.figures.races += usize::from(refused > 1);
        (self.results, self.prompt) = (Vec::new(), None);
        Ok(())
    }
}

fn unique() -> String {
    tower_chat_history::ExchangeId::generate().as_str().to_owned()
}

/// Runs the property. `open` returns a handle of one store.
fn check(name: &str, many: u32, open: Open<'_>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let total = RefCell::new(Figures::default());
    let config = Config { cases: cases(many), failure_persistence: None, ..Config::default() };
    let window = prop_oneof![2 => Just(None), 1 => (300..2_500u32).prop_map(Some)];
    let case = (prop::collection::vec(any_step(), 1..16), window);
    let outcome = TestRunner::new(config).run(&case, |(steps, window)| {
        runtime.block_on(async {
            let mut world = World::new(open, window);
            for step in &steps {
                world.step(step).await?;
            }
            let mut total = total.borrow_mut();
            let Figures { calls, repaired, compared, too_large, races } = world.figures;
            (total.calls, total.repaired) = (total.calls + calls, total.repaired + repaired);
            (total.compared, total.too_large) = (total.compared + compared, total.too_large + too_large);
            total.races += races;
            Ok(())
        })
    });
    assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    let total = total.into_inner();
    println!("{name}: {total:?}");
    if cases(many) >= 200 {
        assert!(total.repaired > 0 && total.compared > 0 && total.races > 0, "{total:?}");
    }
}

#[test]
fn each_key_is_refused_once_over_memory() {
    let store = MemoryStore::new();
    check("memory", 1_000, &|| Arc::new(store.clone()));
}

#[test]
fn each_key_is_refused_once_over_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chat.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = runtime.block_on(SqliteStore::open(path)).unwrap();
    check("sqlite", 200, &|| Arc::new(store.clone()));
}
