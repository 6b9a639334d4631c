//! The rates at which turns begin.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use quick_cache::sync::Cache;
use tokio::time::Instant;
use tower_chat_history_core::ConversationId;

use crate::limits::{LimitExceeded, LimitKind, LimitRules, Limits, admit, first_parts};

/// The largest number of conversations, or of prefixes, whose turns are counted by one rate. For one that is evicted,
/// the rate begins anew.
const COUNTED: usize = 1 << 14;

/// The rates of an engine's [rules](LimitRules).
pub(super) struct Rates {
    /// The time from which all others are counted.
    start: Instant,
    /// The rates of each rule, in the order of the rules.
    rules: Vec<Vec<Rate>>,
    /// Held while a turn asks several rates, so that it takes from all of them or from none.
    asking: Mutex<()>,
}

struct Rate {
    /// The number of parts that ids have in common. `None` if each conversation is counted by itself.
    parts: Option<usize>,
    per_minute: u32,
    /// The time until which turns have [used up](admit) the rate, by the first parts of their ids.
    used_until: Cache<Box<str>, Duration>,
}

impl Rates {
    pub(super) fn new(rules: &LimitRules) -> Self {
        let rules = rules.all().map(rates_of).collect();
        Self { start: Instant::now(), rules, asking: Mutex::default() }
    }

    /// Takes a turn of this conversation from the rates of a rule. If one of them refuses, nothing is taken, and the
    /// error is that of the longest wait.
    pub(super) fn take(&self, rule: usize, id: &ConversationId) -> Result<(), LimitExceeded> {
        let rates = self.rules.get(rule).map_or(&[] as &[Rate], Vec::as_slice);
        if rates.is_empty() {
            return Ok(());
        }
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.start.elapsed();
        let (mut taken, mut refused) = (Vec::with_capacity(rates.len()), None::<LimitExceeded>);
        for rate in rates {
            match rate.ask(id, now) {
                Ok(until) => taken.push((rate, until)),
                Err(next) => refused = Some(refused.map_or(next, |refused| longer(refused, next))),
            }
        }
        if let Some(refused) = refused {
            return Err(refused);
        }
        for (rate, until) in taken {
            rate.used_until.insert(rate.key(id).into(), until);
        }
        Ok(())
    }
}

impl Rate {
    fn new(parts: Option<usize>, per_minute: u32) -> Self {
        Self { parts, per_minute, used_until: Cache::new(COUNTED) }
    }

    fn key<'a>(&self, id: &'a ConversationId) -> &'a str {
        self.parts.map_or(id.as_str(), |parts| first_parts(id, parts))
    }

    /// Returns the time until which the rate is used up after one more turn.
    fn ask(&self, id: &ConversationId, now: Duration) -> Result<Duration, LimitExceeded> {
        let used_until = self.used_until.get(self.key(id)).unwrap_or_default();
        admit(self.per_minute, used_until, now).map_err(|retry_after| {
            let limit = self.per_minute.into();
            let exceeded = LimitExceeded::new(LimitKind::TurnsPerMinute, limit, limit + 1);
            LimitExceeded { parts: self.parts, retry_after, ..exceeded }
        })
    }
}

fn rates_of(limits: &Limits) -> Vec<Rate> {
    let of_conversation = limits.turns_per_minute.map(|turns| Rate::new(None, turns));
    let of_prefixes = limits.turns_per_minute_under.iter().map(|(parts, turns)| Rate::new(Some(*parts), *turns));
    of_conversation.into_iter().chain(of_prefixes).collect()
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

    #[tokio::test(start_paused = true)]
    async fn a_refused_turn_takes_from_no_rate() {
        let rates = Rates::new(&Limits::new().turns_per_minute(1).turns_per_minute_under(1, 2).into());
        rates.take(0, &id("a/1")).unwrap();
        rates.take(0, &id("a/2")).unwrap();
        // The tenant's rate refuses, although the conversation's own would not.
        let refused = rates.take(0, &id("a/3")).unwrap_err();
        assert_eq!((refused.parts, refused.retry_after), (Some(1), Some(Duration::from_secs(30))));
        tokio::time::advance(Duration::from_secs(30)).await;
        rates.take(0, &id("a/3")).unwrap();
        // Both refuse. The longer wait is that of the conversation.
        let refused = rates.take(0, &id("a/3")).unwrap_err();
        assert_eq!((refused.parts, refused.retry_after), (None, Some(Duration::from_secs(60))));
        rates.take(0, &id("b/1")).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn each_rule_has_its_own_rates() {
        let [strict, usual] = [1, 5].map(|turns| Limits::new().turns_per_minute_under(1, turns));
        let rates = Rates::new(&LimitRules::from(usual).under("strict".parse().unwrap(), strict));
        rates.take(1, &id("strict/1")).unwrap();
        assert_eq!(rates.take(1, &id("strict/2")).unwrap_err().limit, 1);
        for _ in 0..5 {
            rates.take(0, &id("other/1")).unwrap();
        }
        let refused = rates.take(0, &id("other/2")).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "there would be more turns per minute in total with the same first part of \
            the id, and the limit is 5; the call can be repeated after 12000 ms"
        );
    }

    #[test]
    fn the_memory_of_rates_is_bounded() {
        let rates = Rates::new(&Limits::new().turns_per_minute(1).into());
        for number in 0..3 * COUNTED {
            rates.take(0, &id(&format!("hostile/{number}"))).unwrap();
        }
        assert!(rates.rules[0][0].used_until.len() <= COUNTED);
    }
}
