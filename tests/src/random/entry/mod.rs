//! Hostile text as input of everything that reads text. Nothing panics or overflows its stack, the time is
//! linear, and a value that was read is written as it was.

mod requests;
mod texts;

use std::{
    hint::black_box,
    thread,
    time::{Duration, Instant},
};

use tower_chat_history::{
    ContextBudget, ConversationId, Exchange, ExchangeId, Message,
    store::{Compaction, CompactionVersion, Cut, Cuts, Profile, Revision, Seq, Summary, Usage},
    summary::SummaryFormat,
    tokens::{ByteEstimate, LangChainEstimate, TokenCounter as _},
    trim::{Trim, trim_messages},
    view::View,
};

use self::texts::Texts;
use super::{
    Checked, Figures, Ingredient, Ingredients,
    outcome::{Violation, holds},
    rules::shorten,
};
use crate::rng::SeededRng;

/// The stack size of the thread that reads the texts.
const STACK: usize = 1 << 20;
/// The longest time for one text. Texts have a few megabytes at most.
const LONG: Duration = Duration::from_secs(40);

/// Runs one case.
pub(super) fn run(seed: u64, ingredients: &Ingredients) -> Checked<Figures> {
    let ingredients = ingredients.clone();
    let small = thread::Builder::new().stack_size(STACK).spawn(move || {
        let mut texts = Texts::new(SeededRng::new(seed), &ingredients);
        let mut figures = Figures::default();
        for _ in 0..20 {
            ids(&texts.odd())?;
            records(&mut texts)?;
            let message = texts.message();
            in_time("reading a message takes linear time", message.len(), || read(&message))??;
            figures.count("messages read");
        }
        if ingredients.has(Ingredient::Delimiters) {
            delimiters(&mut texts)?;
        }
        requests::check(&mut texts, &mut figures)?;
        Ok(figures)
    });
    small.unwrap().join().map_err(|_| Violation::new("nothing panics", "a thread that reads"))?
}

fn in_time<T>(rule: &'static str, bytes: usize, work: impl FnOnce() -> T) -> Checked<T> {
    let begun = Instant::now();
    let output = work();
    let took = begun.elapsed();
    holds(took < LONG, rule, || format!("{bytes} bytes took {took:?}"))?;
    Ok(output)
}

/// Checks ids, profiles, revisions and names of models.
fn ids(text: &str) -> Checked {
    let round = |what: &str, again: bool| {
        holds(again, "a value that was read is written as it was", || format!("{what} {text:?}"))
    };
    if let Ok(id) = text.parse::<ConversationId>() {
        round("conversation id", id.to_string().parse() == Ok(id))?;
    }
    if let Ok(id) = ConversationId::new([text, "b"]) {
        round("parts of an id", id.to_string().parse() == Ok(id))?;
    }
    if let Ok(id) = ExchangeId::new(text) {
        round("exchange id", id.as_str() == text)?;
    }
    if let Ok(profile) = Profile::new(text) {
        round("profile", profile.as_str() == text)?;
    }
    if let Ok(revision) = text.parse::<Revision>() {
        round("revision", revision.to_string() == text)?;
    }
    black_box(ContextBudget::for_model(text).is_ok());
    Ok(())
}

/// Checks records, as written and with some of their bytes changed.
fn records(texts: &mut Texts) -> Checked {
    let mut exchange = Exchange::new(ExchangeId::generate(), texts.messages());
    exchange.usage = Some(Usage::new(texts.number(), texts.number()));
    exchange.model = Some(texts.odd());
    exchange.continues = Some(Seq::new(texts.number()));
    let unwritten =
        |error: tower_chat_history_core::backend::RecordError| Violation::new("a record is written", error.to_string());
    let record = exchange.encode().map_err(unwritten)?;
    let again = Exchange::decode(&record).map_err(|error| Violation::new("a record is read", error.to_string()))?;
    holds(again == exchange, "a record is read as it was written", || record.chars().take(200).collect())?;
    let changed = texts.changed(&record);
    if let Ok(read) = in_time("reading a record takes linear time", changed.len(), || Exchange::decode(&changed))? {
        let again = read.encode().map_err(unwritten)?;
        let same = Exchange::decode(&again).is_ok_and(|again| again == read);
        holds(same, "a record that is read can be written and read", || changed.chars().take(200).collect())?;
    }
    let mut cut = Cut::window_from(Seq::new(texts.number()));
    cut.set_summary(Summary::new(texts.odd()), Seq::new(texts.number()));
    let cuts = Cuts::new(cut);
    let record = cuts.encode().map_err(unwritten)?;
    let is_same = Cuts::decode(&record).is_ok_and(|again| again == cuts);
    holds(is_same, "cuts are read as they were written", || record.clone())?;
    black_box(Cuts::decode(&texts.changed(&record)).is_ok());

    let compact = cuts.compact(Profile::default(), CompactionVersion::NONE).map_err(unwritten)?;
    let stored = compact.stored_as(CompactionVersion::NONE);
    let is_same = Cuts::read(&stored).is_ok_and(|again| again == cuts);
    holds(is_same, "a compaction is read as it was written", || format!("{stored:?}"))?;
    let state = texts.changed(&String::from_utf8_lossy(&stored.state)).into_bytes();
    let changed = Compaction::new(stored.version, stored.window_start, state.into(), stored.derived);
    black_box(Cuts::read(&changed).is_ok());
    Ok(())
}

/// Runs everything that looks into a message.
fn read(json: &str) -> Checked {
    let Ok(message) = Message::from_json(json) else { return Ok(()) };
    holds(message.json() == json.trim(), "a message is kept byte for byte", || shorten(&message))?;
    black_box((
        message.text().len(),
        message.is_blank(),
        message.sendable().bytes(),
        message.with_text("x").map_or(0, |message| message.bytes()),
    ));
    let counters = (ByteEstimate::new(), LangChainEstimate::new());
    black_box((counters.0.count_message(&message), counters.1.count_message(&message)));
    let log = [Message::user("u"), message.clone(), Message::tool("x", "r"), Message::user("v")];
    let mut view = View::default();
    view.extend(&log);
    view.close();
    black_box(view.messages().len());
    black_box(trim_messages(&log, &Trim::last(100), &counters.1).len());
    black_box(trim_messages(&log, &Trim::first(100), &counters.0).len());
    Ok(())
}

/// Checks that a summary cannot close its delimiter, whatever its characters.
fn delimiters(texts: &mut Texts) -> Checked {
    for _ in 0..10 {
        let text = texts.closing();
        let message = SummaryFormat::default().message(&text);
        let seen = texts::as_seen(&message.text());
        let closed = seen.matches("</conversation_summary").count();
        holds(closed == 1, "a summary cannot close its delimiter", || format!("{text:?} gives {closed} ends"))?;
    }
    Ok(())
}
