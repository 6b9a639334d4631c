//! The rates at which calls begin.

use std::{
    collections::BTreeSet,
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

/// The used part of one rate that is counted by a number of parts. All rules share it, so that the calls of a tenant
/// count together, whichever rule sets the rate of each. If rules set different rates for the same number of parts,
/// each has a table, and a call counts in all of them.
struct Table {
    /// The number of parts that ids have in common. `None` if each conversation is counted by itself.
    parts: Option<usize>,
    /// The rate, in calls per minute.
    per_minute: u32,
    /// The time until which calls have [used up](admit) the rate, by the first parts of their ids.
    used_until: Cache<Box<str>, Duration>,
}

impl Rates {
    pub(super) fn new(rules: &LimitRules) -> Self {
        let rates: BTreeSet<_> = rules.all().flat_map(Limits::rates).collect();
        let table = |(parts, per_minute)| Table { parts, per_minute, used_until: Cache::new(COUNTED) };
        let tables = rates.into_iter().map(table).collect();
        Self { start: Instant::now(), tables, asking: Mutex::default() }
    }

    /// Takes a call of this conversation from its rates. If one of them refuses, nothing is taken, and the error is
    /// that of the longest wait.
    pub(super) fn take(&self, rules: &LimitRules, id: &ConversationId) -> Result<(), LimitExceeded> {
        if self.tables.is_empty() {
            return Ok(());
        }
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        for (table, until) in self.ask(rules, id)? {
            table.used_until.insert(table.key(id).into(), until);
        }
        Ok(())
    }

    /// Returns the error of [`take`](Self::take), but takes nothing.
    pub(super) fn check(&self, rules: &LimitRules, id: &ConversationId) -> Result<(), LimitExceeded> {
        self.ask(rules, id).map(drop)
    }

    /// Returns the tables that count this conversation, each with the time until which its rate is used up after one
    /// more call.
    fn ask(&self, rules: &LimitRules, id: &ConversationId) -> Result<Vec<(&Table, Duration)>, LimitExceeded> {
        let now = self.start.elapsed();
        let (mut asked, mut refused) = (Vec::with_capacity(self.tables.len()), None::<LimitExceeded>);
        for table in &self.tables {
            let Some(per_minute) = rules.rate(id, table.parts) else { continue };
            if per_minute != table.per_minute {
                asked.push((table, table.count(id, now)));
                continue;
            }
            match table.ask(id, now) {
                Ok(until) => asked.push((table, until)),
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

    fn used_until(&self, id: &ConversationId) -> Duration {
        self.used_until.get(self.key(id)).unwrap_or_default()
    }

    /// Returns the time until which the rate is used up after a call that has another rate.
    fn count(&self, id: &ConversationId, now: Duration) -> Duration {
        count(self.per_minute, self.used_until(id), now)
    }

    fn ask(&self, id: &ConversationId, now: Duration) -> Result<Duration, LimitExceeded> {
        admit(self.per_minute, self.used_until(id), now).map_err(|retry_after| {
            let limit = u64::from(self.per_minute);
            let exceeded = LimitExceeded::new(LimitKind::CallsPerMinute, limit, limit + 1);
            LimitExceeded { parts: self.parts, retry_after, ..exceeded }
        })
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
    fn the_memory_of_rates_is_bounded() {
        let rules = LimitRules::from(Limits::new().calls_per_minute(1));
        let rates = Rates::new(&rules);
        for number in 0..3 * COUNTED {
            rates.take(&rules, &id(&format!("hostile/{number}"))).unwrap();
        }
        assert!(rates.tables[0].used_until.len() <= COUNTED);
    }
}
