//! Signed reasoning through the engine, with a provider that refuses a signature in another prompt.

use std::sync::Arc;

use tower_chat_history::{
    ContextBudget, ContextOptions, ConversationId, Engine, HistoryError, HistoryOptions, HistoryStore, MemoryStore,
    Message, Reply, Retention, TurnInput, TurnReport,
    budget::{Watermark, Watermarks},
    dialect::{CallId, DialectName, Space},
    error::DialectPlace,
    store::{Compact, Cut, Load, LoadLimit, Loaded, Origin, Profile, Role, Seq, Summary, Window},
};
use tower_chat_history_test::signing::{Say, SigningDialect, SigningProvider};

/// A conversation with a provider that signs its reasoning.
struct Talk {
    store: Arc<MemoryStore>,
    engine: Engine,
    provider: SigningProvider,
    id: ConversationId,
    tools: &'static str,
    may_drop_reasoning: bool,
}

impl Talk {
    fn new(options: HistoryOptions) -> Self {
        Self::with(|store| Engine::with_options(store, options))
    }

    fn with(engine: impl FnOnce(Arc<MemoryStore>) -> Engine) -> Self {
        let store = Arc::new(MemoryStore::new());
        let engine = engine(Arc::clone(&store));
        let id = ConversationId::new(["acme", "reasoning"]).unwrap();
        Self { store, engine, provider: SigningProvider::new("one"), id, tools: "", may_drop_reasoning: false }
    }

    async fn try_call(&mut self, message: Message, says: &[Say]) -> Result<Arc<TurnReport>, HistoryError> {
        let mut input = TurnInput::new(self.id.clone(), [message]);
        input.request.tools = Some(self.tools.to_owned());
        input.request.may_drop_reasoning = self.may_drop_reasoning;
        let head = input.request.digest();
        let turn = self.engine.begin(input).await?;
        let reply = self.provider.reply(head, turn.context(), says).unwrap();
        Ok(turn.commit(Reply::of(reply)).await.unwrap())
    }

    async fn call(&mut self, message: Message, says: &[Say]) -> Arc<TurnReport> {
        self.try_call(message, says).await.unwrap()
    }

    async fn window(&self) -> Window {
        match self.store.load(&self.id, Load::new()).await.unwrap() {
            Loaded::Window(window) => window,
            other => panic!("{other:?}"),
        }
    }

    /// Stores a compaction as another process would: it summarizes everything before this position.
    async fn cut_elsewhere(&self, start: u64) {
        let window = self.window().await;
        let mut cut = Cut::window_from(Seq::new(start));
        cut.summary = Some(Summary::new("what was said", Seq::new(start)));
        let replaced = window.compaction.as_ref().map(|compaction| compaction.cut.clone());
        let compact = Compact::new(Profile::default(), window.compaction_version(), cut).replacing(replaced);
        self.store.compact(&self.id, window.revision.incarnation(), compact).await.unwrap();
    }
}

fn question() -> Message {
    Message::compose(&SigningDialect, &Role::User, "and?").unwrap()
}

fn result() -> Message {
    let id = CallId::new(Space::DEFAULT, "x");
    Message::in_dialect(&SigningDialect, SigningDialect::results([(&id, "r")], None)).unwrap()
}

fn answers() -> [Say; 2] {
    [Say::Thought("hm".into()), Say::Text("so".into())]
}

fn asks() -> [Say; 2] {
    [Say::Thought("hm".into()), Say::Call { space: Space::DEFAULT, id: "x".into() }]
}

#[tokio::test(start_paused = true)]
async fn a_turn_under_an_earlier_cut_is_repaired_and_the_stored_cut_stays() {
    let mut talk = Talk::new(HistoryOptions::new());
    talk.call(question(), &answers()).await;
    talk.call(question(), &answers()).await;
    talk.call(question(), &asks()).await;
    talk.cut_elsewhere(1).await;
    // The provider cannot verify what it signed before.
    talk.provider = SigningProvider::new("two");
    let mut input = TurnInput::new(talk.id.clone(), [result()]);
    input.request.tools = Some(talk.tools.to_owned());
    let head = input.request.digest();
    let mut turn = talk.engine.begin(input).await.unwrap();
    let sent = turn.context().len();
    talk.provider.reply(head, turn.context(), &answers()).unwrap_err();
    assert!(turn.is_repairable() && turn.repair("400").await);
    assert!(!turn.is_repairable() && !turn.repair("400").await, "a turn is repaired once");
    assert_eq!(turn.input(), [result()]);
    assert!(turn.context().len() <= sent);
    let reply = talk.provider.reply(head, turn.context(), &answers()).unwrap();
    let report = turn.commit(Reply::of(reply)).await.unwrap();
    assert!(report.repaired);
    let cut = talk.window().await.compaction.unwrap().cut;
    assert_eq!((cut.window_start, cut.covers_to(), cut.encrypted_from), (Seq::new(1), Seq::new(1), Seq::new(3)));
    assert!(!talk.call(question(), &answers()).await.repaired);
}

