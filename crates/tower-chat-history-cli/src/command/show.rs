//! `chat-history show`, and the texts of exchanges for other commands.

use std::io::Write;

use tower_chat_history_core::{ConversationId, Erase, Listed, Message, Part, Prefix, Recorded, Seq};

use crate::{
    args::Show,
    outcome::{Failure, Outcome},
    terminal::{self, count, in_one_line, shortened, time, wrapped},
};

/// The number of exchanges that are read per call of the store.
const PAGE: usize = 64;

/// The number of characters of a call or a result, unless they are shown in full.
const SHORT: usize = 300;

/// The least number of characters of encrypted labels. The version, the key id, the nonce and the tag of an encrypted
/// text are that long.
const MIN_SEALED_LABELS: usize = 66;

pub(crate) async fn run(store: &dyn Erase, args: &Show, out: &mut (dyn Write + Send)) -> Result<Outcome, Failure> {
    let listed = describe(store, &args.id).await?;
    let style = Style { width: terminal::width(), is_long: args.long };
    write_head(&listed, style, out)?;

    let first = listed.revision.first();
    let end = listed.revision.next();
    let last = Seq::new(end.get().saturating_sub(args.last as u64)).max(first);
    let mut next = args.from.unwrap_or(if args.all { first } else { last }).max(first);
    if next > first && args.from.is_none() {
        let earlier = count(next.get() - first.get(), "earlier exchange", "earlier exchanges");
        writeln!(out, "\n({earlier}: --all shows the whole conversation)")?;
    }

    while next < end {
        let page = store.read(&args.id, next, PAGE).await?;
        // If the log was replaced or pruned in the meantime, the rest is not what the head describes.
        let is_same = page.revision.is_some_and(|now| now.incarnation() == listed.revision.incarnation());
        if !is_same || page.exchanges.first().is_none_or(|recorded| recorded.seq >= end) {
            writeln!(out, "\n(the rest was removed in the meantime)")?;
            break;
        }
        for recorded in page.exchanges.into_iter().take_while(|recorded| recorded.seq < end) {
            next = recorded.seq.next();
            write_exchange(&recorded, style, out)?;
        }
    }
    Ok(Outcome::Done)
}

#[derive(Clone, Copy)]
struct Style {
    width: usize,
    is_long: bool,
}

impl Style {
    /// Returns a text that is not the conversation itself: in one line and shortened, or in full.
    fn aside(self, text: &str) -> String {
        if self.is_long { text.to_owned() } else { shortened(&in_one_line(text), SHORT) }
    }
}

fn write_head(listed: &Listed, style: Style, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    writeln!(out, "{}", listed.id)?;
    let exchanges = count(listed.revision.len(), "exchange", "exchanges");
    let created = time(listed.created_at);
    let updated = time(listed.updated_at);
    writeln!(out, "{exchanges}, {}, created {created}, updated {updated}", terminal::size(listed.bytes))?;
    if has_sealed_labels(listed) {
        return Ok(writeln!(out, "(encrypted labels)")?);
    }
    for (name, value) in listed.labels.iter() {
        writeln!(out, "{}", wrapped(&format!("{}: {}", in_one_line(name), in_one_line(value)), "", style.width))?;
    }
    Ok(())
}

fn write_exchange(recorded: &Recorded, style: Style, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    writeln!(out, "\n{}", title(recorded))?;
    let exchange = &recorded.exchange;
    if let Some(recalled) = &exchange.recalled {
        let is_sealed = exchange.sealed.is_some();
        let text = if is_sealed { "(encrypted)".into() } else { style.aside(&recalled.message.text()) };
        writeln!(out, "recalled\n{}", wrapped(&text, "  ", style.width))?;
    }
    if let Some(sealed) = &exchange.sealed {
        let messages = count(sealed.messages() as u64, "message", "messages");
        writeln!(out, "(encrypted: {messages}, {})", terminal::size(sealed.bytes() as u64))?;
    }
    for message in &exchange.messages {
        write_message(message, style, out)?;
    }
    Ok(())
}

fn write_message(message: &Message, style: Style, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    if message.dialect().is_none() {
        let json = shortened(&in_one_line(message.json()), SHORT);
        writeln!(
            out,
            "(a message in a format that this program does not know)\n{}",
            wrapped(&json, "  ", style.width)
        )?;
        return Ok(());
    }

    let mut lines = Vec::new();
    let mut name = String::new();
    message.parts(&mut |part| match part {
        Part::Name(text) => name = format!(" ({})", in_one_line(text)),
        part => lines.extend(part_text(&part, &|text| style.aside(text))),
    });

    writeln!(out, "{}{name}", in_one_line(message.role().as_str()))?;
    for line in lines {
        writeln!(out, "{}", wrapped(&line, "  ", style.width))?;
    }
    Ok(())
}

/// Returns the facts about a conversation.
pub(super) async fn describe(store: &dyn Erase, id: &ConversationId) -> Result<Listed, Failure> {
    if let Some(listed) = store.describe(id).await? {
        return Ok(listed);
    }
    let has_others = !store.list(&Prefix::from(id), None, 1).await?.conversations.is_empty();
    let id = id.to_string();
    Err(if has_others { Failure::OnlyUnder(id) } else { Failure::NoConversation(id) })
}

/// Returns `true` if the labels are encrypted. A label of the user's own that has the same name is usually shorter, or
/// has other characters.
pub(super) fn has_sealed_labels(listed: &Listed) -> bool {
    let Some(text) = listed.labels.as_sealed() else { return false };
    text.len() >= MIN_SEALED_LABELS
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

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
pub(super) fn part_text(part: &Part<'_>, aside: &dyn Fn(&str) -> String) -> Option<String> {
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
