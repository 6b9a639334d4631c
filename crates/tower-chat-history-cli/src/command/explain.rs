//! `chat-history explain`: an explained prompt, as a table or as JSON.

use std::{fmt, io::Write, sync::Arc};

use serde::Serialize;
use tower_chat_history::{
    ContextOptions, Engine, HistoryOptions,
    budget::ClearResults,
    explain::{Explanation, Fate, NotKnown, Row, SizedMessage, Subject, Why},
};
use tower_chat_history_core::{ConversationId, Erase, HistoryStoreExt as _, Message, Origin, Seq, Usage};

use super::show::{describe, part_text, title};
use crate::{
    args::Explain,
    outcome::{self, Failure, Outcome},
    terminal::{self, count, in_one_line, shortened, size},
};

/// The number of exchanges that are read per call of the store.
const PAGE: usize = 64;

/// The columns before the text.
const COLUMNS: [&str; 5] = ["POSITION", "ROLE", "SIZE", "TOKENS", "WHAT HAPPENED"];

/// The number of spaces between two columns.
const GAP: usize = 2;

/// The number of characters of a role.
const ROLE: usize = 12;

/// The least number of characters of a text.
const LEAST_TEXT: usize = 20;

pub(crate) async fn run(
    store: Arc<dyn Erase>,
    args: &Explain,
    out: &mut (dyn Write + Send),
) -> Result<Outcome, Failure> {
    describe(&*store, &args.id).await?;
    let position = match args.position {
        Some(position) => position,
        None => newest_reply(&*store, &args.id).await?,
    };

    let engine = Engine::with_options(store, options(args));
    let Some(explanation) = engine.explain(&args.id, position).await? else {
        return Err(Failure::NoExchange { id: args.id.to_string(), position });
    };

    if args.json {
        write_json(&args.id, &explanation, out)?;
    } else {
        write_table(&args.id, &explanation, out)?;
    }
    Ok(Outcome::done_if(explanation.prompt.is_ok()))
}

/// Returns the options with which the prompt is made again. Results are cleared only up to the position that is stored
/// with the reply, so this option changes nothing for a service that clears none.
fn options(args: &Explain) -> HistoryOptions {
    let mut clear = ClearResults::new().exclude_tools(&args.excluded_tools);
    if let Some(placeholder) = &args.placeholder {
        clear = clear.placeholder(placeholder);
    }
    let context = ContextOptions::new().profile(args.profile.clone()).clear_results(clear);

    HistoryOptions::new().context(context).store_timeout(None)
}

/// Returns the position of the newest exchange that has a reply.
async fn newest_reply(store: &dyn Erase, id: &ConversationId) -> Result<Seq, Failure> {
    let conversation = store.conversation(id);
    let mut from = None;
    loop {
        let page = conversation.read_back(from, PAGE).await?;
        let with_reply = page.exchanges.iter().rfind(|recorded| !recorded.exchange.reply().is_empty());
        if let Some(recorded) = with_reply {
            return Ok(recorded.seq);
        }
        if page.earlier.is_none() {
            return Err(Failure::NoReply(id.to_string()));
        }
        from = page.earlier;
    }
}

/// One message, or several exchanges that were not read.
struct Line<'a> {
    cells: [String; COLUMNS.len()],
    message: Option<&'a Message>,
}

fn write_table(id: &ConversationId, explanation: &Explanation, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let exchange = &explanation.exchange.exchange;
    writeln!(out, "{id}\n\n{}", title(&explanation.exchange))?;
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
    message.parts(&mut |part| texts.extend(part_text(&part, &str::to_owned)));
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

#[derive(Serialize)]
struct JsonExplanation<'a> {
    id: &'a ConversationId,
    position: Seq,
    digest_agrees: bool,
    /// The reason why the prompt is not known.
    not_known: Option<String>,
    renderer: Option<u32>,
    origin: Option<&'a Origin>,
    estimated_tokens: Option<u64>,
    usage: Option<Usage>,
    rows: Vec<JsonRow<'a>>,
}

