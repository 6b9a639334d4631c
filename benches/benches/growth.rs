//! The cost of a turn as a log grows, and as a store has more conversations. It should stay the same.
//!
//! A turn is one of the whole layer: a load, a plan, a call of a model that answers at once, and an append of two
//! messages of 250 bytes. Windows have 60 to 80 messages, or the whole log if that is shorter. Each store has a
//! database for each size:
//!
//! - `log`: logs of 100 to 1,000,000 messages. Turns are made one after the other in one conversation, until its log
//!   has grown by a fifth.
//! - `conversations`: 1,000 to 1,000,000 conversations of one exchange each. Plain turns choose among all of them, in
//!   an order that is not sequential. Cached turns choose among a hundred, which are spread over all of them.
//!
//! Plain turns use the store, and cached turns a `CachedStore` over it. For each store and form, the sizes alternate in
//! one run. The median time of each is printed, with its ratio to that of the smallest size. For SQLite, the numbers of
//! system calls per turn that read and that write follow, on Linux. Nearly all are SQLite's: it reads pages that are
//! not in its caches, and writes changed pages to its log (WAL) and, at a checkpoint, to the file.
//!
//! Run it with `cargo bench -p benches --bench growth`. It starts the servers from the installed programs, and needs 8
//! GB of memory and 10 GB on the disks of the target directory and of `/tmp`. A server that is not installed is left
//! out, and a line reports that. To measure only some stores, name them: `-- sqlite` (with its default,
//! `Synchronous::Full`), `-- sqlite-normal`, `-- postgres` or `-- redis`. A run that measures all of them writes the
//! charts of `docs/reports/growth.md`.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use benches::{
    contest::{paired, timed},
    cpu,
    growth::{
        Base, FORMS, STORES, Turns, of_conversations, of_logs,
        plot::{self, Line, thousands},
    },
};
use tokio::runtime::Runtime;

/// The numbers of messages of a log.
const MESSAGES: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
/// The numbers of conversations of a store.
const CONVERSATIONS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// With the warm-up, fewer than the conversations of the smallest store, so that plain turns use each of them once.
const ROUNDS: usize = 900;
/// The number of turns whose reads and writes of files are counted.
const COUNTED: u64 = 300;

/// Compares the sizes, for each form. Adds the medians to the lines.
fn compare(store: &str, runtime: &Runtime, sizes: &[usize], filled: &[[Turns; 2]], lines: &mut Vec<Line>) {
    for (number, form) in FORMS.into_iter().enumerate() {
        let names: Vec<String> = sizes.iter().map(|size| thousands(*size as u64)).collect();
        let mut runs: Vec<_> =
            filled.iter().map(|forms| || runtime.block_on(timed(1, || forms[number].make()))).collect();
        let mut contest: Vec<(&str, &mut dyn FnMut() -> Duration)> = Vec::new();
        for (name, run) in names.iter().zip(&mut runs) {
            contest.push((name, run));
        }
        let medians = paired(&format!("{store}/{form}"), ROUNDS, &mut contest);
        if store.starts_with("sqlite") {
            for (name, forms) in names.iter().zip(filled) {
                let before = cpu::calls();
                runtime.block_on(timed(COUNTED, || forms[number].make()));
                let after = cpu::calls();
                let [reads, writes] = [0, 1].map(|kind| (after[kind] - before[kind]) as f64 / COUNTED as f64);
                println!("{store}/{form} {name:16} {reads:.1} reads and {writes:.1} writes per turn");
            }
        }
        lines.push(Line { store: store.into(), form, points: sizes.iter().copied().zip(medians).collect() });
    }
}

/// Fills databases of all sizes, and compares their turns.
fn bench(
    store: &str,
    runtime: &Runtime,
    sizes: &[usize],
    fill: &impl AsyncFn(&mut Base, usize) -> [Turns; 2],
    lines: &mut Vec<Line>,
) -> bool {
    let Some(mut base) = Base::of(store, env!("CARGO_TARGET_TMPDIR")) else { return false };
    let start = Instant::now();
    let mut filled = Vec::new();
    for size in sizes {
        filled.push(runtime.block_on(fill(&mut base, *size)));
    }
    println!("{store}: the databases were filled in {:.0} s", start.elapsed().as_secs_f64());
    compare(store, runtime, sizes, &filled, lines);
    // The turns hold the stores, which are closed before their servers end.
    drop(filled);
    true
}

fn main() {
    let Some(is_selected) = benches::selected() else { return };
    let runtime = Runtime::new().unwrap();
    let (mut log_lines, mut store_lines) = (Vec::new(), Vec::new());
    for store in STORES.into_iter().filter(|store| is_selected(store)) {
        println!("sizes: messages of a log");
        let logs = async |base: &mut Base, size| of_logs(base, size, ROUNDS + ROUNDS / 10).await;
        if !bench(store, &runtime, &MESSAGES, &logs, &mut log_lines) {
            continue;
        }
        println!("sizes: conversations of a store");
        bench(store, &runtime, &CONVERSATIONS, &of_conversations, &mut store_lines);
    }
    if store_lines.len() == STORES.len() * FORMS.len() {
        let reports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reports");
        plot::write(&reports.join("growth.svg"), "messages of the log", &log_lines);
        plot::write(&reports.join("growth-conversations.svg"), "conversations of the store", &store_lines);
    }
}
