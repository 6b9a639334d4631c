//! The time that processes of this machine were on a CPU, as Linux counts it.

use std::{fs, ops::Sub, time::Duration};

/// Times of all threads of some processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// The time on a CPU.
    pub on: Duration,
    /// The time in which a thread could run, and waited for a CPU.
    pub queued: Duration,
}

impl Sub for Cpu {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self { on: self.on.saturating_sub(earlier.on), queued: self.queued.saturating_sub(earlier.queued) }
    }
}

/// Returns the times of the processes with these ids. Processes that have ended are left out.
#[must_use]
pub fn of(processes: &[u32]) -> Cpu {
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
