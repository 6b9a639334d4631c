//! Usage reports, honest and hostile. They affect only the conversation that they are about.

use proptest::prelude::*;
use tests::check;
use tower_chat_history::{
    ContextBudget, ConversationId, Engine, HistoryError, HistoryOptions, HistoryStore as _, MemoryStore, Message,
    Reply, TurnInput,
    report::TurnTokens,
    store::{Cut, Cuts, Load, Loaded, Usage},
    tokens::{ByteEstimate, TokenCounter as _},
};

const CONTEXT: u32 = 4_000;
const RESERVE: u32 = 100;

/// The prompt size that the provider reports.
#[derive(Clone, Copy, Debug)]
enum Report {
    Nothing,
    /// This percentage of the counted tokens.
    Percent(u64),
    Number(u64),
}

#[derive(Clone, Debug)]
struct Call {
    conversation: usize,
    tokens: usize,
    /// An attachment, which counts as a fixed number of tokens.
    attached: Option<&'static str>,
    report: Report,
}

fn any_call(conversations: usize) -> impl Strategy<Value = Call> {
    let report = prop_oneof![
        1 => Just(Report::Nothing),
        3 => (40_u64..250).prop_map(Report::Percent),
        2 => prop::sample::select(vec![0, 1, 1_000_000_000_000, u64::MAX]).prop_map(Report::Number),
        1 => any::<u64>().prop_map(Report::Number),
    ];
    let attached = prop_oneof![
        4 => Just(None),
        1 => prop::sample::select(vec![
            r#"{"type":"file","file":{"file_id":"f"}}"#,
            r#"{"type":"image_url","image_url":{"url":"data:"}}"#,
            r#"{"type":"input_audio","input_audio":{"data":""}}"#,
        ]).prop_map(Some),
    ];
    (0..conversations, 1_usize..3_900, attached, report).prop_map(|(conversation, tokens, attached, report)| Call {
        conversation,
        tokens,
        attached,
        report,
    })
}

