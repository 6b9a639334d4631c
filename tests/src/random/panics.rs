//! Unintentional panics. The panic hook of the process counts them wherever they happen, whether caught or
//! not.

use std::sync::{Mutex, Once, PoisonError};

/// The start of the message of an intentional panic.
const ON_PURPOSE: &str = "on purpose: ";

static UNEXPECTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Sets the panic hook of the process. It records panics and prints nothing.
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

/// Returns the number of unintentional panics so far.
pub(super) fn unexpected() -> usize {
    noted().len()
}

/// Returns the unintentional panics after the first `before` ones.
pub(super) fn since(before: usize) -> Vec<String> {
    noted().get(before..).unwrap_or_default().to_vec()
}

/// Panics intentionally, in a summarizer, counter or store of a test.
pub(super) fn on_purpose(what: &str) -> ! {
    panic!("{ON_PURPOSE}{what}")
}
