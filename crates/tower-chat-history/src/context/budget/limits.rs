//! The limits of one call.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use super::{ContextBudget, ContextWindow, Correction, ModelLimits};
use crate::context::request::RequestInfo;

/// The default reply reserve, in tokens. It applies if neither the request nor the budget sets a reserve. If the
/// model's longest reply or a quarter of its context window is smaller, the smallest of the three numbers applies.
pub const DEFAULT_REPLY_RESERVE: u32 = 4_096;

/// The source of a call's context window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WindowSource {
    /// The budget [sets it](ContextBudget::tokens) for every call.
    Stated,
    /// The [table](super#table-of-models) has the request's model.
    Model,
    /// The table does not have the request's model, or the request names none. The limits are those of
    /// [unknown](ContextBudget::unknown) models.
    UnknownModel,
    /// As in [`UnknownModel`](Self::UnknownModel), but the budget has no limits for unknown models. The call ran
    /// without a limit.
    #[default]
    None,
    /// The budget is [unlimited](ContextBudget::unlimited). The call ran without a limit.
    Unlimited,
}

impl WindowSource {
    /// Returns `true` if the prompt had to fit a context window.
    #[must_use]
    pub const fn is_limited(self) -> bool {
        matches!(self, Self::Stated | Self::Model | Self::UnknownModel)
    }

    /// Returns a short constant name, for metrics and spans.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Stated => "stated",
            Self::Model => "model",
            Self::UnknownModel => "unknown_model",
            Self::None => "none",
            Self::Unlimited => "unlimited",
        }
    }
}

/// The limits of one call, in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CallLimits {
    /// The context window.
    pub(crate) context: u64,
    /// The largest prompt that the model accepts, however short the reply is.
    pub(crate) prompt: u64,
    /// The tokens that are reserved for the reply.
    pub(crate) reserve: u64,
    /// The smallest reserve, if the reserve may shrink.
    pub(crate) least_reply: Option<u64>,
    /// The correction factor: tokens of the provider per counted token, at least 1.
    pub(crate) ratio: f64,
}

/// At most a prompt's fifth is regarded as overcounted: a fourth of the rest.
const OVERCOUNT_SHARE: u64 = 4;

impl CallLimits {
    /// No limits. Only watermarks that count messages or turns have an effect.
    pub(crate) const NONE: Self =
        Self { context: u64::MAX, prompt: u64::MAX, reserve: 0, least_reply: None, ratio: 1.0 };

    /// Returns the largest prompt, in counted tokens, that leaves room for a reply of this size, in tokens of the
    /// provider.
    pub(crate) fn max_prompt(&self, reply: u64) -> u64 {
        scaled(self.provided(reply), 1.0 / self.ratio)
    }

    /// Returns the largest prompt, in tokens of the provider, that leaves room for a reply of this size.
    fn provided(&self, reply: u64) -> u64 {
        self.context.saturating_sub(reply).min(self.prompt)
    }

    /// Returns the tokens of the provider per counted token, in the largest prompt of a plan whose limits overcounted
    /// tokens [raised](crate::context::plan::Plan::raised_by): at least 0.8.
    pub(crate) fn factor(&self, raised_by: u64) -> f64 {
        if raised_by == 0 {
            return self.ratio;
        }
        let provided = self.provided(self.reserve) as f64;
        provided / (provided + raised_by as f64)
    }

    /// Returns the limits of a prompt that has this number of overcounted tokens, and the tokens by which the largest
    /// prompt is larger. Limits with a correction factor stay the same.
    ///
    /// These limits are valid only for a prompt from which nothing is left out, so only the planner has them.
    pub(crate) fn raised(self, overcount: u64) -> (Self, u64) {
        let overcount = if self.ratio > 1.0 { 0 } else { overcount.min(self.provided(self.reserve) / OVERCOUNT_SHARE) };
        let raised = Self {
            context: self.context.saturating_add(overcount),
            prompt: self.prompt.saturating_add(overcount),
            ..self
        };
        (raised, raised.provided(self.reserve) - self.provided(self.reserve))
    }

    /// Returns the same limits without the correction factor.
    pub(crate) const fn as_counted(self) -> Self {
        Self { ratio: 1.0, ..self }
    }

    /// Returns the largest reply, in tokens of the provider, to a prompt of this size, in counted tokens. It is at
    /// least `least_reply`.
    pub(crate) fn max_reply(&self, prompt: u64) -> u64 {
        // The prompt is rounded up. Otherwise prompt and reply could exceed the window by one token.
        let prompt = scaled(prompt, self.ratio).saturating_add(u64::from(self.ratio > 1.0));
        self.context.saturating_sub(prompt).max(self.least_reply.unwrap_or_default())
    }
}

