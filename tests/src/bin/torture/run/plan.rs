//! The disruptions of a run. Each is due after a number of acknowledgments that is chosen at the start.

use std::collections::VecDeque;

use crate::rng::SeededRng;

/// A disruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disruption {
    /// Kills this many workers at once.
    Kill(u64),
    /// Crashes the server and restarts it.
    Restart,
}

/// The disruptions to come, in order.
#[derive(Debug)]
pub(crate) struct Plan(VecDeque<(u64, Disruption)>);

impl Plan {
    /// Distributes kills and restarts over the acknowledgments of a run. Sometimes all workers are killed at
    /// once, as if a machine went down.
    pub(crate) fn new(exchanges: u64, workers: u64, kills: u64, restarts: u64, rng: &mut SeededRng) -> Self {
        let mut disruptions = Vec::new();
        let mut left = kills;
        while left > 0 {
            let victims = if rng.once_in(8) { workers.min(left) } else { 1 };
            disruptions.push((rng.below(exchanges), Disruption::Kill(victims)));
            left -= victims;
        }
        disruptions.extend((0..restarts).map(|_| (rng.below(exchanges), Disruption::Restart)));
        disruptions.sort_by_key(|(at, _)| *at);
        Self(disruptions.into())
    }

    /// Returns the next disruption, if it is due after this many acknowledgments.
    pub(crate) fn due(&mut self, acknowledged: u64) -> Option<Disruption> {
        let (at, disruption) = *self.0.front()?;
        if at > acknowledged {
            return None;
        }
        self.0.pop_front();
        Some(disruption)
    }

    /// Returns true if there are no more disruptions.
    pub(crate) fn is_done(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_complete_and_determined_by_the_seed() {
        let plan = || Plan::new(1_000, 4, 50, 3, &mut SeededRng::new(7));
        let (mut one, mut other) = (plan(), plan());
        let mut fallen = Vec::new();
        for acknowledged in 0..1_000 {
            while let Some(disruption) = one.due(acknowledged) {
                assert_eq!(other.due(acknowledged), Some(disruption));
                fallen.push(disruption);
            }
        }
        let kills = |disruption: &Disruption| if let Disruption::Kill(victims) = disruption { *victims } else { 0 };
        assert!(one.is_done());
        assert_eq!(fallen.iter().map(kills).sum::<u64>(), 50);
        assert_eq!(fallen.iter().filter(|disruption| **disruption == Disruption::Restart).count(), 3);
        assert!(fallen.contains(&Disruption::Kill(4)), "all at once");
    }
}
