//! Checks of every prompt, every refusal and every stored compaction.

use std::collections::HashMap;

use tower_chat_history::{
    Message, TurnReport,
    budget::{DoesNotFit, PromptTokens},
    report::{TurnOutcome, TurnTokens},
    store::{Compaction, CompactionVersion, Cuts},
    tokens::{REPLY_PRIMING, TokenCounter},
    view::View,
};
use tower_chat_history_test::check_chat_rules;

use super::{
    call_spec::{CallSpec, Integration, Received},
    policies::Policy,
};

/// A call that reached the model.
pub(crate) struct Made {
    pub(crate) profile: usize,
    pub(crate) integration: Integration,
    pub(crate) spec: CallSpec,
    pub(crate) received: Received,
    /// The compaction of the profile when the call began.
    pub(crate) base: Option<Compaction>,
}

/// The start of the window, the start of rounds, and the position before which results are cleared.
pub(crate) type Positions = (u64, u64, u64);

fn positions(compaction: Option<&Compaction>) -> Positions {
    compaction.map_or_else(Positions::default, |compaction| {
        let cut = Cuts::read(compaction).unwrap().cut;
        (cut.window_start.get(), cut.rounds_start.get(), cut.cleared_before.get())
    })
}

impl Made {
    /// Checks invariants 2 and 3.
    pub(crate) fn is_valid_and_fits(&self, policy: &Policy, report: &TurnReport) {
        let Self { spec, received, .. } = self;
        assert_eq!(check_chat_rules(&received.messages), Ok(()));
        let tokens = report.tokens.unwrap();
        let total = received.tokens(&*policy.counter(self.integration));
        assert_eq!(tokens.prompt.total(), total, "the counted prompt is the prompt that was sent: {tokens:?}");

        let reply = self.reply(policy, &tokens);
        let charged = total as f64 * corrected(policy, tokens.calibration);
        assert!(charged + f64::from(reply) <= f64::from(policy.context) + 1e-6, "{charged} + {reply}: {tokens:?}");
        assert_eq!(report.messages_sent + spec.head.len(), received.messages.len(), "head, window, input");
    }

    /// Returns the limit of the reply. It may be lower than requested, but not lower than the policy allows.
    fn reply(&self, policy: &Policy, tokens: &TurnTokens) -> u32 {
        let Self { spec, received, .. } = self;
        let stated = spec.limit.map_or(policy.reserve, |(_, tokens)| tokens);
        let reply = tokens.reply_limit.unwrap_or(stated);
        assert_eq!(tokens.reply_reserve, u64::from(stated));
        assert!(reply <= stated && reply >= policy.least.unwrap_or(stated).min(stated), "{reply} of {stated}");
        for field in ["max_completion_tokens", "max_tokens"] {
            let expected = spec.limit.filter(|(name, _)| *name == field).map(|_| reply);
            assert_eq!(received.number(field), expected, "{field} in {}", received.body);
        }
        reply
    }

    /// Checks the stored compaction after the call: it changes only if the report says so, and never goes
    /// back (invariant 13). Returns the positions for which the prompt was made, if other prompts can have
    /// them too.
    pub(crate) fn compacted(
        &self,
        report: &TurnReport,
        before: Option<&Compaction>,
        after: Option<&Compaction>,
    ) -> Option<Positions> {
        let version =
            |compaction: Option<&Compaction>| compaction.map_or(CompactionVersion::NONE, |stored| stored.version);
        let (was, is) = (positions(before), positions(after));
        assert!(was.0 <= is.0 && was.1 <= is.1 && was.2 <= is.2, "{was:?} to {is:?}");
        let tokens = report.tokens.unwrap();
        let stored = version(before) != version(after);
        assert!(!stored || tokens.compacted && matches!(report.outcome, TurnOutcome::Stored { .. }));
        assert_eq!(stored, was != is, "a compaction is stored only if it changes something");
        let fresh =
            version(before) == version(self.base.as_ref()) && matches!(report.outcome, TurnOutcome::Stored { .. });
        assert_eq!(
            stored,
            tokens.compacted && fresh,
            "a planned compaction is stored, unless another one was stored first"
        );
        match tokens {
            TurnTokens { for_this_call: true, .. } => None,
            TurnTokens { compacted: true, .. } => stored.then_some(is),
            _ => Some(positions(self.base.as_ref())),
        }
    }
}