// Counts of tokens are small enough for `f64`.
fn scaled(tokens: u64, ratio: f64) -> u64 {
    if (ratio - 1.0).abs() < f64::EPSILON { tokens } else { (tokens as f64 * ratio) as u64 }
}

impl ContextBudget {
    /// Returns the source of a call's context window, and its limits if there are any.
    pub(crate) fn window(&self, request: &RequestInfo) -> (WindowSource, Option<ModelLimits>) {
        let known = match self.window {
            ContextWindow::Unlimited => return (WindowSource::Unlimited, None),
            ContextWindow::Tokens(limits) | ContextWindow::OfModel(limits) => {
                return (WindowSource::Stated, Some(limits));
            }
            ContextWindow::ByModel => request.model.as_deref().map(|model| self.models.get(model)),
        };

        match (known, self.unknown) {
            (Some(Ok(limits)), _) => (WindowSource::Model, Some(limits)),
            (_, Some(limits)) => (WindowSource::UnknownModel, Some(limits)),
            (Some(Err(unknown)), None) => {
                warn_once(unknown.model());
                (WindowSource::None, None)
            }
            (None, None) => (WindowSource::None, None),
        }
    }

    /// Returns the limits of a call without a correction, or `None` if it has none.
    #[cfg(test)]
    pub(crate) fn limits(&self, request: &RequestInfo) -> Option<CallLimits> {
        self.window(request).1.map(|window| self.limits_in(window, request))
    }

    /// Returns the limits of a call with this context window, without a correction.
    pub(crate) fn limits_in(&self, window: ModelLimits, request: &RequestInfo) -> CallLimits {
        let ModelLimits { context, input, output } = window;

        let default = DEFAULT_REPLY_RESERVE.min(output.unwrap_or(u32::MAX)).min(context / 4);
        let reserve = u64::from(request.max_output.or(self.reply_reserve).unwrap_or(default));

        let may_shrink = request.max_output.is_none() || !request.max_output_is_fixed;

        CallLimits {
            context: context.into(),
            prompt: input.unwrap_or(context).into(),
            reserve,
            least_reply: self.least_reply.filter(|_| may_shrink).map(|least| u64::from(least.max(1)).min(reserve)),
            ratio: 1.0,
        }
    }

    /// Returns these limits with the correction factor, and the overcounted tokens. Without
    /// [calibration](Self::calibrate), the limits stay the same, and there are no overcounted tokens.
    pub(crate) fn corrected(&self, limits: CallLimits, correction: Correction) -> (CallLimits, u64) {
        if !self.calibrate {
            return (limits, 0);
        }

        let ratio = correction.ratio.max(1.0);
        let overcount = if ratio > 1.0 { 0 } else { correction.overcount };
        (CallLimits { ratio, ..limits }, overcount)
    }
}

