//! The cost of a turn over the memory store beside the copy of its window by hand.
//!
//! The contestants alternate in one run: see [`Turns`]. The time of each is the median of its rounds, for windows of 4,
//! 60 and 400 messages of 250 bytes. The last column is the ratio to the copy by hand. The model is a mock whose
//! futures are boxed. Its time is a part of each time.
//!
//! `60-of-1000` has windows of 60 messages in 1,000 conversations, so that a window is not in the CPU's caches when its
//! turn begins. The other cases have one conversation.
//!
//! Three cases do something before each turn, as a wait for a server does in part: meanwhile, the operating system and
//! other programs use the CPU.
//!
//! - `60-after-2-mib` writes 2 MiB, which removes most of the program and the window from the first caches of the CPU.
//! - `60-cold` writes 128 MiB, which removes them from all caches.
//! - `60-after-sleep` sleeps for 150 microseconds.
//!
//! Run it with `cargo bench -p benches --bench turn`. To measure only some cases, name them: `-- 60 60-of-1000`.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{cell::RefCell, hint::black_box, thread, time::Duration};

use benches::{
    contest::{Contestant, paired},
    turns::Turns,
};
use tokio::runtime::Builder;

/// Turns with the same window.
struct Case {
    name: &'static str,
    /// The number of messages of a window.
    window: usize,
    conversations: usize,
    before: Before,
}

/// The work before each turn, which is not measured.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    /// Writes this many bytes.
    Write(usize),
    Sleep(Duration),
}

const fn case(name: &'static str, window: usize, conversations: usize, before: Before) -> Case {
    Case { name, window, conversations, before }
}

const CASES: [Case; 7] = [
    case("4", 4, 1, Before::Nothing),
    case("60", 60, 1, Before::Nothing),
    case("400", 400, 1, Before::Nothing),
    case("60-of-1000", 60, 1_000, Before::Nothing),
    case("60-after-2-mib", 60, 1, Before::Write(2 << 20)),
    // More than the caches of most CPUs.
    case("60-cold", 60, 1, Before::Write(128 << 20)),
    case("60-after-sleep", 60, 1, Before::Sleep(Duration::from_micros(150))),
];

const ROUNDS: usize = 300;
/// The number of turns of each contestant in a round.
const TURNS: usize = 40;

/// The number of rounds of cases that do something before each turn.
const SLOW_ROUNDS: usize = 60;
/// The number of turns of each contestant in such a round.
const SLOW_TURNS: usize = 2;

/// The size of a line of the CPU's caches, in bytes.
const LINE: usize = 64;

fn main() {
    let Some(is_selected) = benches::selected() else { return };
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    for Case { name, window, conversations, before } in CASES.into_iter().filter(|case| is_selected(case.name)) {
        let is_slow = before != Before::Nothing;
        let rounds = if is_slow { SLOW_ROUNDS } else { ROUNDS };
        let turns_of_round = if is_slow { SLOW_TURNS } else { TURNS };
        let memory = RefCell::new(match before {
            Before::Write(bytes) => vec![0_u8; bytes],
            Before::Nothing | Before::Sleep(_) => Vec::new(),
        });

        let runtime = &runtime;
        let memory = &memory;
        let mut contest = Vec::new();
        for kind in Turns::KINDS {
            let mut turns = Turns::of(kind, runtime, window, conversations);
            contest.push(Contestant::new(kind, move || {
                let time = turns.make(runtime, turns_of_round, || before.run(&mut memory.borrow_mut()));
                time / turns_of_round as u32
            }));
        }
        paired(&format!("window/{name}"), rounds, contest);
    }
}

impl Before {
    fn run(self, memory: &mut [u8]) {
        match self {
            Self::Nothing => {}
            Self::Write(_) => memory.iter_mut().step_by(LINE).for_each(|byte| *byte = black_box(1)),
            Self::Sleep(time) => thread::sleep(time),
        }
    }
}
