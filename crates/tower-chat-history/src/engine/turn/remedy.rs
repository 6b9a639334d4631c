//! Remedies: what a turn changes after the provider has refused its call, and what the conversation learns from it.
//!
//! # Decisions
//!
//! - **A remedy changes the history that is sent, never the caller's head or input.** If those are refused, the caller
//!   gets the provider's error. So a call isn't repeated with the prompt that was refused.
//! - **A change that helped is stored in the conversation, and nowhere else.** A refusal can repeat what a user wrote,
//!   so one conversation could otherwise change the prompts of others. It's logged as well, so that an operator can
//!   tell the program about the reader.
//! - **A size that was learned has a profile of its own**, because a window never grows again: a call of a small model
//!   would otherwise shrink the window of a large one.

use tower_chat_history_core::{
    CompactionVersion, Compat, Digest, Exchange, LearnedReader, MediaCompat, Message, Recorded, Seq, Usage,
};

use super::{call::Call, history::LoadedHistory, plan::plan_turn, reader::PromptReader, recall, state::TurnState};
use crate::{
    context::{compat, plan::MediaSize},
    engine::{store::BoundedStore, summaries::SummaryWorker},
    refusal::{Remedy, TooLong},
};

/// The largest number of times that a turn repeats its call.
const MAX_REPEATS: usize = 2;

/// The facts that a conversation has learned about the reader of a call's prompt.
#[derive(Default)]
pub(super) struct LearnedFacts {
    /// The description of what the reader accepts.
    compat: Compat,
    /// The size that the conversation has learned, of prompt and reply together, in tokens.
    context_tokens: Option<u32>,
    /// The position at which the first of these facts was learned.
    since: Option<Seq>,
    /// True if nothing is sent but what has to be sent.
    sends_least: bool,
    /// The parts of the engine for this size.
    own_window: Option<Box<OwnWindow>>,
}

/// The parts of the engine with a profile of their own.
struct OwnWindow {
    store: BoundedStore,
    summaries: Option<SummaryWorker>,
}

impl LearnedFacts {
    /// Returns the context window of the call, if it's a smaller one than that of the budget.
    pub(super) fn window(&self) -> Option<u32> {
        if self.sends_least { Some(0) } else { self.context_tokens }
    }
}

impl Call {
    /// Returns the store, with the profile of the reader.
    pub(super) fn store(&self) -> &BoundedStore {
        self.learned.own_window.as_ref().map_or(&self.parts.store, |own| &own.store)
    }

    /// Returns the summaries, with the profile of the reader.
    pub(super) fn summaries(&self) -> Option<&SummaryWorker> {
        match &self.learned.own_window {
            Some(own) => own.summaries.as_ref(),
            None => self.parts.summaries.as_ref(),
        }
    }

    /// Returns `true` if the reader has a profile of its own.
    pub(super) const fn has_own_profile(&self) -> bool {
        self.learned.own_window.is_some()
    }

    /// Takes over what the conversation has learned about the reader. Returns `true` if the conversation has to be
    /// loaded again, under the profile for the size that was learned.
    pub(super) fn take_learned(&mut self, loaded: &LoadedHistory) -> bool {
        let Some((window, learned)) = loaded.window.as_ref().zip(loaded.learned()) else { return false };
        let Some(learned) = learned.get(self.reader_key(), window.revision.next()) else { return false };

        self.learned.since = Some(learned.at);
        self.learn_compat(&learned.compat);
        if let Some(tokens) = learned.context_tokens {
            self.use_window(tokens);
        }
        self.has_own_profile()
    }

    /// Returns the key of the reader.
    fn reader_key(&self) -> Digest {
        compat::reader_key(&self.origin, self.request.host.as_deref())
    }

    /// Adapts the prompt to a reader like this.
    fn learn_compat(&mut self, learned: &Compat) {
        self.learned.compat = self.learned.compat.and(learned);
        self.reader = PromptReader::new(self.reader.compat.and(learned), self.dialect, &self.request);
    }

    /// Uses a context window of this size, and the profile for it.
    fn use_window(&mut self, tokens: u32) {
        let store = self.parts.store.for_window(tokens);
        let summaries = self.parts.summaries.as_ref().map(|summaries| summaries.with_store(&store));
        self.learned.context_tokens = Some(tokens);
        self.learned.own_window = Some(Box::new(OwnWindow { store, summaries }));
    }
}

impl TurnState {
    /// Returns `true` if the turn has a history that a remedy can change.
    pub(super) fn can_repeat(&self) -> bool {
        self.loaded.is_some() && self.remedies.len() < MAX_REPEATS
    }