/// Logs one warning for each model whose context window is unknown. There are at most 64 warnings, because the names
/// may come from callers, who must not be able to fill the program's log.
fn warn_once(model: &str) {
    const MAX_MODELS: usize = 64;
    const MAX_CHARS: usize = 64;
    static MODELS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

    let model: String = model.chars().take(MAX_CHARS).collect();
    let mut models = MODELS.lock().unwrap_or_else(PoisonError::into_inner);
    if models.len() < MAX_MODELS && models.insert(model.clone()) {
        tracing::warn!(
            gen_ai.request.model = model,
            "the context window of this model is unknown, so its prompts are not limited: \
             set it with ContextBudget::model, or set ContextBudget::unknown"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(model: Option<&str>, max_output: Option<u32>) -> RequestInfo {
        let mut request = RequestInfo::new();
        request.model = model.map(str::to_owned);
        request.max_output = max_output;
        request
    }

    fn limits(budget: &ContextBudget, model: &str, max_output: Option<u32>) -> CallLimits {
        budget.limits(&request(Some(model), max_output)).unwrap()
    }

    #[test]
    fn a_reply_whose_limit_is_fixed_does_not_shrink() {
        let budget = ContextBudget::tokens(1_000).shrink_reply_to(10);
        let mut fixed = request(None, Some(100));
        fixed.max_output_is_fixed = true;
        assert_eq!(budget.limits(&fixed).unwrap().least_reply, None);
        fixed.max_output = None;
        assert_eq!(budget.limits(&fixed).unwrap().least_reply, Some(10));
    }

    #[test]
    fn the_reserve_is_the_limit_of_the_request_or_the_configured_or_the_default_one() {
        let budget = ContextBudget::tokens(100_000);
        assert_eq!(limits(&budget, "m", None).reserve, 4_096);
        assert_eq!(limits(&budget.clone().reply_reserve(100), "m", None).reserve, 100);
        assert_eq!(limits(&budget.reply_reserve(100), "m", Some(7)).reserve, 7);
        assert_eq!(limits(&ContextBudget::tokens(1_000), "m", None).reserve, 250);
    }

    #[test]
    fn an_unknown_model_has_no_limit() {
        assert_eq!(ContextBudget::by_model().limits(&request(Some("no such model"), None)), None);
        assert_eq!(ContextBudget::by_model().limits(&request(None, None)), None);
        let known = ContextBudget::by_model().model("mine", ModelLimits::new(10));
        assert_eq!(limits(&known, "mine", None).context, 10);
    }

    #[test]
    fn unknown_models_can_have_a_limit() {
        let budget = ContextBudget::by_model().unknown(ModelLimits::new(8_192));
        for (model, expected, context) in [
            (Some("no such model"), WindowSource::UnknownModel, 8_192),
            (None, WindowSource::UnknownModel, 8_192),
            (Some("gpt-4o"), WindowSource::Model, 128_000),
        ] {
            let (source, limits) = budget.window(&request(model, None));
            assert_eq!((source, limits.unwrap().context), (expected, context), "{model:?}");
            assert!(source.is_limited());
        }
        assert_eq!(ContextBudget::by_model().window(&request(None, None)), (WindowSource::None, None));
        assert_eq!(ContextBudget::unlimited().window(&request(None, None)), (WindowSource::Unlimited, None));
        assert_eq!(ContextBudget::tokens(1).window(&request(None, None)).0, WindowSource::Stated);
        assert!(!WindowSource::None.is_limited() && !WindowSource::Unlimited.is_limited());
    }

    #[test]
    fn prompt_and_reply_together_never_exceed_the_window() {
        for ratio in [1.0, 1.01, 1.3] {
            let limits = ContextBudget::tokens(1_000).limits(&request(None, Some(200))).unwrap();
            let limits = CallLimits { ratio, ..limits };
            let prompt = limits.max_prompt(limits.reserve);
            let charged = prompt as f64 * ratio;
            assert!(charged + 200.0 <= 1_000.0, "{charged}");
            for prompt in 0..prompt {
                let sum = prompt as f64 * ratio + limits.max_reply(prompt) as f64;
                assert!(sum <= 1_000.0, "{sum}");
            }
        }
    }

    #[test]
    fn spare_tokens_make_room_for_at_most_a_fifth_of_the_prompt() {
        let limits = ContextBudget::tokens(1_000).limits(&request(None, Some(200))).unwrap();
        for (overcount, prompt, factor) in
            [(0, 800, 1.0), (100, 900, 800.0 / 900.0), (200, 1_000, 0.8), (900, 1_000, 0.8)]
        {
            let (raised, by) = limits.raised(overcount);
            assert_eq!((raised.max_prompt(200), by), (prompt, prompt - 800));
            assert!((limits.factor(by) - factor).abs() < 1e-9, "{}", limits.factor(by));
            assert_eq!(raised.max_reply(prompt), 200, "{overcount}");
            // The reply shrinks for larger prompts only.
            assert!((prompt..=raised.max_prompt(0)).all(|prompt| {
                let provided = prompt - overcount.min(prompt / 5);
                provided + raised.max_reply(prompt) <= 1_000
            }));
        }
        assert_eq!(CallLimits::NONE.raised(100), (CallLimits::NONE, 0));
        let corrected = CallLimits { ratio: 1.1, ..limits };
        assert_eq!(corrected.raised(100), (corrected, 0));
        assert_eq!(corrected.factor(0).to_bits(), 1.1_f64.to_bits());
    }

    #[test]
    fn a_correction_never_raises_the_limits_and_has_no_effect_without_calibration() {
        let budget = ContextBudget::tokens(100);
        let limits = budget.limits(&request(None, None)).unwrap();
        let correction = |ratio, overcount| Correction { ratio, overcount };
        assert_eq!(budget.corrected(limits, correction(0.5, 7)), (limits, 7));
        assert_eq!(budget.corrected(limits, correction(1.5, 7)), (CallLimits { ratio: 1.5, ..limits }, 0));
        assert_eq!(budget.calibrate(false).corrected(limits, correction(2.0, 7)), (limits, 0));
    }
}
