//! The rates at which calls begin.
//!
//! # Decisions
//!
//! - **A call takes from all rates of its rule or from none.** Otherwise it would be refused again after the time that
//!   the error names. The crate governor (0.10) can't ask without taking, and doesn't bound its states.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use quick_cache::unsync::Cache;
use tokio::time::Instant;
use tower_chat_history_core::{ConversationId, Prefix};

use crate::limits::{LimitExceeded, LimitKind, LimitRules, admit, first_parts};

/// The largest number of conversations, or of prefixes with the same number of parts, whose calls are counted. For one
/// that is evicted, the rate begins anew.
const COUNTED: usize = 1 << 14;

/// The rates of an engine's [rules](LimitRules).
pub(super) struct Rates {
    /// The time from which all others are counted.
    start: Instant,
    /// By the number of parts that ids have in common, or `None` for the rates of single conversations, so that many
    /// conversations do not evict the state of their tenant.
    states: Mutex<BTreeMap<Option<usize>, States>>,
}

/// The times until which calls have [used up](admit) a rate.
type States = Cache<Key, Duration>;

/// The prefix of the rule that sets a rate, and the parts that ids have in common.
type Key = (Prefix, Box<str>);

/// A rate that has a call left.
struct Admission {
    parts: Option<usize>,
    key: Key,
    /// The time until which the rate is used up after the call.
    until: Duration,
}

impl Rates {
    pub(super) fn new(rules: &LimitRules) -> Self {
        let mut states = BTreeMap::new();
        for (parts, _) in rules.all().flat_map(|(_, limits)| limits.rates()) {
            states.entry(parts).or_insert_with(|| Cache::new(COUNTED));
        }
        Self { start: Instant::now(), states: Mutex::new(states) }
    }

    /// Takes a call of this conversation from its rates. If one of them refuses, nothing is taken, and the error is
    /// that of the longest wait.
    pub(super) fn take(&self, rules: &LimitRules, id: &ConversationId) -> Result<(), LimitExceeded> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        for Admission { parts, key, until } in self.ask(&states, rules, id)? {
            if let Some(states) = states.get_mut(&parts) {
                states.insert(key, until);
            }
        }
        Ok(())
    }

    /// Returns the error of [`take`](Self::take), but takes nothing.
    pub(super) fn check(&self, rules: &LimitRules, id: &ConversationId) -> Result<(), LimitExceeded> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        self.ask(&states, rules, id).map(drop)
    }

    fn ask(
        &self,
        states: &BTreeMap<Option<usize>, States>,
        rules: &LimitRules,
        id: &ConversationId,
    ) -> Result<Vec<Admission>, LimitExceeded> {
        let Some((prefix, limits)) = rules.rule(id) else { return Ok(Vec::new()) };
        let now = self.start.elapsed();
        let mut admitted = Vec::new();
        let mut refused = None;

        for (parts, per_minute) in limits.rates() {
            let in_common = parts.map_or(id.as_str(), |parts| first_parts(id, parts));
            let key: Key = (prefix.clone(), in_common.into());
            let used_until = states.get(&parts).and_then(|states| states.get(&key)).copied().unwrap_or_default();
            match admit(per_minute, used_until, now) {
                Ok(until) => admitted.push(Admission { parts, key, until }),
                Err(retry_after) => {
                    let limit = u64::from(per_minute);
                    let exceeded = LimitExceeded::new(LimitKind::CallsPerMinute, limit, limit + 1);
                    let exceeded = LimitExceeded { parts, retry_after, ..exceeded };
                    refused = Some(refused.map_or(exceeded, |refused| longer(refused, exceeded)));
                }
            }
        }
        refused.map_or(Ok(admitted), Err)
    }
}

/// Returns the error with the longer wait. A rate of 0 never ends.
fn longer(one: LimitExceeded, other: LimitExceeded) -> LimitExceeded {
    if wait(&other) > wait(&one) { other } else { one }
}

fn wait(exceeded: &LimitExceeded) -> Duration {
    exceeded.retry_after.unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    fn id(text: &str) -> ConversationId {
        text.parse().unwrap()
    }

    /// The rates of these rules.
    struct Ruled(LimitRules, Rates);

    impl Ruled {
        fn new(rules: impl Into<LimitRules>) -> Self {
            let rules = rules.into();
            let rates = Rates::new(&rules);
            Self(rules, rates)
        }

        fn take(&self, text: &str) -> Result<(), LimitExceeded> {
            let checked = self.1.check(&self.0, &id(text));
            let taken = self.1.take(&self.0, &id(text));
            assert_eq!(checked, taken);
            taken
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_call_takes_from_no_rate() {
        let rates = Ruled::new(Limits::new().calls_per_minute(1).calls_per_minute_under(1, 2));
        rates.take("a/1").unwrap();
        rates.take("a/2").unwrap();
        // The tenant's rate refuses, although the conversation's own would not.
        let refused = rates.take("a/3").unwrap_err();
        assert_eq!((refused.parts, refused.retry_after), (Some(1), Some(Duration::from_secs(30))));
        tokio::time::advance(Duration::from_secs(30)).await;
        rates.take("a/3").unwrap();
        // Both refuse. The longer wait is that of the conversation.
        let refused = rates.take("a/3").unwrap_err();
        assert_eq!((refused.parts, refused.retry_after), (None, Some(Duration::from_secs(60))));
        rates.take("b/1").unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_of_the_longest_prefix_applies() {
        let [strict, usual] = [1, 5].map(|calls| Limits::new().calls_per_minute_under(1, calls));
        let rates = Ruled::new(LimitRules::from(usual).under("strict".parse().unwrap(), strict));
        rates.take("strict/1").unwrap();
        assert_eq!(rates.take("strict/2").unwrap_err().limit, 1);
        for _ in 0..5 {
            rates.take("other/1").unwrap();
        }
        let refused = rates.take("other/2").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "there would be more calls per minute in total with the same first part of \
            the id, and the limit is 5; the call can be repeated after 12000 ms"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_rates_of_a_shorter_prefix_do_not_apply() {
        let all = Limits::new().calls_per_minute(1).calls_per_minute_under(0, 2);
        let vip = Limits::new().calls_per_minute_under(1, 3);
        let rates = Ruled::new(LimitRules::from(all).under("acme/vip".parse().unwrap(), vip));
        for _ in 0..3 {
            rates.take("acme/vip/1").unwrap();
        }
        assert_eq!(rates.take("acme/vip/2").unwrap_err().limit, 3);
        // Calls under another rule take nothing from these.
        rates.take("acme/1").unwrap();
        rates.take("acme/2").unwrap();
        assert_eq!(rates.take("acme/3").unwrap_err().parts, Some(0));
    }

    #[test]
    fn many_conversations_do_not_evict_the_state_of_their_tenant() {
        let rules = LimitRules::from(Limits::new().calls_per_minute(1).calls_per_minute_under(1, u32::MAX));
        let rates = Rates::new(&rules);
        for number in 0..2 * COUNTED {
            rates.take(&rules, &id(&format!("hostile/{number}"))).unwrap();
        }
        assert_eq!(rates.states.lock().unwrap()[&Some(1)].len(), 1);
    }

    #[test]
    fn the_memory_of_rates_is_bounded() {
        let rules = LimitRules::from(Limits::new().calls_per_minute(1));
        let rates = Rates::new(&rules);
        for number in 0..3 * COUNTED {
            rates.take(&rules, &id(&format!("hostile/{number}"))).unwrap();
        }
        assert!(rates.states.lock().unwrap()[&None].len() <= COUNTED);
    }
}
