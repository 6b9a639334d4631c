//! The cost of a turn over the memory store beside the copy of its window by hand.
//!
//! The contestants alternate in one run: see [`Turns`]. The time of each is the median of its rounds, for windows of 4,
//! 60 and 400 messages of 250 bytes. The last column is the ratio to the copy by hand. The model is a mock whose
//! futures are boxed. Its time is a part of each time.
//!
//! Run it with `cargo bench -p benches --bench turn`. To measure only some windows, name their sizes: `-- 60`.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::time::Duration;

use benches::{contest::paired, turns::Turns};
use tokio::runtime::Builder;

const WINDOWS: [usize; 3] = [4, 60, 400];
const ROUNDS: usize = 300;

/// The number of turns of each contestant in a round.
const TURNS: usize = 40;

fn main() {
    let Some(is_selected) = benches::selected() else { return };
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    for window in WINDOWS.into_iter().filter(|window| is_selected(&window.to_string())) {
        let mut kinds = Turns::KINDS.map(|kind| (kind, Turns::of(kind, &runtime, window)));
        let mut runs: Vec<_> =
            kinds.iter_mut().map(|(kind, turns)| (*kind, || turns.make(&runtime, TURNS) / TURNS as u32)).collect();
        let mut contest: Vec<(&str, &mut dyn FnMut() -> Duration)> = Vec::new();
        for (kind, run) in &mut runs {
            contest.push((kind, run));
        }
        paired(&format!("window/{window}"), ROUNDS, &mut contest);
    }
}
