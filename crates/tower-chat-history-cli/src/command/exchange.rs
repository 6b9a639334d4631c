//! Exchanges and parts of messages as texts.

use tower_chat_history_core::{Part, Recorded};

use crate::terminal::{in_one_line, time};

/// Returns the line above an exchange.
pub(super) fn title(recorded: &Recorded) -> String {
    let exchange = &recorded.exchange;
    let mut title = format!("── {} · {}", recorded.seq, time(exchange.at));
    if let Some(model) = &exchange.model {
        title += &format!(" · {}", in_one_line(model));
    }
    if let Some(usage) = exchange.usage {
        title += &format!(" · {} → {} tokens", usage.input_tokens, usage.output_tokens);
    }
    if exchange.incomplete {
        title += " · interrupted";
    }
    title
}

/// Returns the text of a part, or `None` if there is nothing to read. `aside` makes the form of what is not the
/// conversation itself, such as arguments of calls. The text is not escaped.
pub(super) fn part(part: &Part<'_>, aside: &dyn Fn(&str) -> String) -> Option<String> {
    Some(match part {
        Part::Text(text) | Part::Refusal(text) => text.to_string(),
        Part::Reasoning(text) => format!("(reasoning) {}", aside(text)),
        Part::Call(call) => format!("→ {}({}) [{}]", call.name(), aside(call.arguments()), call.id()),
        Part::OtherCall { name, arguments } => format!("→ {name}({})", aside(arguments)),
        Part::Result { call, text } => format!("← [{}] {}", call.as_str(), aside(text)),
        Part::Media { kind, words: Some(words), .. } => format!("({kind}) {}", aside(words)),
        Part::Media { kind, .. } => format!("({kind})"),
        Part::Other { kind, text } => format!("({kind}) {}", aside(text)),
        // Only the provider can read it.
        _ => return None,
    })
}
