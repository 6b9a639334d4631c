//! Progress on standard error, if it is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line that shows how far a command is. It is not shown if standard error is not a terminal.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Shows a text that changes, for work of unknown length.
    pub(crate) fn spinner() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(style("{spinner} {msg}"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Shows nothing.
    pub(crate) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Shows a bar for this amount of work.
    pub(crate) fn bar(total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        bar.set_style(style("{wide_bar} {percent}% {msg} {eta}"));
        Self(bar)
    }

    /// Shows this text.
    pub(crate) fn say(&self, text: String) {
        self.0.set_message(text);
    }

    /// Sets the amount of work that is done.
    pub(crate) fn set(&self, done: u64) {
        self.0.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
