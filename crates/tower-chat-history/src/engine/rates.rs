//! The rates at which calls begin.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use quick_cache::sync::Cache;
use tokio::time::Instant;
use tower_chat_history_core::ConversationId;

use crate::limits::{LimitExceeded, LimitKind, LimitRules, Limits, admit, count, first_parts};

/// The largest number of conversations, or of prefixes, whose calls are counted by one rate. For one that is evicted,
/// the rate begins anew.
const COUNTED: usize = 1 << 14;

/// The rates of an engine's [rules](LimitRules).
pub(super) struct Rates {
    /// The time from which all others are counted.
    start: Instant,
    tables: Vec<Table>,
    /// Held while a call asks several rates, so that it takes from all of them or from none.
    asking: Mutex<()>,
}

/// The used parts of the rates that are counted by the same number of parts. All rules share them, so that the calls of
/// a tenant count together, whichever rule sets the rate of each. If the rules set different rates, each has a state of
/// its own, and a call counts in all of them.
struct Table {
    /// The number of parts that ids have in common. `None` if each conversation is counted by itself.
    parts: Option<usize>,
    /// By the rate, in calls per minute.
    states: BTreeMap<u32, States>,
}

/// The states of one rate, by the first parts of ids: the time until which calls have [used it up](admit).
type States = Cache<Box<str>, Duration>;

/// A rate that has a call left.
struct Admitted<'a> {
    table: &'a Table,
    per_minute: u32,
    /// The time until which the rate is used up after the call.
    until: Duration,
}

impl Rates {
    pub(super) fn new(rules: &LimitRules) -> Self {
        let mut tables = BTreeMap::<_, BTreeMap<_, _>>::new();
        for (parts, per_minute) in rules.all().flat_map(Limits::rates) {
            tables.entry(parts).or_default().entry(per_minute).or_insert_with(|| Cache::new(COUNTED));
        }
        let tables = tables.into_iter().map(|(parts, states)| Table { parts, states }).collect();
        Self { start: Instant::now(), tables, asking: Mutex::default() }
    }

    /// Takes a call of this conversation from its rates. If one of them refuses, nothing is taken, and the error is
    /// that of the longest wait.
    pub(super) fn take(&self, rules: &LimitRules, id: &ConversationId) -> Result<(), LimitExceeded> {
        if self.tables.is_empty() {
            return Ok(());
        }
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.start.elapsed();
        for Admitted { table, per_minute, until } in self.ask(rules, id, now)? {
            table.set(id, per_minute, until);
            table.count_in_others(rules, id, per_minute, now);
        }
        Ok(())
    }

    /// Returns the error of [`take`](Self::take), but takes nothing.
    pub(super) fn check(&self, rules: &LimitRules, id: &ConversationId) -> Result<(), LimitExceeded> {
        self.ask(rules, id, self.start.elapsed()).map(drop)
    }

    /// Returns the rates of this conversation.
    fn ask(&self, rules: &LimitRules, id: &ConversationId, now: Duration) -> Result<Vec<Admitted<'_>>, LimitExceeded> {
        let (mut asked, mut refused) = (Vec::with_capacity(self.tables.len()), None::<LimitExceeded>);
        for table in &self.tables {
            let Some(per_minute) = rules.rate(id, table.parts) else { continue };
            match table.ask(id, per_minute, now) {
                Ok(until) => asked.push(Admitted { table, per_minute, until }),
                Err(next) => refused = Some(refused.map_or(next, |refused| longer(refused, next))),
            }
        }
        refused.map_or(Ok(asked), Err)
    }
}

impl Table {
    fn key<'a>(&self, id: &'a ConversationId) -> &'a str {
        self.parts.map_or(id.as_str(), |parts| first_parts(id, parts))
    }

    /// Returns the time until which a rate is used up.
    fn used_until(&self, id: &ConversationId, per_minute: u32) -> Duration {
        self.states.get(&per_minute).and_then(|states| states.get(self.key(id))).unwrap_or_default()
    }

    /// Sets the time until which a rate is used up.
    fn set(&self, id: &ConversationId, per_minute: u32, until: Duration) {
        // Each rate of the rules has states.
        if let Some(states) = self.states.get(&per_minute) {
            states.insert(self.key(id).into(), until);
        }
    }

    /// Returns the time until which the call's own rate is used up after the call, if it has a call left.
    fn ask(&self, id: &ConversationId, per_minute: u32, now: Duration) -> Result<Duration, LimitExceeded> {
        admit(per_minute, self.used_until(id, per_minute), now).map_err(|retry_after| {
            let limit = u64::from(per_minute);
            let exceeded = LimitExceeded::new(LimitKind::CallsPerMinute, limit, limit + 1);
            LimitExceeded { parts: self.parts, retry_after, ..exceeded }
        })
    }

    /// Counts a call of the rate `own` in the states of the other rates that calls with the same parts can have.
    fn count_in_others(&self, rules: &LimitRules, id: &ConversationId, own: u32, now: Duration) {
        let Some(parts) = self.parts.filter(|_| self.states.len() > 1) else { return };
        for other in rules.rates_of_key(id, parts).into_iter().filter(|other| *other != own) {
            self.set(id, other, count(other, self.used_until(id, other), now));
        }
    }
}

