//! Sizes of what was selected.

use std::{collections::BTreeMap, time::Duration};

use tower_chat_history_core::Message;

/// Counts tokens as the files do.
pub(crate) fn tokens(text: &str) -> u64 {
    bpe_openai::o200k_base().count(text) as u64
}

/// Sums by budget.
#[derive(Default)]
pub(crate) struct Report(BTreeMap<u64, Row>);

#[derive(Default)]
struct Row {
    questions: u64,
    open: u64,
    time: Duration,
    blocks: u64,
    messages: u64,
    rendered: u64,
}

impl Report {
    pub(crate) fn add(&mut self, budget: u64, time: Duration, open: bool) {
        let row = self.0.entry(budget).or_default();
        row.questions += 1;
        row.open += u64::from(open);
        row.time += time;
    }

    /// Adds a block, with the tokens of its messages as the files count them.
    pub(crate) fn block(&mut self, budget: u64, of_messages: u64, block: Option<Message>) {
        let (row, Some(block)) = (self.0.entry(budget).or_default(), block) else { return };
        row.blocks += 1;
        row.messages += of_messages;
        row.rendered += tokens(&block.text()) + 4;
    }

    pub(crate) fn print(&self) {
        eprintln!(
            "| budget | gate open | blocks | tokens of messages | tokens as rendered | ms |\n|---|---|---|---|---|---|"
        );
        for (budget, row) in &self.0 {
            let mean = |sum: u64| sum as f64 / row.blocks.max(1) as f64;
            eprintln!(
                "| {budget} | {} of {} | {} | {:.0} | {:.0} | {:.3} |",
                row.open,
                row.questions,
                row.blocks,
                mean(row.messages),
                mean(row.rendered),
                row.time.as_secs_f64() * 1000.0 / row.questions as f64
            );
        }
    }
}
