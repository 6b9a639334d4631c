//! Paired measurements: contestants that do the same work alternate in one run.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use futures_util::future::try_join_all;
use tokio::runtime::Runtime;

/// The number of concurrent callers, and of the turns that each of them makes in a round.
pub const TASKS: usize = 64;
/// See [`TASKS`].
pub const TURNS: usize = 8;

/// The conversations of one contestant, in a fixed order that is not sequential. Each conversation is used once before
/// the order repeats. Each contestant has its own conversations, so that it never works on one that another contestant
/// has extended.
#[derive(Debug)]
pub struct Circle {
    from: usize,
    len: usize,
    turns: AtomicUsize,
}

impl Circle {
    /// Creates a circle of `len` conversations, starting with number `from`.
    #[must_use]
    pub const fn new(from: usize, len: usize) -> Self {
        Self { from, len, turns: AtomicUsize::new(0) }
    }

    /// Returns the number of the next conversation.
    pub fn next(&self) -> usize {
        self.next_in_lap().0
    }

    /// Returns the number of the next conversation, and how often each conversation was used before.
    pub fn next_in_lap(&self) -> (usize, usize) {
        let turn = self.turns.fetch_add(1, Relaxed);
        (self.from + turn.wrapping_mul(7_919) % self.len, turn / self.len)
    }
}

/// Runs all callers concurrently. Each caller makes its turns one after another. (A turn chooses its conversation
/// when it begins.)
pub async fn crowd<F: Future<Output = ()> + Send + 'static>(turn: impl Fn() -> F) {
    let mut callers = Vec::new();
    for _ in 0..TASKS {
        let turns: Vec<F> = (0..TURNS).map(|_| turn()).collect();
        callers.push(tokio::spawn(async move {
            for turn in turns {
                turn.await;
            }
        }));
    }
    try_join_all(callers).await.unwrap();
}

/// Returns the time of `times` runs of this work.
pub async fn timed<F: Future<Output = ()>>(times: u64, work: impl Fn() -> F) -> Duration {
    let start = Instant::now();
    for _ in 0..times {
        work().await;
    }
    start.elapsed()
}

/// A contestant: its name, and its run, which returns the measured time.
#[allow(missing_debug_implementations)]
pub struct Contestant<'a> {
    name: String,
    run: Box<dyn FnMut() -> Duration + 'a>,
}

impl<'a> Contestant<'a> {
    /// Creates a contestant whose run measures itself.
    pub fn new(name: impl Into<String>, run: impl FnMut() -> Duration + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }

    /// Creates a contestant whose run is this work, from its beginning to its end.
    pub fn of<F: Future<Output = ()>>(
        name: impl Into<String>,
        runtime: &'a Runtime,
        work: impl Fn() -> F + 'a,
    ) -> Self {
        Self::new(name, move || runtime.block_on(timed(1, &work)))
    }
}

/// Runs the contestants alternately. Prints the median time of each, and its ratio to that of the first contestant.
/// Returns the medians in microseconds.
#[allow(clippy::must_use_candidate)] // It prints.
pub fn paired(title: &str, rounds: usize, mut contest: Vec<Contestant<'_>>) -> Vec<f64> {
    let mut times = vec![Vec::new(); contest.len()];
    for round in 0..rounds + rounds / 10 {
        for (times, contestant) in times.iter_mut().zip(&mut contest) {
            let time = (contestant.run)();

            // The first rounds are a warm-up.
            if round >= rounds / 10 {
                times.push(time);
            }
        }
    }

    let mut medians = Vec::new();
    for mut times in times {
        times.sort_unstable();
        medians.push(times[times.len() / 2].as_secs_f64() * 1e6);
    }

    let first = medians.first().copied().unwrap_or_default();
    for (Contestant { name, .. }, median) in contest.iter().zip(&medians) {
        println!("{title:16} {name:16} {median:10.1} us {:6.2} times the first", median / first);
    }
    medians
}
