//! What a call's window has to fit.

use tower_chat_history_core::Message;

use crate::{
    budget::{Limits, PromptTokens},
    options::HistoryOptions,
    plan::{Fit, Fitting},
    report::TurnTokens,
};

/// The limits of a call, and the sizes of what is beside its window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Basis {
    pub(super) limits: Limits,
    pub(super) parts: PromptTokens,
}

impl Basis {
    pub(super) fn fitting<'a>(
        self,
        policy: &'a HistoryOptions,
        stores: bool,
        cost: &'a dyn Fn(&Message) -> u64,
    ) -> Fitting<'a> {
        Fitting {
            limits: self.limits,
            watermarks: policy.watermarks,
            clear: policy.clear_results.as_ref(),
            trimmer: policy.trimmer.as_deref(),
            stores,
            parts: self.parts,
            cost,
        }
    }

    /// How much a summary could have beside what has to be sent.
    pub(super) fn room_for_summary(self) -> u64 {
        let rest = PromptTokens { summary: 0, window: 0, ..self.parts };
        self.limits.max_prompt(self.limits.reserve).saturating_sub(rest.total())
    }

    /// What the turn's report says: what is sent, and not what room there was.
    pub(super) fn tokens(self, fit: &Fit, summary: u64) -> TurnTokens {
        TurnTokens {
            prompt: PromptTokens { window: fit.tokens, summary, ..self.parts },
            limit: self.limits.max_prompt(self.limits.reserve),
            reply_reserve: self.limits.reserve,
            reply_limit: fit.reply.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
            evicted_messages: fit.evicted.messages,
            evicted_tokens: fit.evicted.tokens,
            trimming: fit.trimming,
            cached_prefix: None,
            compacted: fit.cut.is_some(),
            for_this_call: fit.for_this_call,
            calibration: self.limits.ratio,
            reported: None,
        }
    }
}
