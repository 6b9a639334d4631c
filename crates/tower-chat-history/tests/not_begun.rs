//! A turn that does not begin is recorded once. The test has its own process, because a subscriber of one thread and
//! calls on other threads would disturb each other.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::{
    fmt::Debug,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use futures_util::FutureExt as _;
use tower_chat_history::{
    ContextBudget, ContextOptions, ConversationId, Engine, HistoryOptions, MemoryStore, Message, TurnInput, TurnReport,
    telemetry::names::attributes, tokens::TokenCounter,
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// Collects the outcomes of turns that are recorded in spans.
#[derive(Clone, Default)]
struct Outcomes(Arc<Mutex<Vec<String>>>);

impl Visit for &Outcomes {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == attributes::OUTCOME {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Outcomes {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut &*self);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A counter that panics when it is used for this time.
#[derive(Debug)]
struct PanickingCounter {
    uses: AtomicUsize,
    panics_at: usize,
}

impl PanickingCounter {
    fn used(&self) {
        assert_ne!(self.uses.fetch_add(1, Relaxed), self.panics_at, "the counter panics");
    }
}

impl TokenCounter for PanickingCounter {
    fn name(&self) -> Option<&Arc<str>> {
        self.used();
        None
    }

    fn count_text(&self, _: &str) -> u32 {
        self.used();
        1
    }
}

/// The last uses are in the context of the turn, whose state exists already and would report it, too.
#[tokio::test]
async fn a_turn_whose_token_counter_panics_is_recorded_once_wherever_it_panics() {
    let outcomes = Outcomes::default();
    let _subscribed = tracing::subscriber::set_default(outcomes.clone());
    let reports = Arc::new(AtomicUsize::new(0));

    let mut panics = 0;
    loop {
        let counter = PanickingCounter { uses: AtomicUsize::new(0), panics_at: panics };
        let context = ContextOptions::new().token_counter(counter).budget(ContextBudget::tokens(4_000));
        let counted = Arc::clone(&reports);
        let options = HistoryOptions::new().context(context).on_turn(move |_: &TurnReport| {
            counted.fetch_add(1, Relaxed);
        });
        let engine = Engine::with_options(MemoryStore::new(), options);

        let input = TurnInput::new(ConversationId::new(["tests"]).unwrap(), [Message::user("u")]);
        let begun = AssertUnwindSafe(engine.begin(input)).catch_unwind().await;
        if let Ok(begun) = begun {
            let _turn = begun.unwrap();
            assert!(outcomes.0.lock().unwrap().is_empty(), "the turn has begun");
            break;
        }
        assert_eq!(outcomes.0.lock().unwrap().drain(..).collect::<Vec<_>>(), ["\"abandoned\""], "use {panics}");
        assert_eq!(reports.load(Relaxed), 0, "use {panics}");
        panics += 1;
    }
    assert!(panics > 5, "{panics}");
}
