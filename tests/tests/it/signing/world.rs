//! A conversation between callers, engines, a store and a provider.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use proptest::test_runner::TestCaseError;
use test_providers::signing::{Say, SigningDialect};
use tests::FullStore;
use tower_chat_history::{
    CallOptions, ConversationId, Engine, HistoryStoreExt as _, Message,
    dialect::CallId,
    engine::ToolResults,
    store::{CompactionVersion, Cuts, Derived, Load, Loaded, Origin, Profile, PruneTo, Recorded, Role, Seq, Summary},
};
use tower_chat_history_core::Rounds;

use super::{
    case::{Case, Script, Step, calls},
    figures::Figures,
    sending::{Before, Sent},
    setup::Setup,
};

pub(super) type Checked<T = ()> = Result<T, TestCaseError>;

/// The state of a case.
pub(super) struct World {
    pub(super) stores: [Arc<dyn FullStore>; 2],
    pub(super) setups: [Setup; 2],
    pub(super) has_one_setup: bool,
    pub(super) engines: [Engine; 2],
    pub(super) origins: [Origin; 2],
    pub(super) ids: Vec<ConversationId>,
    pub(super) head: u8,
    pub(super) slow: Option<Sent>,
    pub(super) before: Option<Before>,
    /// True if nothing but calls and compactions happened since the last turn opened.
    pub(super) is_calm: bool,
    /// The number of the compaction before that opening.
    pub(super) opened_under: CompactionVersion,
    pub(super) figures: Figures,
}

fn user(text: &str) -> Message {
    Message::compose(&SigningDialect, &Role::User, text).unwrap()
}

/// Returns a question that differs from all others, as exchanges of one conversation do.
fn question() -> Message {
    static QUESTIONS: AtomicU64 = AtomicU64::new(0);
    user(&format!("and {}?", QUESTIONS.fetch_add(1, Relaxed)))
}

fn element(json: &str) -> Message {
    Message::in_dialect(&SigningDialect, json).unwrap()
}

fn results(calls: &[CallId], text: Option<&str>) -> Message {
    // A result large enough to be cleared.
    let result = "r".repeat(40);
    element(&SigningDialect::results(calls.iter().map(|call| (call, result.as_str())), text))
}

pub(super) fn failed(error: impl std::fmt::Display) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}

impl World {
    pub(super) fn new(case: &Case, stores: [Arc<dyn FullStore>; 2]) -> Self {
        let origins = [Origin::unknown().provider("one"), Origin::unknown().provider("one")];
        let engine = |at: usize| case.setups[at].engine(Arc::clone(&stores[at]), origins[at].clone());
        let engines = [engine(0), engine(1)];
        Self {
            engines,
            stores,
            setups: case.setups.clone(),
            has_one_setup: case.setups[0] == case.setups[1],
            origins,
            ids: vec![new_id()],
            head: 0,
            slow: None,
            before: None,
            is_calm: false,
            opened_under: CompactionVersion::NONE,
            figures: Figures::default(),
        }
    }

    pub(super) async fn run(&mut self, case: &Case) -> Checked {
        for (engine, step) in &case.steps {
            self.step(*engine, step).await?;
        }
        Ok(())
    }

    /// Ends all work, and removes the conversations.
    pub(super) async fn end(&mut self) {
        self.slow = None;
        for engine in &self.engines {
            engine.drain(Duration::from_secs(60)).await.unwrap();
        }
        for id in &self.ids {
            self.stores[0].delete(id).await.unwrap();
        }
    }

    pub(super) fn id(&self) -> ConversationId {
        self.ids.last().unwrap().clone()
    }

    pub(super) async fn log(&self) -> Checked<Vec<Recorded>> {
        let log = self.stores[0].conversation(&self.id()).exchanges().await.map_err(failed)?;
        log.iter().try_for_each(|recorded| recorded.exchange.read_in(&SigningDialect)).map_err(failed)?;
        Ok(log)
    }

    fn rounds(log: &[Recorded]) -> Rounds {
        let mut rounds = Rounds::default();
        log.iter().for_each(|recorded| rounds.push_exchange(recorded));
        rounds
    }

