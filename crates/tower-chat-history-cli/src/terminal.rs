//! A terminal: texts for it, progress, and Ctrl-C.

use std::{fmt::Write as _, future, process, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp as Instant;
use tokio::{signal, sync::watch, task::JoinHandle};
use tower_chat_history_core::Timestamp;

/// The width of texts if the output is not a terminal, and the largest width.
const WIDTH: usize = 100;

/// The exit code of a program that was ended by Ctrl-C, in shells.
const INTERRUPTED: i32 = 130;

/// Returns the number of columns for text.
pub(crate) fn width() -> usize {
    let terminal = console::Term::stdout().size_checked();
    terminal.map_or(WIDTH, |(_, columns)| usize::from(columns).clamp(20, WIDTH))
}

/// Returns the text with escapes in place of the characters that a terminal would obey, except line breaks and tabs.
pub(crate) fn escaped(text: &str) -> String {
    escaped_except(text, &['\n', '\t'])
}

/// Returns a name, for example of a file, with escapes in place of all characters that a terminal would obey.
pub(crate) fn escaped_name(name: &str) -> String {
    escaped_except(name, &[])
}

fn escaped_except(text: &str, kept: &[char]) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_obeyed(character) && !kept.contains(&character) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Returns the JSON with escapes in place of the characters that a terminal would obey. They occur only in its strings,
/// except line breaks.
pub(crate) fn escaped_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if is_obeyed(character) && character != '\n' {
            // All of them have at most four digits. Writing to a string cannot fail.
            let _ = write!(shown, "\\u{:04x}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Returns the text in one line, without characters that a terminal would obey.
pub(crate) fn in_one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    escaped(&words.join(" "))
}

/// Returns `true` for control characters, and for those that change the direction of text.
fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Returns the beginning of a text that has at most this number of characters.
pub(crate) fn shortened(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the text, escaped and wrapped, with this indentation.
pub(crate) fn wrapped(text: &str, indent: &str, width: usize) -> String {
    let options = textwrap::Options::new(width).initial_indent(indent).subsequent_indent(indent);
    textwrap::fill(escaped(text).trim_end(), options)
}

/// Returns the time in UTC.
pub(crate) fn time(time: Timestamp) -> String {
    let millis = i64::try_from(time.as_unix_millis()).ok();
    match millis.and_then(|millis| Instant::from_millisecond(millis).ok()) {
        Some(time) => time.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        None => format!("{} ms", time.as_unix_millis()),
    }
}

/// Returns a size in bytes with a unit.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    #[allow(clippy::cast_precision_loss)] // It is shown with one decimal.
    let mut size = bytes as f64 / 1_000.0;
    let mut unit = 0;
    while size >= 999.95 && unit + 1 < UNITS.len() {
        size /= 1_000.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// Returns a number with a noun.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

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

/// Listens for Ctrl-C until the end of the program. The first one is a request to stop. The second one ends the
/// program.
#[derive(Debug)]
pub(crate) struct Interrupt {
    is_requested: watch::Receiver<bool>,
    _listener: JoinHandle<()>,
}

impl Interrupt {
    pub(crate) fn listen() -> Self {
        let (request, is_requested) = watch::channel(false);
        let listener = tokio::spawn(async move {
            // If there are no signals, Ctrl-C ends the program as usual.
            while signal::ctrl_c().await.is_ok() {
                if request.send_replace(true) {
                    process::exit(INTERRUPTED);
                }
            }
        });
        Self { is_requested, _listener: listener }
    }

    pub(crate) fn is_requested(&self) -> bool {
        *self.is_requested.borrow()
    }

    /// Waits for the first Ctrl-C.
    pub(crate) async fn requested(&mut self) {
        if self.is_requested.wait_for(|is_requested| *is_requested).await.is_err() {
            future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn terminals_obey_nothing_in_a_text() {
        assert_eq!(escaped("\u{1b}[2Jx\u{7}\u{9b}1m\u{202e}y\r"), "\\u{1b}[2Jx\\u{7}\\u{9b}1m\\u{202e}y\\u{d}");
        assert_eq!(escaped("a\n\tb ä 日本"), "a\n\tb ä 日本");
        assert_eq!(in_one_line(" a\n\u{1b}b "), "a \\u{1b}b");
        assert_eq!(escaped_name(" a\n\u{1b}b\t"), " a\\u{a}\\u{1b}b\\u{9}");
    }

    #[test]
    fn sizes_and_times_are_short() {
        let sizes = [0, 999, 1_000, 999_949, 999_950, 2_500_000_000].map(size);
        assert_eq!(sizes, ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "2.5 GB"]);
        assert_eq!(time(Timestamp::from_unix_millis(1_735_689_600_123)), "2025-01-01 00:00:00Z");
        assert_eq!(time(Timestamp::from_unix_millis(u64::MAX)), format!("{} ms", u64::MAX));
        assert_eq!((shortened("äbc", 2), shortened("äb", 2)), ("äb…".into(), "äb".into()));
    }

    proptest! {
        #[test]
        fn escaped_json_means_the_same(text in any::<String>(), before in any::<char>()) {
            let text = format!("{before}\u{9b}\u{7f}{text}");
            let shown = escaped_json(&serde_json::to_string(&text).unwrap());
            prop_assert!(!shown.chars().any(is_obeyed));
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }

        #[test]
        fn wrapped_text_has_no_control_characters(text in any::<String>()) {
            let shown = wrapped(&text, "  ", 40);
            prop_assert!(!shown.chars().any(|one| is_obeyed(one) && !matches!(one, '\n' | '\t')));
        }
    }
}