/// Checks invariant 10: while the compaction is the same, the messages before the input are a prefix of those
/// in the next call with the same integration, profile and head. One exception: results at their end have no answer,
/// so other results can replace them. Returns the number of comparisons.
pub(crate) fn prefixes_are_kept<'a>(calls: impl IntoIterator<Item = (&'a Made, Option<Positions>)>) -> usize {
    let mut compared = 0;
    let mut seen: HashMap<_, Vec<String>> = HashMap::new();
    for (made, compacted) in calls {
        let Some(compacted) = compacted else { continue };
        let head: Vec<&str> = made.spec.head.iter().map(Message::json).collect();
        let prefix = made.received.prefix(made.spec.input.len());
        if let Some(mut before) = seen.insert((made.integration, made.profile, head, compacted), prefix.clone()) {
            if !prefix.starts_with(&before) {
                // A constant reply directly before the input belongs to the question.
                before.pop_if(|json| json.contains("[no reply]"));
                while before.last().is_some_and(|json| Message::from_json(json.as_str()).unwrap().is_tool_result()) {
                    before.pop();
                }
            }
            assert!(prefix.starts_with(&before), "{compacted:?}: {before:#?} is not a prefix of {prefix:#?}");
            compared += 1;
        }
    }
    compared
}

/// Checks the other half of invariant 3: only calls that cannot fit are refused, and the error has the sizes
/// of their parts.
pub(crate) fn could_not_fit(
    error: &DoesNotFit,
    integration: Integration,
    spec: &CallSpec,
    policy: &Policy,
    log: &[Message],
) {
    let counter = policy.counter(integration);
    let count =
        |messages: &[Message]| messages.iter().map(|message| u64::from(counter.count_message(message))).sum::<u64>();
    let stated = spec.limit.map_or(policy.reserve, |(_, tokens)| tokens);
    let least = policy.least.unwrap_or(stated).min(stated);
    assert_eq!((error.context_window, error.reply_reserve), (policy.context.into(), least.into()));
    assert!(error.parts.total() + u64::from(least) > u64::from(policy.context), "{error}");

    let tools = spec.tools.as_ref().map_or(0, |tools| u64::from(counter.count_text(tools)));
    let PromptTokens { head, tools: tools_and_priming, response_format, summary, window, input, .. } = error.parts;
    assert_eq!((head, input), (count(&spec.head), count(&spec.input)));
    assert_eq!((response_format, summary), (0, 0));
    // Integrations may write the fields of a schema in another order.
    assert!(tools_and_priming.abs_diff(tools + u64::from(REPLY_PRIMING)) <= 3, "{tools_and_priming}, {tools}");
    let mut view = View::default();
    view.extend(log);
    let answers = spec.input[0].is_tool_result();
    let open = view.messages().iter().rfind(|message| !message.tool_calls().is_empty()).filter(|_| answers);
    let open = open.map_or(0, |calls| u64::from(counter.count_message(calls)));
    assert!(window >= open && (answers || window == 0) && window <= count(view.messages()), "{error}");
}

/// Returns the correction factor: provider tokens for each counted token.
fn corrected(policy: &Policy, calibration: f64) -> f64 {
    // Estimates may be too high. Prompts then have at most a quarter more counted tokens than the limit.
    assert!(calibration >= 0.8 && (policy.calibrate || (calibration - 1.0).abs() < f64::EPSILON), "{calibration}");
    calibration
}
