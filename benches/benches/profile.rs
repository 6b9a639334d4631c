//! One kind of turn, many times, for a profiler.
//!
//! The arguments are the kind of turn, the number of messages in the window, and the number of turns. Only what is
//! below the function `measured` is of interest: the rest restores the window between turns.
//!
//! ```sh
//! export CARGO_PROFILE_BENCH_DEBUG=line-tables-only
//! cargo bench -p benches --bench profile --no-run    # prints the path of the program
//! valgrind --tool=callgrind --toggle-collect='*measured*' PROGRAM --bench typed 60 300
//! callgrind_annotate --inclusive=yes callgrind.out.*
//! ```
//!
//! With `--dump-instr=yes`, the profile also has the places of the instructions. `benches/code.py` then prints how much
//! code a turn executes.
//!
//! The kinds are those of [`Turns::KINDS`], and `sqlite`, for which `benches/figures.py` counts the files that a turn
//! crosses. SQLite's calls run in threads of their own, which are not below `measured`.
#![allow(clippy::unwrap_used)] // Benches may panic.

use benches::turns::Turns;
use tokio::runtime::Builder;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [kind, window, turns] = &*arguments else { return };

    // By default every store call has a timeout, which needs the timer.
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    Turns::of(kind, &runtime, window.parse().unwrap(), 1).make(&runtime, turns.parse().unwrap(), || ());
}