/// A [`Row`] of the explanation. Its names are those of the library.
#[derive(Default, Serialize)]
struct JsonRow<'a> {
    subject: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<Seq>,
    /// The position after the last exchange, if the row is about several.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    covers_to: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    translated: Option<bool>,
    fate: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    stored: Option<JsonSize>,
    sent: Option<JsonMessage<'a>>,
}

#[derive(Serialize)]
struct JsonSize {
    bytes: usize,
    tokens: u64,
}

#[derive(Serialize)]
struct JsonMessage<'a> {
    bytes: usize,
    tokens: u64,
    message: &'a Message,
}

fn write_json(id: &ConversationId, explanation: &Explanation, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let exchange = &explanation.exchange.exchange;
    let provenance = exchange.provenance.as_ref();
    let rows = explanation.prompt.as_deref().unwrap_or_default();
    let json = JsonExplanation {
        id,
        position: explanation.exchange.seq,
        digest_agrees: explanation.prompt.is_ok(),
        not_known: explanation.prompt.as_ref().err().map(ToString::to_string),
        renderer: provenance.map(|provenance| provenance.renderer),
        origin: provenance.map(|provenance| &provenance.origin),
        estimated_tokens: provenance.and_then(|provenance| provenance.tokens),
        usage: exchange.usage,
        rows: rows.iter().map(JsonRow::of).collect(),
    };
    outcome::write_json(out, &json)
}

impl<'a> JsonRow<'a> {
    fn of(row: &'a Row) -> Self {
        let mut entry = Self::about(&row.subject);
        entry.fate = fate_name(row.fate);
        if let Fate::LeftOut(reason) = row.fate {
            entry.why = Some(why_name(reason));
        }
        entry.stored = row.stored.as_ref().map(|stored| JsonSize { bytes: stored.bytes(), tokens: stored.tokens });
        entry.sent = row.sent.as_ref().map(|sent: &SizedMessage| JsonMessage {
            bytes: sent.bytes(),
            tokens: sent.tokens,
            message: &sent.message,
        });
        entry
    }

    /// Returns an entry that says what it is about, and nothing else.
    fn about(subject: &Subject) -> Self {
        match *subject {
            Subject::Before { from, to, covers_to } => {
                Self { subject: "before", position: Some(from), to: Some(to), covers_to, ..Self::default() }
            }
            Subject::Summary { covers_to } => {
                Self { subject: "summary", covers_to: Some(covers_to), ..Self::default() }
            }
            Subject::Logged { seq, index, translated } => Self {
                subject: "logged",
                position: Some(seq),
                index: Some(index),
                translated: Some(translated),
                ..Self::default()
            },
            Subject::Recalled { seq } => Self { subject: "recalled", position: Some(seq), ..Self::default() },
            Subject::StoodIn { seq } => Self { subject: "stood_in", position: Some(seq), ..Self::default() },
            Subject::Meanwhile { from, to } => {
                Self { subject: "meanwhile", position: Some(from), to: Some(to), ..Self::default() }
            }
            Subject::Input { index } => Self { subject: "input", index: Some(index), ..Self::default() },
            _ => Self { subject: "other", ..Self::default() },
        }
    }
}

const fn fate_name(fate: Fate) -> &'static str {
    match fate {
        Fate::Sent => "sent",
        Fate::InPart => "in_part",
        Fate::Cleared => "cleared",
        Fate::LeftOut(_) => "left_out",
        _ => "other",
    }
}

const fn why_name(why: Why) -> &'static str {
    match why {
        Why::BeforeWindow => "before_window",
        Why::Later => "later",
        Why::Round => "round",
        Why::Reasoning => "reasoning",
        Why::Recalled => "recalled",
        Why::StoodFor => "stood_for",
        Why::OtherAttempt => "other_attempt",
        Why::Blank => "blank",
        Why::NoOpenCall => "no_open_call",
        Why::Unpaired => "unpaired",
        _ => "other",
    }
}
