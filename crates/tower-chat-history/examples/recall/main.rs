//! Selects messages of recorded conversations for the questions about them, and prints what it selected.
//!
//! ```sh
//! cargo run --release -p tower-chat-history --features recall --example recall -- \
//!     --budgets 1000,2000 --window 0.25 FILE...
//! ```
//!
//! A file is a conversation:
//! `{"id","messages":[{"id","role","name"?,"content","tokens"}],"questions":[{"id","question"}]}`. Standard output
//! has a line of JSON for each question and budget: `{"conversation","question","budget","selected"}`, with the ids
//! of the selected messages. Standard error has the sizes.

mod conversation;
mod phrases;
mod report;

use std::{error::Error, fs, path::PathBuf, time::Instant};

use clap::{Parser, ValueEnum};
use serde_json::json;
use tower_chat_history::recall::{
    Analyzer, Gate, LogTerms, Search, Selector, render, render_exchange, render_frame, render_message,
};
use tower_chat_history_core::Seq;

use self::{conversation::Conversation, report::Report};

#[derive(Parser)]
#[command(about = "Selects messages of recorded conversations for the questions about them")]
struct Arguments {
    /// The budgets, in tokens as the files count them.
    #[arg(long, value_delimiter = ',', default_value = "1000,2000,4000,8000")]
    budgets: Vec<u64>,
    /// The share of a budget that the newest messages get. The rest is recalled.
    #[arg(long, default_value_t = 0.25)]
    window: f64,
    /// The way messages are selected.
    #[arg(long, value_enum, default_value_t = Method::Recall)]
    method: Method,
    /// The least score of a unit, as a share of the best one.
    #[arg(long, default_value_t = Selector::RATIO)]
    ratio: f64,
    /// The number of units that are tried.
    #[arg(long, default_value_t = Selector::UNITS)]
    units: usize,
    /// Counts the allowance by the tokens of messages as they are rendered, instead of those of the files.
    #[arg(long)]
    rendered: bool,
    /// A file of phrases of small talk, one a line. Prints how many of them open the gate, and nothing else.
    #[arg(long)]
    phrases: Option<PathBuf>,
    /// Leaves the gate open.
    #[arg(long)]
    open: bool,
    /// The conversations.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Method {
    /// The window, and units of hits with their neighbors by the smoothed score.
    Recall,
    /// The window, and single messages by BM25 over stems, until the budget is used up.
    Bm25,
    /// The same over words as they are, without stop words and stems.
    Plain,
    /// The newest messages alone.
    Window,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let plain = matches!(arguments.method, Method::Plain);
    let analyzer = if plain { Analyzer::new([]) } else { Analyzer::default() };
    let gate = if arguments.open { Gate::always_open() } else { Gate::new(&analyzer) };
    let mut report = Report::default();
    for file in &arguments.files {
        let conversation = Conversation::read(file)?;
        let terms = LogTerms::of(&analyzer, &conversation.log);
        if let Some(phrases) = &arguments.phrases {
            let search = Search::new(Seq::FIRST..Seq::new(conversation.log.len() as u64), gate.clone());
            phrases::count(&search, &terms, &conversation, &fs::read_to_string(phrases)?);
            continue;
        }
        let of_exchange = conversation.log.last().map_or(0, |last| report::tokens(&render_exchange(last)));
        for question in &conversation.questions {
            for &budget in &arguments.budgets {
                let share = match arguments.method {
                    Method::Window => 1.0,
                    Method::Recall | Method::Bm25 | Method::Plain => arguments.window,
                };
                let window = conversation.window((budget as f64 * share) as u64);
                let mut allowance = budget - conversation.cost(&window);
                if arguments.rendered {
                    allowance = allowance.saturating_sub(report::tokens(&render_frame()) + 4);
                }
                let within = Seq::FIRST..conversation.start_of(&window);
                let mut search = Search::new(within.clone(), gate.clone());
                if matches!(arguments.method, Method::Bm25 | Method::Plain) {
                    search = Search::new(within.clone(), Gate::always_open()).without_neighbors().limit(usize::MAX);
                }
                let start = Instant::now();
                let ranking = search.run(&terms, &question.question);
                let cites = match arguments.method {
                    Method::Recall => Selector::new(within, allowance)
                        .ratio(arguments.ratio)
                        .exchange_cost(if arguments.rendered { of_exchange } else { 0 })
                        .units(arguments.units)
                        .select(&ranking, &conversation.log, |recorded, message| match arguments.rendered {
                            true => report::tokens(&render_message(&recorded.exchange.messages[message as usize])),
                            false => conversation.tokens(recorded, message),
                        }),
                    Method::Bm25 | Method::Plain => conversation.greedy(&ranking, allowance),
                    Method::Window => Vec::new(),
                };
                report.add(budget, start.elapsed(), ranking.gate.open);
                report.block(
                    budget,
                    conversation.cost(&cites),
                    render(&conversation.log, &cites).map(|recalled| recalled.message),
                );
                let selected = conversation.ids(window.iter().chain(&cites));
                let line = json!({"conversation": conversation.id, "question": question.id, "budget": budget, "selected": selected});
                println!("{line}");
            }
        }
    }
    if arguments.phrases.is_none() {
        report.print();
    }
    Ok(())
}
