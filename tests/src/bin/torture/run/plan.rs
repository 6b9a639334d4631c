//! The disruptions of a run. Each is due after a number of acknowledgements that is chosen at the start.

use std::collections::VecDeque;

use crate::chance::Chance;

/// A disruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// Kills this many workers at once.
    Kill(u64),
    /// Crashes the server and restarts it.
    Restart,
}

/// The disruptions to come, in order.
#[derive(Debug)]
pub(crate) struct Plan(VecDeque<(u64, Blow)>);

impl Plan {
    /// Distributes kills and restarts over the acknowledgements of a run. Sometimes all workers are killed at
    /// once, as if a machine went down.
    pub(crate) fn new(exchanges: u64, workers: u64, kills: u64, restarts: u64, chance: &mut Chance) -> Self {
        let mut blows = Vec::new();
        let mut left = kills;
        while left > 0 {
            let victims = if chance.once_in(8) { workers.min(left) } else { 1 };
            blows.push((chance.below(exchanges), Blow::Kill(victims)));
            left -= victims;
        }
        blows.extend((0..restarts).map(|_| (chance.below(exchanges), Blow::Restart)));
        blows.sort_by_key(|(at, _)| *at);
        Self(blows.into())
    }

    /// Returns the next disruption, if it is due after this many acknowledgements.
    pub(crate) fn due(&mut self, acknowledged: u64) -> Option<Blow> {
        let (at, blow) = *self.0.front()?;
        if at > acknowledged {
            return None;
        }
        self.0.pop_front();
        Some(blow)
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
        let plan = || Plan::new(1_000, 4, 50, 3, &mut Chance::new(7));
        let (mut one, mut other) = (plan(), plan());
        let mut fallen = Vec::new();
        for acknowledged in 0..1_000 {
            while let Some(blow) = one.due(acknowledged) {
                assert_eq!(other.due(acknowledged), Some(blow));
                fallen.push(blow);
            }
        }
        let kills = |blow: &Blow| if let Blow::Kill(victims) = blow { *victims } else { 0 };
        assert!(one.is_done());
        assert_eq!(fallen.iter().map(kills).sum::<u64>(), 50);
        assert_eq!(fallen.iter().filter(|blow| **blow == Blow::Restart).count(), 3);
        assert!(fallen.contains(&Blow::Kill(4)), "all at once");
    }
}
