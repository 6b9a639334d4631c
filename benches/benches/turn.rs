//! The cost of a turn over the memory store beside the copy of its window by hand.
//!
//! The contestants alternate in one run: see [`Turns`]. The time of each is the median of its rounds, for windows of 4,
//! 60 and 400 messages of 250 bytes. The last column is the ratio to the copy by hand. The model is a mock whose
//! futures are boxed. Its time is a part of each time.
//!
//! `60-of-1000` has windows of 60 messages in 1,000 conversations, so that a window is not in the CPU's caches when its
//! turn begins. The other cases have one conversation.
//!
//! `60-cold` writes 128 MiB before each turn, which removes most of the program and the window from the caches. A wait
//! for a server does the same in part: meanwhile, the operating system and other programs use the caches.
//!
//! Run it with `cargo bench -p benches --bench turn`. To measure only some cases, name them: `-- 60 60-of-1000`.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{cell::RefCell, hint::black_box, time::Duration};

use benches::{contest::paired, turns::Turns};
use tokio::runtime::Builder;

/// The name of a case, the number of messages of its windows, and the number of conversations.
const CASES: [(&str, usize, usize); 5] =
    [("4", 4, 1), ("60", 60, 1), ("400", 400, 1), ("60-of-1000", 60, 1_000), (COLD, 60, 1)];
/// The case whose turns find little in the CPU's caches.
const COLD: &str = "60-cold";

const ROUNDS: usize = 300;
/// The number of turns of each contestant in a round.
const TURNS: usize = 40;

/// The number of rounds of cold turns. There are few, because emptying the caches takes milliseconds.
const COLD_ROUNDS: usize = 60;
/// The number of cold turns of each contestant in a round.
const COLD_TURNS: usize = 2;

/// The size of the memory that is written before a cold turn, in bytes. It is larger than the caches of most CPUs.
const LARGER_THAN_CACHES: usize = 128 << 20;

/// The size of a line of the CPU's caches, in bytes.
const LINE: usize = 64;

fn main() {
    let Some(is_selected) = benches::selected() else { return };
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    for (case, window, conversations) in CASES.into_iter().filter(|(case, ..)| is_selected(case)) {
        let mut kinds = Turns::KINDS.map(|kind| (kind, Turns::of(kind, &runtime, window, conversations)));
        let is_cold = case == COLD;
        let (rounds, times) = if is_cold { (COLD_ROUNDS, COLD_TURNS) } else { (ROUNDS, TURNS) };
        let memory = RefCell::new(vec![0_u8; if is_cold { LARGER_THAN_CACHES } else { 0 }]);
        let before_each = || memory.borrow_mut().iter_mut().step_by(LINE).for_each(|byte| *byte = black_box(1));
        let mut runs: Vec<_> = kinds
            .iter_mut()
            .map(|(kind, turns)| (*kind, || turns.make(&runtime, times, before_each) / times as u32))
            .collect();
        let mut contest: Vec<(&str, &mut dyn FnMut() -> Duration)> = Vec::new();
        for (kind, run) in &mut runs {
            contest.push((kind, run));
        }
        paired(&format!("window/{case}"), rounds, &mut contest);
    }
}
