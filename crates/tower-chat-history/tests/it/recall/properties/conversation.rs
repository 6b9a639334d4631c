//! A conversation of two engines over one store, with the checks of each prompt and of the log.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;
use tower_chat_history::{
    CallOptions, Engine, HistoryError, HistoryStore as _, HistoryStoreExt as _, MemoryStore, Message, Reply, Turn,
    TurnInput, TurnReport,
    report::TurnOutcome,
    store::{Citation, Load, Loaded, Recalled, Seq, Window},
    tokens::{ByteEstimate, TokenCounter as _},
};
use tower_chat_history_test::check_chat_rules;

use super::{
    super::support::{ScriptedRecall, id},
    setup::{self, End, Setup},
};
use crate::support::calls;

const RESULT_IDS: [&str; 2] = ["x", "y"];

pub(super) struct Conversation {
    engines: [Engine; 2],
    store: MemoryStore,
    recall: ScriptedRecall,
    context_window: u64,
    /// The exchanges that were stored: their messages and recalled messages.
    log: BTreeMap<Seq, (Vec<Message>, Option<Message>)>,
    /// The citations of each message that was shown.
    citations: BTreeMap<String, Vec<Citation>>,
    /// The newest prompt that the next ones must begin with, and the version of the compaction under which they must.
    prefix: Option<(Vec<Message>, u64)>,
}

/// A turn that has begun.
struct Begun {
    turn: Turn,
    context: Vec<Message>,
    input: Vec<Message>,
    /// The log's length and the version of the compaction before the turn began.
    before: (u64, u64),
    /// The prefix that its prompt must have, if it has the same compaction.
    prefix: Option<(Vec<Message>, u64)>,
}

type Checked<T = ()> = Result<T, TestCaseError>;

impl Conversation {
    pub(super) fn new(setup: &Setup) -> Self {
        let (store, recall) = (MemoryStore::new(), setup.recall());
        let engine = || Engine::with_options(store.clone(), setup.options(&recall));
        let engines = [engine(), engine()];
        let (log, citations) = (BTreeMap::new(), BTreeMap::new());
        Self { engines, store, recall, context_window: setup.context.into(), log, citations, prefix: None }
    }

    /// Runs one turn. It ends early if a call does not fit.
    pub(super) async fn turn(&mut self, turn: &setup::Turn) -> Checked {
        let engine = |call: usize| usize::from(turn.engines >> (call % 8) & 1);
        let mut input = vec![Message::user("word ".repeat(turn.question))];
        for (call, (count, size)) in turn.rounds.iter().enumerate() {
            let asks = calls(&RESULT_IDS[..*count]);
            let Some(begun) = self.begin(engine(call), input, CallOptions::new()).await? else { return Ok(()) };
            self.commit(begun, Reply::new(asks)).await?;
            input = RESULT_IDS[..*count].iter().map(|id| Message::tool(id, "word ".repeat(*size))).collect();
        }
        let last = engine(turn.rounds.len());
        let options = if turn.end == End::NotStored { CallOptions::new().dont_store() } else { CallOptions::new() };
        let Some(begun) = self.begin(last, input.clone(), options).await? else { return Ok(()) };
        let answer = Message::assistant("word ".repeat(turn.answer));
        match turn.end {
            End::Answered | End::NotStored => self.commit(begun, Reply::new(answer)).await,
            End::Failed => {
                begun.turn.fail("model");
                Ok(())
            }
            End::BrokenOff => {
                let mut reply = Reply::new(answer.clone());
                reply.incomplete = true;
                self.commit(begun, reply).await?;
                let again = self.begin(1 - last, input, CallOptions::new()).await?;
                match again {
                    Some(begun) => self.commit(begun, Reply::new(answer)).await,
                    None => Ok(()),
                }
            }
        }
    }

    /// Begins a turn in each engine, and then stores both.
    pub(super) async fn together(&mut self, first: usize, second: usize) -> Checked {
        let question = |words: usize| vec![Message::user("word ".repeat(words))];
        let first = self.begin(0, question(first), CallOptions::new()).await?;
        let second = self.begin(1, question(second), CallOptions::new()).await?;
        for begun in first.into_iter().chain(second) {
            self.commit(begun, Reply::new(Message::assistant("a"))).await?;
        }
        Ok(())
    }