    async fn step(&mut self, engine: usize, step: &Step) -> Checked {
        match step {
            Step::Ask(script) => self.call(engine, vec![question()], CallOptions::new(), script).await,
            Step::StoreInstead(script) => {
                let options = CallOptions::new().store_instead([question()]);
                self.call(engine, vec![user("and, according to these documents?")], options, script).await?;
                (self.is_calm, self.before) = (false, None);
                Ok(())
            }
            Step::Answer(script, says) => {
                let open: Vec<CallId> = Self::rounds(&self.log().await?).open().ids().cloned().collect();
                if open.is_empty() {
                    return Ok(());
                }
                let input = results(&open, says.then_some("so?"));
                self.call(engine, vec![input], CallOptions::new(), script).await
            }
            Step::StoreResults => self.store_results(engine).await,
            Step::Continue(script) => {
                let log = self.log().await?;
                let rounds = Self::rounds(&log);
                if !rounds.ends_with_round() || !rounds.open().is_empty() {
                    return Ok(());
                }
                self.call(engine, vec![], CallOptions::new(), script).await
            }
            Step::Slow(script, answers) => {
                let queues = self.setups.iter().any(|setup| setup.queues());
                if self.slow.is_none() && !queues {
                    let open: Vec<CallId> = Self::rounds(&self.log().await?).open().ids().cloned().collect();
                    let answers = *answers && !open.is_empty();
                    let input = if answers { results(&open, None) } else { question() };
                    self.slow = self.send(engine, vec![input], CallOptions::new(), script).await?;
                }
                Ok(())
            }
            Step::Arrive => {
                let Some(sent) = self.slow.take() else { return Ok(()) };
                (self.is_calm, self.before) = (false, None);
                self.arrive(sent, false).await
            }
            Step::Leave => {
                self.send(engine, vec![question()], CallOptions::new(), &Script::of([])).await?;
                Ok(())
            }
            Step::CompactWhileOpen(summarizes) => {
                let asks = [vec![Say::Thought("hm".into())], calls(2)].concat();
                self.call(engine, vec![question()], CallOptions::new(), &Script::of(asks)).await?;
                self.compact_elsewhere(*summarizes).await?;
                let answers = Script::of([Say::Thought("hm".into()), Say::Text("so".into())]);
                Box::pin(self.step(engine, &Step::Answer(answers, false))).await
            }
            Step::Wait => {
                for engine in &self.engines {
                    engine.drain(Duration::from_secs(60)).await.map_err(failed)?;
                }
                Ok(())
            }
            edit => {
                (self.is_calm, self.before) = (false, None);
                self.edit(engine, edit).await
            }
        }
    }

    async fn edit(&mut self, engine: usize, edit: &Step) -> Checked {
        let (id, store) = (self.id(), Arc::clone(&self.stores[engine]));
        let conversation = store.conversation(&id);
        match edit {
            Step::Truncate(exchanges) => {
                let next = conversation.revision().await.map_err(failed)?.map_or(0, |revision| revision.next().get());
                conversation.truncate(Seq::new(next.saturating_sub(*exchanges))).await.map_err(failed)?;
            }
            Step::Prune(turns) => {
                conversation.prune(PruneTo::LastTurns(*turns), Derived::Keep).await.map_err(failed)?;
            }
            Step::Fork => {
                let copy = new_id();
                conversation.fork(Seq::new(u64::MAX), &copy).await.map_err(failed)?;
                self.ids.push(copy);
            }
            Step::Delete => store.delete(&id).await.map_err(failed)?,
            Step::Import => {
                let signed = r#"{"from":"model","thinking":"hm","signature":"0","text":"so"}"#;
                conversation.import([question(), element(signed)]).await.map_err(failed)?;
            }
            Step::Head(head) => self.head = *head,
            Step::Origin(which) => {
                let one = Origin::unknown().provider("one");
                let (origin, engines) = match which {
                    0 => (one, 0..2),
                    1 => (one.route("b"), 0..2),
                    2 => (Origin::unknown().provider("two"), 0..2),
                    _ => (Origin::unknown().provider("two"), engine..engine + 1),
                };
                for at in engines {
                    self.engines[at].drain(Duration::from_secs(60)).await.map_err(failed)?;
                    self.engines[at] = self.setups[at].engine(Arc::clone(&self.stores[at]), origin.clone());
                    self.origins[at] = origin.clone();
                }
            }
            other => return Err(failed(format!("not an edit: {other:?}"))),
        }
        Ok(())
    }

    async fn store_results(&mut self, engine: usize) -> Checked {
        let open: Vec<CallId> = Self::rounds(&self.log().await?).open().ids().cloned().collect();
        if open.is_empty() {
            return Ok(());
        }
        let stored = ToolResults::new(self.id(), [results(&open, None)]);
        self.engines[engine].store_results(stored).await.map_err(failed)?;
        self.before = None;
        self.figures.count("results stored", 1);
        Ok(())
    }

    /// Stores a compaction that another process made: its window starts at the last opening.
    async fn compact_elsewhere(&self, summarizes: bool) -> Checked {
        let loaded = self.stores[1].load(&self.id(), Load::new()).await.map_err(failed)?;
        let Loaded::Window(window) = loaded else { return Ok(()) };
        let Some(opening) = window.exchanges.iter().rfind(|recorded| recorded.exchange.opens_turn()) else {
            return Ok(());
        };
        let previous = window.compaction.as_ref().map(Cuts::read).transpose().map_err(failed)?.map(|cuts| cuts.cut);
        let mut cut = previous.clone().unwrap_or_default();
        cut.window_start = cut.window_start.max(opening.seq);
        cut.rounds_start = cut.rounds_start.max(cut.window_start);
        if summarizes && cut.window_start > cut.covers_to {
            cut.set_summary(Summary::new(format!("up to {}", cut.window_start)), cut.window_start);
        }
        let cuts = Cuts::new(cut).replacing(previous);
        let compact = cuts.compact(Profile::default(), window.compaction_version()).map_err(failed)?;
        self.stores[1].compact(&self.id(), window.revision.incarnation(), compact).await.map_err(failed)?;
        Ok(())
    }
}

fn new_id() -> ConversationId {
    static IDS: AtomicU64 = AtomicU64::new(0);
    ConversationId::new(["signing", &IDS.fetch_add(1, Relaxed).to_string()]).unwrap()
}