/// Returns the error with the longer wait. A rate of 0 never ends.
fn longer(one: LimitExceeded, other: LimitExceeded) -> LimitExceeded {
    let wait = |exceeded: &LimitExceeded| exceeded.retry_after.unwrap_or(Duration::MAX);
    if wait(&other) > wait(&one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    async fn calls_under_different_rules_count_together() {
        let usual = || Limits::new().calls_per_minute_under(1, 4);
        let rates = Ruled::new(LimitRules::from(usual()).under("acme/vip".parse().unwrap(), usual()));
        for conversation in ["acme/1", "acme/vip/1", "acme/1", "acme/vip/1"] {
            rates.take(conversation).unwrap();
        }
        assert_eq!(rates.take("acme/1").unwrap_err().parts, Some(1));
        assert_eq!(rates.take("acme/vip/1").unwrap_err().parts, Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_under_a_low_rate_takes_one_call_from_a_high_rate() {
        let [low, high] = [2, 10].map(|calls| Limits::new().calls_per_minute_under(0, calls));
        let rates = Ruled::new(LimitRules::from(high).under("trial".parse().unwrap(), low));
        rates.take("trial/1").unwrap();
        rates.take("trial/1").unwrap();
        assert_eq!(rates.take("trial/1").unwrap_err().limit, 2);
        for _ in 0..8 {
            rates.take("paying/1").unwrap();
        }
        assert_eq!(rates.take("paying/1").unwrap_err().limit, 10);
        // The calls of others count for the low rate, but use up no more than all of it.
        tokio::time::advance(Duration::from_secs(30)).await;
        rates.take("trial/1").unwrap();
        assert_eq!(rates.take("trial/1").unwrap_err().limit, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_of_all_conversations_counts_those_with_rules_of_their_own() {
        let all = Limits::new().calls_per_minute_under(0, 2);
        let acme = Limits::new().calls_per_minute_under(1, 9);
        let rates = Ruled::new(LimitRules::from(all).under("acme".parse().unwrap(), acme));
        rates.take("acme/1").unwrap();
        rates.take("other/1").unwrap();
        assert_eq!(rates.take("acme/1").unwrap_err().parts, Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rule_that_lifts_a_rate_hides_that_of_a_shorter_prefix() {
        let usual = Limits::new().calls_per_minute(1).calls_per_minute_under(1, 1);
        let lifted = Limits::new().lift_calls_per_minute().lift_calls_per_minute_under(1);
        let rules = LimitRules::from(usual).under("acme/vip".parse().unwrap(), lifted);
        let rates = Ruled::new(rules.under("acme/vip/new".parse().unwrap(), Limits::new().calls_per_minute(2)));
        for _ in 0..9 {
            rates.take("acme/vip/1").unwrap();
        }
        // Calls without a rate take nothing from the rates of others.
        rates.take("acme/1").unwrap();
        assert!(rates.take("acme/1").is_err());
        // A longer prefix can set one again.
        rates.take("acme/vip/new/1").unwrap();
        rates.take("acme/vip/new/1").unwrap();
        assert_eq!(rates.take("acme/vip/new/1").unwrap_err().parts, None);
    }

    #[test]
    fn a_call_counts_only_for_rates_that_calls_with_the_same_parts_can_have() {
        let of = |calls| Limits::new().calls_per_minute(calls).calls_per_minute_under(1, calls);
        let rules = LimitRules::from(of(9)).under("a".parse().unwrap(), of(2)).under("b/vip".parse().unwrap(), of(3));
        let rates = Rates::new(&rules);
        for (conversation, expected) in [("a/1", [1, 0, 0]), ("b/1", [1, 1, 1]), ("c/1", [1, 1, 2])] {
            rates.take(&rules, &id(conversation)).unwrap();
            let table = rates.tables.iter().find(|table| table.parts == Some(1)).unwrap();
            assert_eq!([2, 3, 9].map(|rate| table.states[&rate].len()), expected, "{conversation}");
        }
        let table = rates.tables.iter().find(|table| table.parts.is_none()).unwrap();
        assert_eq!([2, 3, 9].map(|rate| table.states[&rate].len()), [1, 0, 2], "each conversation by itself");
    }

    #[test]
    fn the_memory_of_rates_is_bounded() {
        let rules = LimitRules::from(Limits::new().calls_per_minute(1));
        let rates = Rates::new(&rules);
        for number in 0..3 * COUNTED {
            rates.take(&rules, &id(&format!("hostile/{number}"))).unwrap();
        }
        assert!(rates.tables[0].states[&1].len() <= COUNTED);
    }
}
