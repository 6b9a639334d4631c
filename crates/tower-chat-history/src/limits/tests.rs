//! Tests of limits and rates.

use std::time::Duration;

use proptest::prelude::*;
use tower_chat_history_core::{ConversationId, Prefix};

use super::{Amounts, LimitKind, LimitRules, Limits, admit, first_parts};

const KINDS: [LimitKind; 5] = [
    LimitKind::MessageBytes,
    LimitKind::InputBytes,
    LimitKind::ToolRounds,
    LimitKind::Exchanges,
    LimitKind::ConversationBytes,
];

fn limits([message, input, rounds, exchanges, conversation]: [Option<u64>; 5]) -> Limits {
    let mut limits = Limits::new();
    limits.max_message_bytes = message;
    limits.max_input_bytes = input;
    limits.max_tool_rounds = rounds;
    limits.max_exchanges = exchanges;
    limits.max_conversation_bytes = conversation;
    limits
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
        let mut larger_limit = limit;
        let mut larger_number = found;
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

fn id(text: &str) -> ConversationId {
    text.parse().unwrap()
}

#[test]
fn the_limits_of_the_longest_prefix_apply() {
    let [all, acme, user] = [1, 2, 3].map(|bytes| Limits::new().max_message_bytes(bytes));
    let rules = LimitRules::new()
        .under("acme/u1".parse().unwrap(), user.clone())
        .under(Prefix::all(), Limits::new())
        .under("acme".parse().unwrap(), acme.clone())
        .under(Prefix::all(), all.clone());
    for (text, limits) in
        [("acme/u1/c", &user), ("acme/u1", &user), ("acme/u10", &acme), ("acme", &acme), ("acme-2/u1", &all)]
    {
        assert_eq!(rules.of(&id(text)), Some(limits), "{text}");
    }
    assert_eq!(LimitRules::new().under("acme".parse().unwrap(), acme).of(&id("other")), None);
}

#[test]
fn an_id_with_fewer_parts_stands_for_itself() {
    for (parts, text) in [(0, ""), (1, "a"), (2, "a/b"), (3, "a/b"), (usize::MAX, "a/b")] {
        assert_eq!(first_parts(&id("a/b"), parts), text);
    }
}

/// Makes calls with these pauses before them. Returns the times at which calls began.
fn begun(per_minute: u32, pauses: &[u64]) -> Vec<Duration> {
    let mut now = Duration::ZERO;
    let mut used_until = Duration::ZERO;
    let mut begun = Vec::new();
    for pause in pauses {
        now += Duration::from_millis(*pause);
        if let Ok(until) = admit(per_minute, used_until, now) {
            used_until = until;
            begun.push(now);
        }
    }
    begun
}

#[test]
fn the_calls_of_a_minute_may_begin_at_once_and_then_one_at_a_time() {
    let mut used_until = Duration::ZERO;
    let now = Duration::from_secs(1_000);
    for _ in 0..6 {
        used_until = admit(6, used_until, now).unwrap();
    }
    let wait = Duration::from_secs(10);
    assert_eq!(admit(6, used_until, now), Err(Some(wait)));
    assert_eq!(admit(6, used_until, now + wait / 2), Err(Some(wait / 2)));
    let used_until = admit(6, used_until, now + wait).unwrap();
    assert_eq!(admit(6, used_until, now + wait), Err(Some(wait)));
}

#[test]
fn a_rate_of_zero_refuses_all_calls() {
    assert_eq!(admit(0, Duration::ZERO, Duration::from_secs(1 << 30)), Err(None));
}

proptest! {
    #[test]
    fn no_time_has_more_calls_than_a_burst_and_the_rate(
        per_minute in 1..200_u32,
        pauses in prop::collection::vec(0..5_000_u64, 1..200),
    ) {
        let begun = begun(per_minute, &pauses);
        for (first, from) in begun.iter().enumerate() {
            for (last, to) in begun.iter().enumerate().skip(first) {
                let time = (*to - *from).as_secs_f64();
                let allowed = f64::from(per_minute) * (1.0 + time / 60.0);
                prop_assert!((last - first + 1) as f64 <= allowed + 1e-3);
            }
        }
    }

    #[test]
    fn a_call_that_waits_as_told_is_admitted(
        per_minute in 1..=u32::MAX,
        used in 0..600_000_u64,
        now in 0..600_000_u64,
    ) {
        let [used_until, now] = [used, now].map(Duration::from_millis);
        if let Err(wait) = admit(per_minute, used_until, now) {
            let wait = wait.unwrap();
            prop_assert!(!wait.is_zero() && admit(per_minute, used_until, now + wait).is_ok());
            prop_assert!(admit(per_minute, used_until, now + wait - Duration::from_nanos(1)).is_err());
        }
    }
}