    /// Plans and recalls once more with this remedy. Returns `false` if that is not possible, or if the prompt would be
    /// the same.
    pub(super) async fn apply(&mut self, remedy: &Remedy) -> bool {
        let Some(mut loaded) = self.loaded.take() else { return false };
        let is_changed = match remedy {
            Remedy::WithoutEncrypted => loaded.leave_out_encrypted(),
            Remedy::Adapt(compat) => self.adapt_to(compat),
            Remedy::Shorten(sizes) => self.shorten(&mut loaded, *sizes).await,
            Remedy::FewerBytes => match self.fewer_media() {
                Some(compat) => self.adapt_to(&compat),
                None => self.shorten(&mut loaded, TooLong::default()).await,
            },
        };
        if !is_changed {
            self.loaded = Some(loaded);
            return false;
        }

        let refused = self.sent();
        let mut is_planned = self.plan_again(&loaded).await;
        if is_planned && self.sent() == refused && self.call.learned.context_tokens.is_some() {
            // The window is smaller, and the same messages fit.
            self.call.learned.sends_least = true;
            is_planned = self.plan_again(&loaded).await;
        }
        if !is_planned || self.sent() == refused {
            return false;
        }
        if matches!(remedy, Remedy::Shorten(_))
            && let Some(key) = self.call.calibration_key()
        {
            self.call.parts.calibration.doubt(key);
        }
        tracing::warn!(remedy = remedy.kind(), "the provider refused the prompt; the model is called again");
        self.remedies.push(remedy.clone());
        self.loaded = Some(loaded);
        true
    }

    /// Returns everything of the prompt that depends on the history and its reader.
    fn sent(&self) -> (Vec<Message>, usize, Option<&'static str>) {
        let reader = &self.call.reader;
        (self.context.clone(), reader.left_out_of_head(), reader.stub_tool(&self.call.request, &self.context))
    }

    /// Adapts the prompt to a reader like this. Returns `false` if that changes nothing.
    fn adapt_to(&mut self, compat: &Compat) -> bool {
        let known = self.call.reader.compat;
        self.call.learn_compat(compat);
        self.call.reader.compat != known
    }

    /// Returns a reader that accepts half of the media of the prompt, in bytes, or `None` if the window has none that
    /// can be left out.
    fn fewer_media(&self) -> Option<Compat> {
        let (window, input) = self.context.split_at_checked(self.window_len)?;
        let of_window = MediaSize::of(window).bytes;
        if of_window == 0 {
            return None;
        }

        let all = of_window.saturating_add(MediaSize::of(input).bytes);
        Some(Compat::new().media(MediaCompat::new().bytes(all / 2)))
    }

    /// Makes the context window smaller. Returns `false` if nothing of the prompt can be left out.
    ///
    /// A size that the refusal states is used if it's between the largest prompt that was accepted before and the one
    /// that was refused. Otherwise the prompt gets three quarters of its size. If that is refused, too, only what has
    /// to be sent is sent.
    async fn shorten(&mut self, loaded: &mut LoadedHistory, sizes: TooLong) -> bool {
        let counted = self.count_prompt().await;
        let ratio = self.planned.plan.budget.map_or(1.0, |budget| budget.limits.ratio.max(1.0));
        let reserve = match self.planned.plan.budget {
            Some(budget) => budget.limits.reserve,
            None => self.call.request.max_output.unwrap_or_default().into(),
        };
        let sent = scaled(counted, ratio).max(1);
        let prompt = sizes.prompt.map_or(sent, u64::from).max(1);
        let refused = prompt.saturating_add(reserve);

        let is_first = !self.remedies.iter().any(|remedy| matches!(remedy, Remedy::Shorten(_) | Remedy::FewerBytes));
        let reader = self.call.reader_key();
        let accepted = loaded.window.as_ref().map_or(0, |window| largest_accepted(&window.exchanges, reader));
        let stated = sizes.limit.map(u64::from).filter(|limit| *limit > accepted && *limit < refused);
        let limit = match stated {
            Some(limit) => limit,
            None if is_first => (refused / 4 * 3).max(accepted.min(refused - 1)),
            None => {
                self.call.learned.sends_least = true;
                refused / 4
            }
        };

        // The limit in tokens of the counter, if the provider has counted more.
        let factor = sent as f64 / prompt as f64;
        let limit = scaled(limit, factor.min(1.0));
        let known = self.planned.plan.budget.map_or(u64::MAX, |budget| budget.limits.context);
        let limit = if limit < known { limit } else { known / 4 * 3 };

        self.call.use_window(rounded(limit));
        loaded.use_new_profile();
        true
    }

    /// Counts the prompt, in tokens of the counter.
    async fn count_prompt(&self) -> u64 {
        let counting = &self.call.counting;
        let fixed = counting.prompt(&self.call.request, self.context.iter(), &[]).await;
        fixed.total().saturating_add(counting.sum(&self.context))
    }

    /// Plans and recalls once more, with this history. Returns `false` if that is not possible.
    async fn plan_again(&mut self, loaded: &LoadedHistory) -> bool {
        self.call.input = self.input().to_vec();
        let mut planned = match plan_turn(&self.call, loaded).await {
            Ok(planned) => planned,
            Err(error) => {
                let kind = error.kind();
                tracing::warn!(error.type = kind, "the provider refused the prompt, and it cannot be planned again");
                return false;
            }
        };

        planned.recall = recall(&self.call, loaded, &planned.plan).await;
        self.planned = planned;
        if loaded.is_repaired {
            self.repaired = loaded.history().cut().map(|cut| cut.encrypted_from);
        }
        self.fill_context();
        true
    }

