//! Conversations between a caller, the layer and a provider: whatever happens to a conversation, the provider refuses
//! no request of it.

use std::{cell::RefCell, collections::BTreeMap};

use proptest::{
    prelude::*,
    test_runner::{TestCaseError, TestError, TestRunner},
};
use serde_json::Value;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    ContextBudget, ContextOptions, HistoryError, HistoryOptions, Policies,
    engine::InputMode,
    http::{HttpHistory, Routes},
    policy::OnInterruption,
    store::Origin,
};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_test::responses::{CallType, MadeResponse, Say};

use super::{
    super::support::{History, text},
    ask,
    mutant::{self, Mutant},
    provider::Provider,
};

const QUESTION: &str = r#"{"role":"user","content":"And what about this one, which is the next of them?"}"#;
const RESULT: &str = "a result that is long enough to be cleared, because its placeholder is shorter than it";

/// Something that happens to a conversation. The last field is true for a stream.
#[derive(Clone, Debug)]
enum Step {
    /// A question as a list or as a text, and a response. A question while calls are open abandons them.
    Ask(Vec<Say>, bool, bool),
    /// The outputs of all open calls, with or without a question, and a response.
    Answer(Vec<Say>, bool, bool),
    /// A question, or the outputs of all open calls, and a stream of which only this number of items arrives.
    Interrupted(Vec<Say>, usize, bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    let script = || any_script().boxed();
    prop_oneof![
        2 => (script(), any::<bool>(), any::<bool>()).prop_map(|(script, is_text, streams)| Step::Ask(script, is_text, streams)),
        4 => (script(), any::<bool>(), any::<bool>()).prop_map(|(script, asks, streams)| Step::Answer(script, asks, streams)),
        2 => (script(), 0..6usize, any::<bool>())
            .prop_map(|(script, items, answers)| Step::Interrupted(script, items, answers)),
    ]
}

fn any_script() -> impl Strategy<Value = Vec<Say>> {
    let call = (prop::sample::select(&CallType::ALL[..]), prop::sample::select(vec!["x", "y"]));
    let call =
        call.prop_map(|(kind, id)| Say::Call { kind, id: id.into(), name: "look".into(), arguments: "{}".into() });
    let phase = prop::sample::select(vec![None, Some("commentary")]);
    let output = prop_oneof![
        6 => prop::collection::vec("[a-z ]{0,40}", 0..2).prop_map(Say::Reasoning),
        4 => ("[a-z ]{0,40}", phase).prop_map(|(text, phase)| Say::Message { text, phase }),
        8 => call,
        1 => Just(Say::Refusal("No.".into())),
        1 => Just(Say::WebSearch),
        1 => Just(Say::Compaction),
        1 => Just(Say::Unknown),
    ];
    // A complete response does not end with reasoning.
    (prop::collection::vec(output, 0..5), any::<bool>()).prop_map(|(mut outputs, calls)| {
        outputs.push(if calls { Say::call("z", "look", "{}") } else { Say::text("so") });
        outputs
    })
}

/// The configuration of a conversation.
#[derive(Clone, Copy, Debug)]
struct Setup {
    window: u32,
    /// True if the caller resends all items.
    resends: bool,
    mutant: Option<Mutant>,
}

/// A conversation.
struct Talk {
    history: History,
    provider: Provider,
    /// The caller's own list, if it resends all items.
    list: Option<Vec<String>>,
    /// The outputs of the last response's calls.
    results: Vec<String>,
    is_mutant: bool,
}

impl Talk {
    fn new(setup: Setup) -> Self {
        let Setup { window, resends, mutant } = setup;
        let budget = ContextBudget::tokens(window).reply_reserve(20).calibrate(false);
        let options = HistoryOptions::new()
            .context(ContextOptions::new().budget(budget))
            .origin(Origin::unknown().provider("openai"))
            .policies(Policies::new().on_interruption(OnInterruption::KeepText));
        let mode = if resends { InputMode::Transcript } else { InputMode::New };
        let routes = Routes::none().route(|_, uri| uri.path().ends_with("/responses"), mutant::wire(mutant));
        let adapter = HttpHistory::new().input_mode(mode).routes(routes);
        let list = resends.then(Vec::new);
        Self {
            history: History::of(adapter, options),
            provider: Provider::new(),
            list,
            results: vec![],
            is_mutant: mutant.is_some(),
        }
    }

    /// Sends new items. Returns the response, or `None` if the prompt does not fit.
    async fn send(
        &mut self,
        new: &[String],
        is_text: bool,
        streams: bool,
    ) -> Result<Option<MadeResponse>, TestCaseError> {
        let items: Vec<&String> = self.list.iter().flatten().chain(new).collect();
        let content = |item: &str| serde_json::from_str::<Value>(item).unwrap()["content"].to_string();
        let input = match &items[..] {
            [one] if is_text => content(one),
            items => format!("[{}]", items.iter().map(|item| item.as_str()).collect::<Vec<_>>().join(",")),
        };
        let body = format!(
            r#"{{"model":"gpt-5.5","instructions":"Be brief.","tools":[],"store":false,"input":{input},"stream":{streams}}}"#
        );
        let (provider, before) = (self.provider.clone(), self.provider.requests().len());
        let service = service_fn(move |request| provider.clone().respond(request));
        let response = match self.history.layer().layer(service).oneshot(ask(body)).await {
            Ok(response) => response,
            Err(error) if matches!(error.downcast_ref(), Some(HistoryError::DoesNotFit(_))) => return Ok(None),
            Err(error) => return Err(TestCaseError::fail(format!("{error:?}"))),
        };
        let status = response.status();
        let text = text(response).await;
        let requests = self.provider.requests();
        prop_assert!(status.is_success(), "refused: {text}\n{:?}", requests.last());
        prop_assert_eq!(requests.len(), before + 1, "refused, and then repaired: {:?}", requests.get(before));
        Ok(self.provider.take_made())
    }

