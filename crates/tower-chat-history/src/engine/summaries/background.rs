//! Summaries that nobody waits for.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use futures_util::{
    FutureExt as _,
    future::{self, BoxFuture, Shared},
};
use tokio::runtime::Handle;
use tower_chat_history_core::{ConversationId, Cut, Load, Loaded, Message, Window};

use super::{job::Job, window_is_stored};
use crate::{
    Engine, HistoryOptions,
    budget::{Mark, Marks, PromptTokens},
    engine::{basis::Basis, count::Counting},
    plan,
    summary::{Summaries, SummarizeWhen, SummaryReport},
};

type Running = Shared<BoxFuture<'static, Option<Arc<SummaryReport>>>>;

/// The summaries that are being made in this process: one a conversation.
#[derive(Default)]
pub(in crate::engine) struct Summarizing {
    running: Mutex<HashMap<ConversationId, Running>>,
}

/// The end of a turn, as far as a summary depends on it.
pub(in crate::engine) struct TurnEnd {
    pub(in crate::engine) basis: Basis,
    pub(in crate::engine) counting: Counting,
    /// Prompt and reply, in tokens.
    pub(in crate::engine) tokens: u64,
    /// Whether the window starts behind what the summary covers.
    pub(in crate::engine) has_gap: bool,
}

impl Engine {
    /// Has the conversation's beginning summarized, if it is time for that: the turn is over and nobody waits.
    pub(in crate::engine) fn summarize_after(&self, conversation: &ConversationId, end: TurnEnd) {
        let Some(summaries) = &self.options().summaries else { return };
        let SummarizeWhen::AfterReply { percent } = summaries.when else { return };
        let percent = percent.clamp(1, 100);
        let limit = end.basis.limits.beside(end.basis.limits.reserve);
        let due = end.has_gap || end.tokens.saturating_mul(100) > limit.saturating_mul(percent.into());
        if !due || self.shared.pauses.is_paused(conversation) {
            return;
        }
        let (engine, summaries, id) = (self.clone(), summaries.clone(), conversation.clone());
        let runtime = Handle::try_current().ok();
        let work = async move { engine.summarize_window(&summaries, &id, &end, percent, runtime.as_ref()).await };
        if let Some(running) = self.shared.summarizing.begin(conversation, work) {
            self.options().spawn.spawn(running.map(drop).boxed());
        }
    }

    /// Makes the summary that the window needs, as it is by now.
    async fn summarize_window(
        &self,
        summaries: &Summaries,
        conversation: &ConversationId,
        end: &TurnEnd,
        percent: u8,
        runtime: Option<&Handle>,
    ) -> Option<Arc<SummaryReport>> {
        let policy = self.options();
        let load = Load::new().profile(policy.profile.clone()).limit(policy.load_limit);
        let Ok(Loaded::Window(window)) = self.store().load(conversation, load).await else { return None };
        let cut = next_cut(policy, &window, end, percent);
        if cut.window_start <= cut.covers_to() || !window_is_stored(&cut, &window) {
            return None;
        }
        let job = Job { conversation, window: &window, cut, counting: &end.counting, waited_for: false };
        Some(Arc::new(self.make_and_store(summaries, job, runtime).await))
    }
}

/// What the window should become: it may only have to be covered up to where it starts already.
fn next_cut(policy: &HistoryOptions, window: &Window, end: &TurnEnd, percent: u8) -> Cut {
    let parts = PromptTokens { window: 0, input: 0, ..end.basis.parts };
    let cost = |message: &Message| end.counting.message(message);
    let mut fitting = Basis { parts, ..end.basis }.fitting(policy, true, &cost);
    fitting.marks = Marks { start: Mark::Percent(percent), ..policy.marks };
    let stored = || window.compaction.as_ref().map(|compaction| compaction.cut.clone()).unwrap_or_default();
    plan::next_cut(window, policy.load_limit, &fitting).unwrap_or_else(stored)
}

impl Summarizing {
    /// Registers a summary, if none of the conversation is under way.
    fn begin(
        self: &Arc<Self>,
        conversation: &ConversationId,
        work: impl Future<Output = Option<Arc<SummaryReport>>> + Send + 'static,
    ) -> Option<Running> {
        let mut running = self.lock();
        if running.contains_key(conversation) {
            return None;
        }
        // Weak, since the entry would else keep itself alive.
        let entry = Entry { summarizing: Arc::downgrade(self), conversation: conversation.clone() };
        let work = async move {
            let _entry = entry;
            AssertUnwindSafe(work).catch_unwind().await.ok().flatten()
        };
        let work = work.boxed().shared();
        running.insert(conversation.clone(), work.clone());
        Some(work)
    }

    /// The summary of that conversation that is under way.
    pub(super) fn of(&self, conversation: &ConversationId) -> Option<Running> {
        self.lock().get(conversation).cloned()
    }

    /// How many are under way.
    pub(in crate::engine) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Finishes all of them.
    pub(in crate::engine) async fn drained(&self) {
        loop {
            let running: Vec<Running> = self.lock().values().cloned().collect();
            if running.is_empty() {
                return;
            }
            future::join_all(running).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a summary from those under way when it ends.
struct Entry {
    summarizing: Weak<Summarizing>,
    conversation: ConversationId,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(summarizing) = self.summarizing.upgrade() else { return };
        let removed = summarizing.lock().remove(&self.conversation);
        drop(removed);
    }
}