fn question(call: &Call) -> Message {
    let text = "x".repeat(4 * call.tokens);
    match call.attached {
        None => Message::user(text),
        Some(part) => Message::user("").with_parts(&[part, &format!(r#"{{"type":"text","text":"{text}"}}"#)]).unwrap(),
    }
}

fn id(conversation: usize) -> ConversationId {
    ConversationId::new([format!("c{conversation}")]).unwrap()
}

struct Service {
    store: MemoryStore,
    engine: Engine,
}

/// The result of a call: the planned tokens (`None` if it was refused) and the stored cut.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    planned: Option<TurnTokens>,
    cut: Option<Cut>,
}

impl Service {
    fn new() -> Self {
        let budget = ContextBudget::tokens(CONTEXT).reply_reserve(RESERVE);
        let store = MemoryStore::new();
        Self { engine: Engine::with_options(store.clone(), HistoryOptions::new().context(budget)), store }
    }

    async fn call(&self, call: &Call) -> Outcome {
        let mut input = TurnInput::new(id(call.conversation), [question(call)]);
        input.request.model = Some("m".into());
        let planned = match self.engine.begin(input).await {
            Err(HistoryError::DoesNotFit(error)) => {
                let counted = error.parts.total() + u64::from(RESERVE);
                assert!(counted > u64::from(CONTEXT), "{error} fits according to its count");
                None
            }
            Err(error) => panic!("{error}"),
            Ok(turn) => {
                let mut reply = Reply::new(Message::assistant("ok"));
                let counted: u64 = turn.context().iter().map(|m| u64::from(ByteEstimate::new().count_message(m))).sum();
                reply.usage = match call.report {
                    Report::Nothing => None,
                    Report::Percent(percent) => Some(Usage::new(counted * percent / 100, 1)),
                    Report::Number(number) => Some(Usage::new(number, 1)),
                };
                Some(turn.commit(reply).await.unwrap().tokens.unwrap())
            }
        };
        let loaded = self.store.load(&id(call.conversation), Load::new()).await.unwrap();
        let cut = match loaded {
            Loaded::Window(window) => window.compaction.map(|compaction| Cuts::read(&compaction).unwrap().cut),
            _ => None,
        };
        Outcome { planned, cut }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_reports_of_one_conversation_do_not_affect_others() {
    let calls = prop::collection::vec(any_call(4), 1..60);
    check(64, calls, async |calls| {
        let together = Service::new();
        let alone: Vec<Service> = (0..4).map(|_| Service::new()).collect();
        for call in &calls {
            let outcome = together.call(call).await;
            assert_eq!(outcome, alone[call.conversation].call(call).await, "{call:?}");
            if let Some(tokens) = outcome.planned {
                // The counter is an estimate.
                assert!((0.8..=2.0).contains(&tokens.calibration), "{tokens:?}");
            }
        }
    });
}

#[tokio::test]
async fn a_calibration_factor_never_refuses_a_call_whose_count_fits() {
    let service = Service::new();
    let large = |report| Call { conversation: 0, tokens: 3_500, attached: None, report };
    for number in [u64::MAX, 1_000_000_000_000, 5_250] {
        for _ in 0..20 {
            let outcome = service.call(&large(Report::Number(number))).await;
            assert!(outcome.planned.is_some());
        }
    }
}

/// Makes a turn of 350 tokens, about which the provider reports a percentage of the counted tokens.
async fn turn(service: &Service, percent: u64) -> TurnTokens {
    let call = Call { conversation: 0, tokens: 340, attached: None, report: Report::Percent(percent) };
    service.call(&call).await.planned.unwrap()
}

#[tokio::test]
async fn an_estimate_that_is_too_high_leaves_nothing_out_until_the_provider_counts_that_much() {
    let service = Service::new();
    let mut turns = Vec::new();
    while turns.last().is_none_or(|tokens: &TurnTokens| tokens.evicted_tokens == 0) {
        turns.push(turn(&service, 85).await);
    }
    let plain = u64::from(CONTEXT - RESERVE);
    assert!(turns.iter().any(|tokens| tokens.prompt.total() > plain), "{turns:?}");
    // The provider counts 85% of each message, so that every prompt fits.
    assert!(turns.iter().all(|tokens| tokens.prompt.total() * 85 / 100 <= plain), "{turns:?}");
    let [.., before, compacted] = turns.as_slice() else { panic!("{turns:?}") };
    assert!(before.calibration < 0.95 && before.limit > plain, "{before:?}");
    // The compaction goes down to a part of the plain limit.
    assert_eq!((compacted.calibration.to_bits(), compacted.limit), (1.0_f64.to_bits(), plain));
    assert!(compacted.prompt.total() <= plain * 3 / 4 + 350, "{compacted:?}");
    let after = turn(&service, 85).await;
    assert_eq!(after.limit, plain, "one report about the compacted prompt is not enough: {after:?}");
    assert!(turn(&service, 85).await.limit > plain);
}

#[tokio::test]
async fn a_first_report_and_a_failed_call_make_no_prompt_larger() {
    let service = Service::new();
    let plain = u64::from(CONTEXT - RESERVE);
    for _ in 0..2 {
        turn(&service, 85).await;
    }
    // The first prompt is too small to be compared.
    assert_eq!(turn(&service, 85).await.limit, plain);
    assert!(turn(&service, 85).await.limit > plain);
    let mut input = TurnInput::new(id(0), [Message::user("q")]);
    input.request.model = Some("m".into());
    service.engine.begin(input).await.unwrap().fail("500");
    for _ in 0..2 {
        assert_eq!(turn(&service, 85).await.limit, plain);
    }
    assert!(turn(&service, 85).await.limit > plain);
}

#[tokio::test]
async fn an_exact_counter_is_never_lowered() {
    let counter = tower_chat_history::tokens::per_text("exact", |text: &str| text.len() / 4);
    let budget = ContextBudget::tokens(CONTEXT).reply_reserve(RESERVE);
    let context = tower_chat_history::ContextOptions::new().budget(budget).token_counter(counter);
    let store = MemoryStore::new();
    let engine = Engine::with_options(store.clone(), HistoryOptions::new().context(context));
    let service = Service { engine, store };
    for percent in [85, 85, 85, 85, 500, 500, 500, 500, 500] {
        let tokens = turn(&service, percent).await;
        assert!((1.0..=1.5).contains(&tokens.calibration), "{tokens:?}");
    }
}

#[tokio::test]
async fn prompts_with_attachments_do_not_calibrate() {
    for attached in ["file", "image_url", "input_audio", "document", "video_url"] {
        let (service, part) = (Service::new(), format!(r#"{{"type":"{attached}","{attached}":{{}}}}"#));
        let call = |attached, report| Call { conversation: 0, tokens: 600, attached, report };
        for _ in 0..3 {
            let attached: &'static str = part.clone().leak();
            service.call(&call(Some(attached), Report::Number(100_000))).await;
        }
        let planned = service.call(&call(None, Report::Nothing)).await.planned.unwrap();
        assert_eq!(planned.calibration.to_bits(), 1.0_f64.to_bits(), "{attached}");
    }
}

#[tokio::test]
async fn a_deleted_conversation_loses_its_calibration() {
    let service = Service::new();
    let call = || Call { conversation: 0, tokens: 700, attached: None, report: Report::Percent(130) };
    assert_eq!(service.call(&call()).await.planned.unwrap().calibration.to_bits(), 1.0_f64.to_bits());
    assert!(service.call(&call()).await.planned.unwrap().calibration > 1.2);
    service.store.delete(&id(0)).await.unwrap();
    assert_eq!(service.call(&call()).await.planned.unwrap().calibration.to_bits(), 1.0_f64.to_bits());
    assert!(service.call(&call()).await.planned.unwrap().calibration > 1.2);
}

#[tokio::test]
async fn many_other_models_and_conversations_do_not_prevent_calibration() {
    let service = Service::new();
    for number in 0..300 {
        let mut input = TurnInput::new(id(1_000 + number), [Message::user("x".repeat(4 * 700))]);
        input.request.model = Some(format!("junk-{number}"));
        let turn = service.engine.begin(input).await.unwrap();
        let mut reply = Reply::new(Message::assistant("ok"));
        reply.usage = Some(Usage::new(1_000, 1));
        turn.commit(reply).await.unwrap();
    }
    let call = Call { conversation: 0, tokens: 700, attached: None, report: Report::Percent(130) };
    service.call(&call).await;
    assert!(service.call(&call).await.planned.unwrap().calibration > 1.2);
}