    async fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let question = || QUESTION.to_owned();
        let (script, new, is_text, streams, breaks_after) = match step {
            Step::Ask(script, is_text, streams) => (script, vec![question()], *is_text, *streams, None),
            Step::Answer(..) if self.results.is_empty() => return Ok(()),
            Step::Answer(script, asks, streams) => {
                let new = self.results.iter().cloned().chain(asks.then(question)).collect();
                (script, new, false, *streams, None)
            }
            Step::Interrupted(script, items, answers) => {
                let new = if *answers && !self.results.is_empty() { self.results.clone() } else { vec![question()] };
                (script, new, false, true, Some(*items))
            }
        };
        let asks = new == [question()];
        let before = self.history.log().await.len();
        self.provider.prepare(script, breaks_after);
        let Some(made) = self.send(&new, is_text, streams).await? else {
            return Ok(());
        };
        let log = self.history.log().await;
        if breaks_after.is_some() {
            // The calls of an interrupted reply are not stored, and its input may be sent again. If a question is
            // stored, it closes the earlier calls.
            if asks && log.len() > before {
                self.results.clear();
            }
            return Ok(());
        }
        self.results = made.answers(RESULT);
        if let Some(list) = &mut self.list {
            list.extend(new);
            list.extend(made.output.iter().cloned());
        }
        if !self.is_mutant {
            prop_assert!(log.ends_with(&made.output), "{:?}\n{:?}", log, made.output);
        }
        Ok(())
    }
}

/// The numbers of things that happened in all cases.
#[derive(Debug, Default)]
struct Figures(RefCell<BTreeMap<&'static str, u64>>);

impl Figures {
    fn count(&self, name: &'static str, happened: bool) {
        *self.0.borrow_mut().entry(name).or_default() += u64::from(happened);
    }

    fn count_request(&self, body: &str, resent: usize) {
        let has = |text: &str| body.contains(text);
        self.count("streams", has(r#""stream":true"#));
        self.count("reasoning sent", has(r#""type":"reasoning""#));
        self.count("compactions sent", has(r#""type":"compaction""#));
        self.count("unknown items sent", has(r#""type":"new_thing""#));
        self.count("abandoned calls", has("this call was abandoned"));
        self.count("texts", has(r#""input":"And"#));
        self.count(
            "items of a list left out",
            serde_json::from_str::<Value>(body).unwrap()["input"].as_array().is_some_and(|sent| sent.len() < resent),
        );
    }
}

fn run(setup: Setup, steps: &[Step], figures: &Figures) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut talk = Talk::new(setup);
        for step in steps {
            let resent = talk.list.as_ref().map_or(0, Vec::len);
            talk.step(step).await?;
            if let Some(body) = talk.provider.requests().last() {
                figures.count_request(body, resent);
            }
        }
        Ok(())
    })
}

/// Runs the property for callers that resend their lists, or for callers that send only new items.
fn check(
    resends: bool,
    mutant: Option<Mutant>,
    cases: u32,
    figures: &Figures,
) -> Result<(), TestError<(u32, Vec<Step>)>> {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let window = prop_oneof![1 => Just(1_000_000), 4 => 250..2_500u32];
    let case = (window, prop::collection::vec(any_step(), 1..20));
    TestRunner::new(config).run(&case, |(window, steps)| run(Setup { window, resends, mutant }, &steps, figures))
}

/// Checks that nothing is refused, and that each thing happened.
fn check_wire(resends: bool) {
    let (figures, cases) = (Figures::default(), cases(500));
    let outcome = check(resends, None, cases, &figures);
    assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    println!("{figures:?}");
    for (name, count) in &*figures.0.borrow() {
        let is_possible = resends || *name != "items of a list left out";
        assert!(*count > 0 || !is_possible || cases < 500, "{name}: never");
    }
}

#[test]
fn the_provider_refuses_nothing_of_a_caller_that_sends_new_items() {
    check_wire(false);
}

#[test]
fn the_provider_refuses_nothing_of_a_caller_that_resends_its_list() {
    check_wire(true);
}

#[test]
fn a_wire_with_a_fault_is_refused() {
    for (mutant, refusal) in
        [(Mutant::LosesReasoning, "without its required 'reasoning' item"), (Mutant::Reverses, "without its required")]
    {
        let outcome = check(false, Some(mutant), 1_000, &Figures::default());
        let Err(TestError::Fail(reason, _)) = outcome else { panic!("{mutant:?}: nothing was refused") };
        assert!(reason.message().contains(refusal), "{mutant:?}: {reason}");
    }
}
