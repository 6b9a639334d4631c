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
    env, process,
    time::{Duration, Instant},
};

use benches::{
    cpu,
    growth::{Base, FORMS, STORES, of_windows},
};
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
            let forms = of_windows(&mut base, 1_000).await;
            base.watch().await;
            for (name, of_form) in FORMS.iter().zip(&forms) {
                if form.as_ref().is_some_and(|form| form != name) {
                    continue;
                }
                let processes = base.processes().await;
                let before = (cpu::of(&[process::id()]), cpu::of(&processes), base.reported().await);
                let start = Instant::now();
                for _ in 0..turns {
                    of_form.make().await;
                }
                let time = start.elapsed();
                let client = cpu::of(&[process::id()]) - before.0;
                let server = cpu::of(&processes) - before.1;
                if store == "postgres" {
                    // It publishes the statistics of a session after ten idle seconds.
                    tokio::time::sleep(Duration::from_secs(12)).await;
                }
                let reported = base.reported().await;
                let of = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(turns);
                let (statements, flush) = (reported[0] - before.2[0], reported[1] - before.2[1]);
                println!(
                    "{store:14} {name:8} {:8.1} {:8.1} {:8.1} {:8.1} {:8.1} {:8.1}",
                    of(time),
                    of(client.on),
                    of(server.on),
                    of(statements),
                    of(flush),
                    of(client.queued + server.queued),
                );
            }
        });
    }
}
