//! What holds of every prompt, of every refusal and of what is stored.

use std::collections::HashMap;

use tower_chat_history::{
    Message, TurnReport,
    budget::{DoesNotFit, PromptTokens},
    report::{Outcome, TurnTokens},
    store::{Compaction, CompactionVersion},
    tokens::{REPLY_PRIMING, TokenCounter},
    view::View,
};
use tower_chat_history_test::check_chat_rules;

use super::{
    asked::{Asked, Door, Received},
    policies::Policy,
};

/// A call that reached the model.
pub(crate) struct Made {
    pub(crate) profile: usize,
    pub(crate) door: Door,
    pub(crate) asked: Asked,
    pub(crate) received: Received,
    /// The profile's compaction when it began.
    pub(crate) base: Option<Compaction>,
}

/// Where the window starts, where rounds do, and before what results are cleared.
pub(crate) type Positions = (u64, u64, u64);

fn positions(compaction: Option<&Compaction>) -> Positions {
    compaction.map_or_else(Positions::default, |Compaction { cut, .. }| {
        (cut.window_start.get(), cut.rounds_start.get(), cut.cleared_before.get())
    })
}

impl Made {
    /// Invariants 2 and 3.
    pub(crate) fn is_valid_and_fits(&self, policy: &Policy, report: &TurnReport) {
        let Self { asked, received, .. } = self;
        assert_eq!(check_chat_rules(&received.messages), Ok(()));
        let tokens = report.tokens.unwrap();
        let total = received.tokens(&*policy.counter(self.door));
        assert_eq!(tokens.prompt.total(), total, "what was counted is what was sent: {tokens:?}");

        let reply = self.reply(policy, &tokens);
        let charged = total as f64 * corrected(policy, tokens.calibration);
        assert!(charged + f64::from(reply) <= f64::from(policy.context) + 1e-6, "{charged} + {reply}: {tokens:?}");
        assert_eq!(report.messages_sent + asked.head.len(), received.messages.len(), "head, window, input");
    }

    /// What was left for the reply, which may only be less than what was asked for, and not less than what is allowed.
    fn reply(&self, policy: &Policy, tokens: &TurnTokens) -> u32 {
        let Self { asked, received, .. } = self;
        let stated = asked.limit.map_or(policy.reserve, |(_, tokens)| tokens);
        let reply = tokens.reply_limit.unwrap_or(stated);
        assert_eq!(tokens.reply_reserve, u64::from(stated));
        assert!(reply <= stated && reply >= policy.least.unwrap_or(stated).min(stated), "{reply} of {stated}");
        for field in ["max_completion_tokens", "max_tokens"] {
            let expected = asked.limit.filter(|(name, _)| *name == field).map(|_| reply);
            assert_eq!(received.number(field), expected, "{field} in {}", received.body);
        }
        reply
    }

    /// Looks at the compaction that is stored when the call is done: one is stored only as the report says, and it goes
    /// forward (invariant 13). Returns under which one its prompt was made, if that holds for other prompts as well.
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
        assert!(!stored || tokens.compacted && matches!(report.outcome, Outcome::Stored { .. }));
        assert_eq!(stored, was != is, "nothing is stored for nothing");
        let fresh = version(before) == version(self.base.as_ref()) && matches!(report.outcome, Outcome::Stored { .. });
        assert_eq!(stored, tokens.compacted && fresh, "what was decided is stored, if nobody came before");
        match tokens {
            TurnTokens { for_this_call: true, .. } => None,
            TurnTokens { compacted: true, .. } => stored.then_some(is),
            _ => Some(positions(self.base.as_ref())),
        }
    }
}

/// Invariant 10: what stands before the input is a prefix of what stands there in the next call of the same door, profile and
/// head, as long as the compaction is the same. Returns how many were compared.
pub(crate) fn prefixes_are_kept<'a>(calls: impl IntoIterator<Item = (&'a Made, Option<Positions>)>) -> usize {
    let mut compared = 0;
    let mut seen: HashMap<_, Vec<String>> = HashMap::new();
    for (made, compacted) in calls {
        let Some(compacted) = compacted else { continue };
        let head: Vec<&str> = made.asked.head.iter().map(Message::json).collect();
        let prefix = made.received.prefix(made.asked.input.len());
        if let Some(before) = seen.insert((made.door, made.profile, head, compacted), prefix.clone()) {
            assert!(prefix.starts_with(&before), "{compacted:?}: {before:#?} is no prefix of {prefix:#?}");
            compared += 1;
        }
    }
    compared
}

/// Invariant 3, the other half: only what cannot fit is refused, and the parts are what they are.
pub(crate) fn could_not_fit(error: &DoesNotFit, door: Door, asked: &Asked, policy: &Policy, log: &[Message]) {
    let counter = policy.counter(door);
    let count =
        |messages: &[Message]| messages.iter().map(|message| u64::from(counter.count_message(message))).sum::<u64>();
    let stated = asked.limit.map_or(policy.reserve, |(_, tokens)| tokens);
    let least = policy.least.unwrap_or(stated).min(stated);
    assert_eq!((error.context_window, error.reply_reserve), (policy.context.into(), least.into()));
    assert!(error.parts.total() + u64::from(least) > u64::from(policy.context), "{error}");

    let tools = asked.tools.as_ref().map_or(0, |tools| u64::from(counter.count_text(tools)));
    let PromptTokens { head, tools: tools_and_priming, response_format, summary, window, input, .. } = error.parts;
    assert_eq!((head, input), (count(&asked.head), count(&asked.input)));
    assert_eq!((response_format, summary), (0, 0));
    // Doors write the fields of a schema in an order of their own.
    assert!(tools_and_priming.abs_diff(tools + u64::from(REPLY_PRIMING)) <= 3, "{tools_and_priming}, {tools}");
    let mut view = View::default();
    view.extend(log);
    let answers = asked.input[0].is_tool_result();
    let open = view.messages().iter().rfind(|message| !message.tool_calls().is_empty()).filter(|_| answers);
    let open = open.map_or(0, |calls| u64::from(counter.count_message(calls)));
    assert!(window >= open && (answers || window == 0) && window <= count(view.messages()), "{error}");
}

/// How many of the provider's tokens a counted one is taken for.
fn corrected(policy: &Policy, calibration: f64) -> f64 {
    assert!(calibration >= 1.0 && (policy.calibrate || calibration <= 1.0), "{calibration}");
    calibration
}