#[tokio::test(start_paused = true)]
async fn reasoning_is_sent_and_stored_with_its_provenance() {
    let mut talk = Talk::new(HistoryOptions::new().origin(Origin::unknown().provider("one")));
    for _ in 0..5 {
        talk.call(question(), &asks()).await;
        let report = talk.call(result(), &answers()).await;
        assert_eq!((report.reasoning_left_out, report.head_changed), (0, false));
    }
    assert_eq!(talk.provider.counts().missing, 0);
    let window = talk.window().await;
    let of = |at: usize| window.exchanges[at].exchange.provenance.clone().unwrap();
    assert_eq!((of(0).origin.provider.as_deref(), window.exchanges[0].exchange.reply_len), (Some("one"), 2));
    let [first, last] = [0, 9].map(|at| of(at).digests.unwrap());
    assert!(first.head == last.head && first.prompt != last.prompt);
}

#[tokio::test(start_paused = true)]
async fn a_prune_waits_for_the_end_of_a_turn_with_reasoning() {
    for retention in [1, 2, 3].map(Retention::LastTurns) {
        let mut talk = Talk::with(|store| Engine::with_retention(store, HistoryOptions::new(), retention));
        for _ in 0..5 {
            // A prune at the end of the turn before has changed the prompt of the turns before the question.
            let of_others = talk.call(question(), &asks()).await.reasoning_left_out;
            for says in [&asks()[..], &[Say::Text("so".into())]] {
                assert_eq!(talk.call(result(), says).await.reasoning_left_out, of_others);
            }
        }
        let Retention::LastTurns(turns) = retention else { unreachable!() };
        assert_eq!(talk.window().await.exchanges.len(), 3 * turns);
    }
}

#[tokio::test(start_paused = true)]
async fn a_prune_waits_for_a_turn_that_another_engine_began_and_for_one_that_was_interrupted() {
    let engine = |store| Engine::with_retention(store, HistoryOptions::new(), Retention::LastTurns(1));
    let mut talk = Talk::with(engine);
    talk.call(question(), &answers()).await;
    talk.call(question(), &asks()).await;
    // This engine has counted nothing.
    talk.engine = engine(Arc::clone(&talk.store));
    talk.call(result(), &asks()[1..]).await;
    assert_eq!(talk.window().await.exchanges.len(), 3);
    let turn = talk.engine.begin(TurnInput::new(talk.id.clone(), [result()])).await.unwrap();
    let mut part = Reply::of([Message::compose(&SigningDialect, &Role::Assistant, "s").unwrap()]);
    part.incomplete = true;
    turn.commit(part).await.unwrap();
    assert_eq!(talk.window().await.exchanges.len(), 4);
    talk.call(result(), &[Say::Text("so".into())]).await;
    assert_eq!(talk.window().await.exchanges[0].seq, Seq::new(1));
}

#[tokio::test(start_paused = true)]
async fn a_prune_does_not_wait_forever_for_turns_that_are_abandoned() {
    let mut talk = Talk::with(|store| Engine::with_retention(store, HistoryOptions::new(), Retention::LastTurns(1)));
    for _ in 0..50 {
        talk.call(question(), &asks()).await;
        assert!(talk.window().await.exchanges.len() <= 1 + 8);
    }
}

#[tokio::test(start_paused = true)]
async fn reasoning_under_another_head_is_left_out_and_reported() {
    let mut talk = Talk::new(HistoryOptions::new());
    talk.call(question(), &answers()).await;
    talk.tools = "one more tool";
    let report = talk.call(question(), &answers()).await;
    assert_eq!((report.reasoning_left_out, report.head_changed), (1, true));
    let report = talk.call(question(), &answers()).await;
    assert_eq!((report.reasoning_left_out, report.head_changed), (1, false), "only the oldest was made without it");
}

