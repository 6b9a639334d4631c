//! The output: one line per call, and the totals.

use std::io::{self, Write};

use serde::Serialize;

use super::{
    policy::{OUTPUT_PRICE, SummaryCost},
    replay::{CallResult, Outcome, Tokens, Totals},
};

/// A writer of lines, as text or as JSON.
pub(crate) struct Output<W> {
    json: bool,
    out: W,
}

/// The last line of JSON.
#[derive(Serialize)]
struct Last {
    totals: Comparison,
    /// The totals of the sliding window.
    sliding: Totals,
}

#[derive(Serialize)]
struct Comparison {
    #[serde(flatten)]
    totals: Totals,
    cached_prefix_ratio: f64,
    cached_price: f64,
    /// The cost of input and summaries, relative to the cost of the sliding window's input.
    input_cost_of_sliding: f64,
}

impl<W: Write> Output<W> {
    pub(crate) const fn new(json: bool, out: W) -> Self {
        Self { json, out }
    }

    pub(crate) fn call(&mut self, call: &CallResult<'_>) -> io::Result<()> {
        if self.json {
            return self.line(call);
        }

        let CallResult { conversation, call, outcome } = call;
        write!(self.out, "{conversation} #{call}: ")?;
        match outcome {
            Outcome::Skipped { infeasible, error } => {
                let kind = if *infeasible { "infeasible" } else { "malformed" };
                writeln!(self.out, "{kind}, skipped: {error}")
            }
            Outcome::Sent(tokens) => self.tokens(tokens),
        }
    }

    fn tokens(&mut self, tokens: &Tokens) -> io::Result<()> {
        let Tokens { before, sent, cached, limit, evicted, evicted_messages, reserve, .. } = tokens;
        let cached = 100.0 * share(*cached, *sent);
        write!(
            self.out,
            "{before} -> {sent} of {limit} tokens, evicted {evicted} tokens in {evicted_messages} messages, \
             reply reserve {reserve}, cached prefix {cached:.1}%"
        )?;

        if tokens.waited {
            write!(self.out, ", waited for a summary")?;
        }
        if tokens.compacted {
            write!(self.out, ", compacted")?;
        }
        if tokens.for_this_call {
            write!(self.out, ", more left out for this call only")?;
        }
        writeln!(self.out)
    }

    /// Prints the totals and ends the output.
    pub(crate) fn totals(&mut self, totals: &Totals, sliding: &Totals, cached_price: f64) -> io::Result<()> {
        let cost = if sliding.requests == 0 { 1.0 } else { totals.cost(cached_price) / sliding.cost(cached_price) };
        let cached_prefix_ratio = share(totals.cached_tokens, totals.input_tokens);
        if self.json {
            let totals = Comparison { totals: *totals, cached_prefix_ratio, cached_price, input_cost_of_sliding: cost };
            self.line(&Last { totals, sliding: *sliding })?;
            return self.out.flush();
        }

        let Totals { conversations, requests, infeasible, malformed, compactions, input_tokens, .. } = totals;
        writeln!(self.out, "\nconversations  {conversations}")?;
        writeln!(self.out, "requests       {requests} sent, {infeasible} infeasible, {malformed} malformed")?;
        writeln!(self.out, "compactions    {compactions} (sliding window: {})", sliding.compactions)?;
        writeln!(self.out, "prompt tokens  {input_tokens} (sliding window: {})", sliding.input_tokens)?;

        let cached = 100.0 * cached_prefix_ratio;
        let sliding_cached = 100.0 * share(sliding.cached_tokens, sliding.input_tokens);
        writeln!(self.out, "cached prefix  {cached:.1}% (sliding window: {sliding_cached:.1}%)")?;

        self.summaries(totals)?;
        if totals.recalled > 0 {
            writeln!(self.out, "recalled       {} tokens in {} calls", totals.recalled_tokens, totals.recalled)?;
        }
        writeln!(
            self.out,
            "input cost     {cost:.3} times that of the sliding window (price of a cached token: {cached_price})"
        )?;
        self.out.flush()
    }

    /// Prints the cost of summaries, if there are any.
    fn summaries(&mut self, totals: &Totals) -> io::Result<()> {
        let Totals {
            summaries: SummaryCost { stored, not_stored, calls, input_tokens, output_tokens }, waited, ..
        } = totals;
        if stored + not_stored == 0 {
            return Ok(());
        }

        writeln!(
            self.out,
            "summaries      {stored} stored, {not_stored} not stored; {waited} calls waited; {calls} summarizer calls \
             with {input_tokens} uncached input tokens and {output_tokens} output tokens at {OUTPUT_PRICE} times their price"
        )
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, value)?;
        self.out.write_all(b"\n")
    }
}

#[allow(clippy::cast_precision_loss)] // Token counts are far below 2^52.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
