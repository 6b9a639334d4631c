//! Prunes and appends in any order, compared with a simple list.

use tower_chat_history_core::{Load, PruneTo, Recorded, Revision, Seq};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::PRUNE;

/// Pseudorandom numbers that are the same in each run (xorshift).
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Returns the number of exchanges that a prune removes from the log.
fn removed_by(log: &[Recorded], keep: PruneTo) -> usize {
    let openings: Vec<usize> = (0..log.len()).filter(|at| log[*at].exchange.opens_turn()).collect();
    let messages = |at: usize| log[at..].iter().map(|recorded| recorded.exchange.messages.len()).sum::<usize>();
    let newest = openings[openings.len() - 1];
    match keep {
        PruneTo::From(from) => openings.into_iter().rfind(|at| log[*at].seq <= from).unwrap_or(0),
        PruneTo::LastTurns(turns) => openings[openings.len().saturating_sub(turns.max(1))],
        PruneTo::LastMessages(most) => openings.into_iter().find(|at| messages(*at) <= most).unwrap_or(newest),
        other => panic!("this suite does not know {other:?}"),
    }
}

/// After any sequence of appends and prunes, the log equals the list.
pub async fn random_prunes_and_appends_match_a_list(fixture: &dyn Fixture) {
    for seed in 1..=8 {
        let prunable = Prunable::new(fixture).await;
        let (chat, mut numbers) = (&prunable.chat, Numbers(seed * 0x9e37_79b9));
        let mut log = vec![chat.add(turn_of("first")).await];
        for _ in 0..40 {
            let next = log[log.len() - 1].seq.next();
            let keep = match numbers.below(8) {
                0 => PruneTo::From(Seq::new(numbers.below(next.get() + 2))),
                1 => PruneTo::LastTurns(usize::try_from(numbers.below(6)).unwrap_or(0)),
                2 => PruneTo::LastMessages(usize::try_from(numbers.below(14)).unwrap_or(0)),
                3 => {
                    // The continued exchange may be any, even a removed one.
                    log.push(chat.add(result_for(Seq::new(numbers.below(next.get())))).await);
                    continue;
                }
                4 => {
                    log.push(chat.add(call_of("what is it?")).await);
                    continue;
                }
                _ => {
                    log.push(chat.add(turn_of("next")).await);
                    continue;
                }
            };
            let (before, removed) = (chat.revision().await, removed_by(&log, keep));
            log.drain(..removed);
            let pruned = prunable.keep(keep).await;
            assert_eq!(pruned.removed, removed as u64, "{keep:?}");
            let expected = Revision::new(before.incarnation(), before.version()).beginning_at(log[0].seq);
            assert_eq!(pruned.revision, expected);
            assert_eq!(chat.log().await, log);
            assert_eq!(chat.window(Load::new()).await.exchanges, log);
        }
        assert_eq!(chat.log().await, log);
    }
}
