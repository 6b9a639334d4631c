//! Where the time of a turn over a store goes: this process, the server, and the rest.
//!
//! A turn is one of the whole layer, with a window of 60 to 80 messages, in one of 1,000 conversations. Turns are made
//! one after the other, plain and over a `CachedStore`. For each store and form, it prints in microseconds per turn:
//!
//! - `turn`: the mean time of a turn;
//! - `client`: the time of this process on a CPU;
//! - `server`: the time of the server's processes on a CPU;
//! - `statements`: the time of the server's functions or scripts, as it reports it;
//! - `flush`: the time that PostgreSQL waits for its log on the disk;
//! - `queued`: the time in which threads of either waited for a CPU. On a quiet machine it is small.
//!
//! Linux counts the times on a CPU. Waits for the disk and for wake-ups are the rest of a turn's time.
//!
//! Run it with `cargo bench -p benches --bench stores`. A server that is not installed is left out. To measure only
//! some, name them: `-- sqlite-normal postgres`. With `TURNS=200000` in the environment, it makes more turns than the
//! default, 10,000, so that a profiler can attach to it. `FORM=plain` or `FORM=cached` selects a form.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{
    env, fs,
    ops::Sub,
    process,
    time::{Duration, Instant},
};

use benches::growth::{Base, FORMS, STORES, Turns, of_windows};
use tokio::runtime::Runtime;

fn main() {
    let Some(is_selected) = benches::selected() else { return };
    let turns: u32 = env::var("TURNS").map_or(10_000, |turns| turns.parse().unwrap());
    let form = env::var("FORM").ok();
    let runtime = Runtime::new().unwrap();
    println!("us per turn: store, form, turn, client, server, statements, flush, queued");

    for store in STORES.into_iter().filter(|store| is_selected(store)) {
        let Some(mut base) = Base::of(store, env!("CARGO_TARGET_TMPDIR")) else { continue };
        runtime.block_on(async {
            let filled = of_windows(&mut base, 1_000).await;
            base.watch().await;
            for (name, of_form) in FORMS.iter().zip(&filled) {
                if form.as_ref().is_none_or(|form| form == name) {
                    let parts = measure(&base, of_form, turns).await;
                    let parts: Vec<String> = parts
                        .iter()
                        .map(|time| format!("{:8.1}", time.as_secs_f64() * 1e6 / f64::from(turns)))
                        .collect();
                    println!("{store:14} {name:8} {}", parts.join(" "));
                }
            }
        });
    }
}

/// Makes the turns, and returns the times of all of them together: turn, client, server, statements, flush, queued.
async fn measure(base: &Base, of_form: &Turns, turns: u32) -> [Duration; 6] {
    let processes = base.processes().await;
    let client_before = cpu_of(&[process::id()]);
    let server_before = cpu_of(&processes);
    let reported_before = base.reported().await;

    let start = Instant::now();
    for _ in 0..turns {
        of_form.make().await;
    }
    let time = start.elapsed();

    let client = cpu_of(&[process::id()]) - client_before;
    let server = cpu_of(&processes) - server_before;
    if matches!(base, Base::Postgres(..)) {
        // It publishes the statistics of a session after ten idle seconds.
        tokio::time::sleep(Duration::from_secs(12)).await;
    }
    let reported = base.reported().await;
    let statements = reported[0] - reported_before[0];
    let flush = reported[1] - reported_before[1];
    [time, client.on, server.on, statements, flush, client.queued + server.queued]
}

/// Times of all threads of some processes.
#[derive(Clone, Copy, Default)]
struct Cpu {
    /// The time on a CPU.
    on: Duration,
    /// The time in which a thread could run, and waited for a CPU.
    queued: Duration,
}

impl Sub for Cpu {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self { on: self.on.saturating_sub(earlier.on), queued: self.queued.saturating_sub(earlier.queued) }
    }
}

/// Returns the times of the processes with these ids. Processes that have ended are left out.
fn cpu_of(processes: &[u32]) -> Cpu {
    let mut sum = Cpu::default();
    let folders = processes.iter().filter_map(|id| fs::read_dir(format!("/proc/{id}/task")).ok());
    for thread in folders.flatten().filter_map(Result::ok) {
        let Ok(times) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
        let mut times = times.split_whitespace().map(|time| Duration::from_nanos(time.parse().unwrap()));
        sum.on += times.next().unwrap_or_default();
        sum.queued += times.next().unwrap_or_default();
    }
    sum
}
