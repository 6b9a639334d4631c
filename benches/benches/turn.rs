//! The cost of a turn over the memory store beside the copy of its window by hand.
//!
//! The contestants alternate in one run: see [`Turns`]. The time of each is the median of its rounds, for windows of 4,
//! 60 and 400 messages of 250 bytes. The last column is the ratio to the copy by hand. The model is a mock whose
//! futures are boxed. Its time is a part of each time.
//!
//! `60-of-1000` has windows of 60 messages in 1,000 conversations, so that a window is not in the CPU's caches when its
//! turn begins. The other cases have one conversation.
//!
//! Run it with `cargo bench -p benches --bench turn`. To measure only some cases, name them: `-- 60 60-of-1000`.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::time::Duration;

use benches::{contest::paired, turns::Turns};
use tokio::runtime::Builder;

/// The name of a case, the number of messages of its windows, and the number of conversations.
const CASES: [(&str, usize, usize); 4] = [("4", 4, 1), ("60", 60, 1), ("400", 400, 1), ("60-of-1000", 60, 1_000)];
const ROUNDS: usize = 300;

/// The number of turns of each contestant in a round.
const TURNS: usize = 40;

fn main() {
    let Some(is_selected) = benches::selected() else { return };
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    for (case, window, conversations) in CASES.into_iter().filter(|(case, ..)| is_selected(case)) {
        let mut kinds = Turns::KINDS.map(|kind| (kind, Turns::of(kind, &runtime, window, conversations)));
        let mut runs: Vec<_> =
            kinds.iter_mut().map(|(kind, turns)| (*kind, || turns.make(&runtime, TURNS) / TURNS as u32)).collect();
        let mut contest: Vec<(&str, &mut dyn FnMut() -> Duration)> = Vec::new();
        for (kind, run) in &mut runs {
            contest.push((kind, run));
        }
        paired(&format!("window/{case}"), ROUNDS, &mut contest);
    }
}
