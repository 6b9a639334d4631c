//! Calls: the prompt that is sent, its check, and the reply that is stored.

use proptest::prop_assert;
use test_providers::signing::{SigningDialect, SigningProvider};
use tower_chat_history::{
    CallOptions, HistoryError, HistoryStoreExt as _, Message, Reply, SaveError, StoreError, Turn, TurnInput,
    report::TurnOutcome,
    store::{CompactionVersion, Cuts, Load, Loaded, Origin, Positions, Seq, Usage},
};
use tower_chat_history_core::Digest;

use super::{
    case::Script,
    reasoning::Reasoning,
    world::{Checked, World, failed},
};

/// A prompt that was sent.
pub(super) struct Sent {
    turn: Turn,
    context: Vec<Message>,
    head: Digest,
    origin: Origin,
    reply: Vec<Message>,
    reasoning: Reasoning,
    interrupted: bool,
}

/// The last call, if nothing but calls happened after it.
pub(super) struct Before {
    context: Vec<Message>,
    cut: Positions,
    head: Digest,
    origin: Origin,
}

impl World {
    /// Makes a call that nothing overtakes.
    pub(super) async fn call(
        &mut self,
        engine: usize,
        input: Vec<Message>,
        options: CallOptions,
        script: &Script,
    ) -> Checked {
        let is_opening = input.first().is_some_and(|first| first.answers().is_empty());
        let (before, _) = self.compaction().await?;
        let Some(sent) = self.send(engine, input, options, script).await? else { return Ok(()) };
        if is_opening {
            self.opened_under = before;
            let one_origin = self.origins[0] == self.origins[1];
            self.is_calm = one_origin && self.has_one_setup && self.setups[0].is_complete();
        }
        self.is_calm &= script.can_be_repeated();
        self.arrive(sent, true).await
    }

    /// Returns the number of the stored compaction, and the position before which it leaves out reasoning.
    async fn compaction(&self) -> Checked<(CompactionVersion, Seq)> {
        let loaded = self.stores[0].load(&self.id(), Load::new()).await.map_err(failed)?;
        let Loaded::Window(window) = loaded else { return Ok((CompactionVersion::NONE, Seq::FIRST)) };
        let cuts = window.compaction.as_ref().map(Cuts::read).transpose().map_err(failed)?.unwrap_or_default();
        Ok((window.compaction_version(), cuts.cut.reasoning_from))
    }

    /// Sends a prompt, and checks it. Returns `None` if it does not fit.
    pub(super) async fn send(
        &mut self,
        engine: usize,
        input: Vec<Message>,
        options: CallOptions,
        script: &Script,
    ) -> Checked<Option<Sent>> {
        let log = self.log().await?;
        let continues = input.first().is_none_or(|first| !first.answers().is_empty());
        let mut input = TurnInput::new(self.id(), input).options(options);
        input.dialect = Some(&SigningDialect);
        input.request.tools = Some(self.head.to_string());
        let (head, origin) = (input.request.digest(), self.origins[engine].clone());
        let turn = match self.engines[engine].begin(input).await {
            Ok(turn) => turn,
            Err(HistoryError::DoesNotFit(error)) => {
                let bound = if error.turn_is_bound { "turns that are bound and too large" } else { "too large" };
                self.figures.count(bound, 1);
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        };
        // One replaced cut is stored. If there are more, a turn cannot continue under the one that it began with.
        let (version, reasoning_from) = self.compaction().await?;
        self.is_calm &= [self.opened_under, self.opened_under.next()].contains(&version);
        let context = turn.context().to_vec();
        let mut provider = SigningProvider::new(origin.provider.clone().unwrap_or_default());
        let reply = provider.reply(head, &context, &script.says);
        let reply = reply.map_err(|refusal| failed(format!("refused: {refusal}")))?;
        self.figures.count("prompts", 1);
        // A turn may continue under an earlier cut, which left out other reasoning.
        let valid_from = if continues { Seq::new(u64::MAX) } else { reasoning_from };
        let reasoning = Reasoning::of(&log, &context, head, &origin, continues, valid_from);
        prop_assert!(
            reasoning.left_out_in_turn == 0 || !self.is_calm || !continues,
            "a turn that continues keeps its reasoning"
        );
        Ok(Some(Sent { turn, context, head, origin, reply, reasoning, interrupted: script.interrupted }))
    }

    /// Stores a reply, and compares the prompt with the one before.
    pub(super) async fn arrive(&mut self, sent: Sent, in_order: bool) -> Checked {
        let Sent { turn, context, head, origin, reply, mut reasoning, interrupted } = sent;
        let mut reply = Reply::of(reply);
        reply.incomplete = interrupted;
        let bytes: usize = context.iter().map(Message::bytes).sum();
        reply.usage = Some(Usage::new(bytes as u64 / 3, 1));
        let before = self.before.take();
        let report = match turn.commit(reply).await {
            Ok(report) => report,
            Err(unsaved) => {
                let overtaken =
                    matches!(unsaved.reason(), SaveError::Store(StoreError::Conflict { .. } | StoreError::Gone));
                prop_assert!(overtaken && !in_order, "{}", unsaved.reason());
                return Ok(());
            }
        };
        // If the prompt was too large, reasoning was left out to make it fit.
        if report.tokens.is_some_and(|tokens| tokens.trimming.reason.is_some()) {
            reasoning.valid = 0;
        }
        reasoning.count(&self.figures);
        prop_assert!(reasoning.valid == 0, "valid reasoning is sent");
        let TurnOutcome::Stored { seq, .. } = report.outcome else { return Ok(()) };
        let picked = self.stores[0].conversation(&self.id()).last(2).await.map_err(failed)?;
        let stored = picked.iter().find(|recorded| recorded.seq == seq);
        let Some(provenance) = stored.and_then(|recorded| recorded.exchange.provenance.as_ref()) else {
            return Ok(());
        };
        let by_trimmer = report.tokens.is_some_and(|tokens| tokens.trimming.by_trimmer);
        let now = Before { context, cut: provenance.cut, head, origin };
        if let Some(before) = before.filter(|_| in_order && !report.truncated && !by_trimmer) {
            let same = (before.cut, before.head, &before.origin) == (now.cut, now.head, &now.origin);
            let is_same = same && self.has_one_setup;
            prop_assert!(
                !is_same || now.context.starts_with(&before.context),
                "under one cut, a prompt begins with the prompt before"
            );
            self.figures.count("prompts compared with the one before", u64::from(is_same));
        }
        self.before = Some(now).filter(|_| in_order && !report.truncated && !by_trimmer && !interrupted);
        Ok(())
    }
}
