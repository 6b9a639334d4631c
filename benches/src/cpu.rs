//! The work of processes of this machine, as Linux counts it.

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

/// Returns the numbers of system calls of this process that read, and that write.
#[must_use]
pub fn calls() -> [u64; 2] {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    ["syscr: ", "syscw: "].map(|name| {
        let count = io.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
        count.unwrap_or_default()
    })
}
