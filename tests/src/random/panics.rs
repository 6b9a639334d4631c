//! Panics that nobody asked for: the process's hook counts them wherever they happen, caught or not.

use std::sync::{Mutex, Once, PoisonError};

/// How a panic on purpose begins.
const ON_PURPOSE: &str = "on purpose: ";

static UNEXPECTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Sets the process's panic hook: panics are noted in place of being printed.
pub fn count_panics() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let payload = info.payload();
            let text = payload.downcast_ref::<&str>().copied();
            let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text");
            if !text.starts_with(ON_PURPOSE) {
                let place = info.location().map(ToString::to_string).unwrap_or_default();
                noted().push(format!("{place}: {text}"));
            }
        }));
    });
}

fn noted() -> std::sync::MutexGuard<'static, Vec<String>> {
    UNEXPECTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many panics there were that nobody asked for.
pub(super) fn unexpected() -> usize {
    noted().len()
}

/// Those since then.
pub(super) fn since(before: usize) -> Vec<String> {
    noted().get(before..).unwrap_or_default().to_vec()
}

/// Panics as a test's own summarizer, counter or store does.
pub(super) fn on_purpose(what: &str) -> ! {
    panic!("{ON_PURPOSE}{what}")
}
