//! An explained prompt as a table.

use std::{fmt, io::Write};

use tower_chat_history::explain::{Explanation, Fate, NotKnown, Row, SizedMessage, Subject, Why};
use tower_chat_history_core::{ConversationId, Message, Origin, Seq};

use crate::{
    command::exchange,
    outcome::Failure,
    terminal::{self, count, in_one_line, shortened, size},
};

/// The columns before the text.
const COLUMNS: [&str; 5] = ["POSITION", "ROLE", "SIZE", "TOKENS", "WHAT HAPPENED"];

/// The number of spaces between two columns.
const GAP: usize = 2;

/// The number of characters of a role.
const ROLE: usize = 12;

/// The least number of characters of a text.
const LEAST_TEXT: usize = 20;

/// One message, or several exchanges that were not read.
struct Line<'a> {
    cells: [String; COLUMNS.len()],
    message: Option<&'a Message>,
}

pub(super) fn write(
    id: &ConversationId,
    explanation: &Explanation,
    out: &mut (dyn Write + Send),
) -> Result<(), Failure> {
    let exchange = &explanation.exchange.exchange;
    writeln!(out, "{id}\n\n{}", exchange::title(&explanation.exchange))?;
    if let Ok(rows) = &explanation.prompt {
        let lines: Vec<Line<'_>> = rows.iter().flat_map(|row| lines(row, explanation.exchange.seq)).collect();
        write_lines(&lines, out)?;
        writeln!(out)?;
        write_sums(rows, out)?;
    }

    if let Some(provenance) = &exchange.provenance {
        let estimated = number("estimated", provenance.tokens);
        let reported = number("reported", exchange.usage.map(|usage| usage.input_tokens));
        writeln!(out, "tokens     {estimated}, {reported} (with instructions and tools)")?;
        writeln!(out, "renderer   version {}", provenance.renderer)?;
        writeln!(out, "provider   {}", provider(&provenance.origin))?;
    }

    match &explanation.prompt {
        Ok(_) => writeln!(out, "digest     agrees: this is the prompt that was sent")?,
        Err(reason @ NotKnown::Differs) => writeln!(
            out,
            "digest     does not agree: {reason}. This command uses default options, except those that you set."
        )?,
        Err(reason) => writeln!(out, "prompt     not known: {reason}")?,
    }
    Ok(())
}

/// Returns the lines of a row. Exchanges before the window have two if a summary covers a part of them.
fn lines(row: &Row, explained: Seq) -> Vec<Line<'_>> {
    if let Subject::Before { from, to, covers_to } = row.subject {
        let covered_to = covers_to.unwrap_or(from).min(to);
        let mut lines = Vec::new();
        if from < covered_to {
            lines.push(line(range(from, covered_to), None, "summarized".to_owned()));
        }
        if covered_to.max(from) < to {
            lines.push(line(range(covered_to.max(from), to), None, what_happened(row)));
        }
        return lines;
    }

    let position = match row.subject {
        Subject::Summary { covers_to } => range(Seq::FIRST, covers_to),
        Subject::Meanwhile { from, to } => range(from, to),
        Subject::Logged { seq, .. } | Subject::Recalled { seq } | Subject::StoodIn { seq } => seq.to_string(),
        Subject::Input { .. } => explained.to_string(),
        _ => String::new(),
    };
    vec![line(position, row.sent.as_ref().or(row.stored.as_ref()), what_happened(row))]
}

fn line(position: String, shown: Option<&SizedMessage>, what: String) -> Line<'_> {
    let Some(shown) = shown else {
        return Line { cells: [position, String::new(), String::new(), String::new(), what], message: None };
    };
    let role = shortened(&in_one_line(shown.message.role().as_str()), ROLE);
    let cells = [position, role, size(shown.bytes() as u64), shown.tokens.to_string(), what];
    Line { cells, message: Some(&shown.message) }
}

/// Returns the positions from `from` to before `to`.
fn range(from: Seq, to: Seq) -> String {
    let last = to.get().saturating_sub(1);
    if from.get() == last { from.to_string() } else { format!("{from}–{last}") }
}

