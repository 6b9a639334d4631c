//! When workers are killed and the server is restarted: after so many acknowledgements, decided by chance beforehand.

use std::collections::VecDeque;

use crate::chance::Chance;

/// What happens to the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// So many workers are killed at once.
    Kill(u64),
    /// The server crashes, and is started again.
    Restart,
}

/// The blows to come, in order.
#[derive(Debug)]
pub(crate) struct Plan(VecDeque<(u64, Blow)>);

impl Plan {
    /// So many kills and restarts within that many acknowledgements. Now and then all workers are killed at once, as when a
    /// machine goes down.
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

    /// The next blow, if it is due after that many acknowledgements.
    pub(crate) fn due(&mut self, acknowledged: u64) -> Option<Blow> {
        let (at, blow) = *self.0.front()?;
        if at > acknowledged {
            return None;
        }
        self.0.pop_front();
        Some(blow)
    }

    /// Returns whether all is over.
    pub(crate) fn is_done(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_blows_fall_in_time_and_by_the_seed() {
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