    /// Returns what the conversation has learned about the reader in this turn: from refusals, or from a reply that the
    /// context window cut off. `next` is the position of the log's next exchange.
    pub(super) fn learned(&self, exchange: &Exchange, next: Seq) -> Option<LearnedReader> {
        let was_refused = self.remedies.iter().any(|remedy| *remedy != Remedy::WithoutEncrypted);
        let shown = self.window_shown_by(exchange);
        if !was_refused && shown.is_none() {
            return None;
        }

        let origin = &self.call.origin;
        // All that is known about the reader is forgotten together.
        let mut learned = LearnedReader::new(self.call.reader_key(), self.call.learned.since.unwrap_or(next));
        learned.compat = self.call.learned.compat;
        learned.context_tokens = shown.or(self.call.learned.context_tokens);
        tracing::warn!(
            provider = origin.provider.as_deref(),
            route = origin.route.as_deref(),
            host = self.call.request.host.as_deref(),
            model = origin.model.as_deref(),
            compat = serde_json::to_string(&learned.compat).unwrap_or_default(),
            context_tokens = learned.context_tokens,
            "a conversation has learned what a reader accepts; add it to the options, so that no call is refused"
        );
        Some(learned)
    }

    /// Returns the size of the context window if the reply shows that it's smaller than the known one: the window has
    /// cut it off.
    ///
    /// A server can also have a limit of its own for replies. So prompt and reply together must have one of the sizes
    /// that windows usually have, unless the provider says that the window was the reason.
    fn window_shown_by(&self, exchange: &Exchange) -> Option<u32> {
        let usage = exchange.usage?;
        let total = usage.input_tokens.saturating_add(usage.output_tokens);
        let reached_own_limit = self.call.request.max_output.is_some_and(|most| usage.output_tokens >= most.into());
        let is_cut = match exchange.finish_reason.as_deref()? {
            "model_context_window_exceeded" => true,
            "length" | "max_tokens" | "max_output_tokens" => !reached_own_limit && is_usual_window(total),
            _ => false,
        };

        let known = self.planned.plan.budget.map_or(u64::MAX, |budget| budget.limits.context);
        // The window is not smaller than the previous prompt, which was answered.
        let accepted = self.planned.previous_prompt.map_or(0, |(_, reported)| reported);
        let is_new = is_cut && total > accepted && total < known / 100 * 99;
        Some(rounded(total)).filter(|_| is_new)
    }

    /// Returns `true` if the server seems to have cut off the beginning of the prompt without a word, as Ollama does:
    /// the prompt is larger than the previous one, and the provider has counted fewer tokens than for that, and fewer
    /// than the counter.
    ///
    /// See <https://docs.ollama.com/context-length>. Its usage has the number of tokens that were left.
    pub(super) fn is_cut_silently(&self, usage: Usage) -> bool {
        let Some((counted, reported)) = self.planned.previous_prompt else { return false };
        let now = self.planned.tokens.map_or(0, |tokens| tokens.prompt.total());
        now > counted && usage.input_tokens < reported.min(now)
    }
}

impl LoadedHistory {
    /// Uses the history under a profile that has no compaction yet.
    fn use_new_profile(&mut self) {
        if let Some(window) = &mut self.window {
            window.version = CompactionVersion::NONE;
        }
    }

    /// Returns the history that was loaded under the profile of the reader. If that profile has no compaction yet, it
    /// begins with the one of the base profile, which has a summary, perhaps.
    pub(super) fn after(mut self, base: Self) -> Self {
        if let (Some(window), Some(base)) = (&mut self.window, base.window)
            && window.cuts.is_none()
            && window.revision.incarnation() == base.revision.incarnation()
        {
            window.cuts = base.cuts;
        }
        self
    }
}

/// Returns `true` if a context window has this size, or a few tokens more: 2,048 tokens, or a power of two after it.
fn is_usual_window(tokens: u64) -> bool {
    let next = tokens.max(2_048).next_power_of_two();
    tokens + 16 >= next && tokens <= next
}

/// Returns the size of the largest prompt that this reader has answered, with its reply, in tokens of the provider.
fn largest_accepted(exchanges: &[Recorded], reader: Digest) -> u64 {
    let mut largest = 0;
    for Recorded { exchange, .. } in exchanges {
        let made_by = exchange.provenance.as_ref();
        let is_of_reader =
            made_by.is_some_and(|made_by| compat::reader_key(&made_by.origin, made_by.host.as_deref()) == reader);
        if is_of_reader && let Some(usage) = exchange.usage {
            largest = largest.max(usage.input_tokens.saturating_add(usage.output_tokens));
        }
    }
    largest
}

/// Returns a size, rounded down to one of 16 between two powers of two. Each size has a profile of its own, and a
/// server can state any number of sizes.
fn rounded(tokens: u64) -> u32 {
    let step = (tokens.max(1).ilog2()).saturating_sub(4);
    u32::try_from(tokens >> step << step).unwrap_or(u32::MAX)
}

// Counts of tokens are small enough for `f64`.
fn scaled(tokens: u64, by: f64) -> u64 {
    (tokens as f64 * by) as u64
}