fn what_happened(row: &Row) -> String {
    let before = row.stored.as_ref().map_or_else(String::new, |stored| size(stored.bytes() as u64));
    match row.fate {
        Fate::Sent => sent_as(&row.subject).to_owned(),
        Fate::InPart => format!("sent in part, of {before}"),
        Fate::Cleared => format!("cleared, of {before}"),
        Fate::LeftOut(why) => format!("left out: {}", reason(why)),
        _ => "something else".to_owned(),
    }
}

const fn sent_as(subject: &Subject) -> &'static str {
    match subject {
        Subject::Summary { .. } => "summary",
        Subject::Recalled { .. } => "recalled",
        Subject::StoodIn { .. } => "stood in",
        Subject::Logged { translated: true, .. } => "sent, translated",
        _ => "sent",
    }
}

const fn reason(why: Why) -> &'static str {
    match why {
        Why::BeforeWindow => "before the window",
        Why::Later => "stored later",
        Why::Round => "old round of calls",
        Why::Reasoning => "only reasoning",
        Why::Recalled => "recalled earlier",
        Why::StoodFor => "compacted by the provider",
        Why::OtherAttempt => "another attempt was sent",
        Why::Blank => "blank",
        Why::NoOpenCall => "answers no open call",
        Why::Unpaired => "the other part is missing",
        _ => "another reason",
    }
}

fn write_lines(lines: &[Line<'_>], out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let mut widths = COLUMNS.map(str::len);
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(&line.cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let before: usize = widths.iter().map(|width| width + GAP).sum();
    // A text that is shortened has an ellipsis.
    let room = terminal::width().saturating_sub(before + 1).max(LEAST_TEXT);

    write_line(&COLUMNS.map(str::to_owned), "TEXT", widths, out)?;
    for line in lines {
        let text = line.message.map_or_else(String::new, beginning);
        write_line(&line.cells, &shortened(&text, room), widths, out)?;
    }
    Ok(())
}

fn write_line(
    cells: &[String; COLUMNS.len()],
    text: &str,
    widths: [usize; COLUMNS.len()],
    out: &mut (dyn Write + Send),
) -> Result<(), Failure> {
    let [position, role, size, tokens, what] = cells;
    let [a, b, c, d, e] = widths;
    let line = format!("{position:<a$}  {role:<b$}  {size:>c$}  {tokens:>d$}  {what:<e$}  {text}");
    Ok(writeln!(out, "{}", line.trim_end())?)
}

/// Returns what a message says, in one line.
fn beginning(message: &Message) -> String {
    let mut texts = Vec::new();
    message.parts(&mut |part| texts.extend(exchange::part(&part, &str::to_owned)));
    in_one_line(&texts.join(" "))
}

/// The number of messages, and their size.
#[derive(Default)]
struct Sum {
    messages: u64,
    bytes: u64,
    tokens: u64,
}

impl Sum {
    fn add(&mut self, message: &SizedMessage) {
        self.messages += 1;
        self.bytes += message.bytes() as u64;
        self.tokens += message.tokens;
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages = count(self.messages, "message", "messages");
        write!(f, "{messages}, {}, {}", size(self.bytes), count(self.tokens, "token", "tokens"))
    }
}

/// Writes the sums of what was sent, and of what was read and left out.
fn write_sums(rows: &[Row], out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let mut sent = Sum::default();
    let mut left_out = Sum::default();
    for row in rows {
        match (&row.sent, &row.stored) {
            (Some(message), _) => sent.add(message),
            (None, Some(message)) => left_out.add(message),
            (None, None) => {}
        }
    }
    writeln!(out, "sent       {sent}")?;
    if left_out.messages > 0 {
        writeln!(out, "left out   {left_out}, without what is before the window")?;
    }
    Ok(())
}

fn number(name: &str, number: Option<u64>) -> String {
    number.map_or_else(|| format!("not {name}"), |number| format!("{name} {number}"))
}

fn provider(origin: &Origin) -> String {
    if origin.is_unknown() {
        return "unknown".to_owned();
    }
    let Origin { provider, route, account, model, .. } = origin;
    let parts = [("", provider), ("route ", route), ("account ", account), ("model ", model)];
    let known = parts.into_iter().filter_map(|(name, value)| Some(format!("{name}{}", in_one_line(value.as_ref()?))));
    known.collect::<Vec<_>>().join(", ")
}
