//! The record of the tables that a counter has built.

use std::sync::atomic::{AtomicBool, Ordering};

use super::encoding::Encoding;

/// The encodings whose tables one counter has built. It is a `static`, because tables are built once per process.
pub(super) struct Built {
    o200k: AtomicBool,
    cl100k: AtomicBool,
}

impl Built {
    pub(super) const fn new() -> Self {
        Self { o200k: AtomicBool::new(false), cl100k: AtomicBool::new(false) }
    }

    /// Notes that the tables are built.
    pub(super) fn note(&self, encoding: Encoding) {
        self.of(encoding).store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the tables are built.
    pub(super) fn has(&self, encoding: Encoding) -> bool {
        self.of(encoding).load(Ordering::Relaxed)
    }

    const fn of(&self, encoding: Encoding) -> &AtomicBool {
        match encoding {
            Encoding::O200k => &self.o200k,
            Encoding::Cl100k => &self.cl100k,
        }
    }
}
