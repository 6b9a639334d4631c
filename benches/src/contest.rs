//! Comparing what does the same, in one run.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use futures_util::future::try_join_all;

/// Callers at the same time, and how many turns each of them makes in a round.
pub const TASKS: usize = 64;
/// See [`TASKS`].
pub const TURNS: usize = 8;

/// Conversations of one contestant, which come up in a fixed order that jumps: all of them before one comes up again. Others have
/// others, so that nobody finds the end of a conversation that was left by somebody else.
#[derive(Debug)]
pub struct Circle {
    from: usize,
    len: usize,
    turns: AtomicUsize,
}

impl Circle {
    /// So many of them, from that number on.
    #[must_use]
    pub const fn new(from: usize, len: usize) -> Self {
        Self { from, len, turns: AtomicUsize::new(0) }
    }

    /// The number of the next one.
    pub fn next(&self) -> usize {
        self.from + self.turns.fetch_add(1, Relaxed).wrapping_mul(7_919) % self.len
    }
}

/// All callers at once, each making its turns one after the other. (A turn that chooses its conversation does so when it begins.)
pub async fn crowd<F: Future<Output = ()> + Send + 'static>(turn: impl Fn() -> F) {
    let callers = (0..TASKS).map(|_| {
        let turns: Vec<F> = (0..TURNS).map(|_| turn()).collect();
        tokio::spawn(async move {
            for turn in turns {
                turn.await;
            }
        })
    });
    try_join_all(callers).await.unwrap();
}

/// How long that work takes so many times.
pub async fn timed<F: Future<Output = ()>>(times: u64, work: impl Fn() -> F) -> Duration {
    let start = Instant::now();
    for _ in 0..times {
        work().await;
    }
    start.elapsed()
}

/// What is compared, by name: how long one of it takes.
pub type Contest<'a> = [(&'a str, &'a mut dyn FnMut() -> Duration)];

/// Lets them take turns, and prints the median of each and how much that is of the first one's.
pub fn paired(title: &str, rounds: usize, contest: &mut Contest<'_>) {
    let mut times = vec![Vec::new(); contest.len()];
    for round in 0..rounds + rounds / 10 {
        for (times, (_, run)) in times.iter_mut().zip(contest.iter_mut()) {
            let time = run();
            // The first tenth is to warm up.
            if round >= rounds / 10 {
                times.push(time);
            }
        }
    }
    let medians = times.iter_mut().map(|times| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e6
    });
    let medians: Vec<f64> = medians.collect();
    let first = medians.first().copied().unwrap_or_default();
    for ((name, _), median) in contest.iter().zip(medians) {
        println!("{title:16} {name:16} {median:10.1} us {:6.2} of the first", median / first);
    }
}