    /// Begins a turn, and checks its prompt. Returns `None` if no prompt fits.
    async fn begin(&self, engine: usize, input: Vec<Message>, options: CallOptions) -> Checked<Option<Begun>> {
        let (before, searches) = (self.state().await, self.recall.searches().len());
        let turn = match self.engines[engine].begin(TurnInput::new(id(), input.clone()).options(options)).await {
            Ok(turn) => turn,
            Err(HistoryError::DoesNotFit(_)) => return Ok(None),
            Err(error) => return Err(TestCaseError::fail(format!("refused: {error}"))),
        };
        let context = turn.context().to_vec();
        prop_assert!(check_chat_rules(&context).is_ok(), "{:?}", check_chat_rules(&context));
        prop_assert!(context.ends_with(&input));
        let searches = self.recall.searches().split_off(searches);
        prop_assert!(searches.len() <= 1);
        if let Some(search) = searches.first() {
            prop_assert!(!input[0].is_tool_result(), "a continuation does not search");
            let sent = &context[..context.len() - input.len()];
            let shown: Vec<Citation> =
                sent.iter().filter_map(|message| self.citations.get(&*message.text())).flatten().cloned().collect();
            prop_assert_eq!(&search.shown, &shown, "a search gets what the prompt shows");
            prop_assert!(search.revision.unwrap().first() < search.before);
        }
        Ok(Some(Begun { turn, context, input, before, prefix: self.prefix.clone() }))
    }

    /// Stores the exchange, and checks its report.
    async fn commit(&mut self, begun: Begun, reply: Reply) -> Checked {
        let Begun { turn, context, input, before: (len, version), prefix } = begun;
        let window = turn.window().to_vec();
        let message = reply.message().cloned();
        // The summary of another turn may have been stored while this one was under way.
        let is_latest = self.state().await.1 == version;
        let report = turn.commit(reply).await.unwrap();
        for engine in &self.engines {
            engine.drain(Duration::from_secs(1_000)).await.unwrap();
        }
        self.check_report(&report, &context)?;
        let tokens = report.tokens.unwrap();
        if let Some((prefix, planned)) = prefix {
            let is_stable = planned == version && !tokens.compacted && !left_out_for_this_call(&report);
            prop_assert!(!is_stable || context.starts_with(&prefix), "{report:?}");
        }
        let is_shown = report.recall.as_ref().is_some_and(|recall| recall.outcome.kind() == "shown");
        // A constant reply follows them.
        let recalled = is_shown.then(|| window[window.len() - 2].clone());
        let TurnOutcome::Stored { seq, .. } = report.outcome else { return Ok(()) };
        if let Some(recalled) = &recalled {
            let stored = self.stored(seq).await.unwrap();
            self.citations.insert(recalled.text().into_owned(), stored.citations);
        }
        self.log.insert(seq, ([input, message.into_iter().collect()].concat(), recalled));
        let (_, now) = self.state().await;
        // Another exchange or compaction may have been stored in between.
        if seq.get() == len {
            let is_stable =
                is_latest && !left_out_for_this_call(&report) && now == version + u64::from(tokens.compacted);
            self.prefix = is_stable.then_some((context, now));
        }
        Ok(())
    }

    fn check_report(&self, report: &TurnReport, context: &[Message]) -> Checked {
        let tokens = report.tokens.unwrap();
        let sum: u64 = context.iter().map(|message| u64::from(ByteEstimate::new().count_message(message))).sum();
        prop_assert_eq!(tokens.prompt.total(), sum + 3);
        let reply = tokens.reply_limit.map_or(tokens.reply_reserve, u64::from);
        prop_assert!(sum + 3 + reply <= self.context_window, "{} + {} > {}", sum + 3, reply, self.context_window);
        Ok(())
    }

    /// Checks that the log has all exchanges and recalled messages, byte for byte.
    pub(super) async fn check_log(&self) -> Checked {
        let exchanges = self.store.conversation(&id()).exchanges().await.unwrap();
        prop_assert_eq!(exchanges.len(), self.log.len());
        for (recorded, (seq, (messages, recalled))) in exchanges.iter().zip(&self.log) {
            prop_assert_eq!(recorded.seq, *seq);
            prop_assert_eq!(&recorded.exchange.messages, messages);
            prop_assert_eq!(recorded.exchange.recalled.as_ref().map(|recalled| &recalled.message), recalled.as_ref());
        }
        Ok(())
    }

    async fn window(&self) -> Option<Window> {
        match self.store.load(&id(), Load::new()).await.unwrap() {
            Loaded::Window(window) => Some(window),
            _ => None,
        }
    }

    /// Returns the log's length and the version of its compaction.
    async fn state(&self) -> (u64, u64) {
        let window = self.window().await;
        window.map_or((0, 0), |window| (window.revision.next().get(), window.compaction_version().get()))
    }

    async fn stored(&self, seq: Seq) -> Option<Recalled> {
        let page = self.store.read(&id(), seq, 1).await.unwrap();
        page.exchanges[0].exchange.recalled.clone()
    }
}

/// Returns `true` if the prompt differs from those of the next calls: messages, recalled messages or the summary were
/// left out for this call only, or it has a summary that is stored with it.
fn left_out_for_this_call(report: &TurnReport) -> bool {
    let tokens = report.tokens.unwrap();
    let trimming = tokens.trimming;
    tokens.for_this_call
        || trimming.left_out_summary
        || report.summary.is_some()
        || report.truncated
        || trimming.left_out_recalled && !tokens.compacted
}
