//! Comparing the numbers of a call with limits.

use super::{LimitExceeded, LimitKind, Limits};

/// The numbers of a call that limits apply to. A number that is not known is 0, which no limit refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    /// The size of the largest message, in bytes of its JSON.
    pub(crate) message_bytes: u64,
    /// The size of the input, in bytes of the JSON of its messages.
    pub(crate) input_bytes: u64,
    /// The number of rounds of tool calls that the turn has with this call.
    pub(crate) tool_rounds: u64,
    /// The number of exchanges that the conversation has with this call.
    pub(crate) exchanges: u64,
    /// The size of the conversation with the input of this call, in bytes of the JSON of its messages.
    pub(crate) conversation_bytes: u64,
}

impl Limits {
    /// Compares the numbers of a call with these limits, except rates.
    ///
    /// # Errors
    ///
    /// Returns the first limit that a number exceeds, in the order of the fields of [`Amounts`].
    pub(crate) fn check(&self, amounts: &Amounts) -> Result<(), LimitExceeded> {
        let checks = [
            (LimitKind::MessageBytes, self.max_message_bytes, amounts.message_bytes),
            (LimitKind::InputBytes, self.max_input_bytes, amounts.input_bytes),
            (LimitKind::ToolRounds, self.max_tool_rounds, amounts.tool_rounds),
            (LimitKind::Exchanges, self.max_exchanges, amounts.exchanges),
            (LimitKind::ConversationBytes, self.max_conversation_bytes, amounts.conversation_bytes),
        ];
        for (kind, limit, found) in checks {
            if let Some(limit) = limit.filter(|limit| found > *limit) {
                return Err(LimitExceeded::new(kind, limit, found));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [LimitKind; 5] = [
        LimitKind::MessageBytes,
        LimitKind::InputBytes,
        LimitKind::ToolRounds,
        LimitKind::Exchanges,
        LimitKind::ConversationBytes,
    ];

    fn limits([message, input, rounds, exchanges, conversation]: [Option<u64>; 5]) -> Limits {
        Limits {
            max_message_bytes: message,
            max_input_bytes: input,
            max_tool_rounds: rounds,
            max_exchanges: exchanges,
            max_conversation_bytes: conversation,
            ..Limits::new()
        }
    }

    fn amounts([message_bytes, input_bytes, tool_rounds, exchanges, conversation_bytes]: [u64; 5]) -> Amounts {
        Amounts { message_bytes, input_bytes, tool_rounds, exchanges, conversation_bytes }
    }

    /// Returns small numbers, which are often equal, and any others.
    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![0..4_u64, any::<u64>(), Just(u64::MAX)]
    }

    proptest! {
        #[test]
        fn a_call_is_refused_exactly_if_a_number_exceeds_its_limit(
            limit in prop::array::uniform5(prop::option::of(number())),
            found in prop::array::uniform5(number()),
        ) {
            let exceeded = (0..5).find(|&at| limit[at].is_some_and(|limit| found[at] > limit));
            let expected = exceeded.map(|at| (KINDS[at], limit[at].unwrap(), found[at]));
            let checked = limits(limit).check(&amounts(found));
            prop_assert_eq!(checked.err().map(|error| (error.kind, error.limit, error.found)), expected);
        }

        #[test]
        fn a_larger_limit_refuses_no_more_and_a_larger_number_no_less(
            limit in prop::array::uniform5(prop::option::of(number())),
            found in prop::array::uniform5(number()),
            at in 0..5_usize,
            more in number(),
        ) {
            let refused = |limit, found| limits(limit).check(&amounts(found)).is_err();
            let (mut larger_limit, mut larger_number) = (limit, found);
            larger_limit[at] = limit[at].map(|limit| limit.saturating_add(more));
            larger_number[at] = found[at].saturating_add(more);
            prop_assert!(refused(limit, found) || !refused(larger_limit, found));
            prop_assert!(!refused(limit, found) || refused(limit, larger_number));
        }
    }

    #[test]
    fn unknown_numbers_and_missing_limits_refuse_nothing() {
        assert_eq!(limits([Some(0); 5]).check(&Amounts::default()), Ok(()));
        assert_eq!(Limits::new().check(&amounts([u64::MAX; 5])), Ok(()));
    }

    #[test]
    fn the_text_of_an_error_has_the_numbers_and_the_unit() {
        let error = |at: usize| {
            let mut limit = [None; 5];
            limit[at] = Some(2);
            limits(limit).check(&amounts([3; 5])).unwrap_err().to_string()
        };
        assert_eq!(error(0), "a message has 3 bytes, and the limit is 2");
        assert_eq!(error(1), "the input has 3 bytes, and the limit is 2");
        assert_eq!(error(2), "the number of the turn's rounds of tool calls would be 3, and the limit is 2");
        assert_eq!(error(3), "the conversation would have 3 exchanges, and the limit is 2");
        assert_eq!(error(4), "the conversation would have 3 bytes, and the limit is 2");
    }
}