#[tokio::test(start_paused = true)]
async fn a_turn_continues_under_the_cut_that_it_began_with() {
    let mut talk = Talk::new(HistoryOptions::new());
    for _ in 0..3 {
        talk.call(question(), &answers()).await;
    }
    talk.call(question(), &asks()).await;
    talk.cut_elsewhere(3).await;
    let before = talk.provider.counts().missing;
    let report = talk.call(result(), &answers()).await;
    assert_eq!((report.reasoning_left_out, talk.provider.counts().missing - before), (0, 0));
    assert_eq!(report.messages_sent, 3 * 3 + 3 + 1, "the whole log, and the result");
    let report = talk.call(question(), &answers()).await;
    assert_eq!(report.reasoning_left_out, 2, "the next turn has the new cut");
    assert_eq!(report.messages_sent, 1 + 4 + 1, "the summary, the last turn without its reasoning, the question");
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_bound_reasoning_continues_beyond_the_load_limit() {
    let context = ContextOptions::new().load_limit(LoadLimit::new(8, 1 << 20).unwrap());
    let mut talk = Talk::new(HistoryOptions::new().context(context));
    talk.call(question(), &answers()).await;
    talk.call(question(), &asks()).await;
    for _ in 0..2 {
        let report = talk.call(result(), &asks()).await;
        assert_eq!((report.reasoning_left_out, report.truncated), (0, false));
    }
    assert_eq!(talk.provider.counts().missing, 0);
    // The next turn has the cut that the limit requires.
    assert!(talk.call(question(), &answers()).await.truncated);
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_bound_reasoning_that_does_not_fit_is_an_error_that_says_so() {
    let budget = ContextBudget::tokens(260).reply_reserve(20).calibrate(false);
    let mut talk = Talk::new(HistoryOptions::new().context(budget));
    talk.call(question(), &asks()).await;
    for _ in 0..30 {
        match talk.try_call(result(), &asks()).await {
            Ok(_) => {}
            Err(HistoryError::DoesNotFit(error)) => {
                assert!(error.turn_is_bound && error.to_string().contains("bound to the whole prompt"), "{error}");
                assert!(error.to_string().contains("let the provider drop blocks"), "{error}");
                // A new question ends the turn.
                assert!(talk.call(question(), &answers()).await.reasoning_left_out > 0);
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the turn never became too large");
}

#[tokio::test(start_paused = true)]
async fn a_turn_loses_bound_reasoning_that_does_not_fit_if_the_provider_may_drop_it() {
    let budget = ContextBudget::tokens(260).reply_reserve(20).calibrate(false);
    let mut talk = Talk::new(HistoryOptions::new().context(budget));
    talk.may_drop_reasoning = true;
    talk.call(question(), &asks()).await;
    let mut left_out = 0;
    for _ in 0..30 {
        left_out += talk.call(result(), &asks()).await.reasoning_left_out;
    }
    assert!(left_out > 0);
    talk.call(result(), &answers()).await;
    talk.call(question(), &answers()).await;
}

#[tokio::test(start_paused = true)]
async fn after_reasoning_was_dropped_prompts_begin_with_the_prompt_before_also_without_new_reasoning() {
    let budget = ContextBudget::tokens(400).reply_reserve(20).calibrate(false);
    let mut talk = Talk::new(HistoryOptions::new().context(budget));
    talk.may_drop_reasoning = true;
    talk.call(question(), &asks()).await;
    let (mut before, mut since) = (Vec::new(), None);
    // The reply to the trimmed prompt has no reasoning, and neither have the next ones.
    while since != Some(3) {
        let mut input = TurnInput::new(talk.id.clone(), [result()]);
        input.request.tools = Some(talk.tools.to_owned());
        input.request.may_drop_reasoning = true;
        let head = input.request.digest();
        let turn = talk.engine.begin(input).await.unwrap();
        let sent = turn.context().to_vec();
        match &mut since {
            Some(calls) => {
                assert!(sent.starts_with(&before), "{calls} calls after the first trimmed prompt");
                *calls += 1;
            }
            None if !sent.starts_with(&before) => since = Some(0),
            None => {}
        }
        before = sent;
        let says = if since.is_some() { &asks()[1..] } else { &asks()[..] };
        let reply = talk.provider.reply(head, turn.context(), says).unwrap();
        turn.commit(Reply::of(reply)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_fits_keeps_its_reasoning_although_the_provider_may_drop_it() {
    let watermarks = Watermarks::new(Watermark::Percent(50), Watermark::Percent(30)).unwrap();
    let budget = ContextBudget::tokens(1_000).reply_reserve(20).calibrate(false);
    let context = ContextOptions::from(budget).watermarks(watermarks);
    let mut talk = Talk::new(HistoryOptions::new().context(context));
    talk.may_drop_reasoning = true;
    talk.call(question(), &asks()).await;
    let mut largest = 0;
    while largest < 700 {
        let report = talk.call(result(), &asks()).await;
        assert_eq!(report.reasoning_left_out, 0, "after {largest} tokens");
        largest = report.tokens.unwrap().prompt.total();
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_in_another_dialect_is_refused() {
    let mut talk = Talk::new(HistoryOptions::new());
    talk.call(question(), &answers()).await;
    let error = talk.engine.begin(TurnInput::new(talk.id.clone(), [Message::user("u")])).await.unwrap_err();
    let HistoryError::OtherDialect(error) = error else { panic!("{error}") };
    assert_eq!(error.place, DialectPlace::Stored(Seq::FIRST));
    let names = (error.found.unwrap(), error.called);
    assert_eq!((names.0.as_str(), names.1), ("test/signing", DialectName::CHAT_COMPLETIONS));
}
